"""``evm/tx.receipt@1``: the fate of a nonce, by evidence at depth alone (EV-60).

One look reads the head, and then the nonce at depth with the receipts and transactions of our
hashes. Only a transaction in a block of the chain that ends in the block at depth is a final fate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.worker import EffectFailed
from aos_gateway.evm.blocks import Block, Blocks
from aos_gateway.evm.chain_reads import together
from aos_gateway.evm.hex_values import quantity
from aos_gateway.evm.inputs import ReceiptParams
from aos_gateway.evm.json_rpc import RpcError
from aos_gateway.evm.revert_data import EMPTY, Cause
from aos_gateway.evm.transactions import (
    Author,
    Transaction,
    TransactionReceipt,
    find_in_block,
    parse_receipt,
    parse_transaction,
)
from aos_gateway.evm.tx_quote import transaction_call
from aos_gateway.evm.view_call import call_at

FINAL: Final = frozenset({"Confirmed", "Reverted", "Canceled", "Foreign"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The result of one look. ``fate`` is an arm of ``evm/TxFate@1`` and its value."""

    head: Block
    nonce_at_depth: int
    fate: tuple[str, dict[str, Any] | None]

    @property
    def is_final(self) -> bool:
        return self.fate[0] in FINAL

    def plain(self) -> dict[str, Any]:
        tag, value = self.fate
        fate = {"$tag": tag} if value is None else {"$tag": tag, "$value": value}
        return {"head": self.head.number, "nonce_at_depth": self.nonce_at_depth, "fate": fate}


async def look(blocks: Blocks, params: ReceiptParams, head: Block) -> Look:
    """Look once at the chain that ends in ``head`` (EV-61).

    Raises:
        EffectFailed: ``unavailable`` or ``block_unknown``: this look saw nothing.
    """
    deep = await blocks.at_depth(head, params.conf)
    nonce, *answers = await together(
        blocks.nonce(params.signer, deep),
        *(_receipt(blocks, tx_hash) for tx_hash in params.hashes),
        *(_transaction(blocks, tx_hash) for tx_hash in params.hashes),
    )
    receipts, transactions = answers[: len(params.hashes)], answers[len(params.hashes) :]
    evidence = _Evidence(
        receipts=tuple(receipt for receipt in receipts if receipt is not None),
        transactions={
            transaction.hash: transaction for transaction in transactions if transaction is not None
        },
    )
    fate = (
        await _consumed(blocks, params, head, deep, evidence)
        if nonce > params.nonce
        else await _not_consumed(blocks, params, head, evidence, nonce if deep == head else None)
    )
    return Look(head=head, nonce_at_depth=nonce, fate=fate)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """The receipts and transactions of our hashes that the node has. The transactions are by hash,
    in a block or in the pool."""

    receipts: tuple[TransactionReceipt, ...]
    transactions: Mapping[str, Transaction]


async def _receipt(blocks: Blocks, hash: str) -> TransactionReceipt | None:
    method = "eth_getTransactionReceipt"
    receipt = await blocks.reads.read(method, [hash], parse_receipt)
    if receipt is not None and receipt.hash != hash:
        raise blocks.reads.nonsense(method, f"expected a receipt of {hash}, found {receipt.hash}")
    return receipt


async def _transaction(blocks: Blocks, hash: str) -> Transaction | None:
    method = "eth_getTransactionByHash"
    transaction = await blocks.reads.read(method, [hash], parse_transaction)
    if transaction is not None and transaction.hash != hash:
        raise blocks.reads.nonsense(method, f"expected {hash}, found {transaction.hash}")
    return transaction


# --- the nonce is consumed at depth


async def _consumed(
    blocks: Blocks,
    params: ReceiptParams,
    head: Block,
    deep: Block,
    evidence: _Evidence,
) -> tuple[str, dict[str, Any] | None]:
    for receipt in evidence.receipts:
        block = await _block_of(blocks, receipt, deep)
        if block is not None:
            transaction = await _landed(blocks, params, receipt, evidence)
            return await _final(blocks, params, block, transaction, receipt)
    block, consumer = await find_consumer(blocks, params, deep)
    # EV-66; the transaction may also be one of EIP-7702 that this code does not look for (EV-69).
    pending = ("Pending", {"depth": head.number - block.number + 1})
    if consumer is None:
        return pending
    if consumer.author(params) is not Author.OURS:
        return await _final(blocks, params, block, consumer, None)
    late = await _receipt(blocks, consumer.hash)
    if late is None or late.block_hash != block.hash:
        return pending  # nodes show a block before its receipts
    return await _final(blocks, params, block, consumer, late)


