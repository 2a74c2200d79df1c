"""A store whose frames and blobs are in a log before they are in it (spec/log.md, LG-50 to LG-56).

    append ──▶ log: it counts ──▶ LMDB, with the place in the log ──▶ answers

The place in the log is a value of the host in the same transaction. So the store is never ahead of
the log, and a process that was killed reads on from where its store is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from nacl.signing import SigningKey

from aos.boot_clock import boot_ns
from aos.core.journal.frame import NO_FRAME, Head, Tip
from aos.errors import Damage
from aos.store.errors import NoRoom
from aos.store.lmdb_store import LOG_PLACE, NO_META, LmdbStore
from aos.store.log.counting import CountedEntry, EntryCounter
from aos.store.log.early_end import EarlyEnd
from aos.store.log.entry import BlobsEntry, FramesEntry, LogEntry
from aos.store.log.log import Log, LogEndsEarly, LogUnreachable
from aos.store.log.log_writer import PART_BYTES, EntryWriter
from aos.store.store import NO_NOTES
from aos.values.cbor import Value, decode_record, encode, is_nat
from aos.values.digests import HASH_BYTES, Hash, content_hash
from aos.values.errors import ValueProblem

if TYPE_CHECKING:
    from aos.core.pending import Sealed
    from aos.store.environment import Environment


LOG_DEAD: Final = "log-dead"
"""The name of the row with the dead messages before the place."""


class LogAway(NoRoom):
    """The log does not answer: as for a full disk, the same group is to be written again (H-24)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """How far a store has taken a log: the ``stream``, the ``position`` of the last message, and
    the name of the ``entry`` of which that one is a part; None before the first."""

    stream: str
    position: int = 0
    entry: Hash | None = None

    def to_bytes(self) -> bytes:
        """The place as the store has it."""
        return encode([self.stream, self.position, self.entry])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a place. Raises: Damage: The bytes are none."""
        match _row_value(data, "the place in the log"):
            case [str(stream), position, entry]:
                place = cls.of(stream, position, entry)
                if place is not None:
                    return place
        raise Damage("the place in the log is not [stream, position, entry]")

    @classmethod
    def of(cls, stream: str, position: Value, entry: Value) -> Self | None:
        """The place of these fields; None if they are none."""
        match entry:
            case None if position == 0:
                return cls(stream=stream)
            case bytes() if is_nat(position) and position and len(entry) == HASH_BYTES:
                return cls(stream=stream, position=position, entry=Hash(entry))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of the log as a node has it: the ``position`` of the last entry that counts, and the
    last record there with the hash of its frame."""

    position: int
    seq: int
    frame: Hash

    def to_bytes(self) -> bytes:
        """The end as a store has it."""
        return encode([self.position, self.seq, self.frame])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read an end. Raises: Damage: The bytes are none."""
        match _row_value(data, "the end of the log"):
            case [position, seq, bytes(frame)] if (
                is_nat(position) and is_nat(seq) and len(frame) == HASH_BYTES
            ):
                return cls(position=position, seq=seq, frame=Hash(frame))
        raise Damage("the end of the log is not [position, record, frame]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMessages:
    """The number of dead messages before the place of a store, and why the last one was dead."""

    number: int = 0
    reason: str | None = None

    def to_bytes(self) -> bytes:
        """The number as the store has it."""
        return encode([self.number, self.reason])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a number. Raises: Damage: The bytes are none."""
        match _row_value(data, "the number of dead messages"):
            case [number, None | str() as reason] if is_nat(number):
                return cls(number=number, reason=reason)
        raise Damage("the number of dead messages is not [number, reason]")


def _row_value(data: bytes, subject: str) -> Value:
    try:
        return decode_record(data)
    except ValueProblem as problem:
        raise Damage(f"{subject} is not canonical CBOR: {problem}") from problem


