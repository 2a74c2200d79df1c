"""``evm/tx.receipt@1``: the fate of a nonce, by evidence at depth alone (EV-60).

One look reads the head, and then the nonce at depth with the receipts and transactions of our
hashes. Only a transaction in a block of the chain that ends in the block at depth is a final fate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.executors.evm.blocks import Block, Blocks
from aos.executors.evm.chain_reads import together
from aos.executors.evm.consumed_nonce import find_consumer
from aos.executors.evm.inputs import ReceiptParams
from aos.executors.evm.revert_data import EMPTY, Cause
from aos.executors.evm.transactions import (
    Transaction,
    TransactionReceipt,
    Whose,
    parse_receipt,
    parse_transaction,
)
from aos.executors.evm.tx_quote import transaction_call
from aos.executors.evm.view_call import call_at
from aos.worker import EffectFailed

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
        *(_receipt(blocks, each) for each in params.hashes),
        *(_transaction(blocks, each) for each in params.hashes),
    )
    receipts, transactions = answers[: len(params.hashes)], answers[len(params.hashes) :]
    seen = _Seen(
        receipts=tuple(each for each in receipts if each is not None),
        transactions={each.hash: each for each in transactions if each is not None},
    )
    fate = (
        await _consumed(blocks, params, head, deep, seen)
        if nonce > params.nonce
        else await _not_consumed(blocks, params, head, seen, nonce if deep == head else None)
    )
    return Look(head=head, nonce_at_depth=nonce, fate=fate)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
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
    found = await blocks.reads.read(method, [hash], parse_transaction)
    if found is not None and found.hash != hash:
        raise blocks.reads.nonsense(method, f"expected {hash}, found {found.hash}")
    return found


# --- the nonce is consumed at depth


async def _consumed(
    blocks: Blocks,
    params: ReceiptParams,
    head: Block,
    deep: Block,
    seen: _Seen,
) -> tuple[str, dict[str, Any] | None]:
    for receipt in seen.receipts:
        block = await _block_of(blocks, receipt, deep)
        if block is not None:
            found = await _landed(blocks, params, receipt, seen)
            return await _final(blocks, params, block, found, receipt)
    block, consumer = await find_consumer(blocks, params, deep)
    # EV-66; the transaction may also be one of EIP-7702 that this code does not look for (EV-69).
    pending = ("Pending", {"depth": head.number - block.number + 1})
    if consumer is None:
        return pending
    if consumer.whose(params) is not Whose.OURS:
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
    blocks: Blocks, params: ReceiptParams, receipt: TransactionReceipt, seen: _Seen
) -> Transaction:
    """The transaction of a receipt; its signer and nonce must be ours. It is read again if the node
    that was asked for it did not have it yet."""
    method = "eth_getTransactionByHash"
    found = seen.transactions.get(receipt.hash) or await _transaction(blocks, receipt.hash)
    if found is None:
        raise blocks.reads.nonsense(method, f"null for {receipt.hash}, which has a receipt")
    if (found.signer, found.nonce) != (params.signer, params.nonce):
        raise blocks.reads.nonsense(
            method, f"{found.hash} of signer {found.signer} with nonce {found.nonce}"
        )
    return found


async def _final(
    blocks: Blocks,
    params: ReceiptParams,
    block: Block,
    found: Transaction,
    receipt: TransactionReceipt | None,
) -> tuple[str, dict[str, Any]]:
    whose = found.whose(params)
    landed: dict[str, Any] = {"hash": found.hash, "block": block.number}
    if whose is Whose.CANCEL:
        return "Canceled", landed
    if whose is Whose.FOREIGN:
        return "Foreign", landed
    assert receipt is not None
    landed["gas_used"] = receipt.gas_used
    if receipt.is_success:
        return "Confirmed", landed
    return "Reverted", {**landed, "cause": (await _cause(blocks, found, block)).plain()}


async def _cause(blocks: Blocks, found: Transaction, block: Block) -> Cause:
    """Why it reverted: the same call after the block before its own, or else after its own block,
    where an earlier transaction of that block is the reason. Empty if neither reverts, or if the
    node cannot make them (EV-67)."""
    if found.to is None or block.number == 0:
        return EMPTY
    call = transaction_call(found.signer, found.to, found.data, found.value)
    try:
        for place in (await blocks.by_hash(block.parent), block):
            answer = await call_at(blocks, {**call, "gas": hex(found.gas)}, place)
            if isinstance(answer, Cause):
                return answer
    except EffectFailed:
        pass
    return EMPTY


# --- the nonce is not consumed at depth: nothing is final


async def _not_consumed(
    blocks: Blocks, params: ReceiptParams, head: Block, seen: _Seen, nonce: int | None
) -> tuple[str, dict[str, Any] | None]:
    """The fate while the nonce is not consumed at depth (EV-65). ``nonce`` is the signer's at the
    head, if that was read already."""
    for receipt in seen.receipts:
        block = await _block_of(blocks, receipt, head)
        if block is not None:
            return "Pending", {"depth": head.number - block.number + 1}
    if nonce is None:
        nonce = await blocks.nonce(params.signer, head)
    if nonce < params.nonce:
        return "Gap", {"nonce": nonce}
    if nonce > params.nonce:
        return "Pending", {"depth": 1}
    return ("Pending", {"depth": 0}) if seen.transactions else ("NotFound", None)
