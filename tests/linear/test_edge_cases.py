"""The edge cases of `spec/linear.md`, one test each, in both modes.

Those of claims of many instances and of workers (6, 38, 41) need a node: `tests/node/linear`;
those of handlers (37, 42) are in `tests/node/worker/test_step_tasks.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.core.journal.records import Step
from aos.values.cbor import encode
from tests.linear.stage import (
    DAY,
    LEASE,
    LINEAR,
    MINUTE,
    MODES,
    MS,
    NULL,
    SECOND,
    SHIPPED,
    Stage,
    completed,
    dead,
    plan_step,
    retry,
    shipped,
    waiting,
)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stage(mode: str) -> Iterator[Stage]:
    """It is replayed in the end."""
    stage = Stage(mode)
    yield stage
    stage.world.close()


def claimed(stage: Stage, **plan: Any) -> Stage:
    """An instance of one plan step, which ``w-1`` has claimed."""
    stage.begin(plan_step(**plan))
    assert stage.claim() == "Claimed 0 1"
    return stage


def waits(stage: Stage, timeout: int | None = MINUTE) -> Stage:
    """An instance whose plan step waits for ``PAID``."""
    claimed(stage).result(waiting("PAID", timeout))
    return stage


def timed_out(stage: Stage, **plan: Any) -> Stage:
    """An instance whose plan step has waited too long, claimed again by ``w-1``."""
    claimed(stage, **plan).result(waiting("PAID", 0))
    assert stage.claim() == "Claimed 0 2"
    assert stage.row()["task"] == "WAITING_TIMEOUT"
    return stage


def test_01_a_plan_of_one_plan_step_is_completed_by_its_result(stage: Stage) -> None:
    claimed(stage)

    assert stage.result(completed()) == "Done"

    assert stage.statuses() == ["COMPLETED", "DONE"]


def test_02_a_plan_of_no_plan_steps_does_not_start(stage: Stage) -> None:
    assert stage.begin(steps=[]) == "INVALID"
    assert stage.reserve("k-1", steps=[]) == "INVALID"

    assert stage.details == ["steps: expected 1 to 256, found 0"] * 2
    assert stage.find("i-1") is None
    assert stage.holder("k-1") is None


def test_03_a_newer_version_leaves_a_running_instance_its_plan(stage: Stage) -> None:
    stage.begin(plan_step("SHIP"), plan_step("NOTIFY"), version=1)
    before = stage.state()

    stage.begin(plan_step("PACK"), version=2, instance="i-2")

    assert stage.state() == before
    stage.claim()
    stage.result(completed())
    assert stage.row()["step_type"] == "NOTIFY"
    assert (stage.state("i-2")["version"], stage.row(0, instance="i-2")["step_type"]) == (2, "PACK")


def test_04_a_business_key_is_taken_until_its_instance_ends(stage: Stage) -> None:
    assert stage.reserve("k-1") == "Done"

    assert stage.reserve("k-1", instance="i-2") == "TAKEN"

    assert stage.details == ["i-1"]
    assert stage.find("i-2") is None
    stage.claim()
    stage.result(completed())
    assert stage.holder("k-1") is None
    assert stage.reserve("k-1", instance="i-2") == "Done"
    assert stage.holder("k-1") == "i-2"


@pytest.mark.parametrize("step", [1, 2])
def test_05_a_crash_in_the_start_leaves_all_rows_or_none(stage: Stage, step: int) -> None:
    stage.world.crash_after(step)

    assert stage.reserve("k-1", plan_step(), plan_step()) == "Done"

    assert stage.statuses() == ["RUNNING", "READY", "PENDING"]
    assert stage.holder("k-1") == "i-1"
    stage.world.replay()


def test_07_of_two_workers_one_gets_the_plan_step(stage: Stage) -> None:
    stage.begin()

    assert [stage.claim("w-1"), stage.claim("w-2")] == ["Claimed 0 1", "NOT_DUE"]

    assert stage.row()["locked_by"] == "w-1"


def test_08_a_plan_step_that_was_claimed_and_never_run_is_ready_again(stage: Stage) -> None:
    until = claimed(stage).now + LEASE

    stage.advance_to(until)
    assert stage.row()["status"] == "RUNNING"
    stage.advance_to(until + 1)

    row = stage.row()
    assert (row["status"], row["attempts"], row["last_error"]) == ("READY", 1, "LEASE_EXPIRED")
    assert row["next_run_at"] == until + 1
    assert stage.claim("w-2") == "Claimed 0 2"


@pytest.mark.parametrize(("late", "answer"), [(0, "Done"), (MS, "LEASE_LOST")])
def test_09_a_result_at_locked_until_and_1_ms_later(mode: str, late: int, answer: str) -> None:
    stage = claimed(Stage(mode, timers=False))
    stage.advance(LEASE + late)

    assert stage.result(completed()) == answer

    assert stage.statuses() == (["RUNNING", "RUNNING"] if late else ["COMPLETED", "DONE"])


@pytest.mark.parametrize("timers", [True, False])
def test_10_a_late_result_before_the_next_claim_is_refused(mode: str, timers: bool) -> None:
    stage = claimed(Stage(mode, timers=timers))
    stage.advance(LEASE + MS)

    assert stage.result(completed()) == "LEASE_LOST"

    assert stage.row()["status"] == ("READY" if timers else "RUNNING")


def test_11_a_late_result_after_the_claim_of_another_is_refused(stage: Stage) -> None:
    claimed(stage).advance(LEASE + MS)
    stage.claim("w-2")
    before = stage.state()

    answer = stage.result(completed(), "w-1", epoch=1)

    assert answer == ("STALE_EPOCH" if stage.mode == "standard" else "LEASE_LOST")
    assert stage.state() == before


def test_12_a_late_result_after_the_own_next_claim_is_refused_by_its_epoch(stage: Stage) -> None:
    """Ruling a. The source cannot tell the two claims of one worker apart."""
    claimed(stage).advance(LEASE + MS)
    stage.claim("w-1")

    answer = stage.result(completed(), "w-1", epoch=1)

    if stage.mode == "standard":
        assert (answer, stage.row()["status"]) == ("STALE_EPOCH", "RUNNING")
    else:
        assert (answer, stage.row()["status"]) == ("Done", "DONE")


def test_13_a_heartbeat_extends_the_lease(stage: Stage) -> None:
    claimed(stage).advance(20 * SECOND)

    assert stage.extend() == "Done"

    until = stage.now + LEASE
    assert stage.row()["locked_until"] == until
    stage.advance_to(until)
    assert stage.row()["status"] == "RUNNING"
    stage.advance_to(until + 1)
    assert stage.row()["status"] == "READY"
    assert stage.extend() == "LEASE_LOST"


def test_14_with_an_attempt_bound_of_1_the_first_retry_is_the_end(stage: Stage) -> None:
    claimed(stage, max_attempts=1)

    assert stage.result(retry("no answer")) == "Done"

    assert stage.statuses() == ["FAILED", "DEAD"]
    assert stage.row()["attempts"] == 1


def test_15_with_an_attempt_bound_of_3_there_are_exactly_three_runs(stage: Stage) -> None:
    stage.begin(plan_step(max_attempts=3))

    runs = 0
    while stage.claim().startswith("Claimed"):
        runs += 1
        stage.result(retry(backoff=0))

    assert runs == 3
    assert stage.statuses() == ["FAILED", "DEAD"]


def test_16_a_plan_step_that_kills_its_workers_ends_after_its_attempts(stage: Stage) -> None:
    """Ruling b. In the source it runs for ever."""
    stage.begin(plan_step(max_attempts=3))

    for _ in range(5):
        stage.claim()
        stage.advance(LEASE + 1)

    row = stage.row()
    if stage.mode == "standard":
        assert (row["status"], row["attempts"], row["epoch"]) == ("DEAD", 3, 3)
        assert stage.events("Ended")[0]["error"] == "LEASE_EXPIRED"
    else:
        assert (row["status"], row["attempts"], row["epoch"]) == ("READY", 5, 5)


def test_17_a_retry_past_the_attempt_bound_is_the_end(stage: Stage) -> None:
    stage.begin(plan_step(max_attempts=2))
    for _ in range(2):
        stage.claim()
        stage.advance(LEASE + 1)

    if stage.mode == "standard":
        assert stage.claim() == "NOT_RUNNING"
    else:
        stage.claim()
        assert stage.result(retry()) == "Done"

    assert stage.statuses() == ["FAILED", "DEAD"]
    assert stage.row()["attempts"] == (2 if stage.mode == "standard" else 3)


def test_18_waiting_leaves_the_attempts(stage: Stage) -> None:
    claimed(stage).result(retry(backoff=0))
    stage.claim()

    stage.result(waiting())

    assert stage.row()["attempts"] == 1
    stage.signal()
    assert stage.row()["attempts"] == 1


def test_19_waiting_again_has_a_new_deadline(stage: Stage) -> None:
    first = waits(stage, MINUTE).row()["deadline_at"]
    stage.advance(MINUTE)
    stage.claim()
    stage.advance(SECOND)

    stage.result(waiting("SENT", MINUTE))

    row = stage.row()
    assert (row["waiting_event_type"], row["deadline_at"]) == ("SENT", first + SECOND + MINUTE)
    assert stage.claim() == "NOT_DUE"


def test_20_a_wait_can_be_claimed_at_its_deadline_and_not_1_ns_before(stage: Stage) -> None:
    deadline = waits(stage).row()["deadline_at"]

    stage.advance_to(deadline - 1)
    assert stage.claim() == "NOT_DUE"
    stage.advance_to(deadline)
    assert stage.claim() == "Claimed 0 2"

    row = stage.row()
    assert (row["task"], row["waiting_event_type"]) == ("WAITING_TIMEOUT", None)


@pytest.mark.parametrize(("wait_timeouts", "timeout"), [(False, 0), (True, None)])
def test_21_without_timeouts_only_a_signal_ends_a_wait(
    stage: Stage, wait_timeouts: bool, timeout: int | None
) -> None:
    stage.begin(wait_timeouts=wait_timeouts)
    stage.claim()
    stage.result(waiting("PAID", timeout))

    stage.advance(30 * DAY)
    assert stage.claim() == "NOT_DUE"
    stage.signal()
    assert stage.claim() == "Claimed 0 2"

    assert stage.row()["task"] == "READY_STEP"


@pytest.mark.parametrize(
    ("outcome", "status"),
    [(completed(), "DONE"), (waiting(), "WAITING"), (retry(), "READY"), (dead(), "DEAD")],
)
def test_22_the_handler_of_a_timeout_has_the_same_four_results(
    stage: Stage, outcome: dict[str, Any], status: str
) -> None:
    timed_out(stage)

    assert stage.result(outcome) == "Done"

    assert stage.row()["status"] == status


@pytest.mark.parametrize("is_retry", [False, True])
def test_23_a_timeout_whose_attempt_fails_runs_again_as_one(stage: Stage, is_retry: bool) -> None:
    """Ruling c."""
    timed_out(stage)
    if is_retry:
        stage.result(retry(backoff=0))
    else:
        stage.advance(LEASE + 1)

    assert stage.claim() == "Claimed 0 3"

    is_kept = stage.mode == "standard"
    assert stage.row()["task"] == ("WAITING_TIMEOUT" if is_kept else "READY_STEP")


def test_24_a_signal_of_another_type_wakes_nothing(stage: Stage) -> None:
    before = waits(stage).state()["steps"]

    answer = stage.signal("SENT")

    assert answer == ("Done" if stage.mode == "standard" else "NOT_WAITING")
    assert stage.state()["steps"] == before


def test_25_a_signal_for_a_later_plan_step_or_an_ended_instance_changes_no_row(
    stage: Stage,
) -> None:
    stage.begin(plan_step(), plan_step())
    before = stage.state()["steps"]
    assert stage.signal() == ("Done" if stage.mode == "standard" else "NOT_WAITING")
    assert stage.state()["steps"] == before

    stage.claim()
    stage.result(dead())
    ended = stage.state()

    assert stage.signal(event_id="e-2") == "NOT_RUNNING"
    assert stage.state() == ended


def test_26_early_signals_wake_the_plan_step_that_waits_for_them_oldest_first(
    stage: Stage,
) -> None:
    """Ruling d."""
    claimed(stage)
    for number in (1, 2, 3):
        stage.signal("SENT" if number == 2 else "PAID", f"e-{number}")

    stage.result(waiting("PAID"))

    if stage.mode == "standard":
        assert (stage.row()["status"], stage.row()["woken_by"]["event_id"]) == ("READY", "e-1")
        assert [each["event_id"] for each in stage.state()["buffered"]] == ["e-2", "e-3"]
    else:
        assert stage.row()["status"] == "WAITING"


def test_27_of_a_signal_and_a_timeout_claim_the_first_wins(stage: Stage) -> None:
    waits(stage, 0)
    assert stage.signal(event_id="e-1") == "Done"
    assert stage.claim() == "Claimed 0 2"
    assert stage.row()["task"] == "READY_STEP"

    stage.result(waiting("PAID", 0))
    assert stage.claim() == "Claimed 0 3"

    answer = stage.signal(event_id="e-2")

    assert answer == ("Done" if stage.mode == "standard" else "NOT_WAITING")
    assert (stage.row()["task"], stage.row()["status"]) == ("WAITING_TIMEOUT", "RUNNING")


def test_28_an_event_id_wakes_once(stage: Stage) -> None:
    waits(stage).signal(event_id="e-1")
    stage.claim()
    stage.result(waiting("PAID"))

    assert stage.signal(event_id="e-1") == "Done"

    assert stage.row()["status"] == "WAITING"
    stage.signal(event_id="e-2")
    assert stage.row()["status"] == "READY"


def test_29_a_second_signal_of_the_type_while_the_first_is_handled(stage: Stage) -> None:
    waits(stage).signal(event_id="e-1")
    stage.claim()

    answer = stage.signal(event_id="e-2")

    assert answer == ("Done" if stage.mode == "standard" else "NOT_WAITING")
    assert stage.row()["status"] == "RUNNING"
    stage.result(waiting("PAID"))
    assert stage.row()["status"] == ("READY" if stage.mode == "standard" else "WAITING")


def test_30_the_payload_of_a_signal_reaches_the_handler(stage: Stage) -> None:
    """Ruling e. In the source a handler looks for itself why it runs."""
    payload = encode({"amount": 500})
    waits(stage).signal("PAID", "e-1", payload)

    stage.claim()

    expected = {"event_id": "e-1", "type": "PAID", "payload": payload}
    assert stage.row()["woken_by"] == (expected if stage.mode == "standard" else None)


def test_31_a_handler_sees_its_attempt_its_task_and_why_it_runs_until_it_has_a_result(
    stage: Stage,
) -> None:
    waits(stage).signal()
    stage.claim()
    stage.result(retry(backoff=0))
    stage.claim()

    row = stage.row()
    assert (row["attempts"], row["task"]) == (1, "READY_STEP")
    assert (row["woken_by"] is not None) is (stage.mode == "standard")

    stage.result(waiting("PAID"))
    assert stage.row()["woken_by"] is None


def test_32_outbound_events_are_in_the_step_that_accepts_their_result(stage: Stage) -> None:
    claimed(stage)
    stage.world.crash_after(stage.world.steps + 1)

    stage.result(completed(), outbound=[shipped("o-1"), shipped("o-2")])

    steps = [each for each in stage.world._desk.records if isinstance(each, Step)]
    assert [event.schema for event in steps[-1].events].count(SHIPPED) == 2
    assert (stage.statuses()[0], steps[-1].status) == ("COMPLETED", "completed")
    assert stage.outbound == [{"order": "o-1"}, {"order": "o-2"}]

    refused = Stage(stage.mode)
    claimed(refused).result(completed(), "w-2", outbound=[shipped()])
    assert refused.outbound == []


def test_33_waiting_and_dead_send_outbound_events_and_retry_cannot(stage: Stage) -> None:
    claimed(stage)

    assert stage.result(retry(), outbound=[shipped("o-1")]) == "INVALID"
    assert stage.row()["status"] == "RUNNING"
    assert stage.result(waiting(timeout=0), outbound=[shipped("o-2")]) == "Done"
    stage.claim()
    assert stage.result(dead(), outbound=[shipped("o-3")]) == "Done"

    assert stage.outbound == [{"order": "o-2"}, {"order": "o-3"}]


def test_34_the_next_plan_step_is_always_pending(stage: Stage) -> None:
    """Nothing but the result of the plan step before it changes it."""
    stage.begin(plan_step(), plan_step())
    stage.claim()

    for outcome in (completed(), waiting(), retry(), dead()):
        assert stage.result(outcome, seq=1, epoch=0) == "STALE_EPOCH"
    assert stage.extend(seq=1, epoch=0) == "STALE_EPOCH"

    assert stage.statuses() == ["RUNNING", "RUNNING", "PENDING"]
    stage.result(completed())
    assert stage.statuses() == ["RUNNING", "DONE", "READY"]


def test_35_a_plan_step_without_a_type_does_not_start(stage: Stage) -> None:
    assert stage.begin(plan_step(), plan_step("")) == "INVALID"

    assert stage.details == ["type of a plan step: expected 1 to 256 bytes, found 0"]
    assert stage.find("i-1") is None


def test_36_a_plan_has_no_gaps(stage: Stage) -> None:
    """A row's sequence number is its place in the list: the rows run in order."""
    stage.begin(*(plan_step(f"S-{number}") for number in range(4)))

    seen = []
    while stage.state()["status"] == "RUNNING":
        seen.append((stage.claim(), stage.row()["step_type"]))
        stage.result(completed())

    assert seen == [(f"Claimed {seq} 1", f"S-{seq}") for seq in range(4)]


