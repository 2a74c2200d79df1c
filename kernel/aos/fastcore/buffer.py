"""(operation, request bytes) -> answer bytes, by a resident instance of ``core.wasm``.

The core has no clock and does no I/O: it reads and puts blobs and finds submission ids through
functions of its caller. Four rules keep the raw calls safe.

Rule 1: raw pointers keep nothing alive. ``CoreCode`` holds the Python owners of the engine and the
compiled module, ``CoreInstance`` those of the store and the functions that C calls back.

Rule 2: an exception that leaves a function that C calls back is not an exception any more: it
crashes the process. So each of them catches every one, keeps it and returns a status; ``call``
raises it when the core has returned. The main thread may raise one between any two instructions,
for a signal: an instance belongs to another thread, which has a big stack.

Rule 3: a number that the core returns is compared with the memory's size before it is used.

Rule 4: after a trap, which is a defect of the core, an instance is not called again.

Calls go through ``PyDLL``, which keeps the interpreter lock.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import wasmtime
from wasmtime import _bindings, _ffi

from aos.core.journal.ports import BlobReader
from aos.errors import BadUsage, Damage, Erased
from aos.fastcore.errors import CoreDefect, CoreFull, CoreUnusable
from aos.sandbox.caps import GIB, MIB, PAGE_BYTES
from aos.sandbox.config import (
    FEATURES,
    LIVE_STACK_BYTES,
    REPLAY_STACK_BYTES,
    fingerprint_of,
    require_wasmtime,
)
from aos.sandbox.lowlevel import (
    LAYOUT,
    error_text,
    prepared,
    raw_functions,
    trap_text,
    unconverted_functions,
)
from aos.sandbox.stack import require_big_stack
from aos.values.digests import Hash

MEMORY_BYTES_MAX: Final = 4 * GIB - PAGE_BYTES
"""The largest memory of an instance."""

MEMORY_VARIABLE: Final = "AOS_CORE_MEMORY_MIB"
"""Names the memory that an instance may have, in MiB; ``MEMORY_BYTES_MAX`` by default."""

_MEMORY_MIB_MIN: Final = 96

BEHAVIOUR: Final[Mapping[str, bool | int]] = MappingProxyType(
    {
        "consume_fuel": False,
        "epoch_interruption": False,
        # As for guests: no signal handlers.
        "signals_based_traps": False,
        "debug_info": False,
        # Addresses are not reserved for the whole memory, which would meet ``ulimit -v``: it moves
        # when it grows.
        "memory_reservation": 0,
        "memory_reservation_for_growth": 64 * MIB,
        "memory_guard_size": 0,
        "memory_may_move": True,
        "max_wasm_stack": LIVE_STACK_BYTES,
    }
)

_SINGLE_PASS: Final = 1
"""The register allocator of the engine that takes least time."""

MODULE: Final = "aos"
IMPORTS: Final = ("read", "find", "ask", "put", "taken", "take", "panicked")
"""The functions of the host that a core may call, and the module that it imports them from."""

Find = Callable[[str], int | None]
"""The record of a submission id; None if no event has it."""

Ask = Callable[[int, bytes], bytes | None]
"""Answers a question of ``wasm.rs`` about some bytes: None for no, or absent."""


Put = Callable[[bytes], object]
"""Takes a blob that the core makes. It must not call the core."""


def never_put(data: bytes) -> None:
    raise AssertionError(f"a core that takes no snapshot puts a blob of {len(data)} bytes")


def never_asked(question: int, request: bytes) -> bytes | None:
    raise AssertionError(f"a core that only folds asks question {question} of {len(request)} bytes")


_FOUND: Final = 0
_ABSENT: Final = 1
_DAMAGED: Final = 2
_KEPT: Final = 3
_ERASED: Final = 4

_OK: Final = 0
_DAMAGE: Final = 1
_HOST: Final = 2
_UNWRITABLE: Final = 4
_CLOSED: Final = 16

_SLOT: Final = LAYOUT["wasmtime_val_raw"] // 4
_STATUS: Final = struct.Struct("<I")
_SEQ: Final = struct.Struct("<Q")
_SMALL: Final = 64 * 1024
"""Requests of at most so many bytes are always at the same address."""

_AnyMemory: Final = ctypes.c_char * MEMORY_BYTES_MAX

_FULL: Final = "its memory is full"
"""The words with which an allocation of ``wasm.rs`` fails."""

_SHIPPED: Final = Path(__file__).parent

_Import = ctypes.PYFUNCTYPE(
    ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
)


def memory_bytes_of(environment: Mapping[str, str] = os.environ) -> int:
    """The bytes of memory that an instance may have.

    Raises:
        BadUsage: ``AOS_CORE_MEMORY_MIB`` is not a number of MiB, or too small or large.
    """
    text = environment.get(MEMORY_VARIABLE, "")
    if not text:
        return MEMORY_BYTES_MAX
    highest = MEMORY_BYTES_MAX // MIB
    if not (text.isascii() and text.isdecimal()) or not _MEMORY_MIB_MIN <= int(text) <= highest:
        expected = f"a number of MiB from {_MEMORY_MIB_MIN} to {highest}"
        raise BadUsage(MEMORY_VARIABLE, expected=expected, actual=repr(text))
    return int(text) * MIB


class ProbeRefused(Exception):
    """A probe, which only tests ask for, says why it could not read its bytes."""


def shipped_code(*, is_quick: bool = False) -> CoreCode:
    """The core of this release, compiled once a process; or the one in ``AOS_CORE_DIR``, to try
    another build. Compiling it takes seconds. ``is_quick``: as for ``CoreCode``, unless this
    process has compiled it otherwise.

    Raises:
        Damage: The file is not the one that its hash names, or is none that this release can run.
    """
    folder = core_folder()
    code = _compiled.get((folder, False)) or _compiled.get((folder, is_quick))
    if code is None:
        code = CoreCode(read_core(folder), is_quick=is_quick)
        _compiled.clear()
        _compiled[folder, is_quick] = code
    return code


_compiled: dict[tuple[Path, bool], CoreCode] = {}
"""The last core that ``shipped_code`` compiled, by its folder, and whether it is a quick one."""


def core_folder() -> Path:
    """The folder of the core: that of this release, or ``AOS_CORE_DIR``."""
    return Path(os.environ.get("AOS_CORE_DIR") or _SHIPPED)


def read_core(folder: Path) -> bytes:
    """Read ``core.wasm``, and compare it with ``core.sha256`` next to it.

    Raises:
        Damage: They differ, or one of them cannot be read.
    """
    file = folder / "core.wasm"
    try:
        wasm = file.read_bytes()
        expected = (folder / "core.sha256").read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Damage(
            "the second kernel cannot be read",
            location=str(folder),
            actual=str(error),
            hint="install this release again; --core python needs no second kernel",
        ) from error
    actual = hashlib.sha256(wasm).hexdigest()
    if actual != expected:
        raise Damage(
            "the second kernel was altered after it was built",
            location=str(file),
            expected=f"sha256 {expected}, as core.sha256 says",
            actual=f"sha256 {actual}",
            hint="install this release again; --core python needs no second kernel",
        )
    return wasm


class CoreCode:
    """The compiled module. Any number of instances may use it, on any threads.

    ``serialized`` is what the method returned for the same bytes and engine; then nothing is
    compiled. ``is_quick``: compile in less than half of the time, to code that takes twice as long.

    Raises:
        Damage: It imports another function than those that every instance gets.
        wasmtime.WasmtimeError: The engine refuses ``serialized``.
    """

    def __init__(
        self, wasm: bytes, serialized: bytes | None = None, *, is_quick: bool = False
    ) -> None:
        require_wasmtime()
        config = wasmtime.Config()
        for name, value in {**FEATURES, **BEHAVIOUR}.items():
            getattr(_bindings, f"wasmtime_config_{name}_set")(config.ptr(), value)
        stack_bytes = LIVE_STACK_BYTES
        if is_quick:
            config.cranelift_opt_level = "none"
            _bindings.wasmtime_config_cranelift_regalloc_algorithm_set(config.ptr(), _SINGLE_PASS)
            # Its functions have larger frames.
            stack_bytes = REPLAY_STACK_BYTES
            _bindings.wasmtime_config_max_wasm_stack_set(config.ptr(), stack_bytes)
        # The library requires its asynchronous stacks, which are unused, to exceed the other's.
        _bindings.wasmtime_config_async_stack_size_set(config.ptr(), 2 * stack_bytes)
        self.engine = wasmtime.Engine(config)
        if serialized is None:
            self.module = wasmtime.Module(self.engine, wasm)
        else:
            self.module = wasmtime.Module.deserialize(self.engine, serialized)
        foreign_imports = [
            f"{item.module}.{item.name}"
            for item in self.module.imports
            if item.module != MODULE or item.name not in IMPORTS
        ]
        if foreign_imports:
            raise Damage(
                "the second kernel asks its host for more than a core may",
                expected=", ".join(f"{MODULE}.{name}" for name in IMPORTS),
                actual=f"also {', '.join(foreign_imports)}",
                hint="install this release again; --core python needs no second kernel",
            )

    def serialized(self) -> bytes:
        """The compiled code, for the user's cache."""
        return bytes(self.module.serialize())


