"""Which entries of a log count (spec/log.md, LG-10 to LG-16). Pure: messages in, entries out.

    message ──join adjacent parts──▶ entry ──▶ counts: it is a part of the journal
                                          ├──▶ dead:   passed over, counted, shown
                                          └──▶ Damage: this reader has another history

Every reader that takes the same messages finds the same entries that count. So of two frames on one
tip the first one counts, and the second one never can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from aos.core.journal.frame import NO_FRAME, Frame, Tip, follow
from aos.errors import Damage, Pruned
from aos.store.log.entry import (
    ENTRY_BYTES_MAX,
    BlobsEntry,
    EntryPart,
    FramesEntry,
    LogEntry,
    read_entry,
)
from aos.store.log.log import Log, LogMessage
from aos.values.digests import Hash, content_hash

FrameAt = Callable[[int], Hash | None]
"""The hash of the frame whose last record is ``seq``, in the journal before the tip; None if no
frame ends there. It raises Pruned if that is not known any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedEntry:
    """An entry that counts: ``last`` is the position of its last message, ``tip`` the end of the
    journal behind it. ``dead`` is the number of dead messages that the counter passed over before
    it, and ``reason`` why the last of them was dead."""

    entry: LogEntry
    hash: Hash
    last: int
    tip: Tip
    dead: int = 0
    reason: str | None = None


@dataclass(slots=True)
class _Joining:
    """The parts of an entry that have come."""

    first: int
    hash: Hash
    total: int
    parts: list[bytes] = field(default_factory=list)
    size: int = 0


