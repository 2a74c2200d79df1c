"""Keccak and the ABI of the module, by what it puts out, against pycryptodome, eth-abi and the
compiled contract."""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import UUID

import pytest
from Crypto.Hash import keccak
from eth_abi.abi import encode
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.evm.studio import calldata, commitment
from tests.gateway.reducers import inputs
from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import ROOT, SCORE_KEY, VALIDATOR, WORKER
from tests.gateway.reducers.way import (
    CALL,
    EVERY_TX_STEP,
    NO_ONE,
    OF_SCORE,
    STORED,
    TX_STEPS,
    at_lane,
    begin,
    called,
    checking,
    done_word,
    priced,
    salt_of,
    status,
    to_lane,
    transaction,
    uploaded,
)
from tests.run_seed import examples

RATE: Final = 136
"""Bytes of a block of keccak-256."""
LENGTHS: Final = sorted({0, 1, 300, *(n * RATE + d for n in (1, 2) for d in (-2, -1, 0, 1))})


def keccak256(data: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=data).digest()


def uuid_of(key: str) -> UUID:
    made = bytearray(keccak256(key.encode())[:16])
    made[6] = made[6] & 0x0F | 0x80
    made[8] = made[8] & 0x3F | 0x80
    return UUID(bytes=bytes(made))


