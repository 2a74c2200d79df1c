"""The compiled code of the core in the user's cache, for worlds that run (spec/core.md, CR-34).

Rule 1: replay does not use it (S-57): it compiles ``core.wasm`` by ``shipped_code``.

Rule 2: at most one process at a time compiles in the background. It holds a lock, which ends with
it. A compilation that failed is tried again after ten minutes.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import wasmtime

from aos.fastcore.buffer import CoreCode, core_fingerprint, core_folder, read_core
from aos.private_memory import keep_memory_private
from aos.sandbox.cache import ModuleCache
from aos.values.digests import Hash, content_hash

RETRY_S: Final = 600.0
"""Seconds until a compilation that did not succeed is tried again."""

COMPILE_S: Final = 120
"""Processor time that the child may take."""

_LOCK: Final = "fast-core"
_NICE: Final = 10

_loaded: dict[Hash, CoreCode] = {}
"""The code that this process runs worlds with, by the hash of its module."""


def cached_code(cache: ModuleCache | None) -> CoreCode | None:
    """The compiled code of the core; None if the cache does not have it, or if it is damaged, or
    another release's (S-53).

    Raises:
        Damage: As ``read_core``.
    """
    return _cached(cache, read_core(core_folder()))


def _cached(cache: ModuleCache | None, wasm: bytes) -> CoreCode | None:
    module = content_hash(wasm)
    code = _loaded.get(module)
    if code is not None or cache is None:
        return code
    serialized = cache.get(module, core_fingerprint())
    if serialized is None:
        return None
    # Two machines may share a home folder, and one may lack instructions of the other.
    with contextlib.suppress(wasmtime.WasmtimeError):
        _loaded[module] = CoreCode(wasm, serialized)
    return _loaded.get(module)


def live_code(cache: ModuleCache | None, note: Callable[[str], None]) -> CoreCode:
    """The compiled code of the core. Code that the cache does not have is compiled, which ``note``
    says before, and stored.

    Raises:
        Damage: As ``read_core``.
    """
    wasm = read_core(core_folder())
    code = _cached(cache, wasm)
    if code is not None:
        return code
    note("the second kernel is compiled now, which takes some seconds")
    code = _loaded[content_hash(wasm)] = CoreCode(wasm)
    if cache is not None:
        cache.put(content_hash(wasm), core_fingerprint(), code.serialized())
    return code


def compile_in_child(cache: ModuleCache | None) -> None:
    """Start a process that compiles the core into the cache, and return. It does nothing without a
    cache, while another process compiles, or if one has tried within ``RETRY_S``."""
    lock = None if cache is None else cache.lock(_LOCK)
    if cache is None or lock is None:
        return
    try:
        status = os.fstat(lock)
        if status.st_size and time.time() - status.st_mtime < RETRY_S:
            return
        os.pwrite(lock, b"compiling", 0)
        os.utime(lock)
        with contextlib.suppress(OSError):
            child = subprocess.Popen(  # noqa: S603  # this interpreter, this module, a folder
                [sys.executable, "-m", __name__, str(cache.folder.absolute()), str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[lock],
                # Ctrl-C is for this process.
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            threading.Thread(target=child.wait, name="aos-compiling", daemon=True).start()
    finally:
        os.close(lock)


def _compile(folder: Path, lock: int) -> None:
    """The child: compile the core into the cache in ``folder``, and free the lock for the next
    compilation if it is there."""
    cache = ModuleCache(folder)
    live_code(cache, lambda _: None)
    if cache.get(content_hash(read_core(core_folder())), core_fingerprint()) is not None:
        os.ftruncate(lock, 0)


if __name__ == "__main__":
    keep_memory_private()
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_CPU, (COMPILE_S, COMPILE_S + 1))
    _compile(Path(sys.argv[1]), int(sys.argv[2]))
