"""The part of a store that reading needs. ``aos.store.store.Store`` implements it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from aos.core.journal.frame import Frame, Head
from aos.core.journal.records import CellId, EntryId
from aos.store.cut import Cut
from aos.store.rows import ErasedRow, IntentRow
from aos.values.digests import Hash


def first_kept(journal: Journal) -> int:
    """Return the first record after the genesis that was not pruned."""
    cut = journal.cut()
    return 1 if cut is None else cut.seq + 1


class RecordIndex(Protocol):
    """An index of the records of a journal, exact at the state that it is used with
    (spec/index.md). Records are named by their numbers, in ascending order."""

    def naming(
        self, cell: CellId, *, first: int, last: int, is_reversed: bool = False
    ) -> Iterator[int]:
        """The records from ``first`` to ``last`` that name a cell (A-38); if ``is_reversed``, in
        descending order."""

    def latest_inputs(self, cell: CellId, limit: int) -> tuple[int, int]:
        """The record with which the latest ``limit`` inputs of a cell begin (A-45), and the number
        of the inputs in the records before it."""

    def taking(self, entry: EntryId) -> list[int]:
        """The steps and faults that took an entry of a mailbox."""

    def records_about(self, intent: Hash) -> list[int]:
        """The attempts, stream frames, commands and the receipt of an intent."""

    def versions(self) -> list[tuple[int, Hash]]:
        """The records of manifests with the hashes of their documents, the oldest first. Of a
        journal that was pruned, those in force at its beginning, and the later ones."""

    def opened_intents(
        self, *, effect: str | None, is_open: bool, limit: int, offset: int
    ) -> tuple[list[Hash], int]:
        """A page of intents in the order of their opening, and how many there are; only those of
        an effect, and only open ones if ``is_open``."""

    def settled(
        self, *, status: str, effect: str | None, limit: int, offset: int
    ) -> tuple[list[int], int]:
        """A page of the receipts with a status, the latest first, and how many there are; only
        those of an effect."""

    def receipts(self) -> int:
        """The number of receipts."""

    def minutes(self, limit: int, last: int) -> dict[int, Counter[str]]:
        """The records of the latest ``limit`` minutes that have some, by kind; a minute is its
        number since 1970, by the clock of the journal (IX-25)."""

    def effects(self, status: str | None) -> list[str]:
        """The effects of the intents with a status, ``open`` or ``abandoned``, or of all."""


class Journal(Protocol):
    """Frames, blobs, and the rows of intents and of erased values. Every method may raise
    ``Damage``."""

    def head(self) -> Head | None: ...

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]: ...

    def frame_at(self, seq: int) -> Frame | None: ...

    def blob(self, hash: Hash) -> bytes: ...

    def has_blob(self, hash: Hash) -> bool: ...

    def blob_size(self, hash: Hash) -> int | None: ...

    def hash_by_sha256(self, sha256: bytes) -> Hash | None: ...

    def erased(self, hash: Hash) -> ErasedRow | None: ...

    def intent(self, hash: Hash) -> IntentRow | None: ...

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]: ...

    def note(self, seq: int) -> str | None: ...

    def cut(self) -> Cut | None: ...
