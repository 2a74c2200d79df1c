"""Compensation, cancel and resume (FL-60 to FL-65)."""

from __future__ import annotations

import pytest

from aos.testing import Fail, Timeout, in_turn
from tests.flow.probe import DAY, FLOW, MINUTE, NEVER, Probe

SECOND = 10**9
BROKEN = Fail("broken", "it is broken")


def test_a_failed_flow_is_undone_in_reverse() -> None:
    with Probe("steps") as probe:
        probe.answer(one_two=BROKEN)
        probe.begin()

        assert probe.status == "failed"
        assert probe.error[:2] == ["critical", "broken"]
        assert probe.undone == ["two", "one"]
        assert probe.undos == {"one": "done", "two": "done"}


def test_a_rollback_continues_after_a_crash() -> None:
    with Probe("steps") as probe:
        probe.answer(one_two=BROKEN, undo_two=NEVER)
        probe.begin()
        assert probe.status == "rolling_back"
        assert probe.undos == {"one": "registered", "two": "running"}
        effect = probe.world.effect("t/undo@1")
        assert effect.issuer_ref == "flow:two/~undo#1"
        assert effect.requested_key == "two/~undo"
        probe.world.restart()
        probe.world.effect("t/undo@1").answer({"note": "x"})
        probe.world.run()

        assert probe.status == "failed"
        assert probe.undone == ["two", "one"]


def test_a_compensation_that_fails_five_times_is_stuck_until_someone_resumes_it() -> None:
    with Probe("steps") as probe:
        probe.answer(one_two=BROKEN, undo_two=BROKEN)
        began = probe.world.now_ns
        probe.begin()
        assert probe.world.timers()[0].issuer_ref == "flow:two/~undo#1:retry"
        probe.world.finish()
        assert probe.status == "stuck"
        assert probe.world.status(FLOW, "a") == "failed"
        assert probe.world.now_ns - began == (1 + 2 + 4 + 8) * SECOND
        assert probe.undone == ["two"] * 5
        before = probe.state
        probe.control("Cancel", {"rollback": True})
        assert probe.state == before

        probe.answer(undo_two=in_turn(BROKEN, {"note": "x"}))
        probe.control("Resume", {"skip": False})
        assert probe.status == "rolling_back"
        assert probe.world.status(FLOW, "a") == "waiting"
        probe.world.finish()

        assert probe.status == "failed"
        assert probe.undone == ["two"] * 7 + ["one"]
        refs = [each.issuer_ref for each in probe.world.asked("t/undo@1")]
        assert len(set(refs)) == len(refs)


@pytest.mark.parametrize(
    ("answers", "undone"),
    [
        ((Fail("exception"),) * 3, ["slow"]),
        ((Fail("busy", retryable=True), Timeout()), ["slow"]),
        ((Fail("exception"), *(Fail("busy", retryable=True),) * 2), ["slow"]),
        ((Fail("busy", retryable=True),) * 3, []),
    ],
)
def test_a_step_that_may_have_happened_in_any_of_its_attempts_is_undone_after_the_last(
    answers: tuple[object, ...], undone: list[str]
) -> None:
    with Probe("timeout", count=3, pause=DAY) as probe:
        probe.answer(slow=in_turn(*answers))
        probe.begin()
        probe.world.finish()

        assert probe.status == "failed"
        assert probe.undone == undone


def test_a_stuck_compensation_can_be_skipped() -> None:
    with Probe("steps") as probe:
        probe.answer(one_two=BROKEN, undo_two=BROKEN)
        probe.begin()
        probe.world.finish()
        probe.control("Resume", {"skip": True})

        assert probe.status == "failed"
        assert probe.undos == {"one": "done", "two": "skipped"}


def test_a_cancel_undoes_the_steps_and_wins_over_what_is_in_flight() -> None:
    with Probe("steps") as probe:
        probe.answer(two=NEVER)
        probe.begin()
        effect = probe.world.effect("t/do@1")
        probe.control("Cancel", {"rollback": True})

        assert probe.status == "cancelled"
        assert probe.world.status(FLOW, "a") == "completed"
        assert probe.error == ["canceled", "cancel", "the flow was canceled", "", []]
        assert not effect.is_open
        assert probe.undone == ["one"]
        assert probe.paths == {}


def test_a_cancel_against_a_result_in_the_same_mailbox_undoes_it_if_it_came_first() -> None:
    with Probe("steps") as probe:
        probe.answer(two=NEVER)
        probe.begin()
        probe.world.effect("t/do@1").answer({"note": "two"})
        command = {"$tag": "Cancel", "$value": {"rollback": True}}
        probe.world.send("t/ProbeControl@1", {"instance": "a", "command": command})
        probe.world.run()

        assert probe.status == "cancelled"
        assert probe.undone == ["two", "one"]


CANCEL = {"instance": "a", "command": {"$tag": "Cancel", "$value": {"rollback": True}}}


