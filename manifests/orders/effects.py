"""The executors of the order workflow: five Python functions that talk HTTP to the shop.

    aos run --executors manifests/orders/effects.py:shop      with SHOP_URL in the environment

The kernel's idempotency key goes out as the Idempotency-Key header, the same for every attempt, so
that the shop does each thing once however often it is asked.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx

from aos.errors import BadUsage
from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]

CONCURRENCY = 8
"""Calls of one effect at a time. With more they only wait longer: the client takes the time."""


@effect("shop/stock.reserve@1", concurrency=CONCURRENCY)
async def reserve(params: Plain, ctx: EffectContext) -> Plain:
    return await _ask("/stock/reserve", params, ctx)


@effect("shop/stock.release@1", concurrency=CONCURRENCY)
async def release(params: Plain, ctx: EffectContext) -> Plain:
    return await _ask("/stock/release", params, ctx)


@effect("shop/card.charge@1", concurrency=CONCURRENCY)
async def charge(params: Plain, ctx: EffectContext) -> Plain:
    return await _ask("/card/charge", params, ctx)


@effect("shop/card.refund@1", concurrency=CONCURRENCY)
async def refund(params: Plain, ctx: EffectContext) -> Plain:
    return await _ask("/card/refund", params, ctx)


@effect("shop/parcel.ship@1", concurrency=CONCURRENCY)
async def ship(params: Plain, ctx: EffectContext) -> Plain:
    return await _ask("/parcel/ship", params, ctx)


async def _ask(path: str, params: Plain, ctx: EffectContext) -> Plain:
    """Ask the shop. 4xx is for good; after 5xx or no answer it may have been done all the same.

    Raises:
        EffectFailed: With the shop's own code, which is what the workflow decides by.
        httpx.TransportError: No answer came; the workflow hears of it as retryable.
    """
    client: httpx.AsyncClient = ctx.resource[ctx.effect]
    headers = {"Idempotency-Key": ctx.idempotency_key}
    answer = await client.post(path, json=params, headers=headers)
    body: Plain = answer.json()
    if answer.is_success:
        return body
    raise EffectFailed(body["code"], body["message"], retryable=answer.is_server_error)


EFFECTS = (reserve, release, charge, refund, ship)


@asynccontextmanager
async def connected() -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """A client for each effect: what a client spends on a call grows with its connections."""
    url = os.environ.get("SHOP_URL")
    if not url:
        raise BadUsage("SHOP_URL is not set: expected the line that service.py printed")
    async with AsyncExitStack() as stack:
        yield {
            # The effect's own timeout is the shorter one.
            each.name: await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)
            )
            for each in EFFECTS
        }


shop = Executors("shop", EFFECTS, setup=connected)
