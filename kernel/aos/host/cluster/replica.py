"""One node of a replicated world: it follows, owns, and follows again (spec/cluster.md, CL-90 to
CL-99).

    CLOSED ──restore──▶ FOLLOWING ──turn: take over──▶ CLAIMING ──its start counts──▶ OWNING
       ▲                                                  │ another one's does        │ deposed,
       └──────────────────────────────────────────────────┴───────────────────────────┘ handed over

The log decides which node owns the world. One thread calls all of this, except that ``own_turn``
and ``holds_lease`` may be called by another one while the world is owned.
"""

from __future__ import annotations

import contextlib
import enum
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from nacl.signing import SigningKey

from aos.boot_clock import boot_ns
from aos.core.journal.frame import Head
from aos.core.journal.inputs import StartInput
from aos.core.limits import LIMITS, Limits
from aos.core.pending import Sealed
from aos.errors import Damage, Refused, Unavailable, either
from aos.fastcore.core_choice import ChosenCore
from aos.host.cluster.beat import Beat
from aos.host.cluster.beating import Beats, ReadBeat
from aos.host.cluster.following import EntryIntake, Fetch, no_others, open_world
from aos.host.cluster.known_end import KnownEnd
from aos.host.cluster.lease import (
    CALLED_NS,
    LEASE_NS,
    LOST_NS,
    RECENT_BEATS,
    Decision,
    OwnerObservation,
    StandbyObservation,
    StandbyWatch,
    beat_ns,
    holds_lease,
    own,
    stand_by,
)
from aos.host.cluster.reference_fold import ReferenceProgress
from aos.host.folder.restore import Progress
from aos.host.stamps import Sources
from aos.host.world.restored_world import RestoredWorld
from aos.store.errors import Deposed, NoRoom
from aos.store.log.bucket import BucketConflict, BucketUnreachable
from aos.store.log.early_end import EarlyEnd
from aos.store.log.log import Log, LogEndsEarly, LogUnreachable
from aos.store.log.log_writer import PART_BYTES
from aos.store.log.logged_store import LogAway, LogEnd, LoggedStore, LogPlace, check_place
from aos.values.digests import Hash

SUSPICION_BEATS: Final = 2
"""After so many intervals without a beat of the owner, a standby looks at those of the others."""


class Role(enum.Enum):
    """The part of a node in its world."""

    CLOSED = "closed"
    """Its kernel was discarded; its store has everything that counts, to some place."""
    FOLLOWING = "following"
    CLAIMING = "claiming"
    """Its ``start`` record may be in the log: it is unknown whether it counts."""
    OWNING = "owning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """A node: its keys, names and clocks. ``host`` is the software that executes here, for its
    ``start`` record, which also names the kernel. ``now_ns`` is its boot-time clock; ``sources``
    has its wall clock. ``fetch`` asks the other nodes for a blob. ``progress`` and ``note`` are as
    for ``restored_world``."""

    world: Hash
    key: SigningKey
    stream: str
    host: Mapping[str, str]
    sources: Sources = field(default_factory=Sources)
    now_ns: Callable[[], int] = boot_ns
    lease_ns: int = LEASE_NS
    fetch: Fetch = no_others
    core: ChosenCore | None = None
    limits: Limits = LIMITS
    part_bytes: int = PART_BYTES
    progress: Progress | None = None
    note: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node as it is after a turn. ``world`` has the tip and the figures after the last entry
    taken; None before the journal was read. ``stream`` is that of its log, None before it was
    opened. ``owner`` is the beat of the owner that the node saw last, and ``reason`` why the log
    cannot be followed now."""

    role: Role
    stream: str | None = None
    world: RestoredWorld | None = None
    end: LogEnd | None = None
    owner: Beat | None = None
    dead: int = 0
    reason: str | None = None
    reference: ReferenceProgress | None = None
    """How far the reference has compared this journal; None on a node without it."""

    @property
    def lag(self) -> int:
        """How many messages of the log this node is behind the owner, as of the owner's last
        beat."""
        if self.owner is None or self.end is None:
            return 0
        return max(0, self.owner.end.position - self.end.position)


