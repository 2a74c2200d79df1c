"""Bugs put into cells at rest, the dedup window and snapshots; see ``mutants``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pytest

from aos.core import kernel
from aos.core.decide import admit
from aos.core.decide.answers import Decided, Refusal, Rule
from aos.core.journal.records import CellId, Ref, Snapshot
from aos.core.journal.vocabulary import TerminalStatus
from aos.core.pending import Pending
from aos.core.snapshot import load as snapshot_load
from aos.core.snapshot import take as snapshot
from aos.core.state import cells, fold
from aos.core.state.cell import Cell
from aos.core.state.cells import Cells, Packed, Shelf
from aos.core.state.entry import Entry
from aos.core.state.state import State
from aos.core.state.submissions import Chunk, Submissions
from aos.values.digests import Hash

Patch = pytest.MonkeyPatch


def tombstone_forgotten(patch: Patch) -> None:
    real = Cells._remove

    def remove(self: Cells, shelf: Shelf, cell: Cell) -> None:
        real(self, shelf, cell)
        shelf.delta.pop(cell.id, None)

    patch.setattr(Cells, "_remove", remove)


def retry_changes_nothing(patch: Patch) -> None:
    real = fold._go_on

    def go_on(state: State, id: CellId, record: Any) -> None:
        found = state.cells.get(id)
        before = found.changed if found is not None else 0
        real(state, id, record)
        if found is not None:
            found.changed = before

    patch.setattr(fold, "_go_on", go_on)


def changes_since_dropped(patch: Patch) -> None:
    """After a rebase, cells that changed during the snapshot are read from the snapshot."""
    real = Cells.rebase

    def rebase(self: Cells, indexes: Any, at: int) -> None:
        real(self, indexes, at)
        for shelf in self.shelves.values():
            shelf.delta.clear()
            for cell in shelf.resting.values():
                cell.changed = at

    patch.setattr(Cells, "rebase", rebase)


def newest_packed_lost(patch: Patch) -> None:
    """A cell that the base has is dropped from memory though it changed since."""
    real = Cells._pack_oldest

    def pack(self: Cells, shelf: Shelf) -> None:
        real(self, shelf)
        if shelf.base.count and shelf.delta:
            shelf.delta.popitem()

    patch.setattr(Cells, "_pack_oldest", pack)


def count_wrong(patch: Patch) -> None:
    real = Cells._remove

    def remove(self: Cells, shelf: Shelf, cell: Cell) -> None:
        real(self, shelf, cell)
        shelf.count += shelf.base.count > 0

    patch.setattr(Cells, "_remove", remove)


def undeclared_wrong(patch: Patch) -> None:
    real = Cells.declare

    def declare(self: Cells, cell: Cell, status: TerminalStatus | None) -> None:
        real(self, cell, status if cell.declared is None or status is None else None)
        cell.declared = status

    patch.setattr(Cells, "declare", declare)


def chunk_lost(patch: Patch) -> None:
    real = Submissions.chunks

    def chunks(self: Submissions, put: Any) -> tuple[Chunk, ...]:
        found = real(self, put)
        return found[1:] if len(found) > 1 else found

    patch.setattr(Submissions, "chunks", chunks)


def front_comes_back(patch: Patch) -> None:
    """A rebase puts forgotten submissions back into the dedup window."""
    real = Submissions.rebase

    def rebase(self: Submissions, chunks: Iterable[Chunk], at: int) -> None:
        self._evicted = 0
        real(self, chunks, at)

    patch.setattr(Submissions, "rebase", rebase)


def window_not_looked_up(patch: Patch) -> None:
    patch.setattr(Submissions, "get", lambda self, name: self._recent.get(name))


def roots_not_shared(patch: Patch) -> None:
    real = snapshot_load._Loader._mail

    def mail(self: Any, item: Any) -> Any:
        found = real(self, item)
        return replace(found, root=replace(found.root))

    patch.setattr(snapshot_load._Loader, "_mail", mail)


def ring_sorted(patch: Patch) -> None:
    real = snapshot._work

    def work(state: State, **named: Any) -> Any:
        return {**real(state, **named), "ring": ([*id] for id in sorted(state.ring))}

    patch.setattr(snapshot, "_work", work)


def keys_lost(patch: Patch) -> None:
    real = Entry.to_cell

    def to_cell(self: Entry, *given: Any, **named: Any) -> Cell:
        found = real(self, *given, **named)
        found.keys = OrderedDict()
        return found

    patch.setattr(Entry, "to_cell", to_cell)


def spilled_lost(patch: Patch) -> None:
    real = Cells.spill

    def spill(self: Cells) -> Any:
        real(self)
        return {}

    patch.setattr(Cells, "spill", spill)


def spilled_too_soon(patch: Patch) -> None:
    """A spilled value is read from the disk before it is durable there."""
    from tests.sim.world import SimWorld

    real = SimWorld._read

    def read(self: SimWorld, hash: Hash, /) -> bytes:
        is_spilled = "kernel" in vars(self) and hash in self.kernel.pins
        return self.store.blob(hash) if is_spilled else real(self, hash)

    patch.setattr(SimWorld, "_read", read)


def states_not_put(patch: Patch) -> None:
    real = cells._stored

    def stored(cell: Cell, put: Any) -> Any:
        state = cell.state
        return real(cell, lambda data: Hash(b"") if data == state else put(data))

    patch.setattr(cells, "_stored", stored)


def streams_forgotten(patch: Patch) -> None:
    real = snapshot_load._Loader._load_work

    def load_work(self: Any, state: State) -> None:
        real(self, state)
        for each in state.streams.values():
            each.recent = 0

    patch.setattr(snapshot_load._Loader, "_load_work", load_work)


def halts_forgotten(patch: Patch) -> None:
    real = snapshot._work

    def work(state: State, **named: Any) -> Any:
        return {name: items for name, items in real(state, **named).items() if name != "halts"}

    patch.setattr(snapshot, "_work", work)


def abandoned_without_attempt(patch: Patch) -> None:
    real = snapshot._work

    def work(state: State, **named: Any) -> Any:
        attempts = sorted((each, n) for each, n in state.attempts.items() if each in state.intents)
        return {**real(state, **named), "attempts": ([*each] for each in attempts)}

    patch.setattr(snapshot, "_work", work)


def intents_under_the_last(patch: Patch) -> None:
    """Open work is read with the manifest in force, and not with its own."""
    real = snapshot_load._Loader._intent

    def intent(self: Any, item: Any) -> Any:
        item = [*item[:6], self.fields["manifest"], *item[7:]]
        return real(self, item)

    patch.setattr(snapshot_load._Loader, "_intent", intent)


def snapshot_has_no_row(patch: Patch) -> None:
    real = Pending.add

    def add(self: Pending, record: Any, data: bytes, state: State) -> None:
        real(self, record, data, state)
        if isinstance(record, Snapshot):
            self.snapshots.clear()

    patch.setattr(Pending, "add", add)


def old_snapshot_taken(patch: Patch) -> None:
    real = admit.admit_snapshot

    def taken(state: State, given: Any, stamp: Any) -> Any:
        found = real(state, given, stamp)
        is_old = isinstance(found, Refusal) and found.rule is Rule.SNAPSHOT_IS_OLD
        if is_old and given.at < state.next_seq:
            record = Snapshot(
                seq=state.next_seq, stamp=stamp, at=given.at, frame=given.frame,
                document=Ref(given.document, given.size),
            )  # fmt: skip
            return Decided(record=record, blobs={})
        return found

    patch.setattr(kernel, "admit_snapshot", taken)


def front_chunk_whole(patch: Patch) -> None:
    """The oldest chunk is kept as it was, with events that are forgotten."""
    real = Submissions.chunks

    def chunks(self: Submissions, put: Any) -> tuple[Chunk, ...]:
        first = self._chunks[0] if self._chunks else None
        found = real(self, put)
        is_same = first is not None and found and found[0].number == first.number
        return (first, *found[1:]) if is_same and first is not None else found

    patch.setattr(Submissions, "chunks", chunks)


def second_deletion_lost(patch: Patch) -> None:
    """A cell that came again and was deleted again is the one of the base."""
    real = Cells._remove

    def remove(self: Cells, shelf: Shelf, cell: Cell) -> None:
        real(self, shelf, cell)
        packed = shelf.delta.get(cell.id)
        if packed is not None and cell.last_seq:
            shelf.delta[cell.id] = Packed(min(self.at, packed.changed), None)

    patch.setattr(Cells, "_remove", remove)


MUTANTS: Final = (
    ("a deleted cell comes back from the base", tombstone_forgotten),
    ("a retry does not make its cell dirty", retry_changes_nothing),
    ("a rebase drops changes since the snapshot", changes_since_dropped),
    ("a cell that changed leaves memory for the base", newest_packed_lost),
    ("a deleted cell is counted", count_wrong),
    ("a status that changes is counted wrongly", undeclared_wrong),
    ("a chunk of the dedup window is lost", chunk_lost),
    ("a rebase restores forgotten submissions", front_comes_back),
    ("the oldest chunk keeps forgotten submissions", front_chunk_whole),
    ("only the newest submissions are looked up", window_not_looked_up),
    ("mails of one input do not share it", roots_not_shared),
    ("a snapshot sorts the ring", ring_sorted),
    ("requested keys are not read back", keys_lost),
    ("a spilled value is lost", spilled_lost),
    ("a spilled value is read before it is durable", spilled_too_soon),
    ("a snapshot lacks states", states_not_put),
    ("a snapshot forgets how fast a stream is", streams_forgotten),
    ("a snapshot forgets attempts of abandoned work", abandoned_without_attempt),
    ("a snapshot forgets why effects do not run", halts_forgotten),
    ("open work is read under another manifest", intents_under_the_last),
    ("a snapshot has no row", snapshot_has_no_row),
    ("an older snapshot is taken", old_snapshot_taken),
    ("a deletion is as old as the base", second_deletion_lost),
)
