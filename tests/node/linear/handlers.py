"""Handlers that write each run into a book, synced, before and after."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from aos.worker import Dead, EffectFailed, Executors, Retry, StepContext, Waiting, step

BOOK: Final = "LINEAR_BOOK"


def write(word: str, ctx: StepContext) -> None:
    """Append a line to the book and sync it."""
    line = f"{word} {ctx.instance} {ctx.seq} {ctx.epoch} {os.getpid()} {time.time_ns()}\n"
    book = os.open(os.environ[BOOK], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(book, line.encode())
        os.fsync(book)
    finally:
        os.close(book)


@step("job/WORK", concurrency=4)
async def work(context: dict[str, Any], ctx: StepContext) -> dict[str, Any] | Retry | Dead:
    write("began", ctx)
    trouble = context.get("trouble")
    if trouble == "dead":
        raise EffectFailed("never", "it cannot be done")
    if trouble == "again" and ctx.attempt < 3:
        return Retry("not yet", backoff=0.02)
    if trouble == "hang" and ctx.attempt == 1:
        time.sleep(1.0)  # noqa: ASYNC251  # it outlives its lease, and blocks the loop
    write("ended", ctx)
    return {"worked": ctx.epoch}


@step("job/WAIT", concurrency=4)
def wait(context: dict[str, Any], ctx: StepContext) -> dict[str, Any] | Waiting:
    write("began", ctx)
    if ctx.woken_by is not None:
        return {"heard": ctx.woken_by.payload}
    if ctx.task_type == "WAITING_TIMEOUT":
        return {"heard": "nothing"}
    return Waiting("GO", timeout=0.5 if context.get("trouble") == "silence" else 600)


@step("job/END", concurrency=4)
def end(_: dict[str, Any], ctx: StepContext) -> None:
    write("began", ctx)
    ctx.emit("job/Done@1", {"job": ctx.instance})
    write("ended", ctx)


jobs = Executors("jobs", [work, wait, end])
