"""An operator sets the journal clock back to right after a stamp from the future (K-4, K-109b)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.core.journal.journal_clock import CLOCK_AHEAD_NS
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Control
from aos.core.state.fold import fold
from aos.errors import Damage
from aos.manifest.limits import DAY_NS
from tests.core.decide.test_control import rule_of
from tests.core.decide.test_isolation import same
from tests.core.decide.test_owed import folded
from tests.core.decide.test_streams import paying
from tests.core.desk import cell_id, desks, log_of, tell, timer

YEARS_NS = 3650 * DAY_NS


def ahead(leap_ns: int = 8 * DAY_NS) -> tuple[Any, int]:
    """A world with one event whose stamp was so far ahead, and the right time after it."""
    world = desks()
    right_ns = world.now_ns
    world.now_ns += leap_ns
    world.send("t/Tell@1", {"key": "a", "asks": [], "note": "ahead"}, "order-1")
    world.run()
    world.now_ns = right_ns + 10_000
    return world, right_ns


@pytest.mark.parametrize("leap_ns", [8 * DAY_NS, YEARS_NS])
def test_the_command_sets_the_journal_clock_to_its_own_stamp(leap_ns: int) -> None:
    world, right_ns = ahead(leap_ns)
    assert world.state.clock_ns > right_ns + leap_ns
    window_ns = world.state.window_ns

    assert isinstance(world.control("clock"), Admitted)

    assert world.state.clock_ns == world.now_ns < right_ns + 10**6
    assert world.state.window_ns == window_ns
    world.run()
    same(folded(world), world.state)


def test_a_sleep_works_again_and_a_deadline_that_was_computed_stays() -> None:
    world, _ = ahead()
    tell(world, "late", timer(world, "t"))
    world.control("clock")
    tell(world, "b", timer(world, "t"))
    (_, soon) = world.open()
    early = world.settle(soon, {"delivered_at_ns": world.now_ns, "key": None})
    assert isinstance(early, Refusal)
    world.now_ns += 2 * 10**9

    assert isinstance(world.settle(soon, {"delivered_at_ns": world.now_ns, "key": None}), Admitted)


def test_no_id_is_forgotten_by_leaps_and_commands() -> None:
    """K-12a: the window time never goes back, and each leap moves it by an hour at most."""
    world, _ = ahead()
    first = world.state.submissions["order-1"].seq
    for _ in range(20):
        world.control("clock")
        world.now_ns += 8 * DAY_NS
        world.send("t/Tell@1", {"key": "b", "asks": [], "note": ""})
        world.now_ns -= 8 * DAY_NS

    again = world.send("t/Tell@1", {"key": "a", "asks": [], "note": "ahead"}, "order-1")

    assert again == Duplicate(seq=first)


@pytest.mark.parametrize("behind_ns", [-5, 0, CLOCK_AHEAD_NS])
def test_a_clock_that_is_not_ahead_is_not_set(behind_ns: int) -> None:
    world = desks()
    world.seal()
    world.now_ns = world.state.clock_ns - 1_000 - behind_ns
    before = folded(world)

    answer = world.control("clock")

    assert rule_of(answer) is Rule.CLOCK_IS_NOT_AHEAD
    assert isinstance(answer, Refusal)
    assert "expected more than 60 s" in answer.message
    same(before, world.state)


def test_a_clock_that_is_a_nanosecond_more_ahead_is_set() -> None:
    world = desks()
    world.now_ns = world.state.clock_ns - 1_000 - CLOCK_AHEAD_NS - 1

    assert isinstance(world.control("clock"), Admitted)


@pytest.mark.parametrize(
    "about", [{"cell": cell_id("a")}, {"status": "ok"}, {"payload": b"\xf6"}, {"why": "because"}]
)
def test_the_command_names_nothing(about: dict[str, Any]) -> None:
    world, _ = ahead()

    answer = world.control("clock", **about)

    assert rule_of(answer) is Rule.CONTROL_IS_INVALID
    assert isinstance(answer, Refusal)
    assert answer.message == "clock: expected no field"


@pytest.mark.parametrize(
    ("forge", "rule"),
    [
        ({"principal": "mallory"}, Rule.CONTROL_PRINCIPAL_IS_UNKNOWN),
        ({"serial": 1}, Rule.CONTROL_SERIAL_IS_WRONG),
        ({"signature": bytes(64)}, Rule.CONTROL_SIGNATURE_IS_WRONG),
    ],
)
def test_only_an_operator_sets_it_once(forge: dict[str, Any], rule: Rule) -> None:
    """K-100."""
    world, _ = ahead()

    assert rule_of(world.control("clock", forge=forge)) is rule


def test_a_record_that_sets_a_clock_which_is_not_ahead_is_damage() -> None:
    """K-2."""
    world, _ = ahead()
    world.control("clock")
    world.seal()
    *_, command = world.records()
    assert isinstance(command, Control)
    assert from_bytes(to_bytes(command)) == command
    again = replace(command, seq=world.state.next_seq, serial=world.state.controls)

    with pytest.raises(Damage, match="which is not ahead"):
        fold(world.state, again, world.read)


def test_a_second_of_stream_frames_that_began_in_the_future_ends_in_time() -> None:
    """K-94: nothing is counted by a time that is ahead of the journal clock."""
    world = paying(limits={"world": {"stream_rate": 1}})
    (intent,) = world.open()
    right_ns = world.now_ns
    world.now_ns += 8 * DAY_NS
    assert isinstance(world.stream(intent, 1), Admitted)
    world.now_ns = right_ns
    world.control("clock")

    assert isinstance(world.stream(intent, 2), Refusal)
    world.now_ns += 10**9 + 10_000
    assert isinstance(world.stream(intent, 3), Admitted)
    world.run()
    same(folded(world), world.state)


def test_states_of_instances_keep_the_times_that_they_have() -> None:
    world, right_ns = ahead()
    world.control("clock")

    assert log_of(world, "a") == ["told ahead"]
    assert world.state.cells[cell_id("a")].last_active_ns > right_ns + 7 * DAY_NS
