"""(compiled module, input bytes) -> output bytes, or where and why it stopped.

This is the only file that calls wasmtime's C API directly: the library's Python API takes five
times as long per step (spec/sandbox.md, S-31). Three rules keep it safe.

Rule 1: raw pointers keep nothing alive. ``Compiled`` holds the Python owners of the engine, the
module and the pre-instance; ``InstanceRunner`` holds every buffer whose address C gets.

Rule 2: on every way out the store is deleted, and a trap or error freed.

Rule 3: a number that the guest returns is used only after it is masked to u32 and compared with the
memory's size after the call.

Calls go through ``PyDLL``, which keeps the interpreter lock: releasing and reacquiring it takes
milliseconds when another Python thread is busy.
"""

from __future__ import annotations

import ctypes
import enum
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import wasmtime
from wasmtime import _bindings, _ffi

from aos.sandbox.caps import MEMORIES_MAX, PANIC_BYTES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX
from aos.sandbox.inspect import Form
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

_U32_MASK: Final = 0xFFFF_FFFF
_SLOT: Final = LAYOUT["wasmtime_val_raw"] // 4
_SLOTS: Final = 3
_RESULT: Final = struct.Struct("<II")
_RESULT_BYTES: Final = _RESULT.size
_LENGTH: Final = struct.Struct("<I")
_LENGTH_BYTES: Final = _LENGTH.size


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
        "memory_at",
        "panic_at",
        "pre_address",
    )

    def __init__(
        self, engine: wasmtime.Engine, module: wasmtime.Module, *, panic_at: int | None = None
    ) -> None:
        """Link a module that this engine compiled.

        The caller has checked the exports ``memory`` and ``alloc``: they are not checked again.
        ``panic_at`` is the panic address that the module names; it is not checked.
        """
        self.panic_at = panic_at
        self._owner = engine
        self._module = module
        self._pre = wasmtime.Linker(engine).instantiate_pre(self._module)
        self.pre_address = ctypes.cast(self._pre.ptr(), ctypes.c_void_p).value
        self._names = [export.name for export in self._module.exports]
        self.memory_at = self._names.index("memory")
        self.alloc_at = self._names.index("alloc")

    def entry(self, entrypoint: str, form: Form) -> Entrypoint:
        """Look up an export. The caller has checked that its type matches the form."""
        return Entrypoint(at=self._names.index(entrypoint), form=form)

    def close(self) -> None:
        self._pre.close()
        self._module.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrypoint:
    """An entrypoint: its index among the module's exports, and how it is called."""

    at: int
    form: Form


