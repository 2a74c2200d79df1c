"""The effects that the flow requests. `aos dev` runs this file; to run it by hand:

aos run --executors effects.py:project_name
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, effect

LIMIT_CENTS = 100_000

closed = Counter[str]()
"""How often the fake bank has refused, by order."""


@effect("project-name/charge@1")
def charge(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    """A fake bank. It refuses the first two charges of an order whose id begins with `slow`, so
    that the flow has something to retry.

    Pass `ctx.idempotency_key` to a real bank: it is the same for every charge of this order, so
    that the bank charges only once.
    """
    order = params["order_id"]
    if order.startswith("slow") and closed[order] < 2:
        closed[order] += 1
        raise EffectFailed("bank_closed", "try again later", retryable=True)
    if params["cents"] > LIMIT_CENTS:
        raise EffectFailed("over_limit", f"the limit is {LIMIT_CENTS} cents")
    return {"charge": f"ch-{ctx.idempotency_key[-8:]}"}


@effect("project-name/refund@1")
def refund(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    """The fake bank gives the money back."""
    return {"refund": f"re-{params['charge']}-{ctx.idempotency_key[-8:]}"}


@effect("project-name/ship@1")
def ship(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    """A fake warehouse. It has nothing for an order whose id begins with `late`, so that there is
    time to cancel it.
    """
    if params["order_id"].startswith("late"):
        raise EffectFailed("sold_out", "more will come", retryable=True)
    return {"parcel": f"pa-{ctx.idempotency_key[-8:]}"}


@effect("project-name/ask@1")
def ask(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    """A real one would send an e-mail."""
    return {"mail": f"{params['order_id']}-{ctx.idempotency_key[-8:]}"}


project_name = Executors("project-name", [charge, refund, ship, ask])
