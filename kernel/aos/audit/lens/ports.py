"""The part of a store that an audit reads. ``aos.store.store.Store`` implements it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from aos.core.journal.frame import Frame, Head
from aos.store.cut import Cut
from aos.store.rows import ErasedRow, IntentRow
from aos.values.digests import Hash


def first_kept(journal: Journal) -> int:
    """Return the first record after the genesis that was not pruned."""
    cut = journal.cut()
    return 1 if cut is None else cut.seq + 1


class Journal(Protocol):
    """Frames, blobs, and the rows of intents and of erased values. Every method may raise
    ``Damage``."""

    def head(self) -> Head | None: ...

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]: ...

    def frame_at(self, seq: int) -> Frame | None: ...

    def blob(self, hash: Hash) -> bytes: ...

    def has_blob(self, hash: Hash) -> bool: ...

    def blob_size(self, hash: Hash) -> int | None: ...

    def named(self, sha256: bytes) -> Hash | None: ...

    def erased(self, hash: Hash) -> ErasedRow | None: ...

    def intent(self, hash: Hash) -> IntentRow | None: ...

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]: ...

    def note(self, seq: int) -> str | None: ...

    def cut(self) -> Cut | None: ...
