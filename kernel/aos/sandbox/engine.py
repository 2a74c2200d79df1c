"""Call -> Ran: run one step of a module in a fresh instance, and describe a fault in fixed words.

Rule 1: the result depends only on the module, its input and its limits; nothing survives a call.

Rule 2: a fault is a kind and a message of this file. The engine's own text is kept separately and
not hashed.

Rule 3: a sandbox must not be used by two threads at the same time, and only on a thread whose stack
is large enough (``aos.sandbox.stack``). A process may have several sandboxes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import wasmtime

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.ports import Call, Ran
from aos.errors import Damage, sentence
from aos.sandbox.cache import ModuleCache
from aos.sandbox.caps import PAGE_BYTES
from aos.sandbox.config import LIVE_STACK_BYTES, build_engine, fingerprint
from aos.sandbox.inspect import (
    Form,
    ModuleRefused,
    engine_problem,
    export_problems,
    panic_address,
    survey,
)
from aos.sandbox.lowlevel import (
    BadRange,
    CallResult,
    Compiled,
    Entrypoint,
    InstanceRunner,
    RangeMisfit,
    Stage,
    Trap,
)
from aos.sandbox.module import Outline, compiled_part
from aos.sandbox.program_module import ProgramModule, split
from aos.sandbox.show import plain
from aos.sandbox.stack import require_big_stack
from aos.values.digests import Hash, content_hash, hash_text

MODULES_MAX: Final = 64
"""Number of compiled modules that a sandbox keeps. The one loaded first is dropped first."""

_STACK: Final = 0
_MEMORY_OUT_OF_BOUNDS: Final = 1
_UNREACHABLE: Final = 9
_FUEL: Final = 11

# Our messages for the trap codes that the allowed features can cause (S-40). They are hashed.
TRAP_WORDS: Final[Mapping[int, str]] = {
    _MEMORY_OUT_OF_BOUNDS: "a memory access is out of bounds",
    3: "a table access is out of bounds",
    4: "an indirect call meets an empty table element",
    5: "an indirect call meets a function of another type",
    6: "an integer operation overflows",
    7: "an integer is divided by zero",
    8: "a float has no integer value",
    _UNREACHABLE: "an unreachable instruction is reached",
}

# The traps of code whose allocator is out of memory: it stops, or uses the failure as an address.
_SIGNS_OF_FULL_MEMORY: Final = frozenset({_UNREACHABLE, _MEMORY_OUT_OF_BOUNDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """A compiled module, its declarations, and the entrypoints used so far."""

    compiled: Compiled
    outline: Outline
    first_bytes: int
    entries: dict[str, Entrypoint]


class Sandbox:
    """Runs modules by hash. ``load`` returns a module's bytes when it is first used.

    ``stack_bytes`` bounds a guest's stack: 512 KiB live, 4 MiB in replay, so that a step that ran
    live never reaches the bound in replay. ``target`` is None for machine code, or ``pulley64``.
    ``cache`` has compiled code of earlier starts; without it each module is compiled from its
    hashed bytes, as replay and verify require (S-57).
    """

    def __init__(
        self,
        load: Callable[[Hash], bytes],
        *,
        stack_bytes: int = LIVE_STACK_BYTES,
        target: str | None = None,
        cache: ModuleCache | None = None,
    ) -> None:
        self._load = load
        self._cache = cache
        self._engine = build_engine(stack_bytes=stack_bytes, target=target)
        self._runner = InstanceRunner(self._engine)
        self._modules: dict[Hash, _Loaded] = {}
        self._interpreter: tuple[Hash, bytes] | None = None
        self.fingerprint = fingerprint(stack_bytes=stack_bytes, target=target)

    def run(self, call: Call) -> Ran:
        """Run one call in a fresh instance. A fault is an answer, not an exception.

        Raises:
            ModuleRefused: The module is refused, or has no such entrypoint. Nothing ran.
            Damage: The bytes from ``load`` have another hash. Nothing ran.
            Refused: The thread's stack is too small (``aos.sandbox.stack``). Nothing ran.
        """
        require_big_stack()
        loaded = self._modules.get(call.module) or self._load_module(call.module, call.entrypoint)
        entry = loaded.entries.get(call.entrypoint)
        if entry is None:
            entry = self._find_entry(call.module, loaded, call.entrypoint)
        if loaded.first_bytes > call.memory_bytes:
            return _at_the_start(loaded, call)
        try:
            result = self._runner.run(loaded.compiled, entry, call)
        except MemoryError:
            return Ran(output=None, fault=_no_room(call.entrypoint), fuel=0, pages=0)
        pages = result.memory_bytes // PAGE_BYTES
        if result.stop is None and result.fuel < call.fuel:
            return Ran(result.output, None, result.fuel, pages)
        return Ran(
            output=None,
            fault=_fault(call, result, pages),
            fuel=result.fuel,
            pages=pages,
            engine_text=result.stop.engine_text if isinstance(result.stop, Trap) else None,
        )

    def prepare(self, module: Hash, entrypoint: str) -> None:
        """Compile a module before its first call. Raises as ``run``."""
        loaded = self._modules.get(module) or self._load_module(module, entrypoint)
        if entrypoint not in loaded.entries:
            self._find_entry(module, loaded, entrypoint)

    def close(self) -> None:
        """Free compiled code and the engine. The sandbox cannot be used afterwards."""
        for loaded in self._modules.values():
            loaded.compiled.close()
        self._modules.clear()
        self._engine.close()

    def _load_module(self, module: Hash, entrypoint: str) -> _Loaded:
        wasm = self._load(module)
        actual_hash = content_hash(wasm)
        if actual_hash != module:
            raise Damage(
                "the bytes of a module are not those of its hash",
                expected=hash_text(module),
                actual=hash_text(actual_hash),
            )
        outline, problems = survey(wasm, [entrypoint])
        if problems or outline is None:
            raise ModuleRefused(hash_text(module), problems)
        try:
            code, parts = self._compile(module, compiled_part(wasm), outline)
            compiled = Compiled(
                self._engine,
                code,
                first_bytes=outline.memories[0] * PAGE_BYTES,
                panic_at=panic_address(outline),
                program=parts,
            )
        except wasmtime.WasmtimeError as error:
            raise ModuleRefused(hash_text(module), [engine_problem(error)]) from error
        if len(self._modules) >= MODULES_MAX:
            self._modules.pop(next(iter(self._modules))).compiled.close()
        first_bytes = sum(outline.memories) * PAGE_BYTES
        loaded = _Loaded(compiled=compiled, outline=outline, first_bytes=first_bytes, entries={})
        self._modules[module] = loaded
        return loaded

    def _compile(
        self, module: Hash, wasm: bytes, outline: Outline
    ) -> tuple[wasmtime.Module, ProgramModule | None]:
        """Compile a module, or its interpreter alone, whose instances then get the program (S-58).
        Raises ``wasmtime.WasmtimeError``."""
        parts = split(wasm, outline)
        if parts is not None:
            # Code that names the segments of the program is no code without them.
            with contextlib.suppress(wasmtime.WasmtimeError):
                return self._compile_interpreter(parts.interpreter), parts
        return self._compile_whole(module, wasm), None

    def _compile_interpreter(self, wasm: bytes) -> wasmtime.Module:
        """Compile an interpreter, once for all programs that this sandbox runs in turn."""
        interpreter = content_hash(wasm)
        if self._interpreter is not None and self._interpreter[0] == interpreter:
            return wasmtime.Module.deserialize(self._engine, self._interpreter[1])
        compiled = self._compile_whole(interpreter, wasm)
        if self._cache is None:  # otherwise that has it
            self._interpreter = interpreter, bytes(compiled.serialize())
        return compiled

    def _compile_whole(self, module: Hash, wasm: bytes) -> wasmtime.Module:
        """Compile, or take the cached code. Raises ``wasmtime.WasmtimeError``."""
        if self._cache is None:
            return wasmtime.Module(self._engine, wasm)
        code = self._cache.get(module, self.fingerprint)
        if code is not None:
            # Two machines may share a home folder, and one may lack instructions of the other.
            with contextlib.suppress(wasmtime.WasmtimeError):
                return wasmtime.Module.deserialize(self._engine, code)
        compiled = wasmtime.Module(self._engine, wasm)
        self._cache.put(module, self.fingerprint, bytes(compiled.serialize()))
        return compiled

    def _find_entry(self, module: Hash, loaded: _Loaded, entrypoint: str) -> Entrypoint:
        problems = list(export_problems(loaded.outline, [entrypoint]))
        if problems:
            raise ModuleRefused(hash_text(module), problems)
        form = Form(loaded.outline.exports[entrypoint].type)
        entry = loaded.entries[entrypoint] = loaded.compiled.entry(entrypoint, form)
        return entry


def _fault(call: Call, result: CallResult, pages: int) -> Fault:
    """Describe how a call stopped, in our words; the engine's text is not part of it (K-33)."""
    stop = result.stop
    export_name = _stopped_export(call, stop)
    if isinstance(stop, Trap):
        if stop.code is None:
            return _no_room(export_name)
        if stop.code == _STACK:
            message = sentence("the guest's stack is used up", location=export_name)
            return Fault(kind=FaultKind.STACK, message=message)
    # The engine checks the fuel only at times, so a guest may end before that is noticed.
    if result.fuel >= call.fuel or (isinstance(stop, Trap) and stop.code == _FUEL):
        message = sentence(f"all {call.fuel} units of fuel are used", location=export_name)
        return Fault(kind=FaultKind.FUEL, message=message)
    assert stop is not None, "a call that was not stopped has used all of its fuel"
    is_full = pages == call.memory_bytes // PAGE_BYTES
    full = f", with all {call.memory_bytes} bytes of memory in use" if is_full else ""
    if isinstance(stop, BadRange):
        return _bad_range(call, stop, export_name, full)
    assert stop.code is not None, "answered above"
    words = TRAP_WORDS.get(stop.code, f"the engine stopped it with code {stop.code}")
    panic_text = plain(result.panic_bytes) if stop.code == _UNREACHABLE else ""
    panicked = f"panicked: {panic_text}" if panic_text else ""
    if is_full and stop.code in _SIGNS_OF_FULL_MEMORY:
        # The memory may be at its limit and the trap have another reason; the message says so.
        problem = ": ".join(filter(None, (words + full, panicked)))
        return Fault(kind=FaultKind.MEMORY, message=sentence(problem, location=export_name))
    return Fault(kind=FaultKind.TRAP, message=sentence(panicked or words, location=export_name))


