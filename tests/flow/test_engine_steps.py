"""Steps, locals, emits, time and the view (FL-30 to FL-42, FL-70 to FL-74)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.testing import Fail, Timeout, in_turn, like
from tests.flow.probe import (
    CHILD,
    DAY,
    FLOW,
    HOUR,
    MINUTE,
    MODULE,
    NEVER,
    Probe,
    deliver,
    nodes,
    wasm,
)

MS = 10**6
BUSY = Fail("busy", "try later", retryable=True)


def test_steps_run_one_after_another_and_their_results_come_from_the_history() -> None:
    with Probe("steps") as probe:
        probe.begin()

        assert (probe.status, probe.output) == ("completed", "one two")
        assert probe.done == ["one", "two", "one two"]
        assert probe.state == like({"started_ns": probe.world.now_ns, "error": None, "view": None})
        assert probe.state["schemas"] == {"input": "t/Go@1", "output": None, "view": "t/Shown@1"}
        assert probe.paths == {}
        assert probe.world.status(FLOW, "a") == "completed"


def test_an_effect_has_the_path_as_its_key_and_in_its_reference() -> None:
    with Probe("steps", answers=False) as probe:
        probe.begin()
        effect = probe.world.effect("t/do@1")

        assert effect.issuer_ref == "flow:one#1"
        assert effect.requested_key == "one"
        assert probe.paths == {"one": "step running"}
        assert probe.status == "running"
        assert probe.world.status(FLOW, "a") == "waiting"


def test_a_retryable_error_is_tried_three_times_with_pauses_that_double() -> None:
    with Probe("retry") as probe:
        probe.answer(**{"try": BUSY})
        begun = probe.world.now_ns
        probe.begin()
        assert probe.paths == {"try": "step pending"}
        assert probe.world.timers()[0].issuer_ref == "flow:try#1:retry"
        assert probe.world.timers()[0].due_ns == begun + 100 * MS
        probe.world.advance("100ms")
        assert probe.world.timers()[0].due_ns == begun + 300 * MS
        probe.world.finish()

        assert probe.status == "failed"
        assert probe.error == ["exhausted", "busy", "try later", "try", []]
        refs = [each.issuer_ref for each in probe.world.asked("t/do@1")]
        assert refs == ["flow:try#1", "flow:try#2", "flow:try#3"]
        keys = {each.requested_key for each in probe.world.asked("t/do@1")}
        assert keys == {"try"}


def test_an_attempt_can_succeed_after_others_failed() -> None:
    with Probe("retry") as probe:
        probe.answer(**{"try": in_turn(BUSY, Fail("exception", "of nobody"), {"note": "late"})})
        probe.begin()
        probe.world.finish()

        assert (probe.status, probe.output) == ("completed", "late")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Fail("broken", "it is broken"), ["critical", "broken", "it is broken", "try", []]),
        (Fail("rollback", "no more"), ["rollback", "rollback", "no more", "try", []]),
        (Timeout(), ["timeout", "timeout", "", "try", []]),
    ],
)
def test_other_errors_are_final_at_once(answer: object, error: list[object]) -> None:
    with Probe("retry") as probe:
        probe.answer(**{"try": answer})
        probe.begin()

        assert probe.status == "failed"
        assert [*probe.error[:2], *probe.error[3:]] == [*error[:2], *error[3:]]
        assert len(probe.done) == 1
        assert probe.world.status(FLOW, "a") == "failed"


def test_an_operator_who_cancels_an_effect_ends_its_step() -> None:
    with Probe("retry", answers=False) as probe:
        probe.begin()
        probe.world.effect("t/do@1").cancel()
        probe.world.run()

        assert probe.error[:2] == ["canceled", "canceled"]
        assert probe.status == "failed"


def test_an_answer_that_fits_no_schema_is_critical() -> None:
    with Probe("retry", answers=False) as probe:
        probe.begin()
        probe.world.effect("t/do@1").answer_badly()
        probe.world.run()

        assert probe.error[:2] == ["critical", "receipt_payload_invalid"]


def test_timeouts_are_tried_again_if_the_step_says_so_and_jitter_stays_within_bounds() -> None:
    with Probe("patient", count=4, pause=MINUTE) as probe:
        probe.answer(**{"try": in_turn(Timeout(), BUSY, Timeout(), {"note": "at last"})})
        began = probe.world.now_ns
        probe.begin()
        [first] = probe.world.timers()
        assert MINUTE // 2 <= (first.due_ns or 0) - began <= MINUTE
        probe.world.finish()

        assert probe.output == "at last"
        assert 7 * MINUTE // 2 <= probe.world.now_ns - began <= 7 * MINUTE


def test_the_deadline_of_a_step_counts_without_an_executor() -> None:
    with Probe("timeout", count=1, answers=False) as probe:
        probe.begin()
        assert [each.issuer_ref for each in probe.world.timers()] == ["flow:slow#1:timeout"]
        effect = probe.world.effect("t/do@1")
        probe.world.advance(HOUR)

        assert (probe.status, probe.output) == ("completed", "timeout")
        assert effect.status == "canceled" or not effect.is_open


def test_the_deadline_of_a_step_ends_its_pause_too() -> None:
    with Probe("timeout", count=2) as probe:
        probe.answer(slow=BUSY)
        probe.begin()
        assert probe.paths == {"slow": "step pending"}
        probe.world.advance(HOUR)

        assert (probe.status, probe.output) == ("completed", "timeout")
        assert probe.world.timers() == []


def test_a_deadline_that_begins_in_a_turn_that_was_retried_counts_from_the_retry() -> None:
    """K-101b."""
    with Probe("timeout", count=1, answers=False) as probe:
        probe.world.apply(nodes(fuel=1_000), modules={MODULE: wasm()})
        probe.begin(may_fail=True)
        assert probe.fault[0] == "fuel"
        probe.world.advance(5 * HOUR)
        probe.mend()

        probe.world.retry(FLOW, probe.key)
        probe.world.run()
        retried_ns = probe.world.now_ns
        probe.world.advance(HOUR - MINUTE)
        assert probe.paths == {"slow": "step running"}
        probe.world.advance(MINUTE)

        assert (probe.status, probe.output) == ("completed", "timeout")
        assert probe.world.now_ns - retried_ns == HOUR


def test_a_step_that_ends_in_time_cancels_its_deadline() -> None:
    with Probe("timeout", count=1) as probe:
        probe.begin()

        assert probe.output == "slow"
        assert probe.world.timers() == []


def test_a_step_in_doubt_is_undone_and_one_that_surely_failed_is_not() -> None:
    with Probe("timeout", count=3) as probe:
        probe.answer(slow=Timeout())
        probe.begin()
        assert probe.status == "failed"
        assert probe.undone == ["slow"]
    with Probe("timeout", count=3) as probe:
        probe.answer(slow=Fail("broken"))
        probe.begin()
        assert probe.status == "failed"
        assert probe.undone == []


def test_time_chance_and_events_are_recorded_once() -> None:
    with Probe("locals") as probe:
        probe.begin()
        paths = probe.paths
        probe.world.restart()
        probe.world.finish()

        number, uuid, later, started = probe.output.split()
        assert int(number) >= 0
        assert int(later) == HOUR
        assert int(started) == 0
        assert probe.world.events("t/Told@1") == [{"text": uuid}]
        assert list(paths) == ["now", "number", "uuid", "told", "nap"]


@pytest.mark.parametrize("span", [0, 1, HOUR, 400 * DAY])
def test_a_sleep_ends_at_its_deadline_and_not_before(span: int) -> None:
    with Probe("sleep", pause=span) as probe:
        began = probe.world.now_ns
        probe.begin()
        if span > 1:
            assert probe.status == "sleeping"
            probe.world.advance(span - 1)
            assert probe.status == "sleeping"
        probe.world.finish("500d")

        assert probe.output == "awake"
        assert probe.world.now_ns - began == span


def test_a_sleep_until_a_time_that_has_passed_ends_at_once() -> None:
    for until in (-1, 0, 1):
        with Probe("sleep-until", until=until) as probe:
            probe.begin()
            assert probe.output == "awake"


@pytest.mark.parametrize("span", [-1, -(2**63), 2**63 - 1])
def test_a_duration_that_is_negative_or_too_long_is_critical(span: int) -> None:
    with Probe("intervals", count=9, pause=span) as probe:
        probe.begin()

        assert probe.error[:2] == ["critical", "duration"]
        assert probe.error[3] == "nap"


@pytest.mark.parametrize(
    ("count", "code"),
    [(0, "interval"), (1, "interval"), (2, "at_most"), (3, "count"), (4, "retry")],
)
def test_a_count_of_0_is_critical(count: int, code: str) -> None:
    with Probe("intervals", count=count) as probe:
        probe.begin()

        assert probe.error[:2] == ["critical", code]
        assert probe.done == []


def test_the_view_is_what_was_published_last_although_replays_publish_again() -> None:
    blob = "blake3:" + "1" * 64
    with Probe("shows", blob=blob, answers=False) as probe:
        probe.begin()
        assert probe.view == {"at": "first", "blob": blob}
        assert probe.state["refs"] == [blob]
        probe.answer()
        probe.world.run()
        assert probe.view == {"at": "left", "blob": None}
        probe.note("a turn that replays everything")
        assert probe.view == {"at": "left", "blob": None}
        assert probe.state["refs"] == [blob]  # the input names it, too
        probe.world.finish()
        assert probe.output == "shown"


def test_a_view_of_another_type_is_a_fault() -> None:
    with Probe("publishes-another-type") as probe:
        probe.begin(may_fail=True)

        assert probe.fault[0] == "guest"
        assert "flow_name" in probe.fault[1]


def test_a_failure_is_the_same_live_and_replayed() -> None:
    with Probe("catches") as probe:
        probe.answer(one=Fail("broken", "it is broken"))
        probe.begin()
        for _ in range(3):
            probe.world.restart()
            probe.note("again")
        probe.world.finish()

        assert probe.output == "critical broken: it is broken (one)"


def test_a_value_that_the_code_changes_is_the_recorded_one_in_the_next_turn() -> None:
    with Probe("changes") as probe:
        probe.begin()
        probe.note("replay")
        probe.world.finish()

        assert probe.output == "one!"


def test_a_crash_in_mid_step_repeats_the_same_attempt() -> None:
    with Probe("retry") as probe:
        probe.answer(**{"try": NEVER})
        probe.begin()
        probe.world.restart()
        probe.world.run()
        assert probe.history[1][0][4] == 1
        probe.world.effect("t/do@1").answer({"note": "done"})
        probe.world.run()

        assert probe.output == "done"
        assert len(probe.done) == 1


def test_a_second_start_changes_nothing() -> None:
    with Probe("sleep") as probe:
        probe.begin()
        before = probe.state
        probe.world.send("t/Go@1", probe.start | {"program": "steps"})
        probe.world.run()
        assert probe.state == before
        probe.world.finish()
        before = probe.state
        deliver(probe.world, "t/Go@1", probe.start)
        probe.world.run()

        assert probe.state == before


def test_children_are_called_and_give_their_result_back() -> None:
    with Probe("calls") as probe:
        probe.begin()
        assert probe.paths == {"one": "step completed", "kid": "call running"}
        assert probe.world.state(CHILD, "kid")["parent"] == {
            "schema": "t/ProbeReturn@1", "key": b"\x61a", "path": "kid", "attempt": 1,
        }  # fmt: skip
        probe.world.finish()

        assert probe.output == "kid"


def test_the_failure_of_a_child_is_the_cause_of_its_parents() -> None:
    with Probe("calls", count=1) as probe:
        probe.begin()
        probe.world.finish()

        assert probe.error[0] == "rollback"
        assert probe.error[1:4] == ["refused", "the child refuses", "kid"]
        assert probe.error[4] == [["rollback", "refused", "the child refuses", "", []]]
        assert probe.undone == ["child-fails", "one"]


def test_a_key_that_is_in_use_refuses_a_call() -> None:
    with Probe("calls", count=2) as probe:
        probe.world.send("t/Work@1", {"id": "kid", "what": "first"})
        probe.world.run()
        before = probe.world.state(CHILD, "kid")
        probe.begin()

        assert probe.output == (
            "critical exists: a flow with this key has already been started (kid)"
        )
        assert probe.world.state(CHILD, "kid") == before


def test_a_canceled_parent_cancels_the_child_that_it_waits_for() -> None:
    with Probe("calls") as probe:
        probe.begin()
        probe.control("Cancel", {"rollback": True})

        assert probe.status == "cancelled"
        assert probe.world.state(CHILD, "kid")["status"] == "cancelled"
        assert sorted(probe.undone) == ["kid", "one"]
        assert probe.world.timers() == []


def test_a_race_that_its_child_loses_cancels_the_child() -> None:
    with Probe("races-a-call") as probe:
        probe.begin()
        probe.note("enough")

        assert probe.output == "enough"
        assert probe.world.state(CHILD, "kid")["status"] == "cancelled"


def test_a_call_that_loses_before_it_is_refused_cancels_no_foreign_flow() -> None:
    """FL-65a, FL-72, FL-73: call and cancel leave in one turn, and the flow with this key is not of
    this call."""
    with Probe("races-a-call") as probe:
        probe.world.send("t/Work@1", {"id": "kid", "what": "first"})
        probe.world.run()
        before = probe.world.state(CHILD, "kid")
        probe.note("enough")
        probe.begin()

        assert probe.output == "enough"
        assert [each.value["command"]["$tag"] for each in cancels(probe)] == ["Cancel"]
        assert probe.world.state(CHILD, "kid") == before
        assert probe.undone == []


def cancels(probe: Probe) -> list[Any]:
    return probe.world.emitted("t/ChildControl@1")


def test_a_flow_obeys_the_call_that_started_it_an_operator_and_no_other() -> None:
    """FL-65a"""
    with Probe("calls") as probe:
        probe.begin()
        own = probe.world.state(CHILD, "kid")["parent"]
        before = probe.world.state(CHILD, "kid")
        others: list[dict[str, Any]] = [
            own | {"schema": "t/OtherReturn@1"},
            own | {"key": b"\x61b"},
            own | {"path": "kid2"},
            own | {"attempt": 2},
        ]
        for parent in others:
            cancel(probe, parent=parent)
            assert probe.world.state(CHILD, "kid") == before
        cancel(probe, parent=own)
        assert probe.world.state(CHILD, "kid")["status"] == "cancelled"

    for operator in ({}, {"parent": None}):
        with Probe("calls") as probe:
            probe.begin()
            cancel(probe, **operator)
            assert probe.world.state(CHILD, "kid")["status"] == "cancelled"


def cancel(probe: Probe, **fields: object) -> None:
    command = {"$tag": "Cancel", "$value": {"rollback": True} | fields}
    probe.world.send("t/ChildControl@1", {"instance": "kid", "command": command})
    probe.world.run()


def test_a_flow_that_nothing_called_obeys_no_call() -> None:
    """FL-65a"""
    with Probe("calls") as probe:
        probe.world.send("t/Work@1", {"id": "kid", "what": "first"})
        probe.world.run()
        before = probe.world.state(CHILD, "kid")
        own = {"schema": "t/ProbeReturn@1", "key": b"\x61a", "path": "kid", "attempt": 1}
        cancel(probe, parent=own)

        assert probe.world.state(CHILD, "kid") == before


def test_a_completed_call_is_undone() -> None:
    """FL-60, FL-70"""
    with Probe("undoes-a-call", count=1) as probe:
        probe.begin()
        probe.world.finish()

        assert probe.error[:2] == ["critical", "enough"]
        assert probe.undone == ["kid"]
        assert probe.undos == {"kid": "done"}


def test_a_call_that_is_completed_when_its_cancel_arrives_is_undone() -> None:
    """FL-60a, FL-73: the flow has ended and its result is on the way when the call is canceled."""
    with Probe("undoes-a-call") as probe:
        probe.begin()
        assert probe.paths == {"kid": "call running"}
        probe.fire()
        command = {"$tag": "Cancel", "$value": {"rollback": True}}
        probe.world.send("t/ProbeControl@1", {"instance": "a", "command": command})
        probe.world.run()

        assert probe.world.state(CHILD, "kid")["status"] == "completed"
        assert probe.status == "cancelled"
        assert probe.undone == ["kid"]


def test_a_canceled_call_with_a_rollback_waits_until_its_flow_has_ended() -> None:
    """FL-73"""
    with Probe("undoes-a-call") as probe:
        probe.answer(undo_kid=in_turn(Fail("no", "not yet"), {"note": "x"}))
        probe.begin()
        probe.control("Cancel", {"rollback": True})
        assert probe.status == "rolling_back"
        assert probe.paths == {"kid": "call running"}
        flow = probe.world.flow_json(FLOW, "a")
        assert flow is not None
        assert [(each["path"], each["is_canceled"]) for each in flow["waits"]] == [("kid", True)]
        probe.world.restart()
        probe.world.finish()

        assert probe.world.state(CHILD, "kid")["status"] == "cancelled"
        assert probe.status == "cancelled"
        assert probe.undone == ["kid", "kid"]
        assert len(cancels(probe)) == 1
        assert probe.undos == {}


def test_a_race_whose_call_loses_waits_for_it_only_if_it_has_a_rollback() -> None:
    """FL-50, FL-73"""
    for count, status in ((0, "completed"), (1, "running")):
        with Probe("races-a-call", count=count) as probe:
            probe.answer(undo_kid=in_turn(Fail("no", "not yet"), {"note": "x"}))
            probe.begin()
            probe.note("enough")
            assert probe.status == status
            probe.world.finish()

            assert probe.output == "enough"
            assert probe.world.state(CHILD, "kid")["status"] == "cancelled"


def test_a_spawned_flow_runs_on_its_own() -> None:
    with Probe("spawns") as probe:
        probe.begin()
        assert probe.output == "spawned"
        probe.world.finish()

        assert probe.world.state(CHILD, "kid")["status"] == "completed"


def test_a_reply_that_names_no_schema_is_a_fault_of_the_child() -> None:
    with Probe("sleep") as probe:
        reply = {"schema": "nothing", "key": b"\x61a", "path": "kid", "attempt": 1}
        probe.world.send("t/ChildCall@1", {"input": {"id": "kid", "what": "x"}, "reply": reply})
        probe.world.run(may_fail=True)

        [fault] = probe.world.faults(CHILD)
        assert "flow_name" in fault.message
