"""Blocks, transactions and receipts as JSON, and the words and codes of three kinds of nodes."""

from __future__ import annotations

from typing import Any, Final

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError

from tests.gateway.evm.fake_chain import BLOCK_GAS, Block, PoolRefusal, Receipt, Transaction
from tests.gateway.evm.studio import selector

ZERO_HASH: Final = "0x" + 64 * "0"

METHOD_NOT_FOUND: Final = (-32601, "the method does not exist/is not available")

# Style -> kind of refusal -> code and words, as these nodes answer.
REFUSALS: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "anvil": {
        "malformed": (-32602, "Failed to decode transaction"),
        "chain": (-32603, "invalid chain id for signer"),
        "known": (-32003, "transaction already imported"),
        "nonce": (-32003, "nonce too low"),
        "gas": (-32003, "intrinsic gas too low"),
        "funds": (-32003, "Insufficient funds for gas * price + value"),
        "underpriced": (-32003, "replacement transaction underpriced"),
    },
    "geth": {
        "malformed": (-32000, "rlp: value size exceeds available input length"),
        "chain": (-32000, "invalid chain id for signer: have 1 want 31337"),
        "known": (-32000, "already known"),
        "nonce": (-32000, "nonce too low: next nonce 1, tx nonce 0"),
        "gas": (-32000, "intrinsic gas too low: gas 20000, minimum needed 21000"),
        "funds": (-32000, "insufficient funds for gas * price + value: balance 0, tx cost 1"),
        "underpriced": (-32000, "replacement transaction underpriced"),
    },
    "hardhat": {
        "malformed": (-32602, "Invalid transaction"),
        "chain": (-32000, "Trying to send a raw transaction with an invalid chainId."),
        "known": (-32000, "Known transaction: 0x00"),
        "nonce": (-32000, "Nonce too low. Expected nonce to be 1 but got 0."),
        "gas": (-32000, "Transaction requires at least 21000 gas but got 20000"),
        "funds": (-32000, "Sender doesn't have enough funds to send tx."),
        "underpriced": (-32000, "Replacement transaction underpriced. A gasPrice of at least 2"),
    },
}
STYLES: Final = tuple(REFUSALS)

UNKNOWN_BLOCK: Final = {
    "anvil": (-32001, "Resource not found"),
    "geth": (-32000, "header for hash not found"),
    "hardhat": (-32000, "Received invalid block hash. This block does not exist"),
}
UNKNOWN_NUMBER: Final = {
    "anvil": (-32602, "BlockOutOfRangeError: block height is 1 but requested was 9"),
    "geth": (-32000, "header not found"),
    "hardhat": (-32000, "Received invalid block tag 9. Latest block number is 1"),
}


class RpcFailure(Exception):
    """An error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.document: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            self.document["data"] = data


def refusal(style: str, error: PoolRefusal) -> RpcFailure:
    return RpcFailure(*REFUSALS[style][error.kind])


def reverted(style: str, revert: bytes, mined: str | None = None) -> RpcFailure:
    """The error of a call that reverted; ``mined`` is the hash of a transaction that did."""
    data = "0x" + revert.hex()
    reason = _reason(revert)
    if style == "hardhat":
        words = f"reverted with reason string '{reason}'" if reason else "reverted"
        message = f"Error: VM Exception while processing transaction: {words}"
        nested = {"message": message, "data": data}
        return RpcFailure(-32603, message, nested if mined is None else {**nested, "txHash": mined})
    message = f"execution reverted: {reason}" if reason else "execution reverted"
    if style == "geth" and not revert:
        return RpcFailure(-32000, message)
    return RpcFailure(3, message, data)


def _reason(revert: bytes) -> str:
    if revert[:4] != selector("Error(string)"):
        return ""
    try:
        return str(decode(["string"], revert[4:])[0])
    except DecodingError:
        return ""


def block_json(block: Block, *, is_full: bool) -> dict[str, Any]:
    transactions: list[Any] = [
        transaction_json(each.transaction, (block, index)) if is_full else each.transaction.hash
        for index, each in enumerate(block.receipts)
    ]
    return {
        "number": hex(block.number),
        "hash": block.hash,
        "parentHash": ZERO_HASH if block.parent is None else block.parent.hash,
        "timestamp": hex(block.time),
        "baseFeePerGas": hex(block.base_fee),
        "gasLimit": hex(BLOCK_GAS),
        "gasUsed": hex(sum(each.gas_used for each in block.receipts)),
        "miner": "0x" + 40 * "0",
        "extraData": "0x",
        "transactions": transactions,
        "uncles": [],
    }


def transaction_json(transaction: Transaction, place: tuple[Block, int] | None) -> dict[str, Any]:
    """``place``: its block and its index there; None in the pool."""
    return {
        "hash": transaction.hash,
        "from": transaction.sender,
        "to": transaction.to,
        "nonce": hex(transaction.nonce),
        "input": "0x" + transaction.data.hex(),
        "value": hex(transaction.value),
        "gas": hex(transaction.gas),
        "maxFeePerGas": hex(transaction.max_fee),
        "maxPriorityFeePerGas": hex(transaction.max_tip),
        "chainId": hex(transaction.chain),
        "type": "0x2",
        "blockHash": None if place is None else place[0].hash,
        "blockNumber": None if place is None else hex(place[0].number),
        "transactionIndex": None if place is None else hex(place[1]),
    }


def receipt_json(block: Block, index: int) -> dict[str, Any]:
    receipt = block.receipts[index]
    transaction = receipt.transaction
    return {
        "transactionHash": transaction.hash,
        "transactionIndex": hex(index),
        "blockHash": block.hash,
        "blockNumber": hex(block.number),
        "from": transaction.sender,
        "to": transaction.to,
        "contractAddress": receipt.created,
        "status": hex(receipt.is_success),
        "gasUsed": hex(receipt.gas_used),
        "cumulativeGasUsed": hex(sum(each.gas_used for each in block.receipts[: index + 1])),
        "effectiveGasPrice": hex(receipt.price),
        "type": "0x2",
        "logs": list(logs_json(block, index)),
    }


def logs_json(block: Block, index: int) -> list[dict[str, Any]]:
    receipt: Receipt = block.receipts[index]
    return [
        {
            "address": address,
            "topics": ["0x" + topic.hex() for topic in event.topics],
            "data": "0x" + event.data.hex(),
            "blockNumber": hex(block.number),
            "blockHash": block.hash,
            "transactionHash": receipt.transaction.hash,
            "transactionIndex": hex(index),
            "logIndex": hex(place),
            "removed": False,
        }
        for place, (address, event) in enumerate(receipt.events)
    ]
