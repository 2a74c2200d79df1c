"""Why a record or a lane waits, and what to do next (C-124)."""

from __future__ import annotations

from typing import Any

import pytest

from aos_gateway.cells import place_of
from aos_gateway.waits import CODES, HELD, RUN, Wait, waits
from tests.gateway.commands.samples import (
    EPOCH,
    LANE,
    NOW,
    OTHER,
    SCORE,
    SIGNER,
    WORK,
    arm,
    auto,
    cell,
    effect,
    error,
    in_flight,
    lane,
    parked,
    record,
)

STALLED = arm("STALLED")
RESUME = f"aos gateway resume {WORK.text}"
REMEDY = f"send funds to {SIGNER} on chain 31337"
NO_FUNDS = error("NO_FUNDS", "needs 7 wei, has 3")
WATCHES = "the lane watches the chain for the transaction"
AGAIN = "then run the world again; if it has that by now: aos effects retry 0123456789ab"
WHY = "NO_FUNDS (the signer cannot pay for gas): needs 7 wei, has 3"


def why(found: Any, *, is_run: bool = True, **more: Any) -> list[Wait]:
    return waits(found, is_run=is_run, now_ns=NOW, **more)


def test_a_parked_record_is_resumed_once_its_cause_is_removed() -> None:
    found = why(cell(WORK, record(state=STALLED, stall=parked("no funds"), error=NO_FUNDS)))

    assert found == [
        Wait(f"parked: no funds; the last error: {WHY}", f"{REMEDY}; then {RESUME}", is_stuck=True)
    ]


def test_a_record_that_an_operator_parked_is_resumed() -> None:
    found = why(cell(WORK, record(state=STALLED, stall=parked("maintenance"))))

    assert found == [Wait("parked: maintenance", RESUME, is_stuck=True)]


def test_an_automatic_stall_ends_by_itself() -> None:
    found = why(cell(WORK, record(state=STALLED, stall=auto(), error=NO_FUNDS)))

    until = "2027-01-15T08:01:30.000Z (in 1 min 30 s)"
    assert found == [
        Wait(
            f"stalled until {until}, automatic stall 2 of 5: {WHY}",
            f"{REMEDY}; to continue now: {RESUME}",
        )
    ]


def test_a_code_that_is_not_known_is_shown_as_it_is() -> None:
    stalled = cell(WORK, record(state=STALLED, stall=auto(), error=error("NEW_CODE", "words")))

    [found] = why(stalled)

    assert found.text.endswith("automatic stall 2 of 5: NEW_CODE: words")
    assert found.next == f"to continue now: {RESUME}"


def test_a_failed_record_names_its_step_and_its_remedy() -> None:
    ended = record(state=arm("FAILED"), error=error("EPOCH_CLOSED", "epoch 7 is closed"))

    [found] = why(cell(WORK, ended | {"doing": arm("Nothing")}))

    assert found.text == (
        "the record FAILED in SUBMIT_WORK_ONCHAIN: EPOCH_CLOSED (the epoch is closed on "
        "chain): epoch 7 is closed"
    )
    assert found.next == CODES["EPOCH_CLOSED"].remedy


def test_a_completed_record_waits_for_nothing_unless_it_drifts() -> None:
    completed = record(state=arm("COMPLETED"))

    assert why(cell(WORK, completed)) == [Wait("the record is COMPLETED: it waits for nothing")]
    [drifting] = why(cell(WORK, completed | {"drift": "the contract does not have it"}))
    assert drifting.text == (
        "COMPLETED, but a later reconciliation found otherwise: the contract does not have it"
    )
    assert drifting.next == f"compare again: aos gateway reconcile {WORK.text}"


def test_an_event_that_has_not_run_needs_a_process() -> None:
    pending = cell(WORK, None, mail=1)

    assert why(pending, is_run=False) == [
        Wait("the event that creates it has not run yet", f"run the world: {RUN}", is_stuck=True)
    ]
    assert why(pending) == [Wait("the event that creates it has not run yet")]


def test_a_fault_comes_before_everything_else() -> None:
    [found] = why(
        cell(WORK, record(state=STALLED, stall=parked()), fault="trap: unreachable", mail=2)
    )

    assert found.text == "the kernel stopped it by a fault: trap: unreachable"
    assert found.next == (
        f"aos inspect faults has the remedy; then aos cells retry gw/work@1 {WORK.text}"
    )


