"""Messages, joins, races, scopes and loops (FL-43 to FL-58)."""

from __future__ import annotations

import pytest

from aos.testing import Fail, in_turn, like
from tests.flow.probe import DAY, FLOW, HOUR, Probe
from tests.tools import long_form


def test_messages_are_consumed_in_order_and_those_before_the_start_wait() -> None:
    with Probe("either") as probe:
        probe.note("x")
        assert probe.status == "pending"
        assert probe.world.status("t/probe@1", "a") == "completed"
        probe.bell(7)
        probe.begin()
        assert (probe.status, probe.inbox) == ("sleeping", [])
        probe.note("y")

        assert probe.output == "x7y"


def test_messages_after_the_end_change_nothing() -> None:
    with Probe("sleep") as probe:
        probe.note("waits")
        probe.begin()
        assert probe.inbox == ["t/Note@1"]
        probe.world.finish()
        assert probe.inbox == []
        before = probe.state
        probe.note("late")

        assert probe.state == before


MANY = 10_000 if long_form() else 500


def test_thousands_of_messages_before_the_start_are_kept_in_order() -> None:
    with Probe("either") as probe:
        for number in range(MANY):
            probe.note(f"{number};", runs=False)
        probe.world.run()
        assert len(probe.inbox) == MANY
        probe.begin()

        assert probe.output == "0;1;2;"


def test_thousands_of_messages_that_a_flow_does_not_listen_for_are_given_to_later_listens() -> None:
    with Probe("drains", count=MANY) as probe:
        probe.begin()
        for number in range(MANY):
            probe.note(f"{number};", runs=False)
        probe.world.run()
        assert (probe.status, len(probe.inbox)) == ("sleeping", MANY)
        probe.world.advance(HOUR)

        assert probe.output == "".join(f"{number};" for number in range(MANY))


def test_a_full_inbox_stops_the_flow_with_a_fault_and_loses_nothing() -> None:
    with Probe("drains", count=100) as probe:
        probe.upgrade(state_bytes=2_000)
        probe.begin()
        for number in range(100):
            probe.note(f"{number};", runs=False)
        probe.world.run(may_fail=True)
        assert probe.fault == ("state_invalid", "state: expected at most 2000 bytes, found 2023")

        probe.upgrade(state_bytes=20_000)
        probe.world.retry(FLOW, "a")
        probe.world.run()
        probe.world.advance(HOUR)

        assert probe.output == "".join(f"{number};" for number in range(100))


