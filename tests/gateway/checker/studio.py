"""A transaction to the contract ``Studio`` -> the step that it carries out, and of which record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from tests.gateway.checker.keccak import selector

Map: TypeAlias = dict[str, Any]

EMPTY: Final = "EMPTY_TRANSACTION"
OTHER: Final = "OTHER_TRANSACTION"


class Deed(NamedTuple):
    """The step that a transaction carries out, and the record of which. ``by`` is the only address
    whose transaction is this record's own."""

    step: str
    key: str


def _word(data: bytes, index: int) -> bytes:
    return data[4 + 32 * index : 36 + 32 * index]


def _hash(data: bytes, index: int) -> str:
    return "0x" + _word(data, index).hex()


def _address(data: bytes, index: int) -> str:
    return "0x" + _word(data, index)[12:].hex()


def _of_work(data: bytes, _sender: str) -> str:
    return _hash(data, 0)


def _of_score(data: bytes, sender: str) -> str:
    return f"{_hash(data, 0)}/{_address(data, 1)}/{sender}"


def _of_validator(data: bytes, _sender: str) -> str:
    return f"{_hash(data, 0)}/{_address(data, 1)}/{_address(data, 2)}"


def _of_epoch(data: bytes, _sender: str) -> str:
    return str(int.from_bytes(_word(data, 0)))


_Reader: TypeAlias = Callable[[bytes, str], str]

FUNCTIONS: Final[Mapping[bytes, tuple[str, int, _Reader]]] = {
    selector(signature): (step, words, read)
    for signature, step, words, read in (
        ("submitWork(bytes32,uint64,string)", "SUBMIT_WORK_ONCHAIN", 3, _of_work),
        ("registerWork(bytes32)", "REGISTER_WORK", 1, _of_work),
        ("submitScore(bytes32,address,uint16[])", "SUBMIT_SCORE", 3, _of_score),
        ("commitScore(bytes32,address,bytes32)", "COMMIT_SCORE", 3, _of_score),
        ("revealScore(bytes32,address,uint16[],bytes32)", "REVEAL_SCORE", 4, _of_score),
        ("registerValidator(bytes32,address,address)", "REGISTER_VALIDATOR", 3, _of_validator),
        ("closeEpoch(uint64)", "SUBMIT_CLOSE_EPOCH", 1, _of_epoch),
    )
}

TX_STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "WorkSubmission": ("SUBMIT_WORK_ONCHAIN", "REGISTER_WORK"),
    "Direct": ("SUBMIT_SCORE", "REGISTER_VALIDATOR"),
    "CommitReveal": ("COMMIT_SCORE", "REVEAL_SCORE", "REGISTER_VALIDATOR"),
    "CloseEpoch": ("SUBMIT_CLOSE_EPOCH",),
}
"""The steps with a transaction, by type of record; of scores by mode."""


def deed_of(chain: int, sender: str, to: str | None, data: bytes) -> Deed:
    """The deed of a transaction. One that calls no function of the contract is its lane's own."""
    lane = f"{chain}/{sender}"
    if not data:
        return Deed(EMPTY, lane)
    step, words, read = FUNCTIONS.get(data[:4], (OTHER, 0, _of_work))
    if step == OTHER or len(data) < 4 + 32 * words or to is None:
        return Deed(OTHER, lane)
    return Deed(step, f"{chain}/{to}/{read(data, sender)}")


def tx_steps(record: Map) -> tuple[str, ...]:
    """The steps of a record that need a transaction."""
    kind: str = record["type"]["$tag"]
    return TX_STEPS[record["input"]["mode"]["$tag"] if kind == "ScoreSubmission" else kind]


def signer_of(record: Map, step: str) -> str:
    """The address that signs the transaction of this step."""
    given: Map = record["input"]
    name = "admin_address" if step == "REGISTER_VALIDATOR" else "signer_address"
    signer: str = given[name]
    return signer