class InstanceRunner:
    """Runs calls one after another, each in a fresh instance. Only for one thread at a time."""

    def __init__(self, engine: wasmtime.Engine) -> None:
        self._owner = engine
        self._engine = ctypes.cast(engine.ptr(), ctypes.c_void_p).value
        functions = self._functions = raw_functions()
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
        self._trap_code = functions["wasmtime_trap_code"]

        # Arguments and results: the same 16-byte slots, read as unsigned numbers.
        self._u32 = (ctypes.c_uint32 * (_SLOTS * _SLOT))()
        self._u64 = (ctypes.c_uint64 * (_SLOTS * _SLOT // 2)).from_buffer(self._u32)
        self._slots = ctypes.addressof(self._u32)
        self._fuel = ctypes.c_uint64()
        self._fuel_address = ctypes.addressof(self._fuel)
        self._trap = ctypes.c_void_p()
        self._trap_address = ctypes.addressof(self._trap)
        # Filled in by lookups. An export is a kind and, at an offset, the item itself.
        scratch = [ctypes.create_string_buffer(LAYOUT["wasmtime_extern"]) for _ in range(6)]
        self._scratch = scratch
        instance, memory, alloc, entry, name_out, size_out = map(ctypes.addressof, scratch)
        self._instance, self._name, self._name_size = instance, name_out, size_out
        self._memory_item, self._alloc_item, self._entry_item = memory, alloc, entry
        of = LAYOUT["wasmtime_extern.of"]
        self._memory, self._alloc, self._entry = memory + of, alloc + of, entry + of

    def run(
        self,
        compiled: Compiled,
        entry: Entrypoint,
        data: bytes,
        *,
        fuel: int,
        memory_bytes: int,
        output_bytes: int,
    ) -> CallResult:
        """Instantiate, pass ``data``, call, copy the output, and delete the instance."""
        store = self._new_store(self._engine, None, None)
        try:
            self._limit(store, memory_bytes, TABLE_ELEMENTS_MAX, 1, TABLES_MAX, MEMORIES_MAX)
            context = self._context_of(store)
            error = self._set_fuel(context, fuel)
            assert not error, "fuel is metered in every engine that config builds"
            error = self._instantiate(
                compiled.pre_address, context, self._instance, self._trap_address
            )
            if error or self._trap.value:
                stop = self._stopped(Stage.INSTANTIATE, error)
                return CallResult(None, stop, fuel - self._fuel_left(context), 0)
            outcome = self._converse(context, compiled, entry, data, output_bytes)
            fuel_left = self._fuel_left(context)
            peak = self._memory_size(context, self._memory)
            if isinstance(outcome, bytes):
                return CallResult(outcome, None, fuel - fuel_left, peak)
            panic_bytes = (
                self._panic_bytes(context, compiled.panic_at, peak)
                if isinstance(outcome, Trap)
                else b""
            )
            return CallResult(None, outcome, fuel - fuel_left, peak, panic_bytes)
        finally:
            self._delete_store(store)

    def _converse(
        self, context: int, compiled: Compiled, entry: Entrypoint, data: bytes, output_bytes: int
    ) -> bytes | Trap | BadRange:
        """Write the input at the address from ``alloc``, call the entrypoint, read its output."""
        export, instance, name, size = self._export, self._instance, self._name, self._name_size
        export(context, instance, compiled.memory_at, name, size, self._memory_item)
        export(context, instance, compiled.alloc_at, name, size, self._alloc_item)
        export(context, instance, entry.at, name, size, self._entry_item)
        u32 = self._u32
        length = len(data)
        assert length <= _U32_MASK, "a longer input could be in no memory"
        pointer = self._reserve(context, length, RangeMisfit.INPUT_OUTSIDE)
        if not isinstance(pointer, int):
            return pointer
        ctypes.memmove(self._memory_data(context, self._memory) + pointer, data, length)
        if entry.form is Form.RETURN_POINTER:
            result = self._reserve(context, _RESULT_BYTES, RangeMisfit.RESULT_OUTSIDE)
            if not isinstance(result, int):
                return result
            u32[0], u32[_SLOT], u32[2 * _SLOT] = result, pointer, length
            stop = self._invoke(context, self._entry, 3, Stage.ENTRYPOINT)
            if stop is not None:
                return stop
            # Memory never shrinks, so the result's eight bytes are still inside it.
            result_bytes = ctypes.string_at(
                self._memory_data(context, self._memory) + result, _RESULT_BYTES
            )
            pointer, length = _RESULT.unpack(result_bytes)
        else:
            u32[0], u32[_SLOT] = pointer, length
            stop = self._invoke(context, self._entry, 2, Stage.ENTRYPOINT)
            if stop is not None:
                return stop
            if entry.form is Form.PACKED:
                packed = self._u64[0]
                pointer, length = packed >> 32, packed & _U32_MASK
            else:
                pointer, length = u32[0], u32[_SLOT]
        if pointer + length > self._memory_size(context, self._memory):
            return BadRange(misfit=RangeMisfit.OUTPUT_OUTSIDE, pointer=pointer, size=length)
        if length > output_bytes:
            return BadRange(misfit=RangeMisfit.OUTPUT_TOO_LONG, pointer=pointer, size=length)
        return ctypes.string_at(self._memory_data(context, self._memory) + pointer, length)

    def _reserve(self, context: int, size: int, misfit: RangeMisfit) -> int | Trap | BadRange:
        """Let the guest allocate ``size`` bytes. A returned address is inside its memory."""
        self._u32[0] = size
        stop = self._invoke(context, self._alloc, 1, Stage.ALLOC)
        if stop is not None:
            return stop
        pointer: int = self._u32[0]
        if pointer + size > self._memory_size(context, self._memory):
            return BadRange(misfit=misfit, pointer=pointer, size=size)
        return pointer

    def _invoke(self, context: int, function: int, slots: int, stage: Stage) -> Trap | None:
        """Call a function with the arguments in the slots; the results replace them."""
        error = self._call(context, function, self._slots, slots, self._trap_address)
        if error or self._trap.value:
            return self._stopped(stage, error)
        return None

    def _panic_bytes(self, context: int, at: int | None, size: int) -> bytes:
        """The message at ``at`` in a memory of ``size`` bytes; empty if ``at`` is outside of it."""
        if at is None or at + _LENGTH_BYTES > size:
            return b""
        start = self._memory_data(context, self._memory) + at
        (length,) = _LENGTH.unpack(ctypes.string_at(start, _LENGTH_BYTES))
        if length > PANIC_BYTES_MAX or at + _LENGTH_BYTES + length > size:
            return b""
        return ctypes.string_at(start + _LENGTH_BYTES, length)

    def _stopped(self, stage: Stage, error: int | None) -> Trap:
        """Read and free the trap or error of a call."""
        if error:
            return Trap(stage=stage, code=None, engine_text=error_text(self._functions, error))
        trap = self._trap.value
        assert trap, "a call stops with an error or with a trap"
        self._trap.value = None
        code = ctypes.c_uint8()
        has_code = self._trap_code(trap, ctypes.addressof(code))
        text = trap_text(self._functions, trap)
        return Trap(stage=stage, code=code.value if has_code else None, engine_text=text)

    def _fuel_left(self, context: int) -> int:
        error = self._get_fuel(context, self._fuel_address)
        assert not error, "fuel is metered in every engine that config builds"
        return self._fuel.value


RawFunctions: TypeAlias = Mapping[str, Callable[..., Any]]
"""The functions of ``SIGNATURES``."""


def raw_functions() -> RawFunctions:
    """The library's functions, which take plain addresses and keep the interpreter lock."""
    library = ctypes.PyDLL(_ffi.dll._name)  # noqa: SLF001  # the file that the bindings loaded
    functions = {}
    for name, (returns, takes) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = returns, takes
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
