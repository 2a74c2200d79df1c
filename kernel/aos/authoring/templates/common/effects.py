"""What the workflow asks for, carried out. `aos dev` runs this file; by hand it is

aos run --executors effects.py:project_name
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, effect

LIMIT_CENTS = 100_000

closed = Counter[str]()
"""How often the bank was closed, by order."""


@effect("project-name/charge@1")
def charge(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    """A bank of our own in place of a real one. It is closed at first for orders whose id begins
    with `slow`, so that there is something to try again.

    A real one is given `ctx.idempotency_key`: it is the same however often this order is charged,
    so that the bank does it once.
    """
    order = params["order_id"]
    if order.startswith("slow") and closed[order] < 2:
        closed[order] += 1
        raise EffectFailed("bank_closed", "try again later", retryable=True)
    if params["cents"] > LIMIT_CENTS:
        raise EffectFailed("over_limit", f"the limit is {LIMIT_CENTS} cents")
    return {"charge": f"ch-{ctx.idempotency_key[-8:]}"}


project_name = Executors("project-name", [charge])
