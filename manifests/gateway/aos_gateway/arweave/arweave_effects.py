"""The three effects: the price of an upload, the upload, and its state in the chain."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from aos.effects.named_addresses import NamedUrl
from aos.worker import EffectContext, Executors, NotConfigured, effect
from aos.worker.secret_leaks import process_secrets
from aos_gateway.arweave.bundle_transaction import (
    BundleTransaction,
    PostFate,
    Posting,
    sign_transaction,
)
from aos_gateway.arweave.confirmation import Awaited, Patience, await_confirmation
from aos_gateway.arweave.data_item import (
    BUNDLE_OVERHEAD_BYTES_MAX,
    DataItem,
    ItemTag,
    pack_bundle,
    sign_item,
)
from aos_gateway.arweave.gateway_client import (
    VARIABLE,
    GatewayClient,
    RequestTimeouts,
    address_of,
    read_addresses,
)
from aos_gateway.arweave.rsa_pss import UnusableKey
from aos_gateway.arweave.upload_keys import UploadKeys, read_keys
from aos_gateway.arweave.upload_params import (
    bad_request,
    checked_anchor,
    checked_content,
    checked_id,
    checked_size,
    checked_tags,
    checked_winston,
)

Params = dict[str, Any]

CONCURRENCY: Final = 64
WAITS: Final = 256
"""Statuses that may wait at the same time."""

HTTP_TIMEOUT_S: Final = 120.0
"""Of one read or write. The client's own timeouts, of a whole request, are shorter."""

RESERVE_S: Final = 30.0
"""A wait ends so long before the effect's timeout: the last look needs time too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArweaveAccess:
    """The resource of the process: its gateways, and one pool of connections for them all."""

    http: httpx.AsyncClient
    addresses: Mapping[str, NamedUrl]
    timeouts: RequestTimeouts = field(default_factory=RequestTimeouts)
    patience: Patience = field(
        default_factory=lambda: Patience(now=time.monotonic, sleep=asyncio.sleep)
    )

    def gateway(self, name: str) -> GatewayClient:
        """The gateway that an effect names, or ``NotConfigured`` (AW-1)."""
        return GatewayClient(self.http, address_of(self.addresses, name), self.timeouts)


@effect("arweave/quote@1", concurrency=CONCURRENCY, timeout_s=30)
async def quote(params: Params, ctx: EffectContext) -> Params:
    """The anchor, the price of the longest bundle with content of this size, and the wallet's
    balance (AW-8)."""
    gateway = _gateway(params, ctx)
    size = checked_size(params["bytes"]) + BUNDLE_OVERHEAD_BYTES_MAX
    try:
        keys = read_keys(ctx.secret(params["keys"]))
    except UnusableKey as problem:
        raise NotConfigured(
            "secret_unusable",
            f"the secret {_secret_name(params)} has no usable key: {problem}",
            "mend it where `aos run --secrets` finds it, then run `aos effects retry`",
        ) from None
    anchor, reward, balance, height = await asyncio.gather(
        gateway.anchor(), gateway.price(size), gateway.balance(keys.address), gateway.height()
    )
    return {"anchor": anchor, "reward": str(reward), "balance": str(balance), "height": height}


@effect("arweave/upload@1", concurrency=CONCURRENCY, timeout_s=120, blobs=("data",))
async def upload(params: Params, ctx: EffectContext) -> Params:
    """Sign the item and its bundle, and post them (AW-20). The params, the secret and the blob
    determine every byte that is sent (AW-9)."""
    gateway = _gateway(params, ctx)
    tags = checked_tags(params)
    anchor, reward = checked_anchor(params["anchor"]), checked_winston(params["reward"])
    content = checked_content(ctx.blob(params["data"]))
    try:
        keys = read_keys(ctx.secret(params["keys"]))
        signed = await asyncio.to_thread(_sign, content, tags, anchor, reward, keys)
    except UnusableKey as problem:
        message = f"the secret {_secret_name(params)} has no usable key: {problem}"
        return _uploaded(PostFate(fate="NoKey", code=None, message=message), None)
    posting = Posting(
        gateway=gateway, transaction=signed.transaction, reward=reward, address=keys.address
    )
    return _uploaded(await posting.post(), signed)


@effect("arweave/status@1", concurrency=WAITS, timeout_s=60)
async def status(params: Params, ctx: EffectContext) -> Params:
    """The state of a bundle, and the hash of the content that the gateway returns for its item
    (AW-24 to AW-31)."""
    gateway = _gateway(params, ctx)
    awaited = Awaited(
        item=checked_id(params, "item"), bundle=checked_id(params, "bundle"), conf=params["conf"]
    )
    if awaited.conf < 1:
        raise bad_request(f"conf: expected at least 1, found {awaited.conf}")
    left_s = (ctx.deadline_ns - time.time_ns()) / 1e9 - RESERVE_S
    state = await await_confirmation(
        gateway,
        awaited,
        wait_s=min(params["wait_ms"] / 1000, left_s),
        patience=ctx.resource.patience,
    )
    return {"fate": state}


@asynccontextmanager
async def connected() -> AsyncIterator[ArweaveAccess]:
    """Read the gateways from the environment (AW-1). Connects to none: an unreachable gateway
    keeps no worker from starting."""
    addresses = read_addresses(os.environ.get(VARIABLE, ""))
    limits = httpx.Limits(
        max_connections=CONCURRENCY + WAITS, max_keepalive_connections=CONCURRENCY
    )
    secrets = [secret for address in addresses.values() for secret in address.secrets]
    with process_secrets(secrets):
        async with httpx.AsyncClient(
            timeout=HTTP_TIMEOUT_S, limits=limits, trust_env=False, follow_redirects=False
        ) as http:
            yield ArweaveAccess(http=http, addresses=addresses)


@dataclass(frozen=True, slots=True)
class _Signed:
    item: DataItem
    transaction: BundleTransaction


def _sign(
    content: bytes, tags: tuple[ItemTag, ...], anchor: str, reward: int, keys: UploadKeys
) -> _Signed:
    item = sign_item(content, tags, keys.item_seed)
    return _Signed(
        item, sign_transaction(pack_bundle(item), anchor=anchor, reward=reward, keys=keys)
    )


def _uploaded(fate: PostFate, signed: _Signed | None) -> Params:
    return {
        "item": None if signed is None else signed.item.id,
        "bundle": None if signed is None else signed.transaction.id,
        "fate": {"$tag": fate.fate},
        "code": fate.code,
        "message": fate.message,
    }


def _gateway(params: Params, ctx: EffectContext) -> GatewayClient:
    access: ArweaveAccess = ctx.resource
    return access.gateway(params["gateway"])


def _secret_name(params: Params) -> str:
    return f"{params['keys']['alias']}@{params['keys']['version']}"


arweave = Executors("arweave", (quote, upload, status), setup=connected)
