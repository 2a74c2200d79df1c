"""The journal that an index is of; that of a bundle is unpacked first (spec/index.md, IX-7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from aos.core.journal.frame import Frame, Head
from aos.store.cut import Cut
from aos.values.digests import Hash


class IndexedJournal(Protocol):
    """The part of a store that an index reads: its methods are those of ``Store``."""

    def head(self) -> Head | None: ...

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]: ...

    def frame_at(self, seq: int) -> Frame | None: ...

    def blob(self, hash: Hash) -> bytes: ...

    def cut(self) -> Cut | None: ...
