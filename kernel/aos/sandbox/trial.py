"""Compile a checked module in a child process, to see whether the cost is acceptable.

A module within every cap can still take the compiler minutes and gigabytes, and a compiler that
runs out of memory ends its process. So a manifest is applied only after each new module has
compiled in a child with limits. The user's cache keeps the compiled code, so that neither the
world's own process nor another apply compiles the module again.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from typing import Final

import wasmtime

from aos.errors import sentence
from aos.private_memory import keep_memory_private
from aos.sandbox.cache import ModuleCache
from aos.sandbox.caps import GIB
from aos.sandbox.config import LIVE_STACK_BYTES, build_engine, fingerprint
from aos.sandbox.inspect import engine_problem
from aos.sandbox.module import compiled_part
from aos.sandbox.program_module import program_module
from aos.values.digests import content_hash

TRIAL_SECONDS: Final = 60
"""Processor time of all compiler threads together. The interpreter of flows in Python takes 30 on
a slow processor."""

BUSY_TIMES: Final = 10
"""How many times as much real time the child may take: it waits only for a processor."""

TRIAL_MEMORY_BYTES: Final = GIB

_REFUSED: Final = 1

# Without memory the compiler aborts, or the system kills it.
_CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


def trial_problem(
    wasm: bytes,
    *,
    cache: ModuleCache | None = None,
    seconds: int = TRIAL_SECONDS,
    memory_bytes: int = TRIAL_MEMORY_BYTES,
) -> str | None:
    """Compile in a child. Return None, or the problem (S-18). Call ``check_module`` before.

    The compiled code goes to ``cache``; a module whose code is there is not compiled.
    """
    parts = program_module(wasm)  # all programs of an interpreter have the same code
    compiled = compiled_part(wasm) if parts is None else parts.interpreter
    module = content_hash(wasm if parts is None else compiled)
    engine = fingerprint(stack_bytes=LIVE_STACK_BYTES, target=None)
    if cache is not None and cache.get(module, engine) is not None:
        return None
    wants_code = "code" if cache is not None else "none"
    arguments = [sys.executable, "-m", __name__, str(seconds), str(memory_bytes), wants_code]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        process = subprocess.run(  # noqa: S603  # our own interpreter and module
            arguments,
            input=compiled,
            env=environment,
            capture_output=True,
            timeout=BUSY_TIMES * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return sentence(
            f"the compiler did not end within {BUSY_TIMES * seconds} seconds, of which it had the "
            f"processor for less than {seconds}",
            hint="try again when this machine is less busy",
        )
    if process.returncode == 0:
        if cache is not None:
            cache.put(module, engine, process.stdout)
        return None
    if process.returncode == _REFUSED and process.stdout:
        return process.stdout.decode(errors="replace")
    if process.returncode == -signal.SIGXCPU:
        return _too_costly("time", f"{seconds} seconds")
    if -process.returncode in _CRASHES:
        name = signal.Signals(-process.returncode).name
        return sentence("the compiler does not survive the module", actual=name)
    return _too_costly("memory", f"{memory_bytes} bytes")


def _too_costly(cost: str, limit: str) -> str:
    return sentence(
        f"the module takes the compiler too much {cost}",
        expected=f"at most {limit}",
        hint="make its largest functions smaller, or compile it with less inlining",
    )


def _child(seconds: int, memory_bytes: int, *, wants_code: bool) -> int:
    """The child: set the limits, compile, and write the code to stdout if it is wanted."""
    # The soft limit's signal distinguishes it from a kill for lack of memory.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    wasm = sys.stdin.buffer.read()
    engine = build_engine(stack_bytes=LIVE_STACK_BYTES, target=None)
    # Counts only writable memory, not the address space that the engine reserves for guests.
    _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard_limit))
    try:
        compiled = wasmtime.Module(engine, wasm)
    except wasmtime.WasmtimeError as error:
        sys.stdout.write(engine_problem(error))
        return _REFUSED
    if wants_code:
        resource.setrlimit(resource.RLIMIT_DATA, (hard_limit, hard_limit))
        sys.stdout.buffer.write(compiled.serialize())
    return 0


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(_child(int(sys.argv[1]), int(sys.argv[2]), wants_code=sys.argv[3] == "code"))
