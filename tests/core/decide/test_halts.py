"""Attempts that are held or parked: the intent stays open (spec/kernel.md, K-97, K-99)."""

from __future__ import annotations

import pytest

from aos.core.decide.answers import Admitted, Rule
from aos.core.journal.inputs import CODE_BYTES_MAX
from aos.core.journal.records import Attempt
from aos.core.journal.vocabulary import HALTS
from aos.core.state.cell import Halt, OpenIntent
from tests.core.decide.test_isolation import same
from tests.core.decide.test_owed import folded
from tests.core.decide.test_streams import paying, rule_of
from tests.core.desk import ONCE, desks, log_of, tell, wish
from tests.memory_world import MemoryWorld


def once() -> tuple[MemoryWorld, OpenIntent]:
    """A world with one open intent that may run only once; its attempt has not begun."""
    world = desks()
    tell(world, "a", wish(ONCE, {"n": 1}, "o"))
    (intent,) = world.open()
    return world, intent


@pytest.mark.parametrize("phase", ["held", "parked"])
def test_a_halted_intent_stays_open_and_shows_why(phase: str) -> None:
    """K-99."""
    world = paying()
    (intent,) = world.open()
    assert isinstance(world.attempt(intent, 1, phase, code="exception"), Admitted)
    world.run()

    (record,) = [each for each in world.records() if isinstance(each, Attempt)]
    assert (record.phase, record.attempt, record.code) == (phase, 1, "exception")
    assert world.open() == [intent]
    assert record.phase in HALTS
    assert world.state.halt(intent) == Halt(
        phase=record.phase,
        attempt=1,
        seq=record.seq,
        since_ns=world.state.clock_ns,
        code="exception",
        problem=None,
    )
    same(folded(world), world.state)


def test_a_later_attempt_ends_a_halt_and_the_attempts_before_it_stay_known() -> None:
    """K-99."""
    world = paying()
    (intent,) = world.open()
    world.attempt(intent, 3)
    world.attempt(intent, 3, "parked", code="exception")
    assert rule_of(world.attempt(intent, 3)) is Rule.ATTEMPT_IS_OLD
    assert isinstance(world.attempt(intent, 4), Admitted)

    assert world.state.halt(intent) is None
    assert world.state.halts[intent.intent].attempt == 3
    world.seal()
    same(folded(world), world.state)


def test_a_receipt_settles_a_halted_intent() -> None:
    world = paying()
    (intent,) = world.open()
    world.attempt(intent, 1, "held", code="http_not_allowed")
    assert isinstance(world.settle(intent, {"ref": "paid"}), Admitted)
    world.run()

    assert world.state.halts == {}
    world.seal()
    same(folded(world), world.state)


def test_a_halt_of_another_attempt_than_the_last_is_refused() -> None:
    world = paying()
    (intent,) = world.open()
    world.attempt(intent, 2)
    for number in (1, 3):
        for phase in ("held", "parked"):
            refused = world.attempt(intent, number, phase, code="exception")
            assert rule_of(refused) is Rule.ATTEMPT_IS_OLD


@pytest.mark.parametrize("code", [None, "", "c" * (CODE_BYTES_MAX + 1), "\ud800"])
def test_a_halt_needs_a_code(code: str | None) -> None:
    world = paying()
    (intent,) = world.open()
    assert rule_of(world.attempt(intent, 1, "held", code=code)) is Rule.ATTEMPT_IS_INVALID
    assert isinstance(world.attempt(intent, 1, "held", code="c" * CODE_BYTES_MAX), Admitted)


def test_only_a_halt_has_a_code() -> None:
    world = paying()
    (intent,) = world.open()
    assert rule_of(world.attempt(intent, 2, "begun", code="x")) is Rule.ATTEMPT_IS_INVALID


def test_an_attempt_that_was_held_does_not_count_as_the_one_that_may_run() -> None:
    """K-97: nothing was sent, so another attempt may begin; that one may be lost."""
    world, intent = once()
    assert rule_of(world.attempt(intent, 0, "held", code="x")) is Rule.ATTEMPT_IS_INVALID
    world.attempt(intent, 1)
    world.attempt(intent, 1, "held", code="secret_unavailable")
    assert rule_of(world.attempt(intent, 1, "lost")) is Rule.ATTEMPT_IS_INVALID
    assert rule_of(world.attempt(intent, 3)) is Rule.ATTEMPT_IS_OLD
    assert isinstance(world.attempt(intent, 2), Admitted)
    assert rule_of(world.attempt(intent, 3)) is Rule.ATTEMPT_IS_OLD

    assert isinstance(world.attempt(intent, 2, "lost"), Admitted)
    world.run()
    assert log_of(world, "a")[1:] == [f"{ONCE} o error unknown_outcome"]
    same(folded(world), world.state)


def test_a_parked_effect_that_may_run_once_never_runs_again_and_is_not_lost() -> None:
    """K-97: only a command or a receipt ends it."""
    world, intent = once()
    world.attempt(intent, 1)
    world.attempt(intent, 1, "parked", code="exception")
    assert rule_of(world.attempt(intent, 2)) is Rule.ATTEMPT_IS_OLD
    assert rule_of(world.attempt(intent, 1, "lost")) is Rule.ATTEMPT_IS_INVALID

    assert isinstance(world.control("cancel", intent=intent.intent), Admitted)
    world.run()
    assert log_of(world, "a")[1:] == [f"{ONCE} o canceled canceled"]
    assert world.state.halts == {}
    world.seal()
    same(folded(world), world.state)