@pytest.mark.parametrize("length", LENGTHS)
def test_the_id_of_a_record_is_a_uuid_of_the_keccak_of_its_key(length: int) -> None:
    # A record with a wrong key has an id, too, so a key of any length can be hashed.
    key = "é" * (length // 2) + "x" * (length % 2)
    cell = Cell(inputs.gateway(), "gw/work@1", key)

    cell.send(*inputs.work_requested(work=key))

    id = UUID(cell.state["id"])
    assert id == uuid_of(key)
    assert id.version == 8


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_every_record_has_the_id_of_its_key(kind: str) -> None:
    assert UUID(begin(kind).state["id"]) == uuid_of(inputs.key_of(kind))


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_every_question_guard_and_transaction_is_encoded_by_the_abi(kind: str, step: str) -> None:
    cell, table = checking(kind, step), TX_STEPS[step]
    question = calldata(*table.question)
    assert (cell.effect, cell.params["data"]) == (CALL, question)
    assert cell.params["to"] == inputs.STUDIO
    assert cell.params["block"] == {"$tag": "Depth", "$value": 2}

    cell.answer(called(table.undone))
    for view, answer in table.before:
        assert cell.params["data"] == calldata(*view)
        cell.answer(called(answer))

    asked = cell.emitted("TxRequested")[-1]
    assert asked["data"] == transaction(cell, step)
    assert asked["guard"] == {"to": inputs.STUDIO, "data": question, "undone": table.undone}
    assert (asked["to"], asked["value"]) == (inputs.STUDIO, "0")
    assert asked["lane"] == inputs.lane_key(table.signer)


def test_the_epoch_asks_for_its_closer_and_then_for_its_works() -> None:
    cell = begin("epoch")
    assert cell.params["data"] == calldata("closerOf(uint64)", inputs.EPOCH)

    cell.answer(called(NO_ONE))

    assert cell.params["data"] == calldata("worksIn(uint64)", inputs.EPOCH)


SELECTORS: Final = {
    signature: keccak256(signature.encode())[:4]
    for signature in ("submitWork(bytes32,uint64,string)", "closeEpoch(uint64)")
}


@pytest.fixture(scope="module")
def compiled() -> dict[bytes, dict[str, Any]]:
    """The functions of the compiled contract by their selectors."""
    file = ROOT / "manifests" / "gateway" / "contracts" / "Studio.json"
    functions = [each for each in json.loads(file.read_text())["abi"] if each["type"] == "function"]
    return {keccak256(signature_of(each).encode())[:4]: each for each in functions}


def signature_of(entry: dict[str, Any]) -> str:
    return f"{entry['name']}({','.join(each['type'] for each in entry['inputs'])})"


@pytest.mark.parametrize(("kind", "step"), EVERY_TX_STEP)
def test_the_compiled_contract_has_every_function_that_is_called(
    kind: str, step: str, compiled: dict[bytes, dict[str, Any]]
) -> None:
    cell = at_lane(kind, step)

    views = [each.params["data"] for each in cell.asked.values() if each.effect == CALL]
    assert all(compiled[data[:4]]["stateMutability"] == "view" for data in views)
    for asked in cell.emitted("TxRequested"):
        assert compiled[asked["data"][:4]]["stateMutability"] == "nonpayable"
        assert compiled[asked["guard"]["data"][:4]]["stateMutability"] == "view"


HEX_20: Final = st.integers(1, 2**160 - 1).map(lambda number: f"0x{number:040x}")
HEX_32: Final = st.binary(min_size=32, max_size=32).map(lambda raw: "0x" + raw.hex())
NUMBERS: Final = st.integers(0, 2**64 - 1)


@settings(max_examples=examples(4))
@given(
    item=st.text(max_size=70), data_hash=HEX_32, signer=HEX_20, epoch=NUMBERS,
    chain=st.integers(1, 2**64 - 1),
)  # fmt: skip
def test_any_work_is_submitted_as_the_abi_says(
    item: str, data_hash: str, signer: str, epoch: int, chain: int
) -> None:
    key = f"{chain}/{inputs.STUDIO}/{data_hash}"
    changes = {"data_hash": data_hash, "signer_address": signer, "epoch": epoch, "chain": chain}
    cell = Cell(inputs.gateway(), "gw/work@1", key)
    cell.send(*inputs.work_requested(work=key, **changes))
    for answer in (STORED, priced(), uploaded(item=item), status()):
        cell.answer(answer)

    cell.answer(called(NO_ONE))

    [asked] = cell.emitted("TxRequested")
    data = SELECTORS["submitWork(bytes32,uint64,string)"] + encode(
        ["bytes32", "uint64", "string"], [bytes.fromhex(data_hash[2:]), epoch, item]
    )
    assert asked["data"] == data
    assert asked["lane"] == f"{chain}/{signer}"


@settings(max_examples=examples(4))
@given(
    scores=st.lists(st.integers(0, 65_535), min_size=1, max_size=32),
    worker=HEX_20, validator=HEX_20, data_hash=HEX_32,
)  # fmt: skip
def test_any_score_is_committed_and_revealed_as_the_abi_says(
    scores: list[int], worker: str, validator: str, data_hash: str
) -> None:
    key = f"{inputs.CHAIN}/{inputs.STUDIO}/{data_hash}/{worker}/{validator}"
    changes: dict[str, Any] = {"data_hash": data_hash, "worker_address": worker}
    changes |= {"signer_address": validator, "scores": scores, "score": key}
    cell = Cell(inputs.gateway(), "gw/score@1", key)
    cell.send(*inputs.score_requested("CommitReveal", **changes))
    raw = bytes.fromhex(data_hash[2:])
    made = commitment(raw, worker, validator, tuple(scores), salt_of(cell))

    cell.answer(called(NO_ONE))
    cell.answer(called(encode(["address"], [worker])))
    assert cell.emitted("TxRequested")[0]["data"] == calldata(
        "commitScore(bytes32,address,bytes32)", raw, worker, made
    )
    number = {"score": key, "request": 1, "attempts": []}
    cell.send("gw/ScoreTxSettled@1", number | {"outcome": inputs.tag("Done", {"block": 9})})
    cell.answer(called(made))
    to_lane(cell, "REVEAL_SCORE")

    assert cell.emitted("TxRequested")[1]["data"] == calldata(
        "revealScore(bytes32,address,uint16[],bytes32)", raw, worker, tuple(scores), salt_of(cell)
    )


def test_a_score_by_commit_and_reveal_has_a_salt_and_a_direct_one_has_none() -> None:
    committed, direct = checking("committed", "COMMIT_SCORE"), checking("direct", "SUBMIT_SCORE")

    assert len(salt_of(committed)) == 32
    assert any(salt_of(committed))
    assert direct.state["progress"]["salt"] is None
    made = commitment(*OF_SCORE, tuple(inputs.SCORES), bytes(32))
    assert done_word(direct, "SUBMIT_SCORE") == made
    assert done_word(committed, "COMMIT_SCORE") != made
    assert committed.key == direct.key == SCORE_KEY
    assert OF_SCORE[1:] == (WORKER, VALIDATOR)