async def _block_of(blocks: Blocks, receipt: TransactionReceipt, tip: Block) -> Block | None:
    """The receipt's block, if it is in the chain that ends in ``tip`` (EV-62)."""
    if receipt.block > tip.number:
        return None
    block = await blocks.ancestor(tip, receipt.block)
    return block if block.hash == receipt.block_hash else None


async def _landed(
    blocks: Blocks, params: ReceiptParams, receipt: TransactionReceipt, evidence: _Evidence
) -> Transaction:
    """The transaction of a receipt; its signer and nonce must be ours. It is read again if the node
    that was asked for it did not have it yet."""
    method = "eth_getTransactionByHash"
    transaction = evidence.transactions.get(receipt.hash) or await _transaction(
        blocks, receipt.hash
    )
    if transaction is None:
        raise blocks.reads.nonsense(method, f"null for {receipt.hash}, which has a receipt")
    if (transaction.signer, transaction.nonce) != (params.signer, params.nonce):
        raise blocks.reads.nonsense(
            method,
            f"{transaction.hash} of signer {transaction.signer} with nonce {transaction.nonce}",
        )
    return transaction


async def _final(
    blocks: Blocks,
    params: ReceiptParams,
    block: Block,
    transaction: Transaction,
    receipt: TransactionReceipt | None,
) -> tuple[str, dict[str, Any]]:
    author = transaction.author(params)
    landed: dict[str, Any] = {"hash": transaction.hash, "block": block.number}
    if author is Author.CANCEL:
        return "Canceled", landed
    if author is Author.FOREIGN:
        return "Foreign", landed
    assert receipt is not None
    landed["gas_used"] = receipt.gas_used
    if receipt.is_success:
        return "Confirmed", landed
    return "Reverted", {**landed, "cause": (await _cause(blocks, transaction, block)).plain()}


async def _cause(blocks: Blocks, transaction: Transaction, block: Block) -> Cause:
    """Why it reverted: the same call after the block before its own, or else after its own block,
    where an earlier transaction of that block is the reason. Empty if neither reverts, or if the
    node cannot make them (EV-67)."""
    if transaction.to is None or block.number == 0:
        return EMPTY
    call = transaction_call(transaction.signer, transaction.to, transaction.data, transaction.value)
    try:
        for call_block in (await blocks.by_hash(block.parent), block):
            answer = await call_at(blocks, {**call, "gas": hex(transaction.gas)}, call_block)
            if isinstance(answer, Cause):
                return answer
    except EffectFailed:
        pass
    return EMPTY


async def find_consumer(
    blocks: Blocks, params: ReceiptParams, deep: Block
) -> tuple[Block, Transaction | None]:
    """The block that consumed the nonce, in the chain of ``deep``, and the transaction that did
    (EV-64).

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


# --- the nonce is not consumed at depth: nothing is final


async def _not_consumed(
    blocks: Blocks, params: ReceiptParams, head: Block, evidence: _Evidence, nonce: int | None
) -> tuple[str, dict[str, Any] | None]:
    """The fate while the nonce is not consumed at depth (EV-65). ``nonce`` is the signer's at the
    head, if that was read already."""
    for receipt in evidence.receipts:
        block = await _block_of(blocks, receipt, head)
        if block is not None:
            return "Pending", {"depth": head.number - block.number + 1}
    if nonce is None:
        nonce = await blocks.nonce(params.signer, head)
    if nonce < params.nonce:
        return "Gap", {"nonce": nonce}
    if nonce > params.nonce:
        return "Pending", {"depth": 1}
    return ("Pending", {"depth": 0}) if evidence.transactions else ("NotFound", None)
