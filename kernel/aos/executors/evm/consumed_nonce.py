"""Find the block that consumed a nonce, and the transaction in it (EV-64)."""

from __future__ import annotations

from aos.executors.evm.blocks import Block, Blocks
from aos.executors.evm.hex_values import quantity
from aos.executors.evm.inputs import ReceiptParams
from aos.executors.evm.json_rpc import RpcError
from aos.executors.evm.transactions import Transaction, find_in_block


async def find_consumer(
    blocks: Blocks, params: ReceiptParams, deep: Block
) -> tuple[Block, Transaction | None]:
    """The block that consumed the nonce, in the chain of ``deep``, and the transaction that did.

    No transaction means that the node's answers do not agree with each other (a node that is
    behind); it is never evidence of anything.

    Raises:
        EffectFailed: ``unavailable``: also if the node no longer has the state of old blocks.
    """
    number = await _consuming_number(blocks, params, deep)
    block = await blocks.ancestor(deep, number)
    method = "eth_getBlockByHash"
    consumer = await blocks.reads.read(
        method,
        [block.hash, True],
        lambda answer: find_in_block(answer, block.hash, params.signer, params.nonce),
    )
    return block, consumer


async def _consuming_number(blocks: Blocks, params: ReceiptParams, deep: Block) -> int:
    """The first block after which the signer's nonce is higher than ours: doubling steps down from
    ``deep``, because nodes keep the state of young blocks alone, then halving."""
    consumed, step = deep.number, 1
    free = -1
    while consumed > 0:
        number = max(consumed - step, 0)
        # The lane has seen the nonce free at ``since``; a step does not pass it without a look.
        if number < params.since < consumed:
            number = params.since
        if await _nonce_at(blocks, params.signer, number) <= params.nonce:
            free = number
            break
        consumed, step = number, step * 2
    while consumed - free > 1:
        middle = (consumed + free) // 2
        if await _nonce_at(blocks, params.signer, middle) <= params.nonce:
            free = middle
        else:
            consumed = middle
    return consumed


async def _nonce_at(blocks: Blocks, signer: str, number: int) -> int:
    method = "eth_getTransactionCount"
    answer = await blocks.reads.ask(method, [signer, hex(number)])
    if isinstance(answer, RpcError):
        raise blocks.reads.refused(method, answer)
    return blocks.reads.parsed(method, answer, quantity)
