"""The index of a world: open it, keep it at the journal's end, read it (spec/index.md).

index = WorldIndex.open(folder, journal, report)
while not index.advance(state):       # slices of 50 ms
    print(index.progress(state))
with index.reading() as reader:       # one moment, of record reader.as_of
    reader.cells(workflow="shop/order@1", prefix="o-1")
index.close()
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from aos.core.state.state import State
from aos.errors import Damage
from aos.read.index.folding_index import (
    IsLate,
    PrunedPart,
    first_head,
    fold_records,
    has_stale,
    is_of,
)
from aos.read.index.index_file import IndexFile, Report, open_to_read, open_to_write
from aos.read.index.index_head import IndexHead
from aos.read.index.index_layout import IndexTable
from aos.read.index.index_reader import IndexReader
from aos.read.index.index_rows import FileRows, RowsInMemory
from aos.read.index.indexed_journal import IndexedJournal

SLICE_S: Final = 0.05
"""Seconds of one transaction that writes. Readers do not wait for it; with 5 ms, the transactions
themselves took a twentieth of the time."""

READ_ON_RECORDS: Final = 100_000
"""Records that are read on in memory, above an index that another process writes."""


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far an index is: the record that it has reached out of the last one, and the number of
    cells whose rows are to be written still."""

    record: int
    last: int
    cells_left: int

    @property
    def is_whole(self) -> bool:
        """Whether the index answers as the state does."""
        return self.record == self.last and self.cells_left == 0


class WorldIndex:
    """The index of one journal, which this process writes. Used by one thread.

    It holds no lock of the world. A crash at any moment leaves the rows of the last commit, with
    the record that they are of; the next ``open`` continues from there.
    """

    def __init__(self, file: IndexFile, journal: IndexedJournal, report: Report) -> None:
        """Use ``open``."""
        self._file = file
        self._journal = journal
        self._report = report
        self._pruned: PrunedPart | None = None
        head = file.head()
        if head is None or not is_of(head, journal):
            if head is not None and head.at:
                report("the index is rebuilt: it is of another history of this world")
            self._begin_again()
        else:
            self._base = head.base

    @classmethod
    def open(cls, folder: Path, journal: IndexedJournal, report: Report) -> WorldIndex | None:
        """Open the index in ``folder``, or make it; None if another process writes to it.

        An index that is damaged, of another format, or not of this journal is rebuilt, after a
        ``report`` of one line.

        Raises:
            Damage: A name in the folder is not that of a plain file; or the journal is damaged.
            Unavailable: The folder cannot be written.
        """
        file = open_to_write(folder, report)
        if file is None:
            return None
        try:
            return cls(file, journal, report)
        except BaseException:
            file.close()
            raise

    def _begin_again(self) -> None:
        head = first_head(self._journal)
        with self._file.write(empty=head):
            pass
        self._base = head.base
        self._pruned = None if head.is_begun else PrunedPart(self._journal)

    def advance(self, state: State, is_late: IsLate | None = None) -> bool:
        """Write the rows of more records, in one transaction, for 50 ms or until ``is_late``, but
        at least those of one frame. Return whether the index is whole at the record of ``state``.

        A journal that was pruned meanwhile begins later: then the index is rebuilt.

        Raises:
            Damage, Pruned: The journal cannot be read, or the index is damaged. The rows are those
                of the last commit.
            Unavailable: The disk is full, or the index is (``IndexFull``). As before.
        """
        if is_late is None:
            until_s = time.monotonic() + SLICE_S

            def is_late() -> bool:
                return time.monotonic() >= until_s

        cut = self._journal.cut()
        if self._base != (0 if cut is None else cut.seq):
            self._report("the index is rebuilt: the journal was pruned")
            self._begin_again()
        last = state.next_seq - 1
        with self._file.read() as (rows, head):
            if head.at == last and head.is_begun and not has_stale(rows):
                return True
        if head.at > last:
            return False  # the state is behind and will come
        with self._file.write() as change:
            if self._pruned is not None:
                change.head = self._pruned.advance(change.rows, change.head, is_late)
                is_done = False
            else:
                change.head = fold_records(change.rows, change.head, self._journal, state, is_late)
                is_done = change.head.at == last and not has_stale(change.rows)
        if change.head.is_begun:
            self._pruned = None
        return is_done

    @property
    def as_of(self) -> int:
        """The last record whose rows are committed."""
        head = self._file.head()
        return 0 if head is None else head.at

    def progress(self, state: State) -> IndexProgress:
        """How far the index is towards the record of ``state``."""
        with self._file.read() as (rows, head):
            return progress_of(rows, head, state)

    @contextlib.contextmanager
    def reading(self) -> Iterator[IndexReader]:
        """Read the index at one moment. Do not advance it meanwhile."""
        with self._file.read() as (rows, head):
            yield IndexReader(rows, head.at)

    def size_bytes(self) -> int:
        """Bytes on the disk."""
        return self._file.size_bytes()

    def sync(self) -> None:
        """Write what was committed to the disk. May be called on another thread."""
        self._file.sync()

    def abandon(self) -> None:
        """Close the index as a process that is killed does, so that the next one checks it."""
        self._file.abandon()

    def close(self) -> None:
        """Close the index, and note that it was closed."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def progress_of(rows: FileRows, head: IndexHead, state: State) -> IndexProgress:
    """How far rows are towards the record of a state."""
    return IndexProgress(head.at, state.next_seq - 1, rows.count(IndexTable.STALE))


@contextlib.contextmanager
def read_at_head(
    folder: Path, journal: IndexedJournal, state: State
) -> Iterator[IndexReader | None]:
    """Read an index that is there at the record of ``state``, without writing to it; None if there
    is none that helps (IX-44).

    Records that the index does not have are read on in memory, at most ``READ_ON_RECORDS``. An
    index that is damaged, of another journal or not filled yet does not help.
    """
    try:
        file = open_to_read(folder)
    except Damage:
        file = None
    if file is None:
        yield None
        return
    try:
        with file.read() as (rows, head):
            yield _read_on(rows, head, journal, state)
    finally:
        file.close()


def _read_on(
    rows: FileRows, head: IndexHead, journal: IndexedJournal, state: State
) -> IndexReader | None:
    last = state.next_seq - 1
    progress = progress_of(rows, head, state)
    if not is_of(head, journal) or not 0 <= last - head.at <= READ_ON_RECORDS:
        return None
    if progress.cells_left > READ_ON_RECORDS:
        return None
    above = RowsInMemory(rows)
    updated_head = fold_records(above, head, journal, state, lambda: False)
    return IndexReader(above, updated_head.at)
