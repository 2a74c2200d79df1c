"""Keep the index at the head of a world (spec/search.md, SE-22 to SE-26)."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Manifest, Record
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.errors import Damage, Pruned
from aos.host.follower import Follower
from aos.node.search.indexed import IndexedWorkflow, SearchSettings, indexed_workflows
from aos.node.search.search_index import FILE_NAME, FILES, SearchIndex, reasons_text
from aos.node.tokens import NODE
from aos.read.views.cell_selection import reasons_of, subject
from aos.read.views.journal_view import cells_of
from aos.read.views.view import View
from aos.read.where.attributes import Subject
from aos.store.plain_files import PlainFolder

FOLDER: Final = "index"
SHOWN_S: Final = 0.2
"""Seconds between two figures of a fill."""

Building = Callable[[str, int, int], None]
"""Gets the workflow that is filled, its cells that are done, and all of its cells."""


class FollowingIndex:
    """The index of a world, and the cells that changed since it was written. A listener of the
    follower.

    Raises:
        OSError, sqlite3.Error: The index cannot be written, by any method.
    """

    def __init__(
        self,
        path: Path,
        settings: SearchSettings,
        building: Building,
        report: Callable[[str], None],
    ) -> None:
        self.index: SearchIndex | None = None
        self._path = path
        self._settings = settings
        self._building = building
        self._report = report
        self._workflows: dict[str, IndexedWorkflow] = {}
        self._changed: dict[CellId, None] = {}
        self._migrated: set[str] = set()
        """Workflows of which a manifest has replaced all states."""
        self._is_other = True
        """Whether records were passed over, or another manifest is in force."""

    def rebased(self, state: State) -> None:  # noqa: ARG002
        """Records may have been passed over: read them from the journal."""
        self._is_other = True

    def on_record(self, record: Record, state: State) -> None:  # noqa: ARG002
        """Take a record: note the cells that it has changed."""
        if isinstance(record, Manifest):
            self._is_other = True
            self._migrated |= {migration.workflow for migration in record.migrated}
        for cell in cells_of(record):
            if cell[0] in self._workflows:
                self._changed[cell] = None

    def advance(self, follower: Follower) -> SearchIndex:
        """Write all changes up to the follower's record; return the index, exact at it."""
        if self.index is None:
            self.index = self._open_index(follower)
        index = self.index
        if self._is_other:
            self._catch_up(index, follower)
            self._is_other = False
        view = View(follower.state, follower.store)
        for id in self._changed:
            cell = follower.state.cells.get(id)
            if cell is None:
                index.remove(id)
            else:
                index.put(subject(view, cell), reasons_text(reasons_of(follower.state, cell)))
        self._changed.clear()
        return index

    def commit(self, follower: Follower) -> None:
        """Make the changes durable that ``advance`` has written, if there are any."""
        if self.index is not None and self.index.seq != follower.seq:
            self.index.commit(follower.seq, _tip(follower))

    def close(self) -> None:
        """Close the index."""
        if self.index is not None:
            self.index.close()

    def _open_index(self, follower: Follower) -> SearchIndex:
        with (
            PlainFolder.at_user_path(self._path) as world,
            world.inner(NODE, make=True) as node,
            node.inner(FOLDER, make=True) as files,
        ):
            try:
                for name in FILES:
                    files.check_file(name)
                index = self._new(files, follower)
                if self._continues(index, follower):
                    return index
                index.close()
            except (Damage, sqlite3.Error) as problem:
                self._report(f"the search index is rebuilt: {problem}")
            for name in FILES:
                files.remove(name)
            return self._new(files, follower)

    @staticmethod
    def _new(files: PlainFolder, follower: Follower) -> SearchIndex:
        if files.find(FILE_NAME) is None:
            os.close(files.create(FILE_NAME))  # others may not read it
        return SearchIndex(files.path, follower.state.world)

    def _continues(self, index: SearchIndex, follower: Follower) -> bool:
        """Whether the journal still has the last record of the index, in the same frame."""
        if index.seq == 0:
            return True
        if index.seq > follower.seq:
            self._report("the search index is ahead of the journal (an older backup?)")
            return False
        try:
            [frame] = follower.store.frames(index.seq, index.seq)
        except (Pruned, ValueError):
            self._report("the search index ends at a record that was moved to an archive")
            return False
        if frame.hash != index.tip:
            self._report("the search index is of another history of this world")
            return False
        return True

    def _catch_up(self, index: SearchIndex, follower: Follower) -> None:
        self._workflows = indexed_workflows(self._settings, follower.state, self._report)
        if index.names() and index.seq < follower.seq:
            self._note_missed(index, follower)
        for name in index.names():
            indexed_workflow = self._workflows.get(name)
            if (
                indexed_workflow is None
                or name in self._migrated
                or not index.is_current(indexed_workflow)
            ):
                index.drop(name)
            else:
                index.use(indexed_workflow)
        self._migrated.clear()
        for workflow in self._workflows.values():
            if not index.is_current(workflow):
                index.fill(workflow, self._all(workflow.name, follower))

    def _note_missed(self, index: SearchIndex, follower: Follower) -> None:
        """Note the cells of the records after the index's last one."""
        for frame in follower.store.frames(index.seq + 1, follower.seq):
            for seq, data in enumerate(frame.records, frame.header.first):
                if index.seq < seq <= follower.seq:
                    self.on_record(from_bytes(data), follower.state)

    def _all(self, name: str, follower: Follower) -> Iterator[tuple[Subject, str]]:
        """All cells of a workflow, with their reasons."""
        state, view = follower.state, View(follower.state, follower.store)
        shelf = state.cells.shelves.get(name)
        total = 0 if shelf is None else shelf.count
        shown_s = time.monotonic()
        self._building(name, 0, total)
        for position, cell in enumerate(state.cells.of(name)):
            yield _row(view, cell)
            if time.monotonic() - shown_s >= SHOWN_S:
                shown_s = time.monotonic()
                self._building(name, position + 1, total)


def _row(view: View, cell: Cell) -> tuple[Subject, str]:
    return subject(view, cell), reasons_text(reasons_of(view.state, cell))


def _tip(follower: Follower) -> bytes:
    return follower.state.tip.frame
