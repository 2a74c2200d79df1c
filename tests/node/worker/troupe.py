"""Effect functions that end in every way, for both wires: a child process, and HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, NotConfigured, effect

Plain = dict[str, Any]

calls: Counter[str] = Counter()


@effect("t/pay@1", concurrency=4, attempts=2, timeout_s=2, backoff_ms=1, backoff_cap_ms=2)
async def pay(params: Plain, ctx: EffectContext) -> Any:
    """Does what the number says."""
    match params["n"]:
        case 2:
            raise EffectFailed("declined", "no funds")
        case 3 if ctx.attempt == 1:
            raise EffectFailed("busy", "try later", retryable=True)
        case 4:
            raise ConnectionError("connection refused")
        case 5:
            raise NotConfigured("no_key", "no key for the bank", "set BANK_KEY")
        case 6:
            raise ValueError("a mistake")
        case 7:
            return {"wrong": 1}
        case 8:
            ctx.progress("half", {"done": 1})
            ctx.progress("most", b"\x01\x02")
        case 9:
            await asyncio.sleep(30)
        case 10:
            ctx.cost_cents = 12
            return {
                "ref": f"{ctx.resource} {ctx.key!r} {ctx.issuer_ref} {ctx.workflow} {ctx.world}"
            }
        case 11:
            return {"ref": f"{ctx.intent == ctx.idempotency_key} {ctx.effect}"}
        case 12:
            return {"ref": 1.5}
        case 13:
            raise SystemExit(4)
    return {"ref": f"attempt {ctx.attempt}"}


@effect("t/once@1", attempts=3, backoff_ms=1)
def once(params: Plain, ctx: EffectContext) -> Plain:
    """A plain function that may run only once."""
    if params["n"] == 4:
        raise ConnectionError("connection refused")
    if params["n"] == 6:
        raise ValueError("a mistake")
    return {"ref": f"main thread: {threading.current_thread() is threading.main_thread()}"}


@contextlib.asynccontextmanager
async def setup() -> AsyncIterator[str]:
    yield "resource"


troupe = Executors("troupe", [pay, once], setup=setup)
