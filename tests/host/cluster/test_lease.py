"""Decisions of standbys and owners, by the clock of a test (spec/cluster.md, CL-80 to CL-89)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aos.host.cluster.lease import (
    AHEAD_NS,
    BEAT_NS,
    LEASE_NS,
    LOOK_NS,
    LOST_NS,
    NO_ROOM_NS,
    RANK_NS,
    Decision,
    OwnerObservation,
    StandbyObservation,
    StandbyWatch,
    beat_ns,
    gap_ns,
    holds_lease,
    own,
    stand_by,
)

GAP_NS = gap_ns(LEASE_NS)
SILENT = StandbyObservation(is_answered=True, owner_revision=7)
UNANSWERED = StandbyObservation(is_answered=False)


def takes_over_after(*seen: StandbyObservation, beat_ns: int = BEAT_NS) -> int | None:
    """The ns until a standby takes over that beats each ``beat_ns`` and sees this, the last one
    again and again; None if it never does."""
    watch, now_ns = StandbyWatch(), 10**15
    for count in range(200):
        watch, decision = stand_by(watch, seen[min(count, len(seen) - 1)], now_ns)
        if decision is Decision.TAKE_OVER:
            return now_ns - 10**15
        now_ns += beat_ns
    return None


def beats_to(duration_ns: int) -> int:
    """The time of the first beat that is not before this one."""
    return -(-duration_ns // BEAT_NS) * BEAT_NS


def test_a_standby_takes_over_once_the_owner_was_silent_for_the_lease() -> None:  # CL-81
    assert takes_over_after(SILENT) == LEASE_NS
    assert takes_over_after(replace(SILENT, owner_revision=0)) == LEASE_NS, "there never was one"


def test_a_new_beat_begins_the_lease_again() -> None:  # CL-81
    beats = [replace(SILENT, owner_revision=revision) for revision in range(20)]
    assert takes_over_after(*beats) == 19 * BEAT_NS + LEASE_NS


@pytest.mark.parametrize("rank", [0, 1, 2, 5])
def test_the_next_standby_waits_longer(rank: int) -> None:  # CL-81
    seen = replace(SILENT, rank=rank)
    assert takes_over_after(seen) == beats_to(LEASE_NS + rank * RANK_NS)


def test_a_world_that_is_released_is_taken_at_once() -> None:  # CL-82
    assert takes_over_after(replace(SILENT, is_released=True)) == 0
    assert takes_over_after(replace(SILENT, is_released=True, rank=1)) == beats_to(RANK_NS)


def test_a_world_that_is_released_for_another_node_is_left_to_it_for_the_lease() -> None:
    # CL-227
    seen = replace(SILENT, is_released=True, is_for_other=True)
    assert takes_over_after(seen) == LEASE_NS


def test_time_in_which_the_bucket_did_not_answer_is_not_counted() -> None:  # CL-83
    """While the servers elect a leader, no owner is deposed."""
    answered = [SILENT] * 5
    assert takes_over_after(*answered, *[UNANSWERED] * 12, SILENT) == 17 * BEAT_NS + LEASE_NS
    assert takes_over_after(SILENT, UNANSWERED) is None


def test_time_in_which_this_process_did_not_run_is_not_counted() -> None:  # CL-83
    watch, _ = stand_by(StandbyWatch(), SILENT, 0)
    watch, decision = stand_by(watch, SILENT, 12 * LEASE_NS)
    assert decision is Decision.FOLLOW
    assert watch.silent_ns == GAP_NS


@pytest.mark.parametrize("lease_s", [1, 2, 3, 30])
def test_a_node_beats_often_enough_for_its_lease(lease_s: int) -> None:  # CL-72, CL-83
    """A process that was stopped, or an owner that is slow once, does not cost the lease."""
    lease_ns = lease_s * 10**9
    assert beat_ns(lease_ns) <= BEAT_NS
    assert 3 * gap_ns(lease_ns) <= lease_ns
    watch, _ = stand_by(StandbyWatch(), SILENT, 0, lease_ns=lease_ns)
    for count in (1, 2):
        seen = replace(SILENT, owner_revision=7)
        watch, decision = stand_by(watch, seen, count * lease_ns, lease_ns=lease_ns)
        assert decision is Decision.FOLLOW


def test_a_standby_on_a_slow_machine_takes_over_all_the_same() -> None:  # CL-83
    assert takes_over_after(SILENT, beat_ns=2 * GAP_NS) == 2 * LEASE_NS


def test_a_node_whose_clock_is_ahead_does_not_take_over() -> None:  # CL-84
    assert takes_over_after(replace(SILENT, ahead_ns=AHEAD_NS + 1)) is None
    assert takes_over_after(replace(SILENT, ahead_ns=AHEAD_NS)) == LEASE_NS
    assert takes_over_after(replace(SILENT, ahead_ns=-100 * AHEAD_NS)) == LEASE_NS
    assert takes_over_after(replace(SILENT, ahead_ns=AHEAD_NS + 1, is_released=True)) is None


def test_a_node_that_knows_of_a_later_end_does_not_take_over_and_stops_in_the_end() -> None:
    """CL-85."""
    behind = replace(SILENT, is_behind=True)
    assert takes_over_after(behind) is None
    assert takes_over_after(*[behind] * 10, SILENT) == 10 * BEAT_NS
    watch, decision, now_ns = StandbyWatch(), Decision.FOLLOW, 0
    while decision is Decision.FOLLOW:
        watch, decision = stand_by(watch, behind, now_ns)
        now_ns += BEAT_NS
    assert decision is Decision.LOST_END
    assert now_ns - BEAT_NS == LOST_NS


def test_a_node_that_cannot_read_the_log_does_not_take_over_and_does_not_judge_it() -> None:
    """CL-85."""
    seen = replace(SILENT, reads_log=False, is_behind=True)
    watch, decision = StandbyWatch(), Decision.FOLLOW
    for count in range(100):
        watch, decision = stand_by(watch, seen, count * BEAT_NS)
        assert decision is Decision.FOLLOW
    assert watch.behind_ns == 0
    assert takes_over_after(replace(SILENT, reads_log=False)) is None


def test_a_log_that_catches_up_now_and_then_is_not_lost() -> None:  # CL-85
    watch, decision = StandbyWatch(), Decision.FOLLOW
    for count in range(100):
        seen = replace(SILENT, owner_revision=count, is_behind=count % 15 != 0)
        watch, decision = stand_by(watch, seen, count * BEAT_NS)
        assert decision is Decision.FOLLOW


def test_an_owner_whose_beat_was_replaced_reads_the_log_first() -> None:  # CL-86
    full = OwnerObservation(is_replaced=True, ahead_ns=10 * AHEAD_NS, no_room_ns=NO_ROOM_NS)
    assert own(full) is Decision.READ_LOG


@pytest.mark.parametrize(
    ("seen", "decision"),
    [
        (OwnerObservation(), Decision.OWN),
        (OwnerObservation(ahead_ns=AHEAD_NS), Decision.OWN),
        (OwnerObservation(unused_ns=LOOK_NS - 1), Decision.OWN),
        (OwnerObservation(unused_ns=LOOK_NS), Decision.READ_LOG),
        (OwnerObservation(unused_ns=LOOK_NS, ahead_ns=AHEAD_NS + 1), Decision.HAND_OVER),
        (OwnerObservation(ahead_ns=-10 * AHEAD_NS), Decision.OWN),
        (OwnerObservation(ahead_ns=AHEAD_NS + 1), Decision.HAND_OVER),
        (OwnerObservation(no_room_ns=NO_ROOM_NS - 1), Decision.OWN),
        (OwnerObservation(no_room_ns=NO_ROOM_NS), Decision.HAND_OVER),
        (OwnerObservation(behind_ns=LOST_NS - 1), Decision.OWN),
        (OwnerObservation(behind_ns=LOST_NS, is_replaced=True), Decision.LOST_END),
    ],
)
def test_an_owner_hands_over_what_it_cannot_keep(
    seen: OwnerObservation, decision: Decision
) -> None:  # CL-87, CL-88, CL-187
    assert own(seen) is decision


def test_an_owner_without_an_answer_for_the_lease_hands_out_no_task() -> None:  # CL-89
    assert holds_lease(100, 100 + LEASE_NS - 1)
    assert not holds_lease(100, 100 + LEASE_NS)
