"""Two executors that many engines resemble. The crash matrix must catch both.

``tip_nonce`` chooses the nonce itself when it sends: the next one at the head of the chain.
``tip_fate`` believes the nonce at the head: past ours means confirmed, otherwise nothing was sent.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from aos.worker import EffectContext, Executors, effect
from aos_gateway.evm.evm_effects import EvmNodes, call, connected, quote, receipt, submit
from aos_gateway.evm.hex_values import quantity
from aos_gateway.evm.inputs import receipt_params, submit_params
from aos_gateway.evm.tx_submit import submit as submit_transaction

Plain = dict[str, Any]


def _nodes(ctx: EffectContext) -> EvmNodes:
    assert isinstance(ctx.resource, EvmNodes)
    return ctx.resource


async def _tip(ctx: EffectContext, chain: int, signer: str) -> tuple[int, int]:
    """The head, and the nonce of the signer there."""
    reads = _nodes(ctx).of(chain).reads
    head = await reads.read("eth_blockNumber", [], quantity)
    return head, await reads.read("eth_getTransactionCount", [signer, "latest"], quantity)


@effect("evm/tx.submit@1", timeout_s=60)
async def submit_at_the_tip(params: Plain, ctx: EffectContext) -> Plain:
    """Sign and publish with the next nonce of now, whatever nonce was asked for."""
    given = submit_params(params)
    _, nonce = await _tip(ctx, given.chain, given.signer)
    return await submit_transaction(
        _nodes(ctx).of(given.chain).reads,
        dataclasses.replace(given, nonce=nonce),
        secret=ctx.secret(given.keys),
        name="gw/evm-keys@1",
    )


@effect("evm/tx.receipt@1", timeout_s=60)
async def fate_at_the_tip(params: Plain, ctx: EffectContext) -> Plain:
    """Confirmed if the nonce at the head has passed ours, otherwise not found."""
    given = receipt_params(params)
    end = asyncio.get_running_loop().time() + given.wait_s
    while True:
        head, nonce = await _tip(ctx, given.chain, given.signer)
        answer: Plain = {"head": head, "nonce_at_depth": nonce, "fate": {"$tag": "NotFound"}}
        if nonce > given.nonce and given.hashes:
            landed = {"hash": given.hashes[-1], "block": head, "gas_used": 21_000}
            return {**answer, "fate": {"$tag": "Confirmed", "$value": landed}}
        if asyncio.get_running_loop().time() >= end:
            return answer
        await asyncio.sleep(0.02)


tip_nonce = Executors("evm", (call, quote, submit_at_the_tip, receipt), setup=connected)
tip_fate = Executors("evm", (call, quote, submit, fate_at_the_tip), setup=connected)
