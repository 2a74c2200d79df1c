"""Write entries to a log, and learn whether they count (spec/log.md, LG-30 to LG-36).

Rule 1: an entry is acknowledged in one of two cases: each of its parts got the position behind the
one before it, from the known tip on; or the writer has read the log and its own entry counts.

Rule 2: while it is unknown whether an entry was written, nothing else is written. The next call
reads the log before it writes the same bytes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aos.errors import Damage
from aos.store.errors import Deposed
from aos.store.log.counting import CountedEntry, EntryCounter
from aos.store.log.entry import EntryPart, FramesEntry, LogEntry, parts_of
from aos.store.log.log import (
    AfterWrongPosition,
    Log,
    LogEndsEarly,
    LogMessage,
    LogUnreachable,
)
from aos.values.digests import Hash

PART_BYTES: Final = 1024 * 1024 - 8 * 1024
"""The longest part of an entry: a message of 1 MiB, which a server accepts by default, with its
headers."""


class EntryWriter:
    """Writes to ``log`` behind what ``counter`` has read. Used by one thread."""

    def __init__(self, log: Log, counter: EntryCounter, *, part_bytes: int = PART_BYTES) -> None:
        self._log = log
        self._counter = counter
        self._part_bytes = part_bytes
        self._unknown: Hash | None = None
        """The name of the entry of which it is unknown whether it was written."""
        self._unknown_frames = False
        """Whether that one is an entry of frames."""
        self._own_entry: CountedEntry | None = None
        """That entry, if a reading that has failed since has found it."""
        self._deposed_at: int | None = None
        """The first record of another writer."""

    def append(self, entry: LogEntry) -> CountedEntry:
        """Write an entry. On return it is durable and counts.

        Raises:
            LogUnreachable: It is unknown whether it was written. Call again with the same entry.
            Deposed: Frames of another writer count. This entry does not, and never will.
            Damage: As ``EntryCounter.counted``. The log has lost messages that were read (LG-35).
        """
        data = entry.to_bytes()
        parts = parts_of(data, self._part_bytes)
        hash = parts[0].entry
        self._check_deposed()
        if self._unknown is not None:
            # Frames are written until they are answered (H-24). Blobs may be given up.
            is_same = self._unknown == hash
            if not is_same:
                self._own_entry = None
            assert is_same or not self._unknown_frames, "other frames are not known to be written"
            own_entry = self._look(hash)
            if own_entry is not None:
                return own_entry
        while True:
            self._unknown, self._unknown_frames = hash, isinstance(entry, FramesEntry)
            after = self._counter.position
            try:
                positions = self._log.append(parts, after)
            except AfterWrongPosition:
                positions = []
            if min(positions, default=after + 1) <= after:
                raise _written_before(min(positions), after)
            if positions == list(range(after + 1, after + 1 + len(parts))):
                own_entry = self._taken(positions, parts)
            else:
                own_entry = self._look(hash)
            if own_entry is not None:
                return own_entry
            # Writing again without having read what came between would only add dead messages.
            if self._counter.position < max(positions, default=after + 1):
                raise self._not_shown()

    def check_owns(self) -> None:
        """Read the log to its tail, unless it is unknown whether an entry was written: the next
        ``append`` reads it then.

        Raises:
            Deposed: Frames of another writer count. LogUnreachable, Damage: As ``append``.
        """
        if self._unknown is None:
            self._look(None)
        self._check_deposed()

    def _not_shown(self) -> LogUnreachable:
        """Why the reading did not reach what the log has, by the answer to a writing (LG-35)."""
        tail = self._log.tail()
        if tail < self._counter.position:
            return LogEndsEarly(
                "the log ends before what this process has read",
                expected=f"a log that continues to position {self._counter.position} or behind it",
                actual=f"one that ends at {tail}",
            )
        return LogUnreachable("the log does not show yet what was written to it")

    def _taken(self, positions: Sequence[int], parts: Sequence[EntryPart]) -> CountedEntry:
        """The entry, written without a gap behind what was read: it needs no reading."""
        own_entry = None
        for position, part in zip(positions, parts, strict=True):
            own_entry = self._counter.take(LogMessage(position, part))
        assert own_entry is not None, f"an entry that cannot count: {self._counter.reason}"
        self._unknown = None
        return own_entry

    def _look(self, hash: Hash | None) -> CountedEntry | None:
        """Read the log to its tail: return the entry, if it counts; None if nothing of it does yet.

        Raises:
            Deposed: Frames of another writer count. LogUnreachable, Damage: As ``counted``.
        """
        for counted in self._counter.counted():
            if counted.hash == hash:
                self._own_entry = counted
            elif isinstance(counted.entry, FramesEntry) and self._deposed_at is None:
                self._deposed_at = counted.entry.frames[0].header.first
        own_entry, self._own_entry = self._own_entry, None
        if own_entry is not None:
            self._unknown = None
        else:
            self._check_deposed()
        return own_entry

    def _check_deposed(self) -> None:
        if self._deposed_at is not None:
            self._unknown = None
            raise Deposed(
                "another process owns the world now: the log has its records from "
                f"{self._deposed_at} on"
            )


def _written_before(position: int, after: int) -> Damage:
    """The error of a log that has written a message where this process has read another one."""
    return Damage(
        "the log has lost what was acknowledged",
        expected=f"a position behind {after} for a new message",
        actual=f"position {position}",
        hint="do not start this node: bring the log back from the longest journal of a node",
    )
