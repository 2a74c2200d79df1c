"""The executors of the trip as a flow: booking and canceling at three agencies.

    aos run --executors manifests/cookbook/flow_saga/effects.py:agencies

Every hotel in Atlantis is full; in Limbo the cars are gone, and the hotel cancels nothing.
"""

from __future__ import annotations

from typing import Any, Final

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]

SOLD_OUT: Final = {("Hotel", "Atlantis"), ("Car", "Limbo")}
CANCELS_NOTHING: Final = {("Hotel", "Limbo")}


def _place(params: Plain) -> tuple[str, str]:
    """A unit arm of a variant arrives as {"$tag": "Hotel"}."""
    return params["what"]["$tag"], params["city"]


@effect("trip/book@1")
async def book(params: Plain, ctx: EffectContext) -> Plain:
    """Book once under this key; a repeated request gets the same answer."""
    if _place(params) in SOLD_OUT:
        raise EffectFailed("sold_out", "nothing left")
    return {"reference": f"{_place(params)[0]}-{ctx.idempotency_key[-8:]}"}


@effect("trip/cancel@1")
async def cancel(params: Plain, _ctx: EffectContext) -> Plain:
    """Take back what this trip has booked, and bar what is still on its way; by trip, so that it
    is right for a booking whose answer never came."""
    if _place(params) in CANCELS_NOTHING:
        raise EffectFailed("desk_is_closed", "call us on Monday")
    return {"note": f"canceled {_place(params)[0]} of {params['trip_id']}"}


agencies = Executors("agencies", [book, cancel])
