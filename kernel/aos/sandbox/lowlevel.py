"""(compiled module, input bytes) -> output bytes, or where and why it stopped.

This is the only file that calls wasmtime's C API directly: the library's Python API takes five
times as long per step (spec/sandbox.md, S-31). Three rules keep it safe.

Rule 1: raw pointers keep nothing alive. ``Compiled`` holds the Python owners of the engine, the
module and the pre-instance; ``InstanceRunner`` holds every buffer whose address C gets.

Rule 2: on every way out the store is deleted, and a trap or error freed.

Rule 3: a number that the guest returns is used only after it is masked to u32 and compared with the
memory's size after the call.

Rule 4: ``InstanceRunner`` passes only prepared arguments (``Argument``), of the types in
``SIGNATURES``: its functions do not convert arguments, and would cut a plain number to 32 bits.

Calls go through ``PyDLL``, which keeps the interpreter lock: releasing and reacquiring it takes
milliseconds when another Python thread is busy.
"""

from __future__ import annotations

import ctypes
import enum
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import wasmtime
from wasmtime import _bindings, _ffi

from aos.core.journal.ports import Call
from aos.sandbox.caps import (
    MEMORIES_MAX,
    MEMORY_BYTES_MAX,
    PANIC_BYTES_MAX,
    TABLE_ELEMENTS_MAX,
    TABLES_MAX,
)
from aos.sandbox.inspect import Form
from aos.sandbox.program_module import ProgramModule
from aos.sandbox.show import printable

_POINTER: Final = ctypes.c_void_p
_U64: Final = ctypes.c_uint64
_I64: Final = ctypes.c_int64
_SIZE: Final = ctypes.c_size_t
_BOOL: Final = ctypes.c_bool

# Result and argument types of every function that is called here. Pointers are plain addresses. A
# test compares each line with the library's own bindings.
SIGNATURES: Final[Mapping[str, tuple[type | None, tuple[type, ...]]]] = {
    "wasmtime_store_new": (_POINTER, (_POINTER, _POINTER, _POINTER)),
    "wasmtime_store_context": (_POINTER, (_POINTER,)),
    "wasmtime_store_limiter": (None, (_POINTER, _I64, _I64, _I64, _I64, _I64)),
    "wasmtime_store_delete": (None, (_POINTER,)),
    "wasmtime_context_set_fuel": (_POINTER, (_POINTER, _U64)),
    "wasmtime_context_get_fuel": (_POINTER, (_POINTER, _POINTER)),
    "wasmtime_instance_pre_instantiate": (_POINTER, (_POINTER, _POINTER, _POINTER, _POINTER)),
    "wasmtime_instance_export_nth": (
        _BOOL,
        (_POINTER, _POINTER, _SIZE, _POINTER, _POINTER, _POINTER),
    ),
    "wasmtime_func_call_unchecked": (
        _POINTER,
        (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER),
    ),
    "wasmtime_memory_data": (_POINTER, (_POINTER, _POINTER)),
    "wasmtime_memory_data_size": (_SIZE, (_POINTER, _POINTER)),
    "wasmtime_memory_grow": (_POINTER, (_POINTER, _POINTER, _U64, _POINTER)),
    "wasmtime_trap_code": (_BOOL, (_POINTER, _POINTER)),
    "wasm_trap_message": (None, (_POINTER, _POINTER)),
    "wasm_trap_delete": (None, (_POINTER,)),
    "wasmtime_error_message": (None, (_POINTER, _POINTER)),
    "wasmtime_error_delete": (None, (_POINTER,)),
    "wasm_byte_vec_delete": (None, (_POINTER,)),
}

# Sizes and offsets that the buffers below rely on, in bytes.
LAYOUT: Final[Mapping[str, int]] = {
    "wasmtime_val_raw": 16,
    "wasmtime_extern": 32,
    "wasmtime_extern.of": 8,
    "wasmtime_instance": 16,
    "wasm_byte_vec_t": 16,
    "wasmtime_trap_code_t": 1,
}

ENGINE_TEXT_BYTES_MAX: Final = 4096
"""Maximum length of the engine's text, which may contain the module's own names."""