class Replica:
    """A node with its ``store``, one view of the ``log``, and its ``beats``. ``restore`` is first.

    ``reason`` is why the last turn could not follow the log, or why the node may not own the world;
    None without one.
    """

    def __init__(
        self, store: LoggedStore, log: Log, beats: Beats, settings: ReplicaSettings
    ) -> None:
        self.store = store
        self.role = Role.CLOSED
        self.reason: str | None = None
        self._log = log
        self._beats = beats
        self._settings = settings
        self._intake: EntryIntake | None = None
        self._watch = StandbyWatch()
        self._start: Sealed | None = None
        """The frame of the ``start`` record that this node claims the world with."""
        self._beat_answered_ns: int | None = None
        self.is_replaced = False
        """Whether another process has replaced the beat of this owner."""
        self._looked_ns: int | None = None
        """When this owner was told last to look at the log."""
        self._early_end = EarlyEnd()
        """For how long the log has answered that it ends before the place of the closed store."""
        self._known_end = KnownEnd(store, settings.stream)
        self.host: Mapping[str, str] = settings.host
        """The ``host`` map of the last ``start`` record of this process."""
        self._owner: Beat | None = None
        self._to: str | None = None
        """The node to which this owner is about to hand over."""
        self._recent_ends: deque[LogEnd] = deque(maxlen=RECENT_BEATS)
        """The ends of the log in the last beats of this owner."""
        self._view = NodeView(role=self.role, stream=settings.stream)

    @property
    def beat_ns(self) -> int:
        """The time between two turns."""
        return beat_ns(self._settings.lease_ns)

    @property
    def turn_ns(self) -> int:
        """The time until the next turn of a standby: short if the owner hands over to this node."""
        is_called = self._owner is not None and self._owner.to == self._beats.node
        return min(CALLED_NS, self.beat_ns) if is_called else self.beat_ns

    def view(self) -> NodeView:
        """Return how the node is now, in the thread that does its turns."""
        intake, before = self._intake, self._view
        follows = self.role is Role.FOLLOWING and intake is not None
        self._view = NodeView(
            role=self.role,
            stream=self._settings.stream,
            world=self.intake.current() if follows else before.world,
            end=self.store.end if follows else before.end,
            owner=self._owner,
            dead=self.store.dead,
            reason=self.reason,
        )
        return self._view

    def restore(self) -> None:
        """Restore the world from the store, and connect the store to the log.

        Raises:
            Damage: The journal is damaged, or the log has lost what this store has (LG-53).
            LogUnreachable: The log does not answer: call again.
        """
        assert self.role is Role.CLOSED, "closed"
        self._check_tail()
        settings = self._settings
        world = open_world(
            self.store, settings.world, core=settings.core, limits=settings.limits,
            progress=settings.progress, note=settings.note,
        )  # fmt: skip
        try:
            self.store.connect(
                self._log,
                stream=settings.stream,
                tip=world.tip,
                key=settings.key,
                part_bytes=settings.part_bytes,
                now_ns=settings.now_ns,
            )
        except BaseException:
            world.thread.close()
            raise
        self._intake = EntryIntake(world, self.store, fetch=settings.fetch)
        self.role = Role.FOLLOWING
        self._watch = StandbyWatch()
        self._start = self._beat_answered_ns = None

    def _check_tail(self) -> None:
        """Check that the log does not end before the place of the store. A server that lags may say
        so for a moment; after ``LOST_NS``, ``connect`` raises Damage.

        Raises:
            LogEndsEarly: It does, and not for long.
        """
        place, early_end = self._place(), self._early_end
        try:
            tail = self._log.tail()
        except LogUnreachable:
            early_end.note_unanswered()
            raise
        if tail >= place.position:
            early_end.clear()
            return
        early_end.note_early(self._settings.now_ns())
        if early_end.span_ns < LOST_NS:
            raise LogEndsEarly(f"the log ends before position {place.position}, which was read")

    def _place(self) -> LogPlace:
        place = self.store.place
        assert place is not None, "the store of a replicated world"
        return place

    def close(self) -> None:
        """Discard the kernel, whose thread ends. The store stays open."""
        self.role = Role.CLOSED
        intake, self._intake = self._intake, None
        if intake is not None:
            intake.world.thread.close()

    @property
    def intake(self) -> EntryIntake:
        """The world of this node, as it follows."""
        assert self._intake is not None, "used before restore, or after close"
        return self._intake

    # Following

    def follow(self) -> int:
        """Take the entries that count, between two turns; return how many. Raises as ``turn``."""
        if self.role is Role.FOLLOWING:
            with contextlib.suppress(LogUnreachable):
                return self.intake.advance()
        return 0

    def turn(self) -> Decision:
        """Do one turn of a standby: beat, look at the other beats, follow the log, decide. Call it
        each ``beat_ns``.

        Raises:
            Damage: The log does not continue this journal, or has lost an end that a node had.
            NoRoom, NeedsBase: As ``EntryIntake.advance``.
        """
        assert self.role is Role.FOLLOWING, "a turn of a standby"
        now_ns = self._settings.now_ns()
        seen, ends = self._observed()
        self.reason, is_behind = None, False
        try:
            self.intake.advance()
            is_behind = self._log.tail() < self.store.end.position
        except LogEndsEarly:
            is_behind = True
        except LogUnreachable as problem:
            self.reason = str(problem)
        for end in ends:
            self._known_end.note(end)
        seen = replace(
            seen,
            reads_log=self.reason is None,
            is_behind=self._known_end.is_ahead() or is_behind,
        )
        self._watch, decision = stand_by(
            self._watch, seen, now_ns, lease_ns=self._settings.lease_ns
        )
        if decision is Decision.LOST_END:
            raise self.lost_end()
        return decision

    def _observed(self) -> tuple[StandbyObservation, list[LogEnd]]:
        """Beat, and look at the other beats. Return the ends of the log in them, too."""
        settings, beats = self._settings, self._beats
        try:
            wall_ns = settings.sources.clock_ns()
            written_ns = beats.stand_by(self.store.end)
            owner = beats.owner()
            others: list[ReadBeat] = []
            suspicion_ns = SUSPICION_BEATS * self.beat_ns
            if self._watch.silent_ns >= suspicion_ns or _is_released(owner):
                others = beats.standbys()
        except (BucketUnreachable, BucketConflict):
            return StandbyObservation(is_answered=False), []
        self._owner = owner.beat
        ends = [read.beat.end for read in (owner, *others) if read.beat is not None]
        seen = StandbyObservation(
            is_answered=True,
            ahead_ns=wall_ns - written_ns,
            owner_revision=owner.revision,
            # A node that has released the world leaves it to the others.
            is_released=_is_released(owner) and not self._is_own(owner),
            is_for_other=_is_for_other(owner, self._beats.node),
            rank=self._rank(others, owner, written_ns),
        )
        return seen, ends

    def _is_own(self, read: ReadBeat) -> bool:
        return read.beat is not None and read.beat.instance == self._beats.instance

    def _rank(self, others: list[ReadBeat], owner: ReadBeat, written_ns: int) -> int:
        """The number of living standbys whose name comes before that of this node. The process that
        has released the world is none of them; the node for which it did so goes first."""
        if owner.beat is not None and owner.beat.released and owner.beat.to == self._beats.node:
            return 0
        since_ns = written_ns - self._settings.lease_ns
        released_by = owner.beat.instance if owner.beat is not None and owner.beat.released else b""
        return sum(
            1
            for read in others
            if read.beat is not None
            and read.beat.node < self._beats.node
            and read.beat.instance != released_by
            and read.written_ns >= since_ns
        )

    def lost_end(self) -> Damage:
        """The error of a node after ``LOST_END``."""
        return self._known_end.lost()

    # Taking over

    def take_over(self) -> bool:
        """Read the log to its tail, check that it has the place of this store, and claim the world
        with a ``start`` record. Whether this node owns it now. If not, and the role is CLAIMING,
        that is unknown: call ``claim``.

        Raises:
            Damage, NoRoom, NeedsBase: As ``turn``.
        """
        assert self.role is Role.FOLLOWING, "a node that follows takes over"
        try:
            self.intake.advance()
            self._check_tail()
            check_place(self._log, self._place(), location=self.store.location)
        except LogUnreachable:
            return False
        if self.store.end.seq == 0:
            self.reason = "the log does not show the first record of the world yet"
            return False
        if self._known_end.is_ahead():
            return False
        world, sources = self.intake.world, self._settings.sources
        host = {
            **self._settings.host,
            "core": world.core.value,
            "node": self._beats.node,
            "instance": self._beats.instance.hex(),
        }
        self.host = host
        start = StartInput(host=tuple(sorted(host.items())))

        def seal() -> Sealed | None:
            world.kernel.admit(start, sources.stamp())
            return world.kernel.seal(sources.salt())

        self._start = world.thread.call(seal)
        self.role = Role.CLAIMING
        return self.claim()

    def claim(self) -> bool:
        """Write the frame of the ``start`` record until it is known whether it counts. Whether this
        node owns the world now. If another node's frames count, the role is CLOSED.

        Raises:
            NoRoom: The disk is full: call again.
            Damage: The log does not continue this journal.
        """
        sealed, world = self._start, self.intake.world
        assert sealed is not None, "claiming"
        world.blobs.hold(sealed.blobs, until=sealed.tip.seq)
        head = Head.of(sealed.tip).signed(self._settings.key)
        try:
            self.store.append([sealed], head, expected=sealed.frame.header.prev)
        except LogAway:
            return False
        except Deposed:
            self.close()
            return False
        world.blobs.drop(sealed.blobs, durable=sealed.tip.seq)
        self._start = None
        self._to = None
        self._recent_ends.clear()
        self.role = Role.OWNING
        self.replace_beat()
        return True

    def replace_beat(self) -> None:
        """Write the first beat of this owner, or, once the log has shown that this node still owns
        the world, replace that of another process (CL-86). If the bucket does not answer, the next
        turn does."""
        with contextlib.suppress(BucketUnreachable, BucketConflict, NoRoom):
            self._beats.claim(self.store.end)

    def world(self) -> RestoredWorld:
        """The world that this node owns, for its engine."""
        assert self.role is Role.OWNING, "an owner's world"
        return self.intake.current()

    # Owning

    def own_turn(self) -> Decision:
        """Do one turn of an owner: beat, and decide. Call it each ``beat_ns``."""
        sent_ns = self._settings.now_ns()
        decision = self._own_decision(sent_ns)
        if decision is Decision.READ_LOG:
            self._looked_ns = sent_ns
        return decision

    def _own_decision(self, sent_ns: int) -> Decision:
        settings, store = self._settings, self.store
        wall_ns = settings.sources.clock_ns()

        def since(ns: int | None) -> int:
            return 0 if ns is None else sent_ns - ns

        seen = OwnerObservation(
            no_room_ns=since(store.full_since_ns),
            behind_ns=store.early_end.span_ns,
            unused_ns=since(_latest(store.answered_ns, self._looked_ns)),
        )
        try:
            written_ns = self._beats.renew(store.end, to=self._to)
            self._recent_ends.append(store.end)
        except (BucketUnreachable, NoRoom):
            return own(seen)
        self.is_replaced = written_ns is None
        if written_ns is None:
            return own(replace(seen, is_replaced=True))
        self._beat_answered_ns = sent_ns
        return own(replace(seen, ahead_ns=wall_ns - written_ns))

    def holds_lease(self) -> bool:
        """Whether this owner may hand out tasks: a beat or an append that was sent within the lease
        was answered."""
        answered_ns, lease_ns = self._answered_ns(), self._settings.lease_ns
        return answered_ns is not None and holds_lease(
            answered_ns, self._settings.now_ns(), lease_ns=lease_ns
        )

    def lease_end_ns(self) -> int:
        """The time of the boot-time clock until which this owner may hand out tasks; 0 if it may
        not."""
        answered_ns = self._answered_ns()
        return 0 if answered_ns is None else answered_ns + self._settings.lease_ns

    def _answered_ns(self) -> int | None:
        """When the last beat or append that was answered was sent; None if this is no owner."""
        if self.role is not Role.OWNING:
            return None
        return _latest(self.store.answered_ns, self._beat_answered_ns)

    def call_next(self, node: str) -> bool:
        """Name the node to which this owner is about to hand over, in its beat: that node looks for
        the release from then on (CL-226, CL-227). False if it is this node itself.

        Raises:
            Refused: No such standby lives, it has an earlier release of AOS, or another node was
                called already. Nothing has changed.
            Unavailable: It is behind, or the bucket does not answer.
        """
        assert self.role is Role.OWNING, "an owner hands over"
        if node == self._beats.node:
            return False
        if self._to is not None and self._to != node:
            raise Refused(
                "the owner hands over to another node already",
                location=f"node {self._beats.node}",
                actual=self._to,
                hint="wait until that node owns the world, then move it again",
            )
        written_ns = self._beats.renew(self.store.end, to=self._to)
        if written_ns is None:
            raise Unavailable("this node does not know whether it owns the world (try again)")
        self._check_called(node, written_ns)
        self._beats.renew(self.store.end, to=node)
        self._to = node
        return True

    def _check_called(self, node: str, written_ns: int) -> None:
        """Check that a node may take over now. Raises as ``call_next``."""
        since_ns = written_ns - self._settings.lease_ns
        reads = self._beats.standbys()
        living = {
            read.beat.node: read.beat
            for read in reads
            if read.beat is not None
            and read.written_ns >= since_ns
            and read.beat.instance != self._beats.instance
        }
        beat = living.get(node)
        if beat is None:
            raise Refused(
                "no living standby has this name",
                location=f"node {node}",
                expected=either(sorted(living)) if living else "a standby, and none lives",
                hint="start the node (aos run --world DIR), or make it (aos join)",
            )
        if is_earlier_release(beat.release, self._beats.program_release):
            raise Refused(
                "the standby has an earlier release of AOS than the owner, whose records it may "
                "not know",
                location=f"node {node}",
                expected=self._beats.program_release,
                actual=beat.release or "none",
                hint="update it and start it again, then move the world",
            )
        position = self._recent_ends[0].position if self._recent_ends else 0
        if beat.end.position < position:
            raise Unavailable(
                "the standby is behind, so the world would stop while it reads the log",
                location=f"node {node}",
                expected=f"position {position} of the log",
                actual=str(beat.end.position),
                hint="wait until it has followed the log: aos cluster status",
            )

    def release(self) -> None:
        """Release the world, after its engine has stopped: the node that was called, or any
        standby, takes over at once. If the bucket does not answer, one takes over after the
        lease."""
        with contextlib.suppress(BucketUnreachable, NoRoom):
            self._beats.release(self.store.end, to=self._to)
        self.close()


def _latest(*times_ns: int | None) -> int | None:
    return max((ns for ns in times_ns if ns is not None), default=None)


def _is_released(read: ReadBeat) -> bool:
    return read.beat is not None and read.beat.released


def _is_for_other(read: ReadBeat, node: str) -> bool:
    """Whether an owner has released the world for another node than this one."""
    return read.beat is not None and read.beat.released and read.beat.to not in (None, node)


def is_earlier_release(release: str, other: str) -> bool:
    """Whether a release of AOS came before another one, by its numbers."""
    numbers, other_numbers = (
        [int(part) for part in re.findall("[0-9]+", text)] for text in (release, other)
    )
    return numbers < other_numbers
