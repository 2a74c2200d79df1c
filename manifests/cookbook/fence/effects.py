"""The executor of the seat sale: one function that charges a card.

    aos run --executors manifests/cookbook/fence/effects.py:seats

The buyer `broke` has no money; everybody else pays.
"""

from __future__ import annotations

from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]


@effect("seat/card.charge@1")
async def charge(params: Plain, ctx: EffectContext) -> Plain:
    """Charge once under this key; a repeated request gets the same answer."""
    if params["buyer"] == "broke":
        raise EffectFailed("declined", "no money on this card")
    return {"reference": f"charge-{ctx.idempotency_key[-8:]}"}


seats = Executors("seats", [charge])
