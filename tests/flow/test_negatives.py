"""Faults of other engines of durable functions, each in a small program with a crash after every
frame. The model runs it, too."""

from __future__ import annotations

import pytest

from tests.flow.comparison import RUN
from tests.flow.model import SECOND, Node
from tests.flow.test_programs import asked, begin, node

NOTE = ("note", 0, True, True)
OK = ("ok", 0, True, True)
BROKEN = ("error", 0, True, True)
TIME = ("time", 1, True, True)

INNER: dict[str, list[Node]] = {
    "join": [node("join", nodes=[6], number=9), node("branch", name="in", nodes=[7])],
    "race": [node("race", name="inner", nodes=[6]), node("branch", name="in", nodes=[7])],
    "loop": [node("loop", number=2, nodes=[7]), node("removed")],
    "scope": [node("scope", nodes=[7]), node("removed")],
}


def with_a_wait(inner: list[Node]) -> list[Node]:
    """A join of an operation that ends, and then waits, with a branch that waits longer."""
    return [
        node("join", name="both", nodes=[1, 2], number=9),
        node("branch", name="left", nodes=[5, 4]),
        node("branch", name="right", nodes=[3]),
        node("sleep_until", name="long", span=100 * SECOND),
        node("listen"),
        *inner,
        node("step", flags=["rollback"]),
    ]


@pytest.mark.parametrize("kind", INNER)
def test_an_operation_stays_ended_while_its_branch_and_another_one_wait(kind: str) -> None:
    modelled = begin(with_a_wait(INNER[kind]), [0], OK, OK, ("time", 0, True, True), NOTE, TIME)

    assert modelled.status == "completed"
    steps = modelled.world.asked("f/do@1")
    assert len(steps) == (2 if kind == "loop" else 1)
    assert asked(modelled) == []
    modelled.world.close()


@pytest.mark.parametrize("kind", INNER)
def test_the_steps_of_an_ended_operation_are_undone_when_the_flow_fails_later(kind: str) -> None:
    nodes = [*with_a_wait(INNER[kind]), node("fail", text="no")]
    modelled = begin(nodes, [0, 8], OK, OK, NOTE, TIME)
    modelled.finish()

    assert modelled.status == "failed"
    assert asked(modelled) == (["step.1", "step.0"] if kind == "loop" else ["step"])
    modelled.world.close()


def test_a_branch_without_a_result_stays_ended_after_a_crash() -> None:
    nodes = [
        node("join", nodes=[1, 2], number=9),
        node("branch", name="unit", nodes=[3]),
        node("branch", name="other", nodes=[4]),
        node("sleep", span=SECOND),
        node("step"),
    ]
    modelled = begin(nodes, [0], TIME, OK)

    assert modelled.status == "completed"
    timers = [each.issuer_ref for each in modelled.world.asked() if each.name.startswith("sys/")]
    assert timers == ["flow:join/unit/sleep#1:sleep"]
    modelled.world.close()


def test_a_caught_failure_stays_caught_at_the_next_wait() -> None:
    nodes = [node("step", flags=["catch"]), node("sleep", span=SECOND), node("local")]
    modelled = begin(nodes, [0, 1, 2], BROKEN, TIME)

    assert modelled.flow.output == f"!critical.broken@step[];;local={SECOND};"
    assert len(modelled.world.asked("f/do@1")) == 1
    modelled.world.close()


def test_a_name_that_is_first_used_while_another_branch_waits_is_found_again() -> None:
    nodes = [
        node("join", nodes=[1, 2], number=9),
        node("branch", name="first", nodes=[3]),
        node("branch", name="second", nodes=[4, 5, 6]),
        node("listen", name="waits"),
        node("step", name="before"),
        node("step", name="never-seen"),
        node("step", name="waits"),
    ]
    modelled = begin(nodes, [0], OK, OK, OK, NOTE)

    assert modelled.status == "completed"
    modelled.world.close()


def test_a_message_is_not_lost_in_a_crash_between_its_arrival_and_its_use() -> None:
    nodes = [node("step"), node("listen"), node("listen", name="again")]
    modelled = begin(
        nodes, [0, 1, 2], ("note", 0, False, True), ("note", 0, False, True), ("ok", 0, True, True)
    )

    assert modelled.flow.output == "step;m1;m2;"
    modelled.world.close()


def test_a_race_does_not_wait_for_its_losers() -> None:
    nodes = [
        node("race", nodes=[1, 2]),
        node("branch", name="slow", nodes=[3]),
        node("branch", name="fast", nodes=[4]),
        node("step", limit=100 * SECOND, number=3),
        node("listen"),
    ]
    modelled = begin(nodes, [0], NOTE)

    assert modelled.status == "completed"
    assert modelled.world.effects() == []
    assert modelled.world.timers() == []
    modelled.world.close()


def test_a_result_that_comes_with_a_cancel_is_undone_whichever_came_first() -> None:
    """FL-60a"""
    step = node("step", flags=["rollback"])
    first = begin([step], [0], ("Cancel", 0, False, True), OK)
    first.finish()
    assert asked(first) == ["step"]
    assert first.status == "cancelled"
    assert first.world.status(RUN, "a") == "completed"
    first.world.close()
    second = begin(
        [step, node("listen")], [0, 1], ("ok", 0, False, True), ("Cancel", 0, True, True)
    )
    second.finish()
    assert asked(second) == ["step"]
    assert second.world.status(RUN, "a") == "completed"
    second.world.close()
