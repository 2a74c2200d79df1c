"""Cores on a thread of their own: the main thread may not call them (``buffer``, rule 2)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from aos.core.journal.ports import BlobReader
from aos.core.limits import LIMITS, Limits
from aos.fastcore.buffer import shipped_code
from aos.fastcore.fold_core import FoldCore
from aos.sandbox.stack import big_stacks

T = TypeVar("T")


@cache
def _thread() -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(1, thread_name_prefix="fast-core")
    with big_stacks():
        pool.submit(int).result()
    return pool


def on_owner(function: Callable[[], T]) -> T:
    """Call ``function`` on the one thread that owns all cores. Raises what it raises."""
    return _thread().submit(function).result()


def no_blob(hash: bytes) -> bytes:
    raise AssertionError(f"a core asked for blob {hash.hex()}")


def made_core(
    read: BlobReader = no_blob,
    find: Callable[[str], int | None] = lambda _: None,
    limits: Limits = LIMITS,
) -> FoldCore:
    """Make a core; call it with ``on_owner``."""
    return on_owner(lambda: FoldCore(shipped_code(), read=read, find=find, limits=limits))
