"""The creation of a record, and everything that may be wrong with the request."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.gateway.reducers import inputs
from tests.gateway.reducers.cell import START_NS, Cell
from tests.gateway.reducers.inputs import (
    DATA_HASH,
    POLICY,
    STUDIO,
    WORK_KEY,
    WORKER,
    gateway,
    tag,
)
from tests.gateway.reducers.laws import record_law
from tests.gateway.reducers.way import begin, failed_with, is_at, order, settle

FIRST: Final = {
    "work": ("RUNNING", "UPLOAD_EVIDENCE", "StoringEvidence"),
    "direct": ("RUNNING", "SUBMIT_SCORE", "Checking"),
    "committed": ("RUNNING", "COMMIT_SCORE", "Checking"),
    "epoch": ("RUNNING", "CHECK_PRECONDITIONS", "Checking"),
}


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_a_record_runs_its_first_step_at_once(kind: str) -> None:
    cell = begin(kind)

    assert is_at(cell) == FIRST[kind]
    assert cell.state["created_at"] == START_NS
    assert cell.state["policy"] == POLICY
    assert len(cell.open) == 1


def test_a_work_keeps_its_input() -> None:
    cell = begin("work")

    kept = {name: value for name, value in cell.state["input"].items() if value is not None}
    assert kept == {
        "chain": inputs.CHAIN,
        "studio_address": STUDIO,
        "epoch": inputs.EPOCH,
        "signer_address": WORKER,
        "data_hash": DATA_HASH,
        "arweave": "main",
        "content_type": "application/json",
        "evidence_bytes": len(inputs.EVIDENCE),
    }


def test_a_score_keeps_its_input() -> None:
    kept = {name: value for name, value in begin("direct").state["input"].items() if value}

    assert kept["scores"] == inputs.SCORES
    assert kept["mode"] == tag("Direct")
    assert (kept["worker_address"], kept["admin_address"]) == (WORKER, inputs.ADMIN)
    assert "arweave" not in kept


# --- Invalid input ---------------------------------------------------------------------------

NO_ADDRESSES: Final = {
    "mixed case": "0x" + "aB" * 20,
    "too short": "0x" + "a1" * 19,
    "too long": "0x" + "a1" * 21,
    "odd": "0x" + "a" * 39,
    "no prefix": "a1" * 20,
    "another prefix": "0X" + "a1" * 20,
    "no hex": "0x" + "g1" * 20,
    "other digits": "0x" + "٣" * 40,
    "empty": "",
    "long": "0x" + "a1" * 5_000,
    "zero bytes": "0x\0" + "a1" * 19 + "a",
}
NO_HASHES: Final = {
    "mixed case": "0x" + "D4" * 32,
    "an address": WORKER,
    "too long": DATA_HASH + "0",
    "empty": "",
}
POLICY_BOUNDS: Final = {
    "conf": (0, 10_000),
    "wait_ms": (1, 50_000),
    "bump_after": (1, 1_000),
    "max_fee": (1, 10**18),
    "retries": (0, 1_000),
    "retry_base_ms": (1, 86_400_000),
    "retry_cap_ms": (1, 86_400_000),
    "stall_base_ms": (1, 86_400_000),
    "stall_cap_ms": (1, 86_400_000),
    "stall_cycles": (0, 1_000),
    "arweave_conf": (1, 10_000),
    "arweave_wait_ms": (1, 50_000),
}
ADDRESSES: Final = {
    "work": ("studio_address", "signer_address"),
    "direct": ("studio_address", "signer_address", "worker_address", "admin_address"),
    "epoch": ("studio_address", "signer_address"),
}


def key_with(kind: str, value: dict[str, Any]) -> str:
    """The key that the input makes, whatever it is."""
    start = f"{value['chain']}/{value['studio_address']}"
    match kind:
        case "work":
            return f"{start}/{value['data_hash']}"
        case "epoch":
            return f"{start}/{value['epoch']}"
        case _:
            signer, worker = value["signer_address"], value["worker_address"]
            return f"{start}/{value['data_hash']}/{worker}/{signer}"


def refused(kind: str, field: str, **changes: Any) -> None:
    """The request makes a FAILED record that has done nothing; its message is about ``field``."""
    schema, value = inputs.requested(kind, **changes)
    value[inputs.key_field(kind)] = key = key_with(kind, value)
    if len(key) > 900:  # longer than a key may be: then another one names the cell
        value[inputs.key_field(kind)] = key = "any"
    cell = Cell(gateway(), inputs.workflow_of(kind), key, record_law)

    stepped = cell.send(schema, value)

    assert failed_with(cell, "INVALID_INPUT")
    assert cell.state["error"]["message"].startswith(f"{field}: expected ")
    assert len(cell.state["error"]["message"]) < 300
    assert (stepped.effects, stepped.events, stepped.status) == ((), (), "failed")
    assert cell.state["evidence"] is None


@pytest.mark.parametrize("form", NO_ADDRESSES)
@pytest.mark.parametrize(("kind", "fields"), ADDRESSES.items())
def test_an_address_that_is_none_fails_the_record(
    kind: str, fields: tuple[str, ...], form: str
) -> None:
    for field in fields:
        refused(kind, field, **{field: NO_ADDRESSES[form]})


@pytest.mark.parametrize("kind", ["work", "direct"])
@pytest.mark.parametrize("form", NO_HASHES)
def test_a_data_hash_that_is_none_fails_the_record(kind: str, form: str) -> None:
    refused(kind, "data_hash", data_hash=NO_HASHES[form])


@pytest.mark.parametrize("size", [0, 524_289])
def test_evidence_of_another_size_than_allowed_fails_the_record(size: int) -> None:
    refused("work", "evidence", evidence=bytes(size))


def test_evidence_of_the_largest_size_is_stored() -> None:
    cell = begin("work", evidence=bytes(524_288))

    assert is_at(cell) == FIRST["work"]


@pytest.mark.parametrize("field", ["arweave", "content_type"])
@pytest.mark.parametrize("length", [0, 129])
def test_a_name_of_another_length_than_allowed_fails_the_record(field: str, length: int) -> None:
    refused("work", field, **{field: "x" * length})


@pytest.mark.parametrize("scores", [[], [1] * 33, [65_536], [1, 2**64 - 1]])
def test_scores_that_the_contract_does_not_take_fail_the_record(scores: list[int]) -> None:
    refused("direct", "scores", scores=scores)


def test_the_most_and_the_largest_scores_are_taken() -> None:
    assert is_at(begin("direct", scores=[65_535] * 32)) == FIRST["direct"]


@pytest.mark.parametrize("kind", ["work", "direct", "epoch"])
def test_a_chain_without_a_number_fails_the_record(kind: str) -> None:
    refused(kind, "chain", chain=0)


@pytest.mark.parametrize("field", POLICY_BOUNDS)
def test_a_policy_out_of_bounds_fails_the_record(field: str) -> None:
    low, high = POLICY_BOUNDS[field]
    for value in (low - 1, high + 1, 2**64 - 1):
        if value >= 0:
            refused("epoch", f"policy.{field}", policy=POLICY | {field: value})
    for value in (low, high):
        assert is_at(begin("epoch", policy=POLICY | {field: value})) == FIRST["epoch"]


def test_every_field_of_the_policy_has_bounds() -> None:
    assert POLICY_BOUNDS.keys() == POLICY.keys()


@pytest.mark.parametrize("kind", inputs.KINDS)
@pytest.mark.parametrize("key", ["", "x", "é" * 60])
def test_a_key_that_is_not_the_inputs_fails_the_record(kind: str, key: str) -> None:
    cell = Cell(gateway(), inputs.workflow_of(kind), key, record_law)

    cell.send(*inputs.requested(kind, **{inputs.key_field(kind): key}))

    assert failed_with(cell, "INVALID_INPUT")
    expected = f"key: expected {inputs.key_of(kind)}, found {key}"
    assert cell.state["error"]["message"] == expected
    assert not cell.asked


def test_a_key_in_mixed_case_fails_the_record_of_a_good_input() -> None:
    key = WORK_KEY.replace("5a", "5A")
    cell = Cell(gateway(), "gw/work@1", key, record_law)

    cell.send(*inputs.work_requested(work=key))

    assert failed_with(cell, "INVALID_INPUT")
    assert not cell.asked


# --- Duplicates, and events without a record ------------------------------------------------------


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_a_second_request_changes_nothing_but_the_time(kind: str) -> None:
    cell = begin(kind)
    before = cell.state
    cell.now_ns += 5

    other = {"policy": POLICY | {"conf": 9}, "signer_address": inputs.STRANGER}
    for changes in ({}, other):
        stepped = cell.send(*inputs.requested(kind, **changes))

        assert (stepped.effects, stepped.events) == ((), ())
        assert stepped.annotation == "requested again: unchanged"
        assert cell.state == before | {"updated_at": cell.now_ns}


def test_a_second_request_after_the_end_changes_nothing() -> None:
    cell = begin("epoch")
    order(cell, "Cancel")
    before = cell.state

    stepped = cell.send(*inputs.epoch_requested())

    assert (stepped.effects, stepped.events, stepped.status) == ((), (), "failed")
    assert cell.state == before


@pytest.mark.parametrize("kind", inputs.KINDS)
@pytest.mark.parametrize("what", ["Park", "Resume", "Cancel", "Reconcile"])
def test_a_command_without_a_record_leaves_no_cell(kind: str, what: str) -> None:
    cell = Cell(gateway(), inputs.workflow_of(kind), inputs.key_of(kind), record_law)

    stepped = cell.send(*inputs.command(kind, what))

    assert cell.state is None
    assert stepped.annotation == "there is no such record"


@pytest.mark.parametrize("kind", inputs.KINDS)
def test_an_answer_without_a_record_leaves_no_cell(kind: str) -> None:
    cell = Cell(gateway(), inputs.workflow_of(kind), inputs.key_of(kind), record_law)

    cell.send(*inputs.settled(kind, 1, tag("Canceled"), []))

    assert cell.state is None
    assert not cell.asked


def test_an_answer_to_no_request_changes_nothing() -> None:
    cell = begin("epoch")
    before = cell.state

    for request in (0, 1, 2**64 - 1):
        assert settle(cell, tag("Canceled"), request=request).effects == ()
    assert cell.state == before
