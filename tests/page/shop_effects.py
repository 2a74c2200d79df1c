"""The services of a small shop, without a network: ``shop`` does everything, ``no_parcels`` does
not ship."""

from __future__ import annotations

from typing import Any, Final

from aos.worker import EffectContext, EffectFailed, Executors, effect

DECLINED: Final = ("ord-00004", "ord-00009")
"""Orders whose cards are declined."""


@effect("shop/stock.reserve@1")
def reserve(params: Any, ctx: EffectContext) -> Any:
    return {"reservation": f"r-{params['order_id']}"}


@effect("shop/stock.release@1")
def release(params: Any, ctx: EffectContext) -> Any:
    return {"released": True}


@effect("shop/card.charge@1")
def charge(params: Any, ctx: EffectContext) -> Any:
    if params["order_id"] in DECLINED:
        raise EffectFailed("card_declined", "the bank declines this card")
    return {"charge": f"ch-{params['order_id']}", "amount_cents": params["amount_cents"]}


@effect("shop/card.refund@1")
def refund(params: Any, ctx: EffectContext) -> Any:
    return {"refunded_cents": 0}


@effect("shop/parcel.ship@1")
def ship(params: Any, ctx: EffectContext) -> Any:
    return {"parcel": f"p-{params['order_id']}"}


shop = Executors("shop", [reserve, release, charge, refund, ship])
no_parcels = Executors("shop", [reserve, release, charge, refund])
