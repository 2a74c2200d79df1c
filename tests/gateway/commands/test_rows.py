"""Records and lanes as rows (C-123)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.errors import BadUsage
from aos_gateway.keys import Key, epoch_key, lane_key
from aos_gateway.requests import epoch_request
from aos_gateway.rows import STATES, order, read_state, row
from tests.gateway.commands.samples import (
    EPOCH,
    LANE,
    NOW,
    OTHER,
    ROOT,
    SCORE,
    SECOND,
    SIGNER,
    STUDIO,
    WORK,
    arm,
    auto,
    cell,
    error,
    in_flight,
    lane,
    parked,
    record,
)


def test_the_row_of_a_record_has_its_state_its_step_and_its_input() -> None:
    found = row(cell(SCORE, record(SCORE, step=arm("COMMIT_SCORE"), step_attempts=2)))

    expected = {
        "type": "score", "key": SCORE.text, "id": SCORE.id, "chain": 31337, "studio": STUDIO,
        "epoch": 7, "signer": OTHER, "state": "RUNNING", "step": "COMMIT_SCORE",
        "step_attempts": 2, "doing": "Checking", "pause": None, "stall": None, "code": None,
        "created_ns": NOW - 60 * SECOND, "updated_ns": NOW - SECOND, "queued": None,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


def test_an_automatic_stall_has_a_time_and_a_parked_one_a_reason() -> None:
    stalled = arm("STALLED")
    by_itself = row(cell(WORK, record(state=stalled, stall=auto(), error=error("NO_FUNDS"))))
    by_hand = row(cell(WORK, record(state=stalled, stall=parked("why not"))))

    names = ("state", "stall", "stall_until_ns", "stall_cycle", "stall_why", "code", "error_step")
    assert [by_itself[name] for name in names] == [
        "STALLED", "auto", NOW + 90 * SECOND, 2, None, "NO_FUNDS", "SUBMIT_WORK_ONCHAIN",
    ]  # fmt: skip
    assert [by_hand[name] for name in names] == [
        "STALLED", "parked", None, None, "why not", None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, "IDLE"),
        ({"waiting": ((WORK, 1),)}, "RUNNING"),
        ({"current": in_flight()}, "RUNNING"),
        ({"open": "aos:1:0", "doing": arm("Mending")}, "RUNNING"),
        ({"stall": parked()}, "STALLED"),
        ({"current": in_flight(), "stall": auto()}, "STALLED"),
    ],
)
def test_the_state_of_a_lane_follows_from_its_work(more: dict[str, Any], state: str) -> None:
    found = row(cell(LANE, lane(**more)))

    assert (found["state"], found["signer"], found["chain"]) == (state, SIGNER, 31337)


def test_an_event_that_has_not_run_is_a_pending_record() -> None:
    request = epoch_request(chain=31337, studio=STUDIO, epoch=7, signer=SIGNER, policy={})
    found = row(cell(EPOCH, None, created=request.value, mail=1))

    assert (found["state"], found["step"], found["mail"]) == ("PENDING", None, 1)
    assert (found["id"], found["studio"], found["epoch"]) == (EPOCH.id, STUDIO, 7)


def test_every_row_has_the_same_keys_which_the_page_names() -> None:
    cells = [
        cell(WORK, record()),
        cell(EPOCH, None),
        cell(LANE, lane()),
        cell(LANE, None, fault="trap: out of bounds"),
    ]
    [keys] = {tuple(sorted(row(each))) for each in cells}

    page = (
        (ROOT / "spec" / "cli.md").read_text().partition("**C-123**")[2].partition("**C-124**")[0]
    )
    assert [name for name in keys if f"`{name}`" not in page] == []


def test_rows_are_in_the_order_of_type_chain_and_key() -> None:
    keys: list[Key] = [
        lane_key(1, SIGNER), LANE, epoch_key(31337, STUDIO, 7), SCORE, WORK, epoch_key(7, STUDIO, 9)
    ]  # fmt: skip
    rows = [row(cell(key, None)) for key in keys]

    assert [each["key"] for each in sorted(rows, key=order)] == [
        WORK.text, SCORE.text, f"7/{STUDIO}/9", f"31337/{STUDIO}/7", f"1/{SIGNER}", LANE.text,
    ]  # fmt: skip


def test_a_state_is_read_in_any_case() -> None:
    assert [read_state(name.lower()) for name in STATES] == list(STATES)
    assert read_state(None) is None
    with pytest.raises(
        BadUsage, match=r"--state: expected PENDING, RUNNING, .* or IDLE, found 'x'"
    ):
        read_state("x")