def test_an_ok_that_is_signed_when_a_cancel_is_processed_is_undone() -> None:
    """FL-65: the cancel comes first, and the ok is in the mailbox behind it."""
    with Probe("steps") as probe:
        probe.answer(two=NEVER)
        probe.begin()
        probe.world.send("t/ProbeControl@1", CANCEL)
        probe.world.effect("t/do@1").answer({"note": "two"})
        probe.world.run()

        assert probe.status == "cancelled"
        assert probe.undone == ["two", "one"]
        assert probe.undos == {"one": "done", "two": "done"}


def test_an_ok_that_is_signed_in_each_branch_is_undone() -> None:
    """FL-65"""
    with Probe("join", answers=False) as probe:
        probe.begin()
        probe.answer()
        left, right = probe.world.effects("t/do@1")
        probe.world.send("t/ProbeControl@1", CANCEL)
        left.answer({"note": "l1"})
        right.answer({"note": "r1"})
        probe.world.run()

        assert probe.status == "cancelled"
        assert probe.undone == ["r1", "l1"]
        assert probe.done == ["one", "one"]


def test_a_cancel_waits_for_the_answer_of_a_step_with_a_rollback_and_is_stored_before() -> None:
    """FL-60a: whatever the answer is, nothing else begins."""
    with Probe("steps") as probe:
        probe.answer(two=NEVER)
        probe.begin()
        probe.world.send("t/ProbeControl@1", CANCEL)
        probe.world.effect("t/do@1").fail("exception", "it is unknown", retryable=True)
        probe.world.run()

        assert probe.status == "cancelled"
        assert probe.undone == ["one"]
        assert probe.done == ["one", "two"]


def test_code_that_no_longer_fits_is_found_by_an_ok_that_is_to_be_undone() -> None:
    """FL-65: the flow stops with its fault, and undoes the step under mended code."""
    with Probe("moved") as probe:
        probe.answer(one=NEVER)
        probe.begin()
        probe.upgrade()
        probe.world.send("t/ProbeControl@1", CANCEL)
        probe.world.effect("t/do@1").answer({"note": "one"})
        probe.world.run(may_fail=True)
        assert probe.fault[0] == "guest"
        assert probe.fault[1].startswith("diverged")
        probe.mend()
        probe.world.retry(FLOW, "a")
        probe.world.run()

        assert probe.status == "cancelled"
        assert probe.undone == ["one"]


def test_an_answer_that_an_operator_skipped_is_not_waited_for() -> None:
    """FL-60a: the step is in doubt, and the rest is undone."""
    with Probe("moved") as probe:
        probe.answer(two=NEVER)
        probe.begin()
        probe.upgrade()
        probe.world.effect("t/do@1").answer({"note": "two"})
        probe.world.run(may_fail=True)
        probe.world.send("t/ProbeControl@1", CANCEL)
        probe.world.skip(FLOW, "a")
        probe.world.run()

        assert probe.status == "cancelled"
        assert probe.undone == ["one"]


@pytest.mark.parametrize("first", ["time", "answer"])
def test_an_ok_against_the_deadline_of_its_step_is_never_lost(first: str) -> None:
    """FL-36: if it is signed when the deadline is processed, the step is done."""
    with Probe("timed", pause=MINUTE) as probe:
        probe.answer(slow=NEVER)
        probe.begin()
        effect = probe.world.effect("t/do@1")
        if first == "answer":
            effect.answer({"note": "slow"})
        probe.fire()
        if first == "time":
            effect.answer({"note": "slow"})
        probe.world.run()
        assert (probe.status, probe.undone) == ("sleeping", [])
        probe.control("Cancel", {"rollback": True})

        assert probe.undone == ["slow"]


def test_a_step_that_is_late_is_unknown_only_if_no_answer_came() -> None:
    """FL-36, FL-60"""
    with Probe("timed", pause=MINUTE) as probe:
        probe.answer(slow=NEVER)
        probe.begin()
        probe.world.finish()

        assert probe.error[:3] == ["timeout", "timeout", "the step took longer than its timeout"]
        assert probe.undone == ["unknown"]


def test_an_ok_of_a_branch_that_has_lost_is_undone() -> None:
    """FL-50: the note decides the race before the ok is processed, which is signed already."""
    with Probe("race", count=1) as probe:
        probe.answer(one=NEVER)
        probe.begin()
        effect = probe.world.effect("t/do@1")
        probe.note("enough", runs=False)
        effect.answer({"note": "one"})
        probe.world.run()

        assert probe.undone == ["one"]
        assert probe.done == ["one", "after"]
        assert probe.output == "note enough"