@pytest.mark.parametrize(
    ("count", "notes", "wait", "output"),
    [
        (0, ["x", "y"], 0, "x"),
        (1, ["x", "y", "z"], 0, "x+y"),
        (1, ["x"], 0, "x"),
        (2, [], HOUR, "none"),
        (2, ["x"], 0, "x"),
        (3, [], HOUR, "none"),
        (3, ["x"], 0, "x"),
        (4, [], HOUR, ""),
        (4, ["x", "y", "z"], 0, "x+y"),
        (5, [], HOUR, ""),
        (5, ["x"], 0, "x"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_six_ways_to_listen(
    count: int, notes: list[str], wait: int, output: str, *, first: bool
) -> None:
    with Probe("listens", count=count) as probe:
        probe.start["until"] = probe.world.now_ns + HOUR
        if first:
            for note in notes:
                probe.note(note, runs=False)
        probe.begin()
        if not first:
            for note in notes[:1]:
                probe.note(note)
            output = output.split("+", maxsplit=1)[0]
        probe.world.advance(wait)

        assert probe.output == output
        assert probe.world.timers() == []


def test_a_message_and_a_deadline_count_in_the_order_of_the_journal() -> None:
    with Probe("listens", count=2) as probe:
        probe.begin()
        probe.world.advance(HOUR - 1)
        probe.note("in time", runs=False)
        probe.world.advance(1)

        assert probe.output == "in time"


def test_a_deadline_that_has_passed_takes_only_what_is_there() -> None:
    with Probe("listens", count=3) as probe:
        probe.begin()
        assert probe.output == "none"
    with Probe("listens", count=3) as probe:
        probe.note("x")
        probe.begin()
        assert probe.output == "x"


def test_a_join_returns_the_results_of_all_branches() -> None:
    with Probe("join", answers=False) as probe:
        probe.begin()
        assert probe.paths == {
            "both": "join running",
            "both/left": "branch running",
            "both/right": "branch running",
            "both/left/one": "step running",
            "both/right/one": "step running",
        }
        probe.world.effects("t/do@1")[1].answer({"note": "r1"})
        probe.world.run()
        probe.world.effects("t/do@1")[0].answer({"note": "l1"})
        probe.world.run()
        assert probe.paths == {
            "both": "join running",
            "both/left": "branch completed",
            "both/right": "branch running",
            "both/right/one": "step completed",
            "both/right/two": "step running",
        }
        probe.world.restart()
        probe.world.effect("t/do@1").answer({"note": "r2"})
        probe.world.run()

        assert probe.output == "l1 r1+r2"


def test_a_join_waits_for_every_branch_and_then_fails_with_the_causes() -> None:
    with Probe("join", count=1) as probe:
        probe.answer(one=in_turn(Fail("no", "left"), {"note": "one"}), two=Fail("no", "right"))
        probe.begin()
        assert probe.paths == {"both": "join failed", "nap": "sleep running"}
        probe.note("replay")
        probe.world.finish()

        assert probe.output == (
            "critical no: left (both/left/one), critical no: right (both/right/two)"
        )


def test_a_rollback_in_a_branch_ends_the_join_at_once() -> None:
    with Probe("join", answers=False) as probe:
        probe.begin()
        left, right = probe.world.effects("t/do@1")
        left.fail("rollback", "no more")
        probe.world.run()

        assert probe.error == ["rollback", "rollback", "no more", "both/left/one", []]
        assert right.status == "canceled" or not right.is_open


def test_a_join_runs_at_most_so_many_branches_at_the_same_time() -> None:
    with Probe("join-all", count=5, answers=False) as probe:
        probe.begin()
        seen = []
        while probe.status == "running":
            seen.append(len(probe.world.effects("t/do@1")))
            probe.world.effects("t/do@1")[-1].answer({"note": f"n{len(seen)}"})
            probe.world.run()

        assert seen == [2, 2, 2, 2, 1]
        assert probe.output == "n5 n1 n2 n3 n4"


def test_no_branches_are_no_work() -> None:
    with Probe("join-all", count=0) as probe:
        probe.begin()
        assert (probe.status, probe.output) == ("completed", "")


def test_a_race_takes_the_first_success_and_cancels_the_others() -> None:
    with Probe("race") as probe:
        probe.answer(two=Fail("no"))
        probe.world.on("t/do@1", lambda params: {"note": params["what"]})
        probe.begin()

        assert probe.output == "work two"


def test_a_loser_is_canceled_and_its_late_receipt_changes_nothing() -> None:
    with Probe("race", answers=False) as probe:
        probe.begin()
        effect = probe.world.effect("t/do@1")
        probe.note("stop")
        assert not effect.is_open
        assert probe.paths == {"race": "race completed", "after": "step running"}
        probe.answer()
        probe.world.run()

        assert probe.output == "note stop"
        assert probe.undone == []


def test_the_compensations_of_losers_stay_until_the_flow_fails() -> None:
    with Probe("race", answers=False) as probe:
        probe.begin()
        probe.world.effect("t/do@1").answer({"note": "one"})
        probe.world.run()
        probe.note("stop")
        assert probe.undos == {"race/work/one": "registered"}
        probe.world.effect("t/do@1").fail("broken")
        probe.answer()
        probe.world.run()

        assert probe.status == "failed"
        assert probe.undone == ["one"]


def test_the_compensations_of_losers_can_run_at_once() -> None:
    with Probe("race", count=1, answers=False) as probe:
        probe.begin()
        probe.world.effect("t/do@1").answer({"note": "one"})
        probe.world.run()
        probe.note("stop")
        assert probe.undos == {"race/work/one": "running"}
        assert "after" not in probe.paths
        probe.world.restart()
        probe.answer()
        probe.world.run()

        assert (probe.undone, probe.output) == (["one"], "note stop")


def test_a_race_fails_when_all_branches_have_failed() -> None:
    with Probe("race", count=2) as probe:
        probe.answer(one=Fail("no", "work"))
        probe.begin()
        assert probe.status == "sleeping"
        probe.note("critical")
        probe.note("replay")
        probe.world.finish()

        assert probe.output == (
            "race critical no: work (race/work/one), critical asked: by a note (race/note)"
        )


def test_a_race_waits_for_a_message_after_a_step_has_failed_unless_that_is_a_rollback() -> None:
    broken = Fail("no", "broken")
    with Probe("step-or-note") as probe:
        probe.answer(one=broken)
        probe.begin()
        assert (probe.status, probe.paths["race/note/note"]) == ("sleeping", "listen running")
    with Probe("step-or-note", count=1) as probe:
        probe.answer(one=broken)
        probe.begin()

        assert probe.status == "failed"
        assert probe.error == ["rollback", "no", "broken", "race/step/one", []]


def test_a_rollback_in_a_branch_ends_the_race_at_once() -> None:
    with Probe("race", count=2, answers=False) as probe:
        probe.begin()
        probe.note("rollback")
        probe.world.finish()

        assert probe.output == "rollback "


def test_a_losing_branch_gives_its_messages_back_in_order() -> None:
    with Probe("gives-back") as probe:
        for note in ("1", "2", "3"):
            probe.note(note, runs=False)
        probe.begin()
        assert probe.inbox == []
        probe.world.restart()
        probe.bell(1)

        assert probe.output == "bell123"


def test_a_race_that_wins_with_its_messages_keeps_them() -> None:
    with Probe("gives-back") as probe:
        for note in ("1", "2", "3", "4", "5"):
            probe.note(note, runs=False)
        probe.begin()

        assert probe.output == "greedy5"


def test_scopes_nest_three_deep() -> None:
    with Probe("nested", count=3, answers=False) as probe:
        probe.begin()
        assert probe.paths["rounds/~0/both/raced/race/act/one"] == "step running"
        for number in range(3):
            effect = probe.world.effects("t/do@1")
            if number != 1:
                effect[0].answer({"note": "one"})
                probe.world.run()
                probe.world.restart()
            probe.world.advance(HOUR)

        assert probe.output == "act;nap;act;"
        assert probe.world.timers() == []
        assert probe.world.effects() == []


def test_a_loop_keeps_the_last_iterations_readable() -> None:
    with Probe("loop", count=21, answers=False) as probe:
        probe.begin()
        for number in range(40):
            probe.world.effect("t/do@1").answer({"note": str(number)})
            probe.world.run()
        kept = [f"~{number}" for number in range(10, 21)]
        assert [path.split("/")[1] for path in probe.paths if path.endswith("fetch")] == kept
        assert probe.paths["pages/~10/store"] == "step completed"
        [body] = {str(op[8]) for op in probe.history[1] if op[2] == "store"}
        assert body == "[None]"
        probe.answer()
        probe.world.run()

        assert probe.output == "page 20"


def test_the_state_of_a_loop_does_not_grow_with_its_iterations() -> None:
    sizes = []
    for count in (1000, 4000):
        with Probe("loop-of-locals", count=count) as probe:
            probe.begin()
            assert probe.output == str(count - 1)
            sizes.append(len(probe.state["ops"]))

    assert sizes[0] == sizes[1]


def test_a_turn_that_ends_ten_thousand_operations_continues_in_the_next_one() -> None:
    with Probe("loop-of-locals", count=6_000) as probe:
        probe.begin()

        assert probe.output == "5999"
        assert len(probe.world.events("t/ProbeControl@1")) == 1


def test_a_loop_without_waiting_ends_with_a_clear_fault() -> None:
    with Probe("loop-of-nothing") as probe:
        probe.begin(may_fail=True)
        assert probe.fault[0] == "fuel"


def test_a_turn_requests_no_more_effects_than_its_limit() -> None:
    with Probe("many", count=150, answers=False) as probe:
        probe.begin()
        assert len(probe.world.effects("t/do@1")) == 150
        assert len(probe.world.events("t/ProbeControl@1")) == 1
        probe.world.on("t/do@1", {"note": "x"})
        probe.world.run()

        assert probe.output == "150"


def test_thousands_of_losers_are_canceled_over_several_turns() -> None:
    with Probe("many-and-cancel", count=150, answers=False) as probe:
        probe.begin()
        probe.note("enough")

        assert probe.output == "enough"
        assert probe.world.effects("t/do@1") == []
        assert probe.undos == {}


def test_a_flow_of_thousands_of_operations_is_canceled_over_several_turns() -> None:
    with Probe("many", count=150, answers=False) as probe:
        probe.begin()
        probe.control("Cancel", {"rollback": True})

        assert probe.status == "cancelled"
        assert probe.world.effects("t/do@1") == []


def test_a_restart_after_every_frame_changes_nothing() -> None:
    def story(*, restarts: bool) -> tuple[object, list[str]]:
        with Probe("nested", count=2, answers=False) as probe:
            probe.begin()
            for _ in range(2):
                if restarts:
                    probe.world.restart()
                probe.world.effects("t/do@1")[0].answer({"note": "one"})
                probe.world.run()
                if restarts:
                    probe.world.restart()
                probe.world.advance(HOUR)
            return probe.state, [str(each.issuer_ref) for each in probe.world.asked()]

    assert story(restarts=True) == story(restarts=False)


def test_a_sleeping_flow_says_so() -> None:
    with Probe("sleep", pause=30 * DAY) as probe:
        probe.begin()
        assert probe.state == like({"status": "sleeping"})
