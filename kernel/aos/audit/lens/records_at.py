"""Read records by sequence number. A frame holds many records, so the last few frames are
cached."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from aos.audit.lens.ports import Journal
from aos.core.journal.frame import Frame
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Record
from aos.errors import BadUsage, sentence

FRAMES_KEPT: Final = 16


class Records:
    """Looks records up in a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._frames: OrderedDict[int, Frame] = OrderedDict()

    def at(self, seq: int) -> Record:
        """Return a record. Raises ``BadUsage`` if there is no such record, ``Damage`` if it
        cannot be read."""
        return from_bytes(self.data_at(seq))

    def data_at(self, seq: int) -> bytes:
        """Return the bytes of a record. Raises the same as ``at``."""
        frame = self.frame_of(seq)
        return frame.records[seq - frame.header.first]

    def frame_of(self, seq: int) -> Frame:
        """Return the frame that holds a record. Raises the same as ``at``."""
        for first, frame in reversed(self._frames.items()):
            if first <= seq <= frame.header.last:
                self._frames.move_to_end(first)
                return frame
        journal_frame = self._journal.frame_at(seq)
        if journal_frame is None:
            raise BadUsage(
                sentence(
                    "there is no such record",
                    location=f"record {seq}",
                    hint="aos inspect world shows the last one",
                )
            )
        self._frames[journal_frame.header.first] = journal_frame
        if len(self._frames) > FRAMES_KEPT:
            self._frames.popitem(last=False)
        return journal_frame