def _bad_range(call: Call, stop: BadRange, export_name: str, full: str) -> Fault:
    actual = f"{stop.size} bytes at {stop.pointer}"
    if stop.misfit is RangeMisfit.OUTPUT_TOO_LONG:
        expected = f"at most {call.output_bytes} bytes"
        return Fault(
            kind=FaultKind.OUTPUT_TOO_LARGE,
            message=sentence(
                "the output is too large",
                location=export_name,
                expected=expected,
                actual=f"{stop.size}",
            ),
        )
    if stop.misfit is RangeMisfit.OUTPUT_OUTSIDE:
        problem = "the output lies outside the memory"
        message = sentence(problem, location=export_name, actual=actual)
        return Fault(kind=FaultKind.OUTPUT_MALFORMED, message=message)
    problem = f"the range that it gave lies outside the memory{full}"
    return Fault(
        kind=FaultKind.MEMORY if full else FaultKind.TRAP,
        message=sentence(problem, location=export_name, actual=actual),
    )


def _at_the_start(loaded: _Loaded, call: Call) -> Ran:
    """The fault if the module's initial memory exceeds the limit: nothing is run."""
    message = sentence(
        "the module's memory begins larger than the limit",
        location=call.entrypoint,
        expected=f"at most {call.memory_bytes} bytes",
        actual=f"{loaded.first_bytes}",
    )
    fault = Fault(kind=FaultKind.MEMORY, message=message)
    return Ran(output=None, fault=fault, fuel=0, pages=0)


def _no_room(export_name: str) -> Fault:
    message = sentence("the machine had no memory for it", location=export_name)
    return Fault(kind=FaultKind.HOST_MEMORY, message=message)


def _stopped_export(call: Call, stop: Trap | BadRange | None) -> str:
    """The export that ran when the call stopped, or ``instantiate`` if none ran yet."""
    if isinstance(stop, Trap):
        return call.entrypoint if stop.stage is Stage.ENTRYPOINT else stop.stage.value
    if stop is None or stop.misfit in {RangeMisfit.OUTPUT_OUTSIDE, RangeMisfit.OUTPUT_TOO_LONG}:
        return call.entrypoint
    return Stage.ALLOC.value
