"""Wait until a bundle is deep enough in the chain, then prove the content of its item."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aos.values.digests import content_hash, digest, hash_text
from aos.worker import EffectFailed
from aos_gateway.arweave.data_item import BundleProblem, find_item, read_item
from aos_gateway.arweave.gateway_client import UNAVAILABLE, GatewayClient, NotInChain

FIRST_PAUSE_S: Final = 0.25
PAUSE_FACTOR: Final = 1.5
PAUSE_S_MAX: Final = 3.0

FINAL: Final = ("Confirmed", "Rejected")
OTHER: Final = "aos/arweave-other/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """The params of a status, checked."""

    item: str
    bundle: str
    conf: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How to wait: a clock in seconds, and a sleep."""

    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


async def await_confirmation(
    gateway: GatewayClient, awaited: Awaited, *, wait_s: float, patience: Patience
) -> dict[str, Any]:
    """The state of a bundle once it is final, or as the last look found it after ``wait_s``
    (AW-25). Looks at least once.

    Raises:
        EffectFailed: The last look got no usable answer.
    """
    until = patience.now() + wait_s
    pause_s = FIRST_PAUSE_S
    while True:
        state = await _try_look(gateway, awaited)
        rest_s = until - patience.now()
        if rest_s <= 0 or (isinstance(state, dict) and state["$tag"] in FINAL):
            break
        await patience.sleep(min(pause_s, rest_s))
        pause_s = min(pause_s * PAUSE_FACTOR, PAUSE_S_MAX)
    if isinstance(state, EffectFailed):
        raise state
    return state


async def _try_look(gateway: GatewayClient, awaited: Awaited) -> dict[str, Any] | EffectFailed:
    try:
        return await _look(gateway, awaited)
    except EffectFailed as error:
        return error


async def _look(gateway: GatewayClient, awaited: Awaited) -> dict[str, Any]:
    """One look (AW-24), and for a bundle that is deep enough the check of its content (AW-31)."""
    chain_status = await gateway.chain_status(awaited.bundle)
    match chain_status:
        case NotInChain.ABSENT:
            return _tagged("NotFound")
        case NotInChain.DROPPED:
            return _tagged("Rejected")
        case NotInChain.PENDING:
            return _tagged("Pending", depth=0)
        case _ if chain_status.depth < awaited.conf:
            return _tagged("Pending", depth=chain_status.depth)
    bundle = await gateway.content(awaited.bundle)
    if bundle is None:
        return _tagged("Pending", depth=chain_status.depth)
    try:
        content = await asyncio.to_thread(content_of, bundle, awaited.item)
    except BundleProblem as problem:
        raise EffectFailed(
            UNAVAILABLE,
            f"the gateway {gateway.host} returned no bundle as {awaited.bundle}: {problem}",
            retryable=True,
        ) from None
    return _tagged("Confirmed", depth=chain_status.depth, content=content)


def _tagged(tag: str, **fields: Any) -> dict[str, Any]:
    return {"$tag": tag, "$value": fields} if fields else {"$tag": tag}


def content_of(bundle: bytes, item: str) -> str:
    """``content`` of a status receipt (AW-31): the content hash of the item's bytes, as
    ``sys/blob.put@1`` returns it, if ``bundle`` has the item and its owner has signed it.

    Otherwise a digest of what came that is no content hash, so that no content equals it.

    Raises:
        BundleProblem: The bytes are no bundle, which proves nothing.
    """
    raw = find_item(bundle, item)
    if raw is None:
        return hash_text(digest(OTHER, bundle))
    data_item = read_item(raw)
    if data_item is None or data_item.id != item or not data_item.is_authentic():
        return hash_text(digest(OTHER, raw))
    return hash_text(content_hash(data_item.content))
