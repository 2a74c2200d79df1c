"""The executors of modules/conformance/flow: they ask ``books_service.py``, at ``BOOKS_URL``."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from aos.worker import EffectContext, EffectFailed, Executors, effect


@effect("f/do@1", concurrency=8)
async def do(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    return await ask(params, ctx)


@effect("f/undo@1", concurrency=8)
async def undo(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    return await ask(params, ctx)


async def ask(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    answer = await ctx.resource.post(
        "/",
        json={"effect": ctx.effect, "what": params["what"]},
        headers={"Idempotency-Key": ctx.idempotency_key},
    )
    found: dict[str, Any] = answer.json()
    if "code" in found:
        raise EffectFailed(found["code"], "as the service says", retryable=found["retryable"])
    return found


@asynccontextmanager
async def connected() -> AsyncIterator[httpx.AsyncClient]:
    url = os.environ["BOOKS_URL"]
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
        yield client


programs = Executors("f", [do, undo], setup=connected)