def core_fingerprint() -> dict[str, str]:
    """The identity of the core's engine, as ``aos.sandbox.config.fingerprint``."""
    engine_settings = {"features": dict(FEATURES), "behaviour": dict(BEHAVIOUR)}
    return fingerprint_of(engine_settings, target=None)


class CoreInstance:
    """One core: it holds the state of one world in its memory.

    The thread that makes it owns it. ``read`` finds every blob of every frame that the core folded
    or sealed; ``find`` finds submission ids that the core no longer holds.
    """

    def __init__(
        self,
        code: CoreCode,
        *,
        read: BlobReader,
        find: Find,
        ask: Ask = never_asked,
        memory_bytes: int = MEMORY_BYTES_MAX,
    ) -> None:
        require_big_stack()
        assert threading.current_thread() is not threading.main_thread(), "see rule 2"
        self._owner = threading.get_ident()
        self._code = code
        self._read = read
        self._find = find
        self._ask = ask
        self.put: Put = never_put
        """Takes the blobs of the snapshot that is being taken."""
        self._reply = b""
        self._raised: BaseException | None = None
        self._failed: BaseException | None = None
        self._panic_text: str | None = None
        self._is_broken = False
        self.has_closed = False
        """Whether an operation failed while it changed the world, which is half changed."""
        self._memory_bytes = memory_bytes
        functions = self._functions = raw_functions()
        self._call = functions["wasmtime_func_call_unchecked"]
        self._memory_data = functions["wasmtime_memory_data"]
        self._memory_size = functions["wasmtime_memory_data_size"]

        self._u32 = (ctypes.c_uint32 * (2 * _SLOT))()
        self._slots = ctypes.addressof(self._u32)
        self._trap = (ctypes.c_size_t * 1)()
        self._trap_address = ctypes.addressof(self._trap)

        self._store = wasmtime.Store(code.engine)
        self._store.set_limits(memory_size=memory_bytes)
        self._context = functions["wasmtime_store_context"](
            ctypes.cast(self._store.ptr(), ctypes.c_void_p)
        )
        self._scratch = {
            name: ctypes.create_string_buffer(LAYOUT["wasmtime_extern"])
            for name in ("memory", "reserve", "call")
        }
        self._instantiate()
        of = LAYOUT["wasmtime_extern.of"]
        self._memory, self._reserve, self._entry = (
            ctypes.addressof(item) + of for item in self._scratch.values()
        )
        self._small = self._reserved("reserve", _SMALL)
        # Of each ``call``: functions and arguments that are not converted (rule 4 of lowlevel.py).
        unconverted = unconverted_functions()
        self._enter = unconverted["wasmtime_func_call_unchecked"]
        self._entering = (
            *map(prepared, (self._context, self._entry, self._slots)),
            prepared(2, ctypes.c_size_t),
            prepared(self._trap_address),
        )
        self._data_address = unconverted["wasmtime_memory_data"]
        self._data_size = unconverted["wasmtime_memory_data_size"]
        self._of_memory = (prepared(self._context), prepared(self._memory))
        self._view_address = 0
        self._last_view = memoryview(b"")
        self._view()

    def call(self, name: str, operation: int, request: bytes) -> bytes:
        """Do one operation; ``name`` names it if it is a defect.

        Raises:
            Damage: The core found it. An exception of ``read`` or ``find`` is raised as it is.
            ProbeRefused: A probe could not read its bytes.
            ValueError: A field of an input is none that a message or record can hold.
            CoreDefect: The core trapped.
            CoreUnusable: It trapped before.
        """
        assert threading.get_ident() == self._owner, "a core belongs to the thread that made it"
        if self._is_broken:
            raise CoreUnusable(
                f"operation {name} of the second kernel: it trapped before (open another kernel)"
            )
        u32 = self._u32
        size = len(request)
        # A memory never becomes smaller, so a place that was in it stays in it. It moves only in a
        # call, and the last one looked for it at its end, however it ended.
        if size <= _SMALL:
            address, view = self._small, self._last_view
        else:
            address = self._reserved(name, size)
            view = self._view()
        view[address : address + size] = request
        self._raised = None
        # As ``_invoke``, inline: this is called for every record.
        u32[0], u32[_SLOT] = operation, size
        error = self._enter(*self._entering)
        view = self._view()
        if error or self._trap[0] or self._failed is not None:
            raise self._defect(name, error)
        size = u32[1]
        address = u32[0]
        end = address + size
        assert size >= _STATUS.size
        assert end <= self._data_size(*self._of_memory)
        (status,) = _STATUS.unpack_from(view, address)
        answer = view[address + _STATUS.size : end].tobytes()
        if status == _OK:
            return answer
        self.has_closed = bool(status & _CLOSED)
        raise self._problem(status & ~_CLOSED, answer.decode())

    def close(self) -> None:
        """Free the memory of the instance now; the functions that C calls back refer to it."""
        self._is_broken = True
        self._last_view.release()
        self._store.close()
        self._imports.clear()

    def _view(self) -> memoryview:
        """The memory, until the next call: only bytes below its size may be used."""
        address = self._data_address(*self._of_memory)
        if address != self._view_address:
            self._last_view = memoryview(b"")  # if the next line fails
            self._last_view = memoryview(_AnyMemory.from_address(address)).cast("B")
            self._view_address = address
        return self._last_view

    def _problem(self, status: int, text: str) -> BaseException:
        problem = self._raised
        if status == _HOST:
            assert problem is not None, "an import said that it keeps an exception"
            return problem
        if status == _UNWRITABLE:
            return ValueError("a field of an input is none that a message or record can hold")
        if status != _DAMAGE:
            return ProbeRefused(text)
        # The reader's exception may be of a class that says more: erased, not damaged.
        is_told = isinstance(problem, Damage) and str(problem) == text
        return problem if problem is not None and is_told else Damage(text)

    # Set up

    def _instantiate(self) -> None:
        i32 = wasmtime.ValType.i32()
        linker = wasmtime.Linker(self._code.engine)
        self._imports = []
        for name, body, takes, gives in (
            ("read", self._on_read, 1, 1),
            ("find", self._on_find, 3, 1),
            ("ask", self._on_ask, 3, 1),
            ("put", self._on_put, 2, 1),
            ("taken", self._on_taken, 0, 1),
            ("take", self._on_take, 1, 0),
            ("panicked", self._on_panicked, 2, 0),
        ):
            function = _Import(self._returning(body))
            kind = wasmtime.FuncType([i32] * takes, [i32] * gives)
            module_name, import_name = MODULE.encode(), name.encode()
            error = _DEFINE(
                ctypes.cast(linker.ptr(), ctypes.c_void_p), module_name, len(module_name),
                import_name, len(import_name), ctypes.cast(kind.ptr(), ctypes.c_void_p), function,
                None, None,
            )  # fmt: skip
            assert not error, f"the import {name} cannot be defined"
            self._imports.append(function)
        pre = linker.instantiate_pre(self._code.module)
        instance = ctypes.create_string_buffer(LAYOUT["wasmtime_instance"])
        error = self._functions["wasmtime_instance_pre_instantiate"](
            ctypes.cast(pre.ptr(), ctypes.c_void_p), self._context, ctypes.addressof(instance),
            self._trap_address,
        )  # fmt: skip
        if error or self._trap[0]:
            raise CoreDefect(f"the second kernel cannot be instantiated: {self._stopped(error)}")
        names = [export.name for export in self._code.module.exports]
        size = ctypes.c_size_t()
        export_name = ctypes.c_void_p()
        for name, item in self._scratch.items():
            is_there = self._functions["wasmtime_instance_export_nth"](
                self._context,
                ctypes.addressof(instance),
                names.index(name),
                ctypes.addressof(export_name),
                ctypes.addressof(size),
                ctypes.addressof(item),
            )
            assert is_there, f"the core has no export {name}"

    # Raw calls

    def _reserved(self, name: str, size: int) -> int:
        """The address of a request of this size."""
        address = self._invoke(name, self._reserve, size)
        assert address + size <= self._memory_size(self._context, self._memory)
        return address

    def _invoke(self, name: str, function: int, *arguments: int) -> int:
        """Call an export whose result is a number of 32 bits."""
        for index, argument in enumerate(arguments):
            self._u32[index * _SLOT] = argument
        error = self._call(
            self._context, function, self._slots, max(1, len(arguments)), self._trap_address
        )
        if error or self._trap[0] or self._failed is not None:
            raise self._defect(name, error)
        result: int = self._u32[0]
        return result

    def _defect(self, name: str, error: int | None) -> CoreDefect:
        self._is_broken = True
        if error or self._trap[0]:
            text = f"operation {name} of the second kernel: {self._stopped(error)}"
            if self._panic_text != _FULL:
                return CoreDefect(text)
            mib = self._memory_bytes // MIB
            return CoreFull(
                f"{text} ({MEMORY_VARIABLE} is {mib}, at most {MEMORY_BYTES_MAX // MIB}; "
                "AOS_CORE=python has no bound)"
            )
        defect = CoreDefect(f"operation {name} of the second kernel: a call back failed")
        defect.__cause__ = self._failed
        return defect

    def _bytes(self, address: int, size: int) -> bytes:
        assert address + size <= self._memory_size(self._context, self._memory)
        return ctypes.string_at(self._memory_data(self._context, self._memory) + address, size)

    def _write(self, address: int, data: bytes) -> None:
        assert address + len(data) <= self._memory_size(self._context, self._memory)
        base = self._memory_data(self._context, self._memory)
        ctypes.memmove(base + address, data, len(data))

    def _stopped(self, error: int | None) -> str:
        """Read and free the trap or error of a call."""
        if error:
            text = error_text(self._functions, error)
        else:
            text = trap_text(self._functions, self._trap[0])
            self._trap[0] = 0
        return text if self._panic_text is None else self._panic_text

    # Imports: called by C. ``slots`` has the arguments, and takes the result.

    def _on_read(self, slots: int) -> None:
        hash = Hash(self._bytes(_argument(slots, 0), 32))
        _result(slots, self._status_of(lambda: self._read(hash)))

    def _on_find(self, slots: int) -> None:
        def find() -> bytes:
            seq = self._find(self._bytes(_argument(slots, 0), _argument(slots, 1)).decode())
            return b"" if seq is None else _SEQ.pack(seq)

        status = self._status_of(find)
        if status == _FOUND:
            if self._reply:
                self._write(_argument(slots, 2), self._reply)
            else:
                status = _ABSENT
        _result(slots, status)

    def _on_ask(self, slots: int) -> None:
        is_absent = False

        def ask() -> bytes:
            nonlocal is_absent
            request = self._bytes(_argument(slots, 1), _argument(slots, 2))
            answer = self._ask(_argument(slots, 0), request)
            is_absent = answer is None
            return answer or b""

        status = self._status_of(ask)
        _result(slots, _ABSENT if is_absent else status)

    def _on_put(self, slots: int) -> None:
        data = self._bytes(_argument(slots, 0), _argument(slots, 1))

        def put() -> bytes:
            self.put(data)
            return b""

        _result(slots, self._status_of(put))

    def _returning(self, body: Callable[[int], None]) -> Callable[[int, int, int, int], int]:
        """The function that C calls: it returns no trap, and raises nothing."""

        def enter(_: int, __: int, slots: int, ___: int) -> int:
            try:
                body(slots)
            except BaseException as problem:  # noqa: BLE001  # see rule 2
                self._failed = problem
            return 0

        return enter

    def _status_of(self, function: Callable[[], bytes]) -> int:
        try:
            self._reply = function()
        except Erased as problem:
            self._raised = problem
            return _ERASED
        except Damage as problem:
            self._raised = problem
            self._reply = str(problem).encode(errors="replace")
            return _DAMAGED
        except BaseException as problem:  # noqa: BLE001  # see rule 2
            self._raised = problem
            return _KEPT
        return _FOUND

    def _on_taken(self, slots: int) -> None:
        _result(slots, len(self._reply))

    def _on_take(self, slots: int) -> None:
        self._write(_argument(slots, 0), self._reply)

    def _on_panicked(self, slots: int) -> None:
        text = self._bytes(_argument(slots, 0), _argument(slots, 1))
        self._panic_text = text.decode(errors="replace")


def _argument(slots: int, index: int) -> int:
    return ctypes.c_uint32.from_address(slots + 4 * index * _SLOT).value


def _result(slots: int, number: int) -> None:
    ctypes.c_uint32.from_address(slots).value = number


_DEFINE: Final = ctypes.PyDLL(_ffi.dll._name).wasmtime_linker_define_func_unchecked  # noqa: SLF001
_DEFINE.restype = ctypes.c_void_p
_DEFINE.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
    ctypes.c_void_p, _Import, ctypes.c_void_p, ctypes.c_void_p,
]  # fmt: skip
