"""The time of a machine whose wall clock leaps, is set back, drifts or sleeps (H-10a)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from aos.boot_clock import boot_ns
from aos.host.stamps import HOLD_NS, LEAP_NS, MINUTE_NS, MachineClock

SECOND = 10**9
DAY_NS = 24 * 60 * MINUTE_NS
START_NS = 1_700_000_000 * SECOND


@dataclass
class Clocks:
    """A fake machine."""

    wall_ns: int = START_NS
    boot_ns: int = 5_000 * SECOND
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = MachineClock(
            wall_ns=lambda: self.wall_ns, boot_ns=lambda: self.boot_ns, report=self.told.append
        )

    def passes(self, ns: int) -> None:
        """Time passes; both clocks run, also while the machine is suspended."""
        self.wall_ns += ns
        self.boot_ns += ns

    def now_ns(self) -> int:
        return self.clock.now_ns()


@pytest.mark.parametrize("leap_ns", [LEAP_NS + 1, 8 * DAY_NS, 3650 * DAY_NS])
def test_a_leap_forward_is_reported_held_for_ten_minutes_and_then_followed(leap_ns: int) -> None:
    machine = Clocks()
    machine.wall_ns += leap_ns

    for _ in range(10):
        assert machine.now_ns() == machine.wall_ns - leap_ns
        machine.passes(MINUTE_NS - 1)
    machine.passes(9)
    assert machine.now_ns() == machine.wall_ns - leap_ns
    [told] = machine.told
    assert "min ahead of the time since the start" in told
    machine.passes(1)

    assert machine.now_ns() == machine.wall_ns
    machine.passes(DAY_NS)
    assert machine.now_ns() == machine.wall_ns
    assert len(machine.told) == 2
    assert "is followed" in machine.told[1]


def test_a_leap_that_is_corrected_in_time_is_never_seen() -> None:
    machine = Clocks()
    machine.wall_ns += 8 * DAY_NS
    assert machine.now_ns() == START_NS
    machine.passes(HOLD_NS - 1)
    machine.wall_ns -= 8 * DAY_NS

    assert machine.now_ns() == machine.wall_ns == START_NS + HOLD_NS - 1
    machine.passes(MINUTE_NS)
    machine.wall_ns += 8 * DAY_NS
    # The next leap is held for the whole time.
    assert machine.now_ns() == machine.wall_ns - 8 * DAY_NS
    assert len(machine.told) == 2


@pytest.mark.parametrize("leap_ns", [1, SECOND, LEAP_NS, -1, -SECOND, -8 * DAY_NS])
def test_a_smaller_leap_forward_and_any_leap_back_is_followed_at_once(leap_ns: int) -> None:
    machine = Clocks()
    machine.now_ns()
    machine.wall_ns += leap_ns

    assert machine.now_ns() == machine.wall_ns
    assert machine.told == []


def test_a_second_leap_on_top_of_the_first_is_held_for_the_whole_time() -> None:
    machine = Clocks()
    machine.wall_ns += LEAP_NS + 1
    machine.now_ns()
    machine.passes(HOLD_NS - 1)
    machine.wall_ns += 8 * DAY_NS
    assert machine.now_ns() == START_NS + HOLD_NS - 1
    machine.passes(HOLD_NS - 1)
    assert machine.now_ns() == START_NS + 2 * (HOLD_NS - 1)
    machine.passes(1)

    assert machine.now_ns() == machine.wall_ns
    assert len(machine.told) == 3


def test_a_suspension_is_no_leap() -> None:
    machine = Clocks()
    machine.now_ns()
    machine.passes(30 * DAY_NS)

    assert machine.now_ns() == machine.wall_ns == START_NS + 30 * DAY_NS
    assert machine.told == []


def test_a_slow_drift_is_followed_however_far_it_leads() -> None:
    machine = Clocks()
    for _ in range(1_000):
        machine.passes(MINUTE_NS)
        machine.wall_ns += SECOND
        assert machine.now_ns() == machine.wall_ns
    assert machine.told == []


def test_the_clock_of_a_process_is_the_machines() -> None:
    import time

    found = MachineClock()
    assert abs(found.now_ns() - time.time_ns()) < SECOND
    before = boot_ns()
    assert boot_ns() >= before > 0