def test_39_a_cancel_wins_over_a_result_in_flight(stage: Stage) -> None:
    rows = claimed(stage).state()["steps"]

    assert stage.cancel("no longer wanted") == "Done"
    assert stage.result(completed(), outbound=[shipped()]) == "CANCELED"

    state = stage.state()
    assert (state["status"], state["canceled_at"]) == ("CANCELED", stage.now)
    assert state["cancel_reason"] == "no longer wanted"
    assert (state["steps"], stage.outbound) == (rows, [])
    assert stage.cancel("again") == "Done"
    assert stage.state() == state


def test_40_an_ended_instance_cannot_be_claimed(stage: Stage) -> None:
    claimed(stage).result(completed())
    ended = stage.state()

    assert stage.claim() == "NOT_RUNNING"

    assert stage.state() == ended
    stage.begin(instance="i-2")
    stage.cancel(instance="i-2")
    assert stage.claim(instance="i-2") == "CANCELED"


def test_43_the_rows_of_an_ended_instance_stay(stage: Stage) -> None:
    stage.begin(plan_step(), plan_step("NOTIFY"), plan_step("CLOSE"))
    stage.claim()
    stage.result(completed())
    stage.claim()
    stage.result(dead())
    ended = stage.state()

    stage.advance(365 * DAY)
    stage.world.snapshot()

    assert stage.state() == ended
    assert stage.statuses() == ["FAILED", "DONE", "DEAD", "PENDING"]


