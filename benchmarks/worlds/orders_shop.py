"""The shop of the order process without its HTTP service: the same operations, books in memory.

Run by ``PythonExecutor`` in a process of its own, as ``manifests/orders/effects.py`` is. Nothing is
refused, fails or stalls.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

# The shop's own files, which are no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "manifests" / "orders"))

from books import Books, Entry
from operations import OPERATIONS

from aos.worker import EffectContext, Executors, effect

Plain = dict[str, Any]

CONCURRENCY = 256
"""As many as are ever in flight: the executor's slots are not what is measured."""

_books = Books()


def _do(path: str, params: Plain, ctx: EffectContext) -> Plain:
    known = _books.by_key.get(ctx.idempotency_key)
    if known is None:
        deed = OPERATIONS[path].do(_books, params, lambda _operation, _order: False)
        known = Entry(
            kind=deed.kind,
            order_id=params["order_id"],
            key=ctx.idempotency_key,
            request="",
            cents=deed.cents,
            answer=deed.answer,
        )
        _books.add(known)
    return known.answer


@effect("shop/stock.reserve@1", concurrency=CONCURRENCY)
async def reserve(params: Plain, ctx: EffectContext) -> Plain:
    return _do("/stock/reserve", params, ctx)


@effect("shop/stock.release@1", concurrency=CONCURRENCY)
async def release(params: Plain, ctx: EffectContext) -> Plain:
    return _do("/stock/release", params, ctx)


@effect("shop/card.charge@1", concurrency=CONCURRENCY)
async def charge(params: Plain, ctx: EffectContext) -> Plain:
    return _do("/card/charge", params, ctx)


@effect("shop/card.refund@1", concurrency=CONCURRENCY)
async def refund(params: Plain, ctx: EffectContext) -> Plain:
    return _do("/card/refund", params, ctx)


@effect("shop/parcel.ship@1", concurrency=CONCURRENCY)
async def ship(params: Plain, ctx: EffectContext) -> Plain:
    return _do("/parcel/ship", params, ctx)


shop = Executors("shop", (reserve, release, charge, refund, ship))
