"""Parse and compile the program of a Python flow once, at its build, in the interpreter itself
(spec/pyflow.md, PY-15), so that a turn does not do it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aos.author.errors import BuildFailed
from aos.core.journal.ports import Call, Ran
from aos.sandbox.cache import ModuleCache
from aos.sandbox.caps import GIB, MIB
from aos.sandbox.config import LIVE_STACK_BYTES, fingerprint
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.sandbox.trial import trial_problem
from aos.values.cbor import decode_record, encode
from aos.values.digests import content_hash

ENTRYPOINT: Final = "prepare"

FUEL: Final = 4_000_000_000
"""A source of 512 KiB, the most that PF-2 allows, takes about 900 million."""

PREPARED_BYTES_MAX: Final = 16 * MIB

_COMPILING: Final = "compiling the interpreter of Python on this machine, for up to a minute"


class Interpreter:
    """The interpreter of flows in Python as a program to run: its first use compiles it, unless
    the cache has its code."""

    def __init__(self, wasm: bytes, cache: ModuleCache | None, note: Callable[[str], None]) -> None:
        self.wasm = wasm
        self._hash = content_hash(wasm)
        self._cache = cache
        self._note = note
        self._sandbox: Sandbox | None = None

    def prepared(self, program: Mapping[str, Any]) -> bytes:
        """The form of a program that a turn runs; the same bytes on each machine.

        Raises:
            BuildFailed: The interpreter refuses the source, with the place; or it cannot run.
        """
        value: Any = dict(program)
        ran = run_on_big_stack(lambda: self._run(encode(value)))
        if ran.output is None:
            reason = "nothing" if ran.fault is None else ran.fault.message
            raise BuildFailed(f"the interpreter cannot prepare the program: {reason}")
        answer = decode_record(ran.output)
        if isinstance(answer, bytes):
            return answer
        raise BuildFailed(str(answer))

    def close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()

    def _run(self, data: bytes) -> Ran:
        if self._sandbox is None:
            self._compile()
            self._sandbox = Sandbox(lambda _: self.wasm, cache=self._cache)
        return self._sandbox.run(
            Call(
                module=self._hash,
                entrypoint=ENTRYPOINT,
                input=data,
                fuel=FUEL,
                memory_bytes=GIB // 4,
                output_bytes=PREPARED_BYTES_MAX,
            )
        )

    def _compile(self) -> None:
        """Compile the interpreter into the cache, in a process with limits, or say that the sandbox
        compiles it now."""
        engine = fingerprint(stack_bytes=LIVE_STACK_BYTES, target=None)
        if self._cache is None:
            self._note(_COMPILING)
            return
        if self._cache.get(self._hash, engine) is None:
            self._note(f"{_COMPILING}; later builds, tests and runs take its code from the cache")
            problem = trial_problem(self.wasm, cache=self._cache)
            if problem is not None:
                raise BuildFailed(f"the interpreter cannot be compiled: {problem}")
