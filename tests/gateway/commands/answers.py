"""Executors that answer as a chain and an Arweave would on which nothing is done yet.

They have no function for `evm/tx.receipt@1`, so the first transaction of a lane stays in flight.
"""

from __future__ import annotations

from typing import Any

from aos.worker import EffectContext, Executors, effect

CONTENT: dict[str, str] = {}
"""The hash of the content of each item that was uploaded."""


@effect("arweave/quote@1")
def price(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    return {"anchor": "a", "reward": "1", "balance": "1000", "height": 1}


@effect("arweave/upload@1")
def upload(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    item = params["data"].removeprefix("blake3:")[:43]
    CONTENT[item] = params["data"]
    posted = {"$tag": "Posted"}
    return {"item": item, "bundle": "bundle", "fate": posted, "code": 200, "message": ""}


@effect("arweave/status@1")
def status(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    confirmed = {"depth": params["conf"], "content": CONTENT[params["item"]]}
    return {"fate": {"$tag": "Confirmed", "$value": confirmed}}


@effect("evm/call@1")
def call(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    nothing = {"$tag": "Returned", "$value": bytes(32)}
    return {"block": 9, "block_hash": "0x" + "00" * 32, "result": nothing}


@effect("evm/tx.quote@1")
def quote(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    ready = {"nonce": 4, "gas": 90_000, "base_fee": 10**9, "tip": 10**9}
    return {"block": 9, "quote": {"$tag": "Ready", "$value": ready}}


@effect("evm/tx.submit@1")
def submit(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    hash_ = "0x" + "ab" * 32
    return {"hash": hash_, "fate": {"$tag": "Accepted"}, "code": None, "message": "sent"}


arweave = Executors("arweave", [price, upload, status])
evm = Executors("evm", [call, quote, submit])
