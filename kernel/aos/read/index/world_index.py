"""The index of a world: open it, keep it at the journal's end, read it (spec/index.md), and let a
view read its lists, timelines and traces by it (IX-60).

    index = WorldIndex.open(folder, journal, report)
    while not index.advance(state):       # slices of 50 ms
        print(index.progress(state))
    with index.reading() as reader:       # one moment, of record reader.as_of
        reader.naming(cell, first=1, last=reader.as_of)
    index.close()
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aos.closable import Closable
from aos.core.journal.records import CellId
from aos.core.state.state import State
from aos.read.index.cell_pages import KeptValues
from aos.read.index.folding_index import (
    IsLate,
    NumberedCells,
    first_head,
    fold_records,
    has_stale,
    is_of,
    sort_lists,
)
from aos.read.index.index_file import IndexChange, IndexFile, Report, open_to_write
from aos.read.index.index_reader import IndexReader
from aos.read.index.indexed_cells import IndexedValues
from aos.read.index.indexed_records import IndexTables
from aos.read.index.indexed_workflows import SearchSettings, indexed_workflows
from aos.read.index.opened_index import OpenedIndex, kept_values, say_nothing
from aos.read.lens.ports import Journal
from aos.read.views.view import View

SLICE_S: Final = 0.05
"""Seconds of one transaction that follows. Readers do not wait for it; with 5 ms, the transactions
themselves took a twentieth of the time."""

FILL_SLICE_S: Final = 1.0
"""The same while nothing is read: the pages that records change at random are written once for
more records."""


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far an index is: the record that it has reached out of the last one, and the number of
    cells whose rows are to be written still. ``values`` is a workflow whose values are written
    now, with the cells that are done and all of its cells."""

    record: int
    last: int
    cells_left: int
    values: tuple[str, int, int] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the index answers as the state does."""
        return self.record == self.last and self.cells_left == 0


class WorldIndex(Closable):
    """The index of one journal, which this process writes. Used by one thread.

    It holds no lock of the world. A crash at any moment leaves the rows of the last commit, with
    the record that they are of; the next ``open`` continues from there.
    """

    def __init__(
        self, file: IndexFile, journal: Journal, report: Report, settings: SearchSettings
    ) -> None:
        """Use ``open``."""
        self._file = file
        self._journal = journal
        self._report = report
        self._settings = settings
        self._tables: IndexTables | None = None
        self._values: IndexedValues | None = None
        self._cells: NumberedCells | None = None
        self._is_empty = False
        self._has_other_manifest = True
        self._must_clean = False
        head = file.head()
        if head is not None and head.cells_at is not None and is_of(head, journal):
            self._base = head.base
            if file.has_values and not file.values_are_of(head):
                with file.write() as change:
                    file.make_values(change)
            return
        if head is None and not file.is_new:
            report("the index is rebuilt: it is of another format, or its head is damaged")
        elif head is not None and head.at > head.base:
            end = journal.head()
            is_same = end is not None and end.world == head.world
            name = "another history of this world" if is_same else "another world"
            report(f"the index is rebuilt: it is of {name}")
        self._begin_again()

    @classmethod
    def open(
        cls,
        folder: Path,
        journal: Journal,
        report: Report,
        *,
        settings: SearchSettings | None = None,
    ) -> WorldIndex | None:
        """Open the index in ``folder``, or make it; None if another process writes to it. With
        ``settings``, it has the values that they name.

        An index that is damaged, of another format, or not of this journal is rebuilt, after a
        ``report`` of one line.

        Raises:
            Damage: A name in the folder is not that of a plain file; or the journal is damaged.
            Unavailable: The folder cannot be written.
        """
        file = open_to_write(folder, report, has_values=bool(settings))
        if file is None:
            return None
        try:
            return cls(file, journal, report, settings or {})
        except BaseException:
            file.abandon()
            raise

    def _begin_again(self) -> None:
        head = first_head(self._journal)
        self._file.begin_again(head)
        self._base = head.base
        self._is_empty = True
        self._forget()

    def _forget(self) -> None:
        """Forget what a transaction that was lost has changed."""
        self._tables = self._values = self._cells = None
        self._has_other_manifest = True

    def advance(self, state: State, is_late: IsLate | None = None) -> bool:
        """Write the rows of more cells and records, in one transaction, for 50 ms or until
        ``is_late``, but at least those of one frame. Return whether the index is whole at the
        record of ``state``, with all values.

        While the cells of a state are numbered, give the same state again: with another one, they
        are begun again. If the journal was pruned meanwhile, the index is rebuilt.

        Raises:
            Damage, Pruned: The journal cannot be read, or the index is damaged. The rows are those
                of the last commit.
            Unavailable: The disk is full, or the index is (``IndexFull``). As before.
        """
        cut = self._journal.cut()
        if self._base != (0 if cut is None else cut.seq):
            self._report("the index is rebuilt: the journal was pruned")
            self._begin_again()
        head = self._file.existing_head()
        if head.at > state.next_seq - 1:
            return False  # the state is behind and will come
        if is_late is None:
            seconds = SLICE_S if head.has_lists else FILL_SLICE_S
            until_s = time.monotonic() + seconds

            def is_late() -> bool:
                return time.monotonic() >= until_s

        if head.cells_at is None and (self._cells is None or not self._cells.is_of(state)):
            if not self._is_empty:
                self._begin_again()
            self._cells = NumberedCells(state)
        if self._cells is None and self._is_done(state):
            self._clean()
            return True
        try:
            with self._file.write() as change:
                is_done = self._slice(change, state, is_late)
        except BaseException:
            self._forget()
            raise
        self._is_empty = False
        self._clean()
        return is_done

    def _is_done(self, state: State) -> bool:
        if self._tables is None or self._has_other_manifest:
            return False
        progress = self.progress(state)
        return progress.is_whole and progress.values is None

    def _slice(self, change: IndexChange, state: State, is_late: IsLate) -> bool:
        if self._tables is None:
            self._tables = IndexTables(change)
            self._values = IndexedValues(change) if change.has_values else None
        self._tables.begin(change)
        if self._values is not None:
            self._values.begin(change)
        if self._cells is not None:
            head = self._cells.advance(self._tables, self._journal, is_late)
            self._tables.finish()
            if head is not None:
                change.head, self._cells = head, None
            return False
        if change.head.has_lists:
            self._use_manifest(state)
        change.head, records = fold_records(
            self._tables, self._values, self._journal, state, is_late
        )
        self._has_other_manifest |= records.has_manifest
        if self._values is not None:
            for name in records.migrated:
                self._values.drop(name)
            self._must_clean |= records.has_erasure
        if change.head.at < state.next_seq - 1 or has_stale(change):
            return False
        if not change.head.has_lists:
            sort_lists(change)
            change.head = replace(change.head, has_lists=True)
        self._use_manifest(state)
        if self._values is None:
            return True
        return self._values.fill(View(state, self._journal), is_late)

    def _use_manifest(self, state: State) -> None:
        """Keep the values that the manifest in force has, and no others."""
        if self._has_other_manifest and self._values is not None:
            self._values.use(indexed_workflows(self._settings, state, self._report))
        self._has_other_manifest = False

    def _clean(self) -> None:
        """After an erasure, leave nothing in a log of values that states had before (SE-27)."""
        if self._must_clean:
            self._must_clean = not self._file.checkpoint(is_needed=True)

    @property
    def numbers_cells(self) -> bool:
        """Whether cells of a state are numbered: then give ``advance`` the same state."""
        return self._cells is not None

    @property
    def as_of(self) -> int:
        """The last record whose rows are committed."""
        head = self._file.head()
        return 0 if head is None else head.at

    def progress(self, state: State) -> IndexProgress:
        """How far the index is towards the record of ``state``."""
        with self._file.read() as head:
            last = state.next_seq - 1
            if head.cells_at is None:
                done = 0 if self._cells is None else self._cells.count
                return IndexProgress(head.at, last, max(len(state.cells) - done, 1))
            [(left,)] = self._file.rows("SELECT COUNT(*) FROM stale")
            remaining = None if self._values is None else self._values.remaining()
            if remaining is None:
                return IndexProgress(head.at, last, left if head.has_lists else max(left, 1))
            name, done = remaining
            shelf = state.cells.shelves.get(name)
            total = 0 if shelf is None else shelf.count
            return IndexProgress(head.at, last, left, (name, done, total))

    @contextlib.contextmanager
    def reading(self, state: State | None = None) -> Iterator[IndexReader]:
        """Read the index at one moment; with the ``state`` of that moment, its values, too. Do not
        advance it meanwhile."""
        with self._file.read() as head:
            values: KeptValues = {}
            if state is not None:
                workflows = indexed_workflows(self._settings, state, say_nothing)
                values = kept_values(self._file, workflows)
            try:
                yield IndexReader(self._file, head, values)
            finally:
                self._file.limit(None)

    def size_bytes(self) -> int:
        """Bytes on the disk."""
        return self._file.size_bytes()

    def abandon(self) -> None:
        """Close the index as a process that is killed does, so that the next one checks it."""
        self._file.abandon()

    def close(self) -> None:
        """Close the index, and note that it was closed."""
        self._file.close()


@contextlib.contextmanager
def indexed(
    view: View, folder: Path | None, journal: Journal, index: OpenedIndex
) -> Iterator[bool]:
    """Use the index in ``folder``, which ``index`` opens, for the documents that the block makes of
    a view of ``journal``; yield whether it helps. None, an index that is damaged, of another
    journal, or too far behind does not (IX-44): then the documents are made without it, and are the
    same.

    Raises:
        Damage: The index is damaged, which is found while it is read.
    """
    if folder is None or view.is_past:
        yield False
        return
    with index.at_head(folder, journal, view.state) as reader:
        if reader is not None:
            use_index(view, reader)
        try:
            yield reader is not None
        finally:
            view.index = view.finder = view.manifests.index = None


def use_index(view: View, reader: IndexReader) -> None:
    """Let the view read by an index that is at its state, within the time that the view has now."""

    def text_of(id: CellId) -> str:
        return view.lens.key_text(id, hash=view.state.cells[id].workflow_hash)

    view.index = view.manifests.index = reader
    view.finder = reader.cell_pages(text_of, view.check_time)
