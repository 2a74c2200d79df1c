"""Effects whose worker keeps books: each line is synced before the function continues.

A line is ``begin`` or ``end``, the effect, the intent, the attempt, the worker's process id, and
the time in nanoseconds of a clock that all processes share.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

from aos.worker import EffectContext, Executors, effect

BOOK: Final = "AOS_TEST_BOOK"
TAKES_S: Final = 0.05


def note(word: str, ctx: EffectContext) -> None:
    book = os.open(os.environ[BOOK], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        found = (word, ctx.effect, ctx.intent, ctx.attempt, os.getpid(), time.monotonic_ns())
        os.write(book, " ".join(map(str, found)).encode() + b"\n")
        os.fsync(book)
    finally:
        os.close(book)


@effect("host/echo@1", concurrency=4)
def echo(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    note("begin", ctx)
    time.sleep(TAKES_S)
    note("end", ctx)
    return params


@effect("host/once@1", concurrency=4)
def once(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    """Of a definition with ``at_most_once``."""
    return echo(params, ctx)


books = Executors("books", [echo, once])
