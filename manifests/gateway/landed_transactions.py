"""The transactions in the blocks of a chain, each with the step of a record that it does."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from eth_abi.abi import decode, encode
from eth_utils.crypto import keccak

ARTIFACT: Final = Path(__file__).resolve().parent / "contracts" / "Studio.json"
BATCH: Final = 200
TIMEOUT_S: Final = 30

Map = dict[str, Any]
Call = tuple[str, list[Any]]


class NodeError(Exception):
    """The node does not answer, or refuses; the message is one sentence."""


class Deed(NamedTuple):
    """One step of a record. ``key`` is the record's, as the world writes it; ``function`` is the
    contract's."""

    key: str
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Hash and sender are lower-case hex. ``is_empty``: it goes to its own sender, with no data.
    ``deed`` is what it does if it succeeds; None for other calls."""

    hash: str
    sender: str
    nonce: int
    is_success: bool
    is_empty: bool
    deed: Deed | None


class Landed:
    """The chain of a node, as it is when this is made, and one contract on it.

    Each method raises ``NodeError`` if the node does not answer.
    """

    def __init__(self, url: str, studio: str) -> None:
        self._url = url
        self._studio = studio.lower()
        self._functions = _functions()
        chain, head = self._ask([("eth_chainId", []), ("eth_blockNumber", [])])
        self._chain = int(chain, 16)
        self.head = int(head, 16)

    def transactions(self) -> list[Transaction]:
        """All transactions of all blocks, in their order."""
        numbers = range(self.head + 1)
        blocks = self._ask([("eth_getBlockByNumber", [hex(each), True]) for each in numbers])
        found = [each for block in blocks for each in block["transactions"]]
        receipts = self._ask([("eth_getTransactionReceipt", [each["hash"]]) for each in found])
        return [self._transaction(*pair) for pair in zip(found, receipts, strict=True)]

    def registered_works(self) -> list[str]:
        """The keys of works in the contract's list, which grows with each registration."""
        [(count,)] = self._views("registrationCount", [()])
        entries = self._views("registration", [(each,) for each in range(count)])
        return [self._work_key(data_hash) for data_hash, _ in entries]

    def validator_registrations(self, scores: Sequence[str]) -> Iterator[tuple[str, int]]:
        """How often the contract has the validator of each score, by the score's key."""
        asked = []
        for key in scores:
            _, _, data_hash, worker, validator = key.split("/")
            asked.append((bytes.fromhex(data_hash[2:]), worker, validator))
        found = self._views("validatorRegistrationsOf", asked)
        return zip(scores, (times for (times,) in found), strict=True)

    def _transaction(self, given: Map, receipt: Map) -> Transaction:
        data, sender = bytes.fromhex(given["input"][2:]), given["from"].lower()
        to = (given["to"] or "").lower()
        return Transaction(
            hash=given["hash"].lower(),
            sender=sender,
            nonce=int(given["nonce"], 16),
            is_success=receipt["status"] == "0x1",
            is_empty=not data and to == sender,
            deed=self._deed(data, sender) if to == self._studio else None,
        )

    def _deed(self, data: bytes, sender: str) -> Deed | None:
        entry = self._functions.get(data[:4])
        if entry is None or entry["name"] not in _PLACES:
            return None
        given = decode(_types(entry, "inputs"), data[4:])
        key = _PLACES[entry["name"]](given, sender)
        return Deed(f"{self._chain}/{self._studio}/{key}", entry["name"])

    def _work_key(self, data_hash: bytes) -> str:
        return f"{self._chain}/{self._studio}/0x{data_hash.hex()}"

    def _views(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The results of a view of the contract for each of these arguments."""
        selector, entry = next(
            (key, each) for key, each in self._functions.items() if each["name"] == name
        )
        data = [selector + encode(_types(entry, "inputs"), each) for each in arguments]
        calls: list[Call] = [
            ("eth_call", [{"to": self._studio, "data": f"0x{each.hex()}"}, hex(self.head)])
            for each in data
        ]
        outputs = _types(entry, "outputs")
        return [decode(outputs, bytes.fromhex(each[2:])) for each in self._ask(calls)]

    def _ask(self, calls: Sequence[Call]) -> list[Any]:
        parts = [calls[each : each + BATCH] for each in range(0, len(calls), BATCH)]
        return [result for part in parts for result in _answers(self._url, part)]


_PLACES: Final[Mapping[str, Callable[[tuple[Any, ...], str], str]]] = {
    "submitWork": lambda given, _: f"0x{given[0].hex()}",
    "registerWork": lambda given, _: f"0x{given[0].hex()}",
    "submitScore": lambda given, by: f"0x{given[0].hex()}/{given[1].lower()}/{by}",
    "commitScore": lambda given, by: f"0x{given[0].hex()}/{given[1].lower()}/{by}",
    "revealScore": lambda given, by: f"0x{given[0].hex()}/{given[1].lower()}/{by}",
    "registerValidator": lambda given, _: (
        f"0x{given[0].hex()}/{given[1].lower()}/{given[2].lower()}"
    ),
    "closeEpoch": lambda given, _: str(given[0]),
}
"""The end of the record's key, from the arguments of a function and the sender."""


def _functions() -> dict[bytes, Map]:
    """The functions of the contract by selector."""
    entries = json.loads(ARTIFACT.read_text("utf-8"))["abi"]
    return {
        keccak(text=f"{each['name']}({','.join(_types(each, 'inputs'))})")[:4]: each
        for each in entries
        if each["type"] == "function"
    }


def _types(entry: Map, field: str) -> list[str]:
    return [each["type"] for each in entry[field]]


def _answers(url: str, calls: Sequence[Call]) -> list[Any]:
    """The results of one batch, in the order of its calls."""
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls)
    ]
    request = urllib.request.Request(  # noqa: S310  # the URL is the operator's
        url, json.dumps(batch).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            found = {each["id"]: each for each in json.load(answer)}
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise NodeError(f"{url}: expected an answer of JSON-RPC, found {problem}") from problem
    for number, (method, params) in enumerate(calls):
        if found.get(number, {}).get("result") is None:
            why = found.get(number, {}).get("error", "no answer")
            raise NodeError(f"{url}: {method} {params}: {why}")
    return [found[number]["result"] for number in range(len(calls))]