class LoggedStore(LmdbStore):
    """The store of a node of a replicated world. ``connect`` comes first. A node that follows takes
    the entries of others (``counted``, ``take``); the owner uses it as any other store. One thread
    does either: for an owner, the committer's."""

    def __init__(self, environment: Environment, *, readonly: bool) -> None:
        super().__init__(environment, readonly=readonly)
        self._key: SigningKey | None = None
        self._place: LogPlace | None = None
        self._counter: EntryCounter | None = None
        self._writer: EntryWriter | None = None
        self._log: Log | None = None
        self._is_cut_off = False
        """Whether the log did not answer the last request: then its servers may have lost their
        end since (LG-57)."""
        self._unstored: dict[Hash, bytes] = {}
        """Blobs of entries that count and are not in the store yet."""
        self._unstored_ends: dict[int, Hash] = {}
        """The frames that count and are not in the store, by their last record: its own, and those
        of the process that has deposed this one."""
        self._ahead: CountedEntry | None = None
        """The last entry of this process that counts, if it is not in the store yet."""
        self._end: LogEnd | None = None
        self._dead_at_connect = DeadMessages()
        self._now_ns = boot_ns
        self.answered_ns: int | None = None
        """When the last write that the log has acknowledged began; None before the first."""
        self.early_end = EarlyEnd()
        """For how long the log has answered that it ends before this store."""
        self.full_since_ns: int | None = None
        """Since when there is no room on the disk for this store; None if there is."""

    @property
    def place(self) -> LogPlace | None:
        """The place in the log, as the store has it; None if the world has no log."""
        data = self.meta_get(LOG_PLACE)
        return None if data is None else LogPlace.from_bytes(data)

    @property
    def end(self) -> LogEnd:
        """The end of the log in this store. Any thread may ask."""
        assert self._end is not None, "connected"
        return self._end

    @property
    def connected_end(self) -> LogEnd | None:
        """The same; None before the store is connected to its log. Any thread may ask."""
        return self._end

    @property
    def dead(self) -> int:
        """Messages that this process passed over."""
        return 0 if self._counter is None else self._counter.dead

    @property
    def dead_messages(self) -> DeadMessages:
        """The dead messages before the place, as the store has them."""
        data = self.meta_get(LOG_DEAD)
        return DeadMessages() if data is None else DeadMessages.from_bytes(data)

    def begin(self, stream: str) -> None:
        """Give an empty store a log. Raises as ``append``."""
        assert self.head() is None, "a store with a journal begins with a base"
        self.meta_put(LOG_PLACE, LogPlace(stream=stream).to_bytes())

    def connect(
        self,
        log: Log,
        *,
        stream: str,
        tip: Tip,
        key: SigningKey,
        part_bytes: int = PART_BYTES,
        now_ns: Callable[[], int] = boot_ns,
    ) -> None:
        """Read and write a log from now on, from this store's place on. ``tip`` is the end of the
        journal in this store, ``key`` that of the world; ``now_ns`` is the clock of
        ``answered_ns``, ``early_end`` and ``full_since_ns``.

        Raises:
            Damage: The store has no log, or another one, or this log has lost what the store has:
                nothing was written (LG-53).
            LogUnreachable: It does not answer.
        """
        place = self.place
        if place is None or place.stream != stream:
            raise Damage(
                "this store is of another log",
                location=self.location,
                expected=f"the stream {stream}",
                actual="none" if place is None else f"the stream {place.stream}",
            )
        check_place(log, place, location=self.location)
        self._log, self._is_cut_off = log, False
        self._key = key
        self._place = place
        self._end = LogEnd(position=place.position, seq=tip.seq, frame=tip.frame)
        self._dead_at_connect = self.dead_messages
        self._unstored, self._unstored_ends, self._ahead = {}, {}, None
        self._now_ns, self.answered_ns = now_ns, None
        self.full_since_ns = None
        self.early_end.clear()
        self._counter = EntryCounter(
            tip=tip,
            world_key=key.verify_key.encode(),
            position=place.position,
            log=log,
            frame_at=self._frame_at,
            on_counted=self._counted,
        )
        self._writer = EntryWriter(log, self._counter, part_bytes=part_bytes)

    def append(
        self,
        group: Sequence[Sealed],
        head: Head,
        *,
        expected: Hash,
        notes: Mapping[int, str] = NO_NOTES,
        also: Mapping[str, bytes] = NO_META,
        dropped: Sequence[int] = (),
    ) -> None:
        """As ``LmdbStore.append``, once the group counts in the log.

        Raises:
            LogAway: The log does not answer. Whether the group counts is not known: append the same
                one again.
            Deposed: Another process owns the world, and the group does not count.
            Damage: The log does not continue this journal.
        """
        blobs = {hash: data for sealed in group for hash, data in sealed.blobs.items()}
        entry = FramesEntry(
            frames=tuple(sealed.frame for sealed in group),
            head=head,
            blobs=tuple(blobs.values()),
            notes=dict(notes),
        )
        counted = self._written(entry)
        with self._storing(counted):
            if self._unstored:
                super().put_blobs(self._unstored)
                self._unstored = {}
            super().append(
                group,
                head,
                expected=expected,
                notes=notes,
                also={**also, **self._rows_behind(counted)},
                dropped=dropped,
            )

    def put_blobs(
        self, blobs: Mapping[Hash, bytes], *, also: Mapping[str, bytes] = NO_META
    ) -> None:
        """As ``LmdbStore.put_blobs``, once they count in the log. Raises as ``append``."""
        assert self._key is not None, "connected"
        assert self._counter is not None, "connected"
        tip = self._counter.tip
        assert tip.frame != NO_FRAME, "blobs come after a frame"
        entry = BlobsEntry.signed(tip.world, tip.frame, list(blobs.values()), self._key)
        counted = self._written(entry)
        with self._storing(counted):
            super().put_blobs(
                {**self._unstored, **blobs}, also={**also, **self._rows_behind(counted)}
            )
            self._unstored = {}

    def check_owns(self) -> None:
        """Read the log to its tail, between two writes of an owner, and check that it takes
        messages.

        Raises:
            Deposed: Frames of another process count.
            LogSealed: It takes no more messages.
            LogUnreachable: The log does not answer.
            Damage: As ``append``.
        """
        assert self._log is not None, "connected"
        assert self._writer is not None, "connected"
        with self._answering():
            self._writer.check_owns()
            self._log.check_open()

    def counted(self) -> Iterator[CountedEntry]:
        """Yield the entries of others that count behind this store's place, up to the tail of the
        log. Pass each to ``take`` before the next.

        Raises:
            LogUnreachable: The log does not answer.
            Damage: It does not continue this journal (LG-14).
        """
        assert self._counter is not None, "connected"
        with self._answering():
            yield from self._counter.counted()

    def take(
        self, counted: CountedEntry, group: Sequence[Sealed] = (), *, dropped: Sequence[int] = ()
    ) -> None:
        """Store an entry that ``counted`` has yielded, with its place, in one transaction.
        ``group`` are its frames with their blobs and ``dropped`` as for ``append``; both are empty
        for an entry of blobs.

        Raises:
            NoRoom, CommitFailed: As ``LmdbStore.append``. Nothing has changed: take the same again.
        """
        entry, also = counted.entry, self._rows_behind(counted)
        with self._storing(counted):
            if isinstance(entry, FramesEntry):
                super().append(
                    group,
                    entry.head,
                    expected=entry.frames[0].header.prev,
                    notes=entry.notes,
                    also=also,
                    dropped=dropped,
                )
            else:
                super().put_blobs(self._unstored, also=also)
                self._unstored = {}

    def _rows_behind(self, counted: CountedEntry) -> dict[str, bytes]:
        """The place behind an entry, and the dead messages before it, if there are new ones."""
        rows = {LOG_PLACE: self._behind(counted).to_bytes()}
        if counted.dead:
            number = self._dead_at_connect.number + counted.dead
            rows[LOG_DEAD] = DeadMessages(number=number, reason=counted.reason).to_bytes()
        return rows

    def _behind(self, counted: CountedEntry) -> LogPlace:
        assert self._place is not None, "connected"
        return LogPlace(stream=self._place.stream, position=counted.last, entry=counted.hash)

    def _written(self, entry: LogEntry) -> CountedEntry:
        """Write an entry to the log, unless it counts already."""
        assert self._writer is not None, "connected"
        counted = self._ahead
        if counted is None or counted.entry != entry:
            began_ns = self._now_ns()
            try:
                with self._answering():
                    counted = self._writer.append(entry)
            except LogUnreachable as problem:
                raise LogAway(str(problem), needed_bytes=0, free=0) from problem
            self._ahead, self.answered_ns = counted, began_ns
        return counted

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        """Use the log. If it did not answer the last time, check first that it still has the place
        of this store.

        Raises:
            LogUnreachable: It does not answer, or ends before the place.
            Damage: It has another message there.
        """
        assert self._log is not None, "connected"
        assert self._place is not None, "connected"
        try:
            if self._is_cut_off:
                tail = self._log.tail()
                if tail < self._place.position:
                    raise LogEndsEarly(
                        "the log ends before what this process has read",
                        expected=f"a log that continues to position {self._place.position}",
                        actual=f"one that ends at {tail}",
                    )
                check_place(self._log, self._place, location=self.location)
                self._is_cut_off = False
            yield
        except LogEndsEarly:
            self._is_cut_off = True
            self.early_end.note_early(self._now_ns())
            raise
        except LogUnreachable:
            self._is_cut_off = True
            self.early_end.note_unanswered()
            raise
        self.early_end.clear()

    @contextlib.contextmanager
    def _storing(self, counted: CountedEntry) -> Iterator[None]:
        """Write an entry to the store, whose end it is after that."""
        try:
            yield
        except NoRoom:
            self.full_since_ns = self.full_since_ns or self._now_ns()
            raise
        self.full_since_ns = None
        tip = counted.tip
        self._place = self._behind(counted)
        self._end = LogEnd(position=counted.last, seq=tip.seq, frame=tip.frame)
        self._unstored_ends = {
            seq: frame for seq, frame in self._unstored_ends.items() if seq > tip.seq
        }
        self._ahead = None

    def _counted(self, counted: CountedEntry) -> None:
        """Keep the blobs of an entry until the next transaction, with which the place moves behind
        it, and the ends of its frames until they are stored."""
        entry = counted.entry
        if isinstance(entry, BlobsEntry):
            self._unstored.update((content_hash(blob), blob) for blob in entry.blobs)
        else:
            self._unstored_ends.update((frame.header.last, frame.hash) for frame in entry.frames)

    def _frame_at(self, seq: int) -> Hash | None:
        unstored = self._unstored_ends.get(seq)
        if unstored is not None:
            return unstored
        frame = self.frame_at(seq)
        return frame.hash if frame is not None and frame.header.last == seq else None


def check_place(log: Log, place: LogPlace, *, location: str) -> None:
    """Check that a log still has everything that a store took from it (LG-53).

    Raises:
        Damage: It ends earlier, or has another message there.
        LogUnreachable: It does not answer.
    """
    tail = log.tail()
    if tail < place.position:
        raise Damage(
            "the log has lost what was acknowledged",
            location=location,
            expected=f"a log that continues to position {place.position} or behind it",
            actual=f"one that ends at {tail}",
            hint="do not start this node: bring the log back from the longest journal of a node",
        )
    if place.position == 0:
        return
    message = next(iter(log.read(place.position - 1)), None)
    if message is None:
        raise LogUnreachable("the log does not show yet what this store took from it")
    entry = None if message.part is None else message.part.entry
    if entry != place.entry:
        raise Damage(
            "the log has another entry at the place of this store",
            location=location,
            expected=f"a part of {'' if place.entry is None else place.entry.hex()[:16]}",
            actual="no part" if entry is None else f"a part of {entry.hex()[:16]}",
            hint="the stream was made again, or another one has its name",
        )
