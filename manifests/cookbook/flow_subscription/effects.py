"""The bank of the club.

    aos run --executors manifests/cookbook/flow_subscription/effects.py:bank

The card `broke` has no money, and the bank never answers about the card `slow`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]


@effect("club/card.charge@1")
async def charge(params: Plain, ctx: EffectContext) -> Plain:
    """Charge once under this key; a repeated request gets the same answer."""
    if params["card"] == "broke":
        raise EffectFailed("no_money", "the card has no money", retryable=True)
    if params["card"] == "slow":
        await asyncio.sleep(3600)
    return {"charge": f"ch-{params['month']}-{ctx.idempotency_key[-8:]}"}


@effect("club/card.refund@1")
async def refund(params: Plain, _ctx: EffectContext) -> Plain:
    """Pay back the charge of this month, or block one that is still on its way."""
    return {"cents": 900 if params["card"] == "slow" else 0}


bank = Executors("bank", [charge, refund])