Argument: TypeAlias = Any
"""A number or an address as C gets it. Preparing it once takes most of the time of a call away."""

_pointer: Final[Callable[[int | None], Argument]] = _POINTER.from_param
_size: Final[Callable[[int], Argument]] = _SIZE.from_param
# Most calls of a module have the same limits.
_signed: Final[Callable[[int], Argument]] = lru_cache(maxsize=64)(_I64.from_param)
_unsigned: Final[Callable[[int], Argument]] = lru_cache(maxsize=64)(_U64.from_param)

_TABLE_ELEMENTS: Final = _signed(TABLE_ELEMENTS_MAX)
_INSTANCES: Final = _signed(1)
_TABLES: Final = _signed(TABLES_MAX)
_MEMORIES: Final = _signed(MEMORIES_MAX)
_ONE: Final = _size(1)

_U32_MASK: Final = 0xFFFF_FFFF
_SLOT: Final = LAYOUT["wasmtime_val_raw"] // 4
_SLOTS: Final = 3
# Numbers of 8 bytes behind the slots.
_FUEL: Final = _SLOTS * _SLOT // 2
_TRAP: Final = _FUEL + 1
_RESULT: Final = struct.Struct("<II")
_RESULT_BYTES: Final = _RESULT.size
_LENGTH: Final = struct.Struct("<I")
_LENGTH_BYTES: Final = _LENGTH.size
_AnyMemory: Final = ctypes.c_char * MEMORY_BYTES_MAX


class Stage(enum.Enum):
    """Where a call stopped."""

    INSTANTIATE = "instantiate"
    ALLOC = "alloc"
    ENTRYPOINT = "entrypoint"


class RangeMisfit(enum.Enum):
    """Why a range of memory that the guest named cannot be used."""

    INPUT_OUTSIDE = "input"
    RESULT_OUTSIDE = "result"
    OUTPUT_OUTSIDE = "output"
    OUTPUT_TOO_LONG = "too long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """The guest trapped, or the engine failed: then ``code`` is None."""

    stage: Stage
    code: int | None
    engine_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRange:
    """An invalid range from the guest: ``size`` bytes at ``pointer``, as unsigned numbers."""

    misfit: RangeMisfit
    pointer: int
    size: int


class CallResult(NamedTuple):
    """The result of one call. Exactly one of ``output`` and ``stop`` is set."""

    output: bytes | None
    stop: Trap | BadRange | None
    fuel: int
    memory_bytes: int
    """Size of the guest's memory when it ended, which is also its peak: memory never shrinks."""
    panic_bytes: bytes = b""
    """The bytes at the module's panic address when it trapped: unchecked, at most
    ``PANIC_BYTES_MAX`` bytes."""


class Compiled:
    """One module, ready to be instantiated.

    Holds the owners of all objects that the addresses point to. A cache that drops it calls
    ``close``; an ``InstanceRunner`` must not get it afterwards.
    """

    __slots__ = (
        "_module",
        "_names",
        "_owner",
        "_pre",
        "alloc_at",
        "first_bytes",
        "memory_at",
        "panic_at",
        "pre",
        "program_pages",
        "program_writes",
    )

    def __init__(
        self,
        engine: wasmtime.Engine,
        module: wasmtime.Module,
        *,
        first_bytes: int = 0,
        panic_at: int | None = None,
        program: ProgramModule | None = None,
    ) -> None:
        """Link a module that this engine compiled.

        The caller has checked the exports ``memory`` and ``alloc``: they are not checked again.
        ``first_bytes`` is the size of the memory that the module declares, which never becomes
        smaller. ``panic_at`` is the panic address that the module names; it is not checked.
        ``program``: ``module`` is its interpreter, and each instance gets the program.
        """
        self.first_bytes = first_bytes
        self.panic_at = panic_at
        # Without the interpreter's bytes, which are many and the same for all programs.
        self.program_pages = None if program is None else _unsigned(program.pages)
        self.program_writes = () if program is None else program.writes
        self._owner = engine
        self._module = module
        self._pre = wasmtime.Linker(engine).instantiate_pre(self._module)
        self.pre = _pointer(ctypes.cast(self._pre.ptr(), ctypes.c_void_p).value)
        self._names = [export.name for export in self._module.exports]
        self.memory_at = _size(self._names.index("memory"))
        self.alloc_at = _size(self._names.index("alloc"))

    def entry(self, entrypoint: str, form: Form) -> Entrypoint:
        """Look up an export. The caller has checked that its type matches the form."""
        slots = _size(3 if form is Form.RETURN_POINTER else 2)
        return Entrypoint(at=_size(self._names.index(entrypoint)), form=form, slots=slots)

    def close(self) -> None:
        self._pre.close()
        self._module.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrypoint:
    """An entrypoint: its index among the module's exports, how it is called, and the number of
    slots of its arguments and results."""

    at: Argument
    form: Form
    slots: Argument


