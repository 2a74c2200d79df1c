"""Transactions and receipts as a node answers them, and whose they are (EV-63)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from aos_gateway.evm.hex_values import (
    U256_MAX,
    BadHex,
    address,
    data,
    found_text,
    hash32,
    quantity,
)
from aos_gateway.evm.inputs import ReceiptParams


class Author(Enum):
    """The author of the transaction that consumed the nonce, as the lane sees it."""

    OURS = "ours"
    CANCEL = "cancel"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """``to`` is None for the creation of a contract; ``block_hash`` is None in the pool."""

    hash: str
    signer: str
    nonce: int
    to: str | None
    data: bytes
    value: int
    gas: int
    block_hash: str | None

    def author(self, params: ReceiptParams) -> Author:
        """By content first: a hash of ours may be the one that cancels."""
        if (self.to, self.data, self.value) == (params.to, params.data, params.value):
            return Author.OURS
        if (self.to, self.data, self.value) == (params.signer, b"", 0):
            return Author.CANCEL
        return Author.OURS if self.hash in params.hashes else Author.FOREIGN


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionReceipt:
    hash: str
    block: int
    block_hash: str
    is_success: bool
    gas_used: int


def parse_transaction(answer: Any) -> Transaction | None:
    """A transaction, or None for null.

    Raises:
        BadHex: A part of it is missing or malformed.
    """
    if answer is None:
        return None
    if not isinstance(answer, dict):
        raise BadHex(f"expected a transaction, found {found_text(answer)}")
    to, block_hash = answer.get("to"), answer.get("blockHash")
    return Transaction(
        hash=hash32(answer.get("hash")),
        signer=address(answer.get("from")),
        nonce=quantity(answer.get("nonce")),
        to=None if to is None else address(to),
        data=data(answer.get("input", answer.get("data"))),
        value=quantity(answer.get("value"), limit=U256_MAX),
        gas=quantity(answer.get("gas")),
        block_hash=None if block_hash is None else hash32(block_hash),
    )


def parse_receipt(answer: Any) -> TransactionReceipt | None:
    """The receipt of a transaction, or None for null.

    Raises:
        BadHex: A part of it is missing or malformed.
    """
    if answer is None:
        return None
    if not isinstance(answer, dict):
        raise BadHex(f"expected a receipt, found {found_text(answer)}")
    return TransactionReceipt(
        hash=hash32(answer.get("transactionHash")),
        block=quantity(answer.get("blockNumber")),
        block_hash=hash32(answer.get("blockHash")),
        is_success=quantity(answer.get("status"), limit=1) == 1,
        gas_used=quantity(answer.get("gasUsed")),
    )


def find_in_block(answer: Any, block_hash: str, signer: str, nonce: int) -> Transaction | None:
    """The transaction of this signer and nonce in a block with its transactions; None without one.

    Only that transaction is parsed whole: a block may contain kinds that this code does not know.

    Raises:
        BadHex: It is another block, or not a block with transactions.
    """
    if not isinstance(answer, dict) or not isinstance(answer.get("transactions"), list):
        raise BadHex(f"expected a block with its transactions, found {found_text(answer)}")
    if hash32(answer.get("hash")) != block_hash:
        raise BadHex(f"expected block {block_hash}, found block {answer['hash']}")
    for transaction in answer["transactions"]:
        if not isinstance(transaction, dict):
            raise BadHex(f"expected a transaction, found {found_text(transaction)}")
        if (
            address(transaction.get("from")) == signer
            and quantity(transaction.get("nonce")) == nonce
        ):
            return parse_transaction(transaction)
    return None
