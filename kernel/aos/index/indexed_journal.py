"""The journal that an index is of: that of a store, or of a bundle (spec/index.md, IX-7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from aos.audit.verify.archives import beginning_of
from aos.core.journal.frame import Frame, Head
from aos.store.bundle.reader import Bundle
from aos.store.cut import Cut
from aos.values.digests import Hash


class IndexedJournal(Protocol):
    """The part of a store that an index reads: its methods are those of ``Store``."""

    def head(self) -> Head | None: ...

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]: ...

    def frame_at(self, seq: int) -> Frame | None: ...

    def blob(self, hash: Hash) -> bytes: ...

    def cut(self) -> Cut | None: ...


class BundleJournal:
    """The journal in a bundle, whose frames can only be read one after the other.

    Frames that are asked for in their order are read once; for an earlier one, reading begins
    again. Methods raise ``Damage`` if the bundle cannot be read.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._left = bundle.frames()
        self._next: Frame | None = None
        self._passed = 0
        """The last record of the frames that ``_left`` does not yield any more, ``_next`` apart."""
        begins = beginning_of(bundle)
        self._cut = None
        if begins is not None:
            tip = begins.tip
            self._cut = Cut(
                seq=tip.seq, frame=tip.frame, log=tip.log, document=begins.document, genesis=b"",
                archives=(), is_done=True,
            )  # fmt: skip

    def head(self) -> Head:
        """As ``Store.head``."""
        return self._bundle.head()

    def blob(self, hash: Hash) -> bytes:
        """As ``Store.blob``."""
        return self._bundle.blob(hash)

    def cut(self) -> Cut | None:
        """As ``Store.cut``; of an archive, where the records before it end."""
        return self._cut

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
        """As ``Store.frames``."""
        if first_seq <= self._passed:
            self._left, self._next, self._passed = self._bundle.frames(), None, 0
        while True:
            frame = self._next = self._next or next(self._left, None)
            if frame is None:
                self._left, self._passed = self._bundle.frames(), 0
                return
            if last_seq is not None and frame.header.first > last_seq:
                return
            if frame.header.last >= first_seq:
                yield frame
            if self._next is frame:
                self._next, self._passed = None, frame.header.last

    def frame_at(self, seq: int) -> Frame | None:
        """As ``Store.frame_at``."""
        return next(self.frames(seq, seq), None)
