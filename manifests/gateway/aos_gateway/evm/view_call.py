"""``evm/call@1``: call a view at a block that the receipt names (EV-25, EV-26)."""

from __future__ import annotations

from typing import Any, Final

from aos_gateway.evm.blocks import Block, Blocks
from aos_gateway.evm.evm_errors import block_unknown
from aos_gateway.evm.hex_values import data
from aos_gateway.evm.inputs import CallParams
from aos_gateway.evm.json_rpc import RpcError
from aos_gateway.evm.revert_data import Cause

RETURNED_BYTES_MAX: Final = 64 * 1024
"""Larger answers would not fit into a receipt."""


async def call_view(blocks: Blocks, params: CallParams) -> dict[str, Any]:
    """``evm/CallReceipt@1``."""
    call = {"to": params.to, "data": "0x" + params.data.hex()}

    async def call_at_depth(head: Block, depth: int = 1) -> tuple[Block, bytes | Cause]:
        block = await blocks.at_depth(head, depth)
        return block, await call_at(blocks, call, block)

    match params.block:
        case ("Depth", depth):
            block, returned = await blocks.read_at(
                blocks.recent_head(), blocks.head, lambda head: call_at_depth(head, depth)
            )
        case ("Number", number):
            block, returned = await blocks.read_at(
                blocks.newest_known(number), lambda: _numbered(blocks, number), call_at_depth
            )
        case _:
            block, returned = await call_at_depth(await blocks.finalized())
    result = (
        {"$tag": "Reverted", "$value": returned.plain()}
        if isinstance(returned, Cause)
        else {"$tag": "Returned", "$value": returned}
    )
    return {"block": block.number, "block_hash": block.hash, "result": result}


async def _numbered(blocks: Blocks, number: int) -> Block:
    block = await blocks.by_number(number)
    if block is None:
        raise block_unknown(
            f"the node at {blocks.reads.host_port} does not have block {number}: it may not "
            "exist yet, or the node is behind"
        )
    return block


async def call_at(blocks: Blocks, call: dict[str, Any], block: Block) -> bytes | Cause:
    """The bytes that a call returns at a block, or why it reverts there.

    Raises:
        EffectFailed: ``unavailable``.
    """
    return _returned(blocks, await blocks.state("eth_call", [call], block))


def _returned(blocks: Blocks, answer: Any | RpcError) -> bytes | Cause:
    if not isinstance(answer, RpcError):
        returned = blocks.reads.parsed("eth_call", answer, data)
        if len(returned) > RETURNED_BYTES_MAX:
            raise blocks.reads.nonsense(
                "eth_call", f"expected at most {RETURNED_BYTES_MAX} bytes, found {len(returned)}"
            )
        return returned
    cause = blocks.reads.cause_of(answer)
    if cause is None:
        raise blocks.reads.refused("eth_call", answer)
    return cause