def test_an_effect_waits_for_a_process_and_for_one_with_a_function() -> None:
    open_one = effect("evm/call@1")

    assert [each.next for each in why(cell(WORK, record(), effects=[open_one]), is_run=False)] == [
        f"run the world: {RUN}"
    ]
    without = effect("evm/call@1", is_runnable=False)
    assert [each.next for each in why(cell(WORK, record(), effects=[without]))] == [
        f"run the world with the executors of the gateway: {RUN}"
    ]
    assert why(cell(WORK, record(), effects=[open_one])) == [Wait(open_one.text)]


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("chain_not_configured", f"set AOS_EVM_RPC='31337=URL', {AGAIN}"),
        ("gateway_not_configured", f"set AOS_ARWEAVE='main=URL', {AGAIN}"),
        ("secret_unavailable", f"{HELD['secret_unavailable']}, {AGAIN}"),
        ("other", "retry it"),
    ],
)
def test_a_held_effect_names_what_it_lacks(code: str, remedy: str) -> None:
    held = effect("evm/call@1", code=code, is_stuck=True, next="retry it")

    for is_run in (True, False):
        [found] = why(cell(WORK, record(), effects=[held]), is_run=is_run)
        assert (found.next, found.is_stuck) == (remedy, True)


def test_a_pause_says_what_it_is_for() -> None:
    timer = effect("sys/timer.set@1", text="timer due at 08:00", next=None)
    retry = record(pause=arm("Retry"), error=error("NODE_UNAVAILABLE", "no route"))
    window = record(SCORE, pause=arm("Window"))

    [by_error] = why(cell(WORK, retry, effects=[timer]))
    [by_window] = why(cell(SCORE, window, effects=[timer]))

    assert by_error.text == (
        "timer due at 08:00: it tries again by itself (NODE_UNAVAILABLE (the node gives no usable "
        "answer, so nothing is known): no route)"
    )
    assert by_window.text == "timer due at 08:00: until the score may be revealed"


def at_lane(lane_state: Any, request: int = 1, **more: Any) -> list[Wait]:
    waiting = record(
        doing=arm("AwaitingTx", {"request": request}), at_lane=request, open=None, **more
    )
    its_lane = cell(LANE, lane_state, effects=[effect("evm/tx.receipt@1")])
    return why(cell(WORK, waiting), lane=its_lane, position=place_of(lane_state, WORK, request))


def test_a_record_at_its_lane_names_its_place_and_the_reason_of_the_lane() -> None:
    busy = lane(
        current=in_flight(EPOCH, 2), waiting=((SCORE, 1), (WORK, 1)), doing=arm("Awaiting"),
        open="aos:9:0",
    )  # fmt: skip

    assert [each.text for each in at_lane(busy)] == [
        f"request 1 is at lane {LANE.text}, place 3 of 3, after epoch {EPOCH.text}",
        f"in flight, nonce 4: the transaction of epoch {EPOCH.text}; {WATCHES}",
        "waits for evm/tx.receipt@1: no answer for 3.0 s",
    ]


def test_a_parked_lane_is_resumed_for_the_record_that_waits_there() -> None:
    stopped = lane(current=in_flight(), stall=parked("a new manifest"))

    assert at_lane(stopped) == [
        Wait(f"request 1 is at lane {LANE.text}, in flight"),
        Wait("parked: a new manifest", f"aos gateway resume {LANE.text}", is_stuck=True),
    ]


def test_a_parked_record_shows_where_its_request_is() -> None:
    busy = lane(current=in_flight(), doing=arm("Awaiting"))

    assert [each.text for each in at_lane(busy, state=STALLED, stall=parked())] == [
        "parked: maintenance",
        f"request 1 is at lane {LANE.text}, in flight",
    ]


def test_a_request_that_its_lane_does_not_have_is_on_its_way() -> None:
    waiting = record(doing=arm("AwaitingTx", {"request": 1}), at_lane=1, open=None)

    assert why(cell(WORK, waiting), is_run=False) == [
        Wait("request 1 waits for its lane, which does not have it", f"run the world: {RUN}")
    ]


def test_a_key_that_is_missing_is_the_one_of_the_lanes_signer() -> None:
    stopped = lane(current=in_flight(), stall=auto(), error=error("NO_KEY", "no key"))

    [found] = why(cell(LANE, stopped))

    assert found.next == (
        f"add the key of {SIGNER} to gateway.evm-keys in the file of aos run --secrets, which is "
        f"read again when it changes; to continue now: aos gateway resume {LANE.text}"
    )
    assert "automatic stall 2 of 5" in found.text


@pytest.mark.parametrize(
    ("step", "payer"), [("SUBMIT_SCORE", OTHER), ("AWAIT_REGISTER_CONFIRM", SIGNER)]
)
def test_the_signer_of_a_registration_is_the_admin(step: str, payer: str) -> None:
    stopped = record(SCORE, state=STALLED, stall=parked(), step=arm(step), error=NO_FUNDS)

    [found] = why(cell(SCORE, stopped))

    assert found.next is not None
    assert found.next.startswith(f"send funds to {payer} on chain 31337; then aos gateway resume")


def test_an_idle_lane_waits_for_a_request() -> None:
    assert why(cell(LANE, lane())) == [Wait("the lane has no request")]


def test_a_lane_that_parks_says_so() -> None:
    parking = lane(
        current=in_flight(), doing=arm("Submitting"), open="aos:9:0", is_parking=True
    )  # fmt: skip

    assert why(cell(LANE, parking))[1] == Wait("it parks as soon as the open submit has ended")