class InstanceRunner:
    """Runs calls one after another, each in a fresh instance. Only for one thread at a time."""

    def __init__(self, engine: wasmtime.Engine) -> None:
        self._owner = engine
        self._engine = _pointer(ctypes.cast(engine.ptr(), ctypes.c_void_p).value)
        self._texts = raw_functions()
        functions = unconverted_functions()
        self._new_store = functions["wasmtime_store_new"]
        self._context_of = functions["wasmtime_store_context"]
        self._limit = functions["wasmtime_store_limiter"]
        self._delete_store = functions["wasmtime_store_delete"]
        self._set_fuel = functions["wasmtime_context_set_fuel"]
        self._get_fuel = functions["wasmtime_context_get_fuel"]
        self._instantiate = functions["wasmtime_instance_pre_instantiate"]
        self._export = functions["wasmtime_instance_export_nth"]
        self._call = functions["wasmtime_func_call_unchecked"]
        self._memory_data = functions["wasmtime_memory_data"]
        self._memory_size = functions["wasmtime_memory_data_size"]
        self._memory_grow = functions["wasmtime_memory_grow"]

        # Arguments and results in slots of 16 bytes, the fuel, a trap: all as unsigned numbers.
        numbers = (ctypes.c_uint64 * (_TRAP + 1))()
        self._u64 = memoryview(numbers).cast("B").cast("Q")
        self._u32 = memoryview(numbers).cast("B").cast("I")
        self._slots = _pointer(ctypes.addressof(numbers))
        self._fuel = _pointer(ctypes.addressof(numbers) + 8 * _FUEL)
        self._trap = _pointer(ctypes.addressof(numbers) + 8 * _TRAP)
        # Filled in by lookups. An export is a kind and, at an offset, the item itself.
        scratch = [ctypes.create_string_buffer(LAYOUT["wasmtime_extern"]) for _ in range(6)]
        self._scratch = scratch
        addresses = [ctypes.addressof(buffer) for buffer in scratch]
        instance, name, name_size, memory, alloc, entry = map(_pointer, addresses)
        self._instance, self._name, self._name_size = instance, name, name_size
        self._memory_item, self._alloc_item, self._entry_item = memory, alloc, entry
        of = LAYOUT["wasmtime_extern.of"]
        self._memory, self._alloc, self._entry = (_pointer(at + of) for at in addresses[3:])
        self._view_address = 0
        self._last_view = memoryview(b"")

    def run(self, compiled: Compiled, entry: Entrypoint, call: Call) -> CallResult:
        """Instantiate, pass the input, call, copy the output, and delete the instance."""
        fuel = call.fuel
        store = _pointer(self._new_store(self._engine, None, None))
        try:
            self._limit(
                store, _signed(call.memory_bytes), _TABLE_ELEMENTS, _INSTANCES, _TABLES, _MEMORIES
            )
            context = _pointer(self._context_of(store))
            error = self._set_fuel(context, _unsigned(fuel))
            assert not error, "fuel is metered in every engine that config builds"
            error = self._instantiate(compiled.pre, context, self._instance, self._trap)
            if error or self._u64[_TRAP]:
                stop = self._stopped(Stage.INSTANTIATE, error)
                return CallResult(None, stop, fuel - self._fuel_left(context), 0)
            return self._converse(context, compiled, entry, call)
        finally:
            self._delete_store(store)

    def _converse(
        self, context: Argument, compiled: Compiled, entry: Entrypoint, call: Call
    ) -> CallResult:
        """Write the input at the address from ``alloc``, call the entrypoint, read its output."""
        export, instance, name, size = self._export, self._instance, self._name, self._name_size
        export(context, instance, compiled.memory_at, name, size, self._memory_item)
        export(context, instance, compiled.alloc_at, name, size, self._alloc_item)
        export(context, instance, entry.at, name, size, self._entry_item)
        u32, u64, form = self._u32, self._u64, entry.form
        data, fuel = call.input, call.fuel
        if compiled.program_pages is not None:
            error = self._put_program(context, compiled)
            if error:
                stop = self._stopped(Stage.INSTANTIATE, error)
                return CallResult(None, stop, fuel - self._fuel_left(context), 0)
        length = len(data)
        assert length <= _U32_MASK, "a longer input could be in no memory"
        pointer = self._reserve(context, compiled, length, RangeMisfit.INPUT_OUTSIDE)
        if not isinstance(pointer, int):
            return self._end(context, compiled, pointer, fuel)
        self._view(context)[pointer : pointer + length] = data
        result_at = 0
        if form is Form.RETURN_POINTER:
            reserved = self._reserve(context, compiled, _RESULT_BYTES, RangeMisfit.RESULT_OUTSIDE)
            if not isinstance(reserved, int):
                return self._end(context, compiled, reserved, fuel)
            result_at = reserved
            u32[0], u32[_SLOT], u32[2 * _SLOT] = result_at, pointer, length
        else:
            u32[0], u32[_SLOT] = pointer, length
        error = self._call(context, self._entry, self._slots, entry.slots, self._trap)
        if error or u64[_TRAP]:
            stop = self._stopped(Stage.ENTRYPOINT, error)
            return self._end(context, compiled, stop, fuel)
        view = self._view(context)
        if form is Form.PACKED:
            packed = u64[0]
            pointer, length = packed >> 32, packed & _U32_MASK
        elif form is Form.RETURN_POINTER:
            # Memory never shrinks, so the result's eight bytes are still inside it.
            pointer, length = _RESULT.unpack_from(view, result_at)
        else:
            pointer, length = u32[0], u32[_SLOT]
        memory_bytes = self._memory_size(context, self._memory)
        if pointer + length > memory_bytes:
            misfit = BadRange(misfit=RangeMisfit.OUTPUT_OUTSIDE, pointer=pointer, size=length)
            return self._end(context, compiled, misfit, fuel)
        if length > call.output_bytes:
            misfit = BadRange(misfit=RangeMisfit.OUTPUT_TOO_LONG, pointer=pointer, size=length)
            return self._end(context, compiled, misfit, fuel)
        output = view[pointer : pointer + length].tobytes()
        return CallResult(output, None, fuel - self._fuel_left(context), memory_bytes)

    def _put_program(self, context: Argument, compiled: Compiled) -> int | None:
        """Make the memory of a new instance as the two segments of a program make it (S-58).
        Return the engine's error, if it has no memory."""
        error: int | None = self._memory_grow(
            context, self._memory, compiled.program_pages, self._slots
        )
        if error:
            return error
        view = self._view(context)
        for address, data in compiled.program_writes:
            view[address : address + len(data)] = data
        return None

    def _reserve(
        self, context: Argument, compiled: Compiled, size: int, misfit: RangeMisfit
    ) -> int | Trap | BadRange:
        """Let the guest allocate ``size`` bytes. A returned address is inside its memory."""
        self._u32[0] = size
        error = self._call(context, self._alloc, self._slots, _ONE, self._trap)
        if error or self._u64[_TRAP]:
            return self._stopped(Stage.ALLOC, error)
        pointer = self._u32[0]
        end = pointer + size
        if end > compiled.first_bytes and end > self._memory_size(context, self._memory):
            return BadRange(misfit=misfit, pointer=pointer, size=size)
        return pointer

    def _end(
        self, context: Argument, compiled: Compiled, stop: Trap | BadRange, fuel: int
    ) -> CallResult:
        """The result of a call that stopped."""
        memory_bytes = self._memory_size(context, self._memory)
        panic_bytes = (
            self._panic_bytes(context, compiled.panic_at, memory_bytes)
            if isinstance(stop, Trap)
            else b""
        )
        return CallResult(None, stop, fuel - self._fuel_left(context), memory_bytes, panic_bytes)

    def _view(self, context: Argument) -> memoryview:
        """The guest's memory, until its next call. The view is as long as the largest memory: only
        bytes below the memory's size may be used."""
        address = self._memory_data(context, self._memory)
        if address != self._view_address:
            # The pool has the same address for almost every instance.
            self._last_view = memoryview(_AnyMemory.from_address(address)).cast("B")
            self._view_address = address
        return self._last_view

    def _panic_bytes(self, context: Argument, at: int | None, size: int) -> bytes:
        """The message at ``at`` in a memory of ``size`` bytes; empty if ``at`` is outside of it."""
        if at is None or at + _LENGTH_BYTES > size:
            return b""
        view = self._view(context)
        (length,) = _LENGTH.unpack_from(view, at)
        start = at + _LENGTH_BYTES
        if length > PANIC_BYTES_MAX or start + length > size:
            return b""
        return view[start : start + length].tobytes()

    def _stopped(self, stage: Stage, error: int | None) -> Trap:
        """Read and free the trap or error of a call."""
        if error:
            return Trap(stage=stage, code=None, engine_text=error_text(self._texts, error))
        trap = self._u64[_TRAP]
        assert trap, "a call stops with an error or with a trap"
        self._u64[_TRAP] = 0
        code = ctypes.c_uint8()
        has_code = self._texts["wasmtime_trap_code"](trap, ctypes.addressof(code))
        text = trap_text(self._texts, trap)
        return Trap(stage=stage, code=code.value if has_code else None, engine_text=text)

    def _fuel_left(self, context: Argument) -> int:
        error = self._get_fuel(context, self._fuel)
        assert not error, "fuel is metered in every engine that config builds"
        return self._u64[_FUEL]