class EntryCounter:
    """Takes the messages of a log in their order, from behind ``position`` on, where the journal
    ended with ``tip``. ``dead`` counts messages that were passed over; ``reason`` is why the last
    of them was.

    ``frame_at`` knows the journal before the tip, so that a frame on an old tip is told from one on
    a frame that this reader never had. ``on_counted`` gets each entry that counts, in order, before
    anything else is read; what it raises ends the reading.
    """

    def __init__(
        self,
        *,
        tip: Tip,
        world_key: bytes,
        position: int,
        log: Log,
        frame_at: FrameAt,
        on_counted: Callable[[CountedEntry], None] = lambda _: None,
    ) -> None:
        self.tip = tip
        self.position = position
        self.dead = 0
        self.reason: str | None = None
        self._world_key = world_key
        self._log = log
        self._frame_at = frame_at
        self._on_counted = on_counted
        self._joining: _Joining | None = None

    @property
    def whole_position(self) -> int:
        """The position from which another reader may go on: behind it, no entry is half read."""
        return self.position if self._joining is None else self._joining.first - 1

    def counted(self) -> Iterator[CountedEntry]:
        """Yield the entries that count, up to the tail of the log.

        Raises:
            Damage: The log does not continue the journal (LG-14, LG-15).
            LogUnreachable: As ``Log.read``.
        """
        for message in self._log.read(self.position):
            entry = self.take(message)
            if entry is not None:
                yield entry

    def take(self, message: LogMessage) -> CountedEntry | None:
        """Take the next message; return the entry that it completes, if that one counts.

        Raises:
            Damage: As ``counted``. A message is missing before this one.
        """
        if message.position != self.position + 1:
            raise Damage(
                "the log has a gap",
                expected=f"the message at position {self.position + 1}",
                actual=f"that at {message.position}",
            )
        self.position = message.position
        part = message.part
        if part is None:
            self._pass_over("a message that is no part of an entry")
            return None
        joining = self._begun(message.position, part)
        if joining is None:
            return None
        joining.parts.append(part.data)
        joining.size += len(part.data)
        if joining.size > ENTRY_BYTES_MAX:
            self._joining = None
            self._lay_aside(joining, "an entry that is too long")
        elif len(joining.parts) == joining.total:
            self._joining = None
            return self._joined(joining)
        return None

    def _begun(self, position: int, part: EntryPart) -> _Joining | None:
        """The entry to which a part belongs; None if the part is dead."""
        joining = self._joining
        if joining is not None:
            number = len(joining.parts) + 1
            if (part.entry, part.number, part.total) == (joining.hash, number, joining.total):
                return joining
            self._joining = None
            self._lay_aside(joining, "half an entry")
        if part.number != 1:
            self._pass_over("a part without those before it")
            return None
        self._joining = _Joining(position, part.entry, part.total)
        return self._joining

    def _joined(self, joining: _Joining) -> CountedEntry | None:
        data = b"".join(joining.parts)
        if content_hash(data) != joining.hash:
            data = self._read_again(joining)
            if content_hash(data) != joining.hash:
                self._lay_aside(joining, "an entry with another hash")
                return None
        try:
            entry = read_entry(data)
        except Damage as problem:
            self._lay_aside(joining, str(problem))
            return None
        reason = self._refusal(entry)
        if reason is not None:
            self._lay_aside(joining, reason)
            return None
        counted = CountedEntry(
            entry=entry,
            hash=joining.hash,
            last=self.position,
            tip=self.tip,
            dead=self.dead,
            reason=self.reason,
        )
        self._on_counted(counted)
        return counted

    def _read_again(self, joining: _Joining) -> bytes:
        """The bytes of an entry as another server has them; this one's copy may be damaged."""
        parts = [
            message.part.data
            for message in self._log.read_again(joining.first, self.position)
            if message.part is not None
        ]
        return b"".join(parts)

    def _refusal(self, entry: LogEntry) -> str | None:
        """Why an entry does not count. None if it does; then the tip has moved behind it.

        Raises:
            Damage: It was made by who has the world's key, for a journal that this one is not.
        """
        if isinstance(entry, BlobsEntry):
            if entry.after != self.tip.frame:
                return "blobs for another place"
            is_own = entry.is_signed_by(self.tip.world, self._world_key)
            return None if is_own else "blobs that another key has signed"
        first, last = entry.frames[0], entry.frames[-1]
        head = entry.head
        if head.world != self.tip.world or not head.is_signed_by(self._world_key):
            return "frames whose head another key has signed"
        if (head.frame, head.seq) != (last.hash, last.header.last):
            return "frames under the head of others"
        self._check_known(first)
        if first.header.prev != self.tip.frame:
            return "frames on an old tip"
        return self._follow(entry)

    def _follow(self, entry: FramesEntry) -> str | None:
        tip = self.tip
        try:
            for frame in entry.frames:
                tip = follow(tip, frame)
        except Damage as problem:
            return str(problem)
        if entry.head.log_root != tip.log.root() or entry.head.frames != tip.log.size:
            return "a head over another journal"
        self.tip = tip
        return None

    def _check_known(self, first: Frame) -> None:
        """Check that the frame before ``first`` is one of this journal.

        The owner builds only on a frame that counts. So a signed frame on another one means that
        this reader has lost some, or that its server has: the later ones count for others.
        """
        before = first.header.first - 1
        if before == self.tip.seq:
            known_frame: Hash | None = self.tip.frame
        elif before == 0:
            known_frame = NO_FRAME
        else:
            try:
                known_frame = None if before > self.tip.seq else self._frame_at(before)
            except Pruned:
                return  # whichever it was, it is not the tip
        if known_frame != first.header.prev:
            raise Damage(
                "the log does not continue this journal: it has a frame, signed with the key of "
                "the world, that follows a frame which this journal lacks",
                location=f"position {self.position} of the log",
                expected=f"a frame behind record {self.tip.seq}, or on an earlier one of this "
                "journal",
                actual=f"one behind record {before} that names {first.header.prev.hex()[:16]}",
                hint="a server's copy of the log is damaged or has lost its end: do not start this "
                "node before that is repaired",
            )

    def _lay_aside(self, joining: _Joining, reason: str) -> None:
        self.dead += len(joining.parts)
        self.reason = reason

    def _pass_over(self, reason: str) -> None:
        if self._joining is not None:
            joining, self._joining = self._joining, None
            self._lay_aside(joining, "half an entry")
        self.dead += 1
        self.reason = reason
