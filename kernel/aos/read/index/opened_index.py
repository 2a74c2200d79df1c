"""An index as the processes that read it have it, next to the one that writes it (spec/index.md,
IX-32, IX-44).

with OpenedIndex() as index:
    with index.at_head(folder, journal, state) as reader:  # for each document
        ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from aos.closable import Closable
from aos.core.state.state import State
from aos.errors import Damage, Pruned, Unavailable
from aos.read.index.cell_pages import KeptValues
from aos.read.index.folding_index import fold_records, is_of
from aos.read.index.index_file import (
    IndexChange,
    IndexFile,
    IndexHead,
    is_being_written,
    open_to_read,
)
from aos.read.index.index_reader import IndexReader
from aos.read.index.index_schema import VALUES, tables_above
from aos.read.index.indexed_cells import FILLED, IndexedValues, filled
from aos.read.index.indexed_records import IndexTables
from aos.read.index.indexed_workflows import IndexedWorkflow, SearchSettings, indexed_workflows
from aos.read.lens.ports import Journal

READ_ON_RECORDS: Final = 100_000
"""Records that are read on in memory, above an index that another process writes."""

TRIES: Final = 3
"""Attempts to see both files of an index at one moment, while another process commits."""


class OpenedIndex(Closable):
    """The index that a process reads for one document after the other. Used by one thread.

    It stays open from one document to the next while another process writes to it, and is opened
    again once other files are in its folder, or the writer has ended: then its files are checked
    first (IX-31).
    """

    def __init__(self) -> None:
        self._file: IndexFile | None = None

    @contextlib.contextmanager
    def at_head(self, folder: Path, journal: Journal, state: State) -> Iterator[IndexReader | None]:
        """Read an index that is there at the record of ``state``, without writing to it; None if
        there is none that helps (IX-44).

        Records that the index does not have are read on in memory, at most ``READ_ON_RECORDS``. An
        index that is damaged, of another journal or not filled yet does not help.
        """
        try:
            file = self._usable(folder)
            if file is None:
                yield None
                return
            with _at_one_moment(file) as (head, has_values):
                reader = None
                with contextlib.suppress(Pruned):
                    reader = _read_on(file, head, journal, state, has_values=has_values)
                try:
                    yield reader
                finally:
                    file.limit(None)
        except BaseException:
            self.close()
            raise
        if not file.has_writer:
            self.close()  # it is locked: no process could begin to write

    def _usable(self, folder: Path) -> IndexFile | None:
        file = self._file
        if file is not None and not (
            file.folder == folder and file.is_in_place() and is_being_written(folder)
        ):
            self.close()
        if self._file is None:
            with contextlib.suppress(Damage, Unavailable):
                self._file = open_to_read(folder)
            if self._file is not None and self._file.head() is None:  # of another release
                self.close()
        return self._file

    def close(self) -> None:
        """Close the files; the next document opens them again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


@contextlib.contextmanager
def _at_one_moment(file: IndexFile) -> Iterator[tuple[IndexHead, bool]]:
    """One transaction that sees both files at the same record, if that is possible: the head, and
    whether the values are those of the rows."""
    for tries_left in reversed(range(TRIES)):
        with file.read() as head:
            has_values = file.values_are_of(head)
            if has_values or not file.has_values or not tries_left:
                yield head, has_values
                return


def _read_on(
    file: IndexFile, head: IndexHead, journal: Journal, state: State, *, has_values: bool
) -> IndexReader | None:
    last = state.next_seq - 1
    if not head.has_lists or not is_of(head, journal):
        return None
    [(stale,)] = file.rows("SELECT COUNT(*) FROM main.stale")
    if not 0 <= last - head.at <= READ_ON_RECORDS or stale > READ_ON_RECORDS:
        return None
    settings = _stored_settings(file) if has_values else {}
    workflows = indexed_workflows(settings, state, say_nothing) if settings else {}
    if head.at == last and not stale:
        return IndexReader(file, head, kept_values(file, workflows))
    change = IndexChange(file, head)
    for statement in tables_above():
        change.execute(statement)
    values = IndexedValues.above(change, workflows) if settings else None
    tables = IndexTables(change, above="temp.new_")
    updated_head, records = fold_records(tables, values, journal, state, lambda: False)
    kept = {} if records.has_manifest else kept_values(file, workflows)
    return IndexReader(file, updated_head, kept, is_above=True)


def _stored_settings(file: IndexFile) -> SearchSettings:
    """The paths of the values that a file has, in the place of those in ``node.toml``."""
    settings: dict[str, dict[str, str]] = {}
    for name, path in file.rows(
        f"SELECT name, path FROM {VALUES}.attributes JOIN {VALUES}.workflows USING (workflow)"
    ):
        paths = settings.setdefault(name, {})
        if not path.startswith("@"):
            paths[path] = path
    return settings


def kept_values(file: IndexFile, workflows: Mapping[str, IndexedWorkflow]) -> KeptValues:
    """The tables of the workflows whose values are those of the manifest in force."""
    if not workflows:
        return {}
    return {
        workflow.name: (
            number,
            {path: position for position, path in enumerate(sorted(workflow.attributes))},
        )
        for number, workflow in filled(file.rows(FILLED), workflows)
    }


def say_nothing(_: str) -> None:
    """The process that writes has reported the paths that cannot be indexed."""
