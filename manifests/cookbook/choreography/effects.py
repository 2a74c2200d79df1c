"""The executors of the market: the bank of the payment team, the carrier of the delivery team.

    aos run --executors manifests/cookbook/choreography/effects.py:bank \\
            --executors manifests/cookbook/choreography/effects.py:carrier

No customer has more than 100,000 cents, and no parcel reaches Atlantis.
"""

from __future__ import annotations

from typing import Any, Final

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]

CENTS_MAX: Final = 100_000
NO_WAY_TO: Final = "Atlantis"


@effect("market/card.charge@1")
async def charge(params: Plain, ctx: EffectContext) -> Plain:
    if params["cents"] > CENTS_MAX:
        raise EffectFailed("declined", f"more than {CENTS_MAX} cents")
    return {"reference": f"charge-{ctx.idempotency_key[-8:]}"}


@effect("market/card.refund@1")
async def refund(_params: Plain, ctx: EffectContext) -> Plain:
    """Give back what was charged for this order; nothing, where nothing was."""
    return {"reference": f"refund-{ctx.idempotency_key[-8:]}"}


@effect("market/parcel.send@1")
async def send(params: Plain, ctx: EffectContext) -> Plain:
    if params["address"] == NO_WAY_TO:
        raise EffectFailed("no_such_place", f"no carrier goes to {NO_WAY_TO}")
    return {"tracking": f"parcel-{ctx.idempotency_key[-8:]}"}


bank = Executors("bank", [charge, refund])
carrier = Executors("carrier", [send])
