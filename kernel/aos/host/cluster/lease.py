"""When a standby takes over, and when an owner stops (spec/cluster.md, CL-80 to CL-89). Pure: state
and observation in, state and decision out.

No decision here is needed for one history: the order of the log alone gives that. A decision that
is taken too early or too late costs time.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

SECOND_NS: Final = 10**9
BEAT_NS: Final = SECOND_NS // 2
"""The longest time between two beats of a node."""

LEASE_NS: Final = 3 * SECOND_NS
"""How long an owner is silent before a standby takes over, by default."""

BEATS_IN_LEASE: Final = 6
"""How many beats a node writes during a short lease. With fewer, an owner that is slow once would
lose the world, and a standby would not know in time which others there are."""

RANK_NS: Final = 3 * SECOND_NS // 10
"""How much later the next standby does, so that two of them rarely try together."""

GAP_BEATS: Final = 2
"""Of the time between two answered beats, at most so many intervals are counted: this process, or
its way to the bucket, did not work meanwhile, so it cannot know that the owner was silent."""

AHEAD_NS: Final = 5 * SECOND_NS
"""How far the wall clock may be ahead of the time of the bucket's server. The clock of a journal
never goes back, so a node whose clock is wrong must not set it."""

LOST_NS: Final = 10 * SECOND_NS
"""How long the log may end before an end that some node had. A server that lags catches up."""

NO_ROOM_NS: Final = 10 * SECOND_NS
"""How long the disk of an owner may be full."""


LOOK_NS: Final = 5 * SECOND_NS
"""An owner that has not used the log for so long looks at it."""


CALLED_NS: Final = SECOND_NS // 20
"""The time between two turns of a node to which the owner hands over."""

RECENT_BEATS: Final = 4
"""A node to which an owner hands over has everything that the owner had so many beats ago."""


def beat_ns(lease_ns: int) -> int:
    """The time between two beats of a node with this lease (CL-72)."""
    return min(BEAT_NS, lease_ns // BEATS_IN_LEASE)


def gap_ns(lease_ns: int) -> int:
    """The most that is counted of the time between two answered beats (CL-83)."""
    return GAP_BEATS * beat_ns(lease_ns)


class Decision(enum.Enum):
    """The next act of a node."""

    FOLLOW = "follow"
    TAKE_OVER = "take over"
    """Read the log to its tail, and write a ``start`` record behind it."""
    OWN = "own"
    READ_LOG = "read the log"
    """Another process has replaced the owner's beat, or the owner has not used the log for some
    time: the log says whether it owns the world."""
    HAND_OVER = "hand over"
    """Stop owning, release the world, and follow."""
    LOST_END = "the log has lost its end"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyWatch:
    """The memory of a standby between two beats of its own.

    ``owner_revision`` is that of the last beat of an owner; -1 before the first observation.
    ``silent_ns`` is for how long there was no newer one, and ``behind_ns`` for how long the log has
    ended before an end that some node had; ``answered_ns`` is when the last beat of its own was
    answered, None if the last one was not.
    """

    owner_revision: int = -1
    silent_ns: int = 0
    behind_ns: int = 0
    answered_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyObservation:
    """The observation of a standby after a beat of its own.

    ``is_answered`` is whether the bucket has answered everything; without that, the other fields
    say nothing. ``ahead_ns`` is how far the wall clock is ahead of the server's. ``owner_revision``
    is that of the owner's beat, 0 without one, and ``is_released`` whether that releases the world;
    ``is_for_other`` is whether it does so for another node.
    ``rank`` is the number of standbys that go before this one. ``reads_log`` is whether the log has
    answered, too. ``is_behind``: some node had a later
    end of the log than this node reads.
    """

    is_answered: bool
    ahead_ns: int = 0
    owner_revision: int = 0
    is_released: bool = False
    is_for_other: bool = False
    rank: int = 0
    reads_log: bool = True
    is_behind: bool = False


def stand_by(
    watch: StandbyWatch, seen: StandbyObservation, now_ns: int, *, lease_ns: int = LEASE_NS
) -> tuple[StandbyWatch, Decision]:
    """Decide for a standby at ``now_ns`` of its boot-time clock (CL-81 to CL-85)."""
    if not seen.is_answered:
        return StandbyWatch(owner_revision=watch.owner_revision), Decision.FOLLOW
    passed_ns = 0
    if watch.answered_ns is not None:
        passed_ns = min(now_ns - watch.answered_ns, gap_ns(lease_ns))
    is_new = seen.owner_revision != watch.owner_revision
    next_watch = StandbyWatch(
        owner_revision=seen.owner_revision,
        silent_ns=0 if is_new else watch.silent_ns + passed_ns,
        behind_ns=watch.behind_ns + passed_ns if seen.is_behind and seen.reads_log else 0,
        answered_ns=now_ns,
    )
    if next_watch.behind_ns >= LOST_NS:
        return next_watch, Decision.LOST_END
    is_free = seen.is_released and not seen.is_for_other
    patience_ns = seen.rank * RANK_NS + (0 if is_free else lease_ns)
    may_own = seen.reads_log and not seen.is_behind and seen.ahead_ns <= AHEAD_NS
    if may_own and next_watch.silent_ns >= patience_ns:
        return next_watch, Decision.TAKE_OVER
    return next_watch, Decision.FOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerObservation:
    """The observation of an owner after a beat of its own.

    ``is_replaced``: another process has replaced its beat. ``ahead_ns`` as for a standby, None if
    the bucket did not answer. ``no_room_ns`` is for how long its disk has been full, and
    ``behind_ns`` for how long the log has ended before its store. ``unused_ns`` is for how long it
    has neither written to the log nor looked at it.
    """

    is_replaced: bool = False
    ahead_ns: int | None = None
    no_room_ns: int = 0
    behind_ns: int = 0
    unused_ns: int = 0


def own(seen: OwnerObservation) -> Decision:
    """Decide for an owner (CL-85 to CL-88, CL-187)."""
    if seen.behind_ns >= LOST_NS:
        return Decision.LOST_END
    if seen.is_replaced:
        return Decision.READ_LOG
    if seen.no_room_ns >= NO_ROOM_NS or (seen.ahead_ns or 0) > AHEAD_NS:
        return Decision.HAND_OVER
    return Decision.READ_LOG if seen.unused_ns >= LOOK_NS else Decision.OWN


def holds_lease(answered_ns: int, now_ns: int, *, lease_ns: int = LEASE_NS) -> bool:
    """Whether an owner may hand out a task (CL-89): its last beat or append that was answered was
    sent at ``answered_ns``, so that no standby has taken over yet."""
    return now_ns - answered_ns < lease_ns