RawFunctions: TypeAlias = Mapping[str, Callable[..., Any]]
"""The functions of ``SIGNATURES``."""


def raw_functions() -> RawFunctions:
    """The library's functions, which take plain addresses and keep the interpreter lock."""
    functions = _functions()
    for name, function in functions.items():
        function.argtypes = SIGNATURES[name][1]
    return functions


def unconverted_functions() -> RawFunctions:
    """The functions of ``raw_functions``, which take prepared arguments only (rule 4)."""
    return _functions()


def prepared(number: int, kind: type = _POINTER) -> Argument:
    """An argument of a function of ``unconverted_functions``."""
    return kind.from_param(number)  # type: ignore[attr-defined]  # of every simple type of ctypes


def _functions() -> dict[str, Any]:
    library = ctypes.PyDLL(_ffi.dll._name)  # noqa: SLF001  # the file that the bindings loaded
    functions = {}
    for name, (returns, _) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype = returns
        functions[name] = function
    return functions


def error_text(functions: RawFunctions, error: int) -> str:
    """The engine's text of an error, which is freed."""
    try:
        return _text(functions, "wasmtime_error_message", error)
    finally:
        functions["wasmtime_error_delete"](error)


def trap_text(functions: RawFunctions, trap: int) -> str:
    """The engine's text of a trap, which is freed."""
    try:
        return _text(functions, "wasm_trap_message", trap)
    finally:
        functions["wasm_trap_delete"](trap)


def _text(functions: RawFunctions, read: str, owner: int) -> str:
    vector = _bindings.wasm_byte_vec_t()
    address = ctypes.addressof(vector)
    functions[read](owner, address)
    try:
        text = ctypes.string_at(vector.data, min(vector.size, ENGINE_TEXT_BYTES_MAX))
    finally:
        functions["wasm_byte_vec_delete"](address)
    return printable(text.rstrip(b"\0").decode(errors="replace"))
