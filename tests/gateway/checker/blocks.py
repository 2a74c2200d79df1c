"""The canonical chain: its transactions with their receipts, and the lists of the contracts.

It is read over JSON-RPC, or from a dump that ``Chain.dump`` has written.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from tests.gateway.checker.keccak import keccak256, selector

Map: TypeAlias = dict[str, Any]

BATCH: Final = 200
TRIES: Final = 50
PAUSE_S: Final = 0.02
TYPE_2: Final = 2


class ChainUnreadable(Exception):
    """The node lacks a block or a receipt that it must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction in a block. ``real_hash`` is computed from its own fields and signature, for
    a transaction of type 2."""

    hash: str
    real_hash: str
    block: int
    sender: str
    nonce: int
    to: str | None
    data: bytes
    value: int
    gas: int
    max_fee: int
    max_tip: int
    type: int
    chain: int
    is_success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """``registrations`` are the entries of each contract's list, ``validators`` how often each
    (data hash, worker, validator) is in the contract's list of validators."""

    id: int
    transactions: tuple[Transaction, ...]
    registrations: Mapping[str, Sequence[tuple[str, str]]]
    validators: Mapping[tuple[str, str, str, str], int]

    def of(self, sender: str) -> Iterator[Transaction]:
        return (each for each in self.transactions if each.sender == sender)

    def by_hash(self, hash: str) -> Transaction | None:
        return next((each for each in self.transactions if each.hash == hash), None)


class Rpc(Protocol):
    def __call__(self, calls: Sequence[tuple[str, list[Any]]]) -> list[Any]:
        """The results of these calls, in their order."""


def read_chain(
    rpc: Rpc, studios: Iterable[str], scores: Iterable[tuple[str, str, str, str]]
) -> Chain:
    """Read all blocks, and the lists of these contracts. ``scores`` are (contract, data hash,
    worker, validator)."""
    chain_id, head = (int(each, 16) for each in rpc([("eth_chainId", []), ("eth_blockNumber", [])]))
    numbers = range(head + 1)
    blocks = _known(rpc, [("eth_getBlockByNumber", [hex(each), True]) for each in numbers])
    found = [each for block in blocks for each in block["transactions"]]
    receipts = _known(rpc, [("eth_getTransactionReceipt", [each["hash"]]) for each in found])
    transactions = [
        _transaction(each, receipt) for each, receipt in zip(found, receipts, strict=True)
    ]
    return Chain(
        id=chain_id,
        transactions=tuple(transactions),
        registrations={each: _registrations(rpc, each) for each in sorted(set(studios))},
        validators=_validators(rpc, sorted(set(scores))),
    )


def _many(rpc: Rpc, calls: Sequence[tuple[str, list[Any]]]) -> list[Any]:
    parts = [calls[each : each + BATCH] for each in range(0, len(calls), BATCH)]
    return [result for part in parts for result in rpc(part)]


def _known(rpc: Rpc, calls: Sequence[tuple[str, list[Any]]]) -> list[Any]:
    """As ``_many``. A node may know a block's number before the block, and a block before its
    receipts: null is asked again.

    Raises:
        ChainUnreadable: An answer stays null.
    """
    results = _many(rpc, calls)
    for _ in range(TRIES):
        missing = [place for place, each in enumerate(results) if each is None]
        if not missing:
            return results
        time.sleep(PAUSE_S)
        for place, result in zip(missing, _many(rpc, [calls[it] for it in missing]), strict=True):
            results[place] = result
    raise ChainUnreadable(f"the node has no answer to {calls[missing[0]]}")


def _transaction(given: Map, receipt: Map) -> Transaction:
    number = int(given["type"], 16)
    is_new = number == TYPE_2
    fees = [
        int(given[each], 16) if is_new else int(given.get("gasPrice", "0x0"), 16)
        for each in ("maxFeePerGas", "maxPriorityFeePerGas")
    ]
    return Transaction(
        hash=given["hash"].lower(),
        real_hash=type_2_hash(given) if is_new else given["hash"].lower(),
        block=int(given["blockNumber"], 16),
        sender=given["from"].lower(),
        nonce=int(given["nonce"], 16),
        to=given["to"].lower() if given["to"] else None,
        data=bytes.fromhex(given["input"][2:]),
        value=int(given["value"], 16),
        gas=int(given["gas"], 16),
        max_fee=fees[0],
        max_tip=fees[1],
        type=number,
        chain=int(given.get("chainId") or "0x0", 16),
        is_success=receipt["status"] == "0x1",
    )


# --- the lists of a contract


def _registrations(rpc: Rpc, studio: str) -> list[tuple[str, str]]:
    [count] = rpc([_call(studio, "registrationCount()")])
    views = [
        _call(studio, "registration(uint256)", _number(each)) for each in range(int(count, 16))
    ]
    return [(f"0x{each[2:66]}", f"0x{each[90:130]}") for each in _many(rpc, views)]


def _validators(
    rpc: Rpc, scores: Sequence[tuple[str, str, str, str]]
) -> dict[tuple[str, str, str, str], int]:
    view = "validatorRegistrationsOf(bytes32,address,address)"
    calls = [_call(studio, view, *map(_word, words)) for studio, *words in scores]
    return {score: int(each, 16) for score, each in zip(scores, _many(rpc, calls), strict=True)}


def _call(to: str, view: str, *words: bytes) -> tuple[str, list[Any]]:
    data = selector(view) + b"".join(words)
    return "eth_call", [{"to": to, "data": "0x" + data.hex()}, "latest"]


def _number(value: int) -> bytes:
    return value.to_bytes(32)


def _word(text: str) -> bytes:
    return bytes.fromhex(text[2:]).rjust(32, b"\0")


# --- the hash of a transaction of type 2 (EIP-1559, EIP-2718)


def type_2_hash(given: Map) -> str:
    """Compute the hash of a signed transaction from its fields."""
    number = [given[each] for each in ("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas")]
    fields: list[Any] = [
        *(int(each, 16) for each in number),
        int(given["gas"], 16),
        bytes.fromhex((given["to"] or "0x")[2:]),
        int(given["value"], 16),
        bytes.fromhex(given["input"][2:]),
        [_access(each) for each in given.get("accessList") or []],
        int(given.get("yParity") or given["v"], 16),
        int(given["r"], 16),
        int(given["s"], 16),
    ]
    return "0x" + keccak256(b"\x02" + rlp(fields)).hex()


def _access(given: Map) -> list[Any]:
    keys = [bytes.fromhex(each[2:]) for each in given["storageKeys"]]
    return [bytes.fromhex(given["address"][2:]), keys]


def rlp(item: int | bytes | list[Any]) -> bytes:
    """The recursive length prefix encoding of numbers, byte strings and lists."""
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8)
    if isinstance(item, list):
        body = b"".join(map(rlp, item))
        return _prefix(0xC0, len(body)) + body
    if len(item) == 1 and item[0] < 0x80:
        return item
    return _prefix(0x80, len(item)) + item


def _prefix(base: int, length: int) -> bytes:
    if length < 56:
        return bytes([base + length])
    size = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes([base + 55 + len(size)]) + size
