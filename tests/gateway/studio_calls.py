"""Calls of the contract Studio, coded by eth-abi from its compiled ABI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chain import Chain, RpcError
from eth_abi.abi import decode, encode
from eth_utils.crypto import keccak
from studio import artifact, receipt_of

ABI: dict[tuple[str, str], dict[str, Any]] = {
    (entry["type"], entry.get("name", "")): entry for entry in artifact()["abi"]
}

PANIC_AND_ERROR = {
    b"\x08\xc3\x79\xa0": ("Error", ["string"]),
    b"\x4e\x48\x7b\x71": ("Panic", ["uint256"]),
}
"""The errors of Solidity itself: of `require`, and of a failed check."""


@dataclass(frozen=True)
class Reverted(Exception):
    """The contract refused. ``name`` is the error's."""

    name: str
    arguments: tuple[Any, ...]


def types(entry: dict[str, Any], field: str = "inputs") -> list[str]:
    return [each["type"] for each in entry[field]]


def selector(entry: dict[str, Any]) -> bytes:
    return keccak(text=f"{entry['name']}({','.join(types(entry))})")[:4]


def data(function: str, *arguments: Any) -> str:
    """The data of a call."""
    entry = ABI["function", function]
    return "0x" + (selector(entry) + encode(types(entry), arguments)).hex()


def view(chain: Chain, function: str, *arguments: Any, block: str = "latest") -> Any:
    """Call a view. Returns one value, or a tuple of several."""
    request = {"to": chain.studio, "data": data(function, *arguments)}
    raw = bytes.fromhex(chain.rpc("eth_call", [request, block])[2:])
    found = decode(types(ABI["function", function], "outputs"), raw)
    return found[0] if len(found) == 1 else found


def send(chain: Chain, by: str, function: str, *arguments: Any) -> list[dict[str, Any]]:
    """Send a transaction from an account of the node; return the events of its block's receipt.

    Raises:
        Reverted: The contract refuses it. It is mined all the same.
    """
    request = {"from": by, "to": chain.studio, "data": data(function, *arguments)}
    try:
        chain.rpc("eth_call", [request, "latest"])
    except RpcError as error:
        raise reverted(error) from None
    sent = chain.rpc("eth_sendTransaction", [{**request, "gas": hex(1_000_000)}])
    receipt = receipt_of(chain.rpc, sent)
    assert receipt["status"] == "0x1"
    return [event(log) for log in receipt["logs"]]


def reverted(error: RpcError) -> Reverted:
    """Decode a revert by the contract's own errors."""
    raw = bytes.fromhex(error.data[2:])
    known = {
        selector(entry): (entry["name"], types(entry))
        for (kind, _), entry in ABI.items()
        if kind == "error"
    }
    name, fields = (known | PANIC_AND_ERROR)[raw[:4]]
    return Reverted(name, decode(fields, raw[4:]))


def event(log: dict[str, Any]) -> dict[str, Any]:
    """An event as a record of its fields, with its name under ``event``."""
    for (kind, name), entry in ABI.items():
        signature = f"{name}({','.join(types(entry))})" if kind == "event" else ""
        if kind == "event" and log["topics"][0] == "0x" + keccak(text=signature).hex():
            break
    else:
        raise AssertionError(f"an event of no known kind: {log}")
    indexed = [each for each in entry["inputs"] if each["indexed"]]
    others = [each for each in entry["inputs"] if not each["indexed"]]
    found: dict[str, Any] = {"event": name}
    for each, topic in zip(indexed, log["topics"][1:], strict=True):
        found[each["name"]] = decode([each["type"]], bytes.fromhex(topic[2:]))[0]
    values = decode([each["type"] for each in others], bytes.fromhex(log["data"][2:]))
    return found | dict(zip((each["name"] for each in others), values, strict=True))


def commitment(
    data_hash: bytes, worker: str, validator: str, scores: list[int], salt: bytes
) -> bytes:
    kinds = ["bytes32", "address", "address", "uint16[]", "bytes32"]
    return keccak(encode(kinds, [data_hash, worker, validator, scores, salt]))