def test_44_the_last_error_stays_on_ready_and_dead_rows_and_no_others(stage: Stage) -> None:
    claimed(stage).result(retry("busy", backoff=0))
    assert stage.row()["last_error"] == "busy"
    stage.claim()
    stage.result(waiting(timeout=0))
    assert stage.row()["last_error"] is None
    stage.claim()
    stage.result(retry("still busy", backoff=0))
    stage.claim()

    stage.result(dead("gone"))

    assert stage.row()["last_error"] == "gone"
    other = claimed(Stage(stage.mode))
    other.result(retry(backoff=0))
    other.claim()
    other.result(completed())
    assert other.row()["last_error"] is None


def test_45_an_ended_instance_has_one_time_of_its_end_and_tells_it_once(stage: Stage) -> None:
    stage.reserve("k-1", instance="i-1", schedule="nightly")
    stage.begin(instance="i-2")
    for instance, outcome in (("i-1", completed()), ("i-2", dead("gone"))):
        stage.claim(instance=instance)
        stage.advance(SECOND)
        stage.result(outcome, instance=instance)
    stage.begin(instance="i-3")
    stage.cancel(instance="i-3")

    names = ("completed_at", "failed_at", "canceled_at")
    ends = [[stage.state(f"i-{number}")[name] for name in names] for number in (1, 2, 3)]
    now = stage.now
    assert ends == [[now - SECOND, None, None], [None, now, None], [None, None, now]]
    statuses = [stage.world.status(LINEAR, f"i-{number}") for number in (1, 2, 3)]
    assert statuses == ["completed", "failed", "failed"]

    told = {"type": "order.process", "version": 1, "biz_key": None, "error": None}
    assert stage.events("Ended") == [
        told | {"instance": "i-1", "status": "COMPLETED", "biz_key": "k-1"},
        told | {"instance": "i-2", "status": "FAILED", "error": "gone"},
        told | {"instance": "i-3", "status": "CANCELED", "error": "no longer wanted"},
    ]
    assert stage.events("Released") == [{"biz_key": "k-1", "instance": "i-1"}]
    assert stage.world.events("aos/ScheduleDone@1") == [{"schedule": "nightly"}]


def test_46_the_same_result_again_is_done_without_effect(stage: Stage) -> None:
    claimed(stage)
    patch = {"a": NULL}
    assert stage.result(completed(**patch), epoch=1, outbound=[shipped()]) == "Done"
    before = stage.state()

    assert stage.result(completed(**patch), epoch=1, outbound=[shipped()]) == "Done"
    assert stage.result(completed(), epoch=1, outbound=[shipped()]) == "NOT_RUNNING"

    assert stage.state() == before
    assert stage.outbound == [{"order": "o-1"}]
    assert len(stage.events("Ended")) == 1
