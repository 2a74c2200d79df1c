"""A checked module -> whether it compiles at a bearable cost, tried in a child process.

A module within every cap can still take the compiler minutes and gigabytes, and a compiler that
runs out of memory ends its process. So a manifest is applied only after each new module compiled
in a child that the system stops; the world's own process compiles only what passed.
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
from aos.sandbox.caps import GIB
from aos.sandbox.config import LIVE_STACK_BYTES, build_engine
from aos.sandbox.inspect import engine_problem

TRIAL_SECONDS: Final = 30
"""Processor time of all compiler threads together. Real time is bounded by twice as much."""

TRIAL_MEMORY_BYTES: Final = GIB

_REFUSED: Final = 1

# A want of memory aborts, or meets the machine's own killer.
_CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


def trial_problem(
    wasm: bytes, *, seconds: int = TRIAL_SECONDS, memory_bytes: int = TRIAL_MEMORY_BYTES
) -> str | None:
    """Compile in a child. None when it passed, else why not. ``check_module`` goes first."""
    arguments = [sys.executable, "-m", __name__, str(seconds), str(memory_bytes)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(  # noqa: S603  # our own interpreter and module
            arguments,
            input=wasm,
            env=environment,
            capture_output=True,
            timeout=2 * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _too_costly("time", f"{seconds} seconds")
    if done.returncode == 0:
        return None
    if done.returncode == _REFUSED and done.stdout:
        return done.stdout.decode(errors="replace")
    if done.returncode == -signal.SIGXCPU:
        return _too_costly("time", f"{seconds} seconds")
    if -done.returncode in _CRASHES:
        name = signal.Signals(-done.returncode).name
        return sentence("the compiler does not survive the module", found=name)
    return _too_costly("memory", f"{memory_bytes} bytes")


def _too_costly(what: str, limit: str) -> str:
    return sentence(
        f"the module takes the compiler too much {what}",
        expected=f"at most {limit}",
        hint="make its largest functions smaller, or compile it with less inlining",
    )


def _child(seconds: int, memory_bytes: int) -> int:
    """The other side: limits first, then the compiler."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The soft limit's signal tells it from a kill for want of memory.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    wasm = sys.stdin.buffer.read()
    engine = build_engine(stack_bytes=LIVE_STACK_BYTES, target=None)
    # Counts what can be written, so not the address space that the engine keeps free for guests.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    try:
        wasmtime.Module(engine, wasm)
    except wasmtime.WasmtimeError as error:
        sys.stdout.write(engine_problem(error))
        return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(_child(int(sys.argv[1]), int(sys.argv[2])))
