"""Wait for a final fate: look again and again, with growing pauses (EV-61)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aos.worker import EffectFailed
from aos_gateway.evm.blocks import Block, Blocks
from aos_gateway.evm.chain_reads import Sleep
from aos_gateway.evm.inputs import ReceiptParams
from aos_gateway.evm.tx_receipt import Look, look

PAUSE_FIRST_S: Final = 0.05
PAUSE_LAST_S: Final = 0.5
PAUSE_GROWTH: Final = 1.5
FAILURES_MAX: Final = 3
"""Looks in a row that may fail before the wait ends with the error of the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """The clock, in seconds, and the pauses of waits. Only tests replace them."""

    now: Callable[[], float]
    sleep: Sleep = asyncio.sleep


async def await_fate(blocks: Blocks, params: ReceiptParams, pacing: Pacing) -> dict[str, Any]:
    """``evm/TxReceiptReceipt@1``: a final fate as soon as there is one, else the last look's.

    Raises:
        EffectFailed: The last three looks in a row, or the last one before the end, failed (EV-68).
    """
    end = pacing.now() + params.wait_s
    pause_s, failures = PAUSE_FIRST_S, 0
    last: Look | None = None
    while True:
        left_s = end - pacing.now()
        is_last_look = left_s <= 0
        try:
            last = await _next_look(blocks, params, None if is_last_look else last)
            failures = 0
        except EffectFailed as error:
            failures += 1
            if is_last_look or failures == FAILURES_MAX or not error.retryable:
                raise
        if last is not None and (last.is_final or is_last_look):
            return last.plain()
        await pacing.sleep(max(min(pause_s, left_s), 0))
        pause_s = min(pause_s * PAUSE_GROWTH, PAUSE_LAST_S)


async def _next_look(blocks: Blocks, params: ReceiptParams, last: Look | None) -> Look:
    """Look, except where the head is the one of the last look and that has not consumed the nonce
    at depth: then this look would see no final fate either."""
    head = await blocks.shared_head()
    if last is not None and _is_same(last, head) and last.nonce_at_depth <= params.nonce:
        return last
    return await look(blocks, params, head)


def _is_same(last: Look, head: Block) -> bool:
    return last.head.hash == head.hash