def test_a_cancel_without_rollback_waits_for_nothing() -> None:
    """FL-65: neither from the start, nor after one that waits."""
    with Probe("steps") as probe:
        probe.answer(two=NEVER)
        probe.begin()
        command = {"$tag": "Cancel", "$value": {"rollback": False}}
        probe.world.send("t/ProbeControl@1", CANCEL)
        probe.world.send("t/ProbeControl@1", {"instance": "a", "command": command})
        probe.world.effect("t/do@1").answer({"note": "two"})
        probe.world.run()

        assert probe.status == "cancelled"
        assert probe.undone == []
        assert probe.undos == {"one": "skipped"}


def test_a_cancel_without_rollback_undoes_nothing() -> None:
    with Probe("steps") as probe:
        probe.answer(two=NEVER)
        probe.begin()
        probe.control("Cancel", {"rollback": False})

        assert probe.status == "cancelled"
        assert probe.undone == []
        assert probe.undos == {"one": "skipped"}


def test_a_cancel_without_rollback_ends_a_rollback_that_runs() -> None:
    with Probe("steps") as probe:
        probe.answer(one_two=BROKEN, undo_two=NEVER)
        probe.begin()
        effect = probe.world.effect("t/undo@1")
        probe.control("Cancel", {"rollback": False})

        assert probe.status == "failed"
        assert not effect.is_open
        assert probe.undos == {"one": "skipped", "two": "skipped"}


def test_a_control_that_does_not_apply_changes_nothing() -> None:
    with Probe("sleep") as probe:
        probe.begin()
        before = probe.state
        probe.control("Resume", {"skip": False})
        probe.control("Continue")
        assert probe.state == before
        probe.world.finish()
        before = probe.state
        for rollback in (True, False):
            probe.control("Cancel", {"rollback": rollback})
        assert probe.state == before


def test_a_control_before_the_start_leaves_the_messages_that_wait() -> None:
    with Probe("sleep") as probe:
        probe.note("early")
        before = probe.state
        probe.control("Cancel", {"rollback": True})

        assert probe.state == before


def test_a_step_in_flight_that_is_canceled_is_undone_if_it_may_have_happened() -> None:
    with Probe("timeout", count=3) as probe:
        probe.answer(slow=NEVER)
        probe.begin()
        probe.control("Cancel", {"rollback": True})

        assert probe.status == "cancelled"
        assert probe.undone == ["slow"]
        assert probe.world.timers() == []


def test_unwinding_to_a_checkpoint_undoes_what_came_after_it_and_continues() -> None:
    with Probe("unwinds") as probe:
        probe.answer(undo_one=NEVER)
        probe.begin()
        assert probe.status == "rolling_back"
        assert probe.paths["back"] == "rollback_to running"
        assert probe.undos == {"before": "registered", "one": "running", "two": "done"}
        probe.world.restart()
        probe.note("replay")
        probe.answer()
        probe.world.effect("t/undo@1").answer({"note": "x"})
        probe.world.run()

        assert probe.undone == ["two", "one", "after", "before"]
        assert probe.status == "failed"


def test_unwinding_that_is_stuck_is_resumed_and_the_program_continues() -> None:
    with Probe("unwinds") as probe:
        probe.answer(undo_two=BROKEN)
        probe.begin()
        probe.world.finish()
        assert probe.status == "stuck"
        probe.control("Resume", {"skip": True})

        assert probe.undone == ["two"] * 5 + ["one", "after", "before"]


def test_a_flow_that_is_stuck_in_its_middle_can_be_canceled() -> None:
    with Probe("unwinds") as probe:
        probe.answer(undo_two=BROKEN)
        probe.begin()
        probe.world.finish()
        probe.answer()
        probe.control("Cancel", {"rollback": True})

        assert probe.status == "cancelled"
        assert probe.undone == ["two"] * 6 + ["one", "before"]


def test_a_commit_makes_what_came_before_final() -> None:
    with Probe("commits") as probe:
        probe.begin()

        assert probe.status == "failed"
        assert probe.undone == ["three", "four"]


def test_a_checkpoint_that_is_not_there_is_critical() -> None:
    with Probe("no-mark") as probe:
        probe.begin()
        assert probe.error[:2] == ["critical", "checkpoint"]


def test_loops_scopes_and_caught_failures_are_undone_too() -> None:
    with Probe("rolls-back-in-loop") as probe:
        probe.answer(caught=BROKEN)
        probe.begin()

        assert probe.undone == ["two", "one", "one", "one"]
        assert list(probe.undos) == [
            "loop/~0/one", "loop/~1/one", "loop/~2/one", "scope/two",
        ]  # fmt: skip


def test_the_branches_of_a_join_are_undone_too() -> None:
    with Probe("join") as probe:
        probe.answer(two=BROKEN)
        probe.begin()

        assert probe.error[0] == "join"
        assert probe.undone == ["one", "one"]


@pytest.mark.parametrize("pause", [MINUTE, 60 * MINUTE])
def test_a_completed_flow_forgets_its_compensations(pause: int) -> None:
    with Probe("steps", pause=pause) as probe:
        probe.begin()
        assert probe.history == [1, [], []]
