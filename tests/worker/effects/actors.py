"""Effects for tests that need a real process: good ones and hostile ones."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]

calls = itertools.count(1)


ENDLESS_S = 600.0


@effect("test/echo@1", concurrency=4, attempts=1, timeout_s=ENDLESS_S)
async def echo(params: Plain, ctx: EffectContext) -> Plain:
    """Does what the number says."""
    match params["n"]:
        case 100:
            os._exit(3)
        case 101:
            print("printed by a function")  # noqa: T201  # what the test looks at
            sys.stdout.write("and not ended by a line feed")
        case 102:
            await asyncio.sleep(ENDLESS_S)
        case 103:
            sys.exit(9)
        case 104 if ctx.attempt == 1:
            os._exit(4)
        case 105:
            return {"n": next(calls)}
        case 106:
            return {"n": os.getpid()}
        case 107 if ctx.attempt == 1:
            # Holds the pipe that this process prints to, and whatever else it can get hold of.
            child = subprocess.Popen(["sleep", "120"], close_fds=False)  # noqa: ASYNC220
            print("grandchild", child.pid, flush=True)  # noqa: T201  # the test ends it
            os._exit(5)
        case 108:
            await asyncio.sleep(0.2)
        case 109:
            sys.stdout.close()
            sys.stderr.close()
            raise ValueError("with nowhere to print")
    return {"n": params["n"]}


@effect("test/other@1", concurrency=2)
def other(params: Plain, ctx: EffectContext) -> Plain:
    """A plain function; it may take the process with it, too."""
    if params["n"] == 200:
        raise EffectFailed("declined", "no funds", retryable=False)
    return {"n": params["n"]}


@effect("test/quick@1", concurrency=2)
async def blocking(params: Plain, ctx: EffectContext) -> Plain:
    """Blocks the event loop, where the number says so."""
    if params["n"] == 300 and ctx.attempt == 1:
        time.sleep(60)  # noqa: ASYNC251  # the mistake that the test is about
    return {"n": ctx.attempt}


@effect("test/retried@1", concurrency=1, timeout_s=1)
def hanging(params: Plain, ctx: EffectContext) -> Plain:
    """A plain function that never ends cannot be ended."""
    if params["n"] == 400:
        time.sleep(ENDLESS_S)
    return {"n": params["n"]}


@effect("test/once@1", concurrency=2)
async def once(params: Plain, ctx: EffectContext) -> Plain:
    """Runs once, and may take the process with it, or not end."""
    match params["n"]:
        case 500:
            os._exit(6)
        case 501:
            await asyncio.sleep(ENDLESS_S)
    return {"n": next(calls)}


@effect("test/quick-retried@1")
async def telling(params: Plain, ctx: EffectContext) -> Plain:
    """Tells how far it is; its first attempt fails."""
    for done in range(params["n"]):
        ctx.progress("done", {"n": done, "attempt": ctx.attempt}, blob=b"a blob")
    if ctx.attempt == 1:
        raise ConnectionError("busy")
    return params


@contextlib.asynccontextmanager
async def lifespan() -> AsyncIterator[str]:
    print("setup entered")  # noqa: T201  # what the test looks at
    try:
        yield "a resource"
    finally:
        print("setup left")  # noqa: T201  # what the test looks at


actors = Executors("actors", [echo, other, blocking, hanging, once, telling], setup=lifespan)
