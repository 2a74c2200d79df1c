"""Grow the tree of a trace in one world (spec/audit.md, A-40, A-43, A-44).

Upwards, each record names its cause: a step the entry that it took, a receipt the intent that it
settled. Downwards, the journal is read once from the target on, until no further consequence can
follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from aos.core.journal.inputs import END, REMOVE
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    EntryId,
    Event,
    Faulted,
    Fork,
    KernelReceipt,
    Receipt,
    Record,
    Step,
    Stream,
)
from aos.errors import Damage, Pruned
from aos.read.lens.record_finding import records_after, records_naming
from aos.read.trace.trace_nodes import DELIVERED, Draft, Nodes
from aos.read.views.view import View
from aos.values.digests import Hash

CAUSES_MAX: Final = 200
"""How many records back a trace goes. A cell that polls without end has endless causes."""

FRAMES_MAX: Final = 20
"""How many stream frames of one intent a trace shows, counted from the first."""


class TraceTree:
    """One trace while it grows.

    ``_waiting`` maps each entry that some cell has still to take to the node that its step will be
    a child of. ``_failed`` holds the entries that a fault took and a retry or skip followed.
    ``_open`` maps each intent without a receipt yet to its node. The steps of the cell
    ``shown_cell`` are left out: they are in the trace already.
    """

    def __init__(self, view: View, nodes: Nodes, *, shown_cell: CellId | None = None) -> None:
        self._shown_cell = shown_cell
        self._view = view
        self._nodes = nodes
        self._last = view.state.next_seq - 1
        self._waiting: dict[EntryId, dict[CellId, Draft]] = {}
        self._failed: set[tuple[EntryId, CellId]] = set()
        self._open: dict[Hash, Draft] = {}
        self._frames: Counter[Hash] = Counter()

    def of_record(self, seq: int, intent: int | None) -> tuple[Draft, int]:
        """Return the tree from the first cause down to a record, or to one intent of a step, the
        target, with all its consequences. Also return the number 1 if causes are left out, else
        0."""
        root, draft, last, earlier = self._path_to(seq)
        if intent is None:
            draft.set(is_target=True)
            self._expand(draft, last)
        else:
            assert isinstance(last, Step), "an intent is a step's"
            intent_draft = self._only_intent(draft, last, intent)
            intent_draft.set(is_target=True)
            self._open[last.intents[intent].intent] = intent_draft
        self._finish(seq + 1)
        return root, earlier

    def below(self, seq: int, parent: Draft) -> None:
        """Add a record without a cause in this world, with all its consequences, to a node."""
        record = self._view.records.at(seq)
        self._expand(self._nodes.record(record, parent), record)
        self._finish(seq + 1)

    def above(self, seq: int, intent: int) -> tuple[Draft, Draft, int]:
        """Return the path from the first cause down to one intent of a step: its first node, and
        that of the intent. Also return the number 1 if causes are left out, else 0."""
        root, draft, step, earlier = self._path_to(seq)
        assert isinstance(step, Step), "an intent is a step's"
        intent_draft = self._only_intent(draft, step, intent)
        self._nodes.fate(intent_draft, step.intents[intent].intent)
        return root, intent_draft, earlier

    def _path_to(self, seq: int) -> tuple[Draft, Draft, Record, int]:
        causes, earlier = self._causes(self._view.records.at(seq))
        root = draft = self._nodes.record(causes[0], None)
        for record, follower in pairwise(causes):
            draft = self._nodes.record(follower, self._towards(draft, record, follower))
        return root, draft, causes[-1], earlier

    def _causes(self, record: Record) -> tuple[list[Record], int]:
        """Return the records from the first cause to ``record``, each caused by the one before;
        and 1 if earlier causes are left out, else 0."""
        causes = [record]
        while True:
            cause = self._cause_of(causes[-1])
            if cause is None:
                return causes[::-1], 0
            if len(causes) == CAUSES_MAX:
                return causes[::-1], 1
            try:
                causes.append(self._view.records.at(cause))
            except Pruned:
                return causes[::-1], 1

    def _cause_of(self, record: Record) -> int | None:
        if isinstance(record, Step | Faulted):
            return record.entry[0]
        if isinstance(record, Receipt | KernelReceipt | Stream | Attempt):
            row = self._view.journal.intent(record.intent)
            if row is None:
                raise Damage(
                    f"record {record.seq} is about an intent that has no row (aos rebuild makes it "
                    "again)"
                )
            return row.opened_seq
        return None

    def _towards(self, draft: Draft, record: Record, follower: Record) -> Draft:
        """Add only the part of ``record`` that leads to ``follower``; return the node to add
        that under."""
        if isinstance(record, Step) and isinstance(
            follower, Receipt | KernelReceipt | Stream | Attempt
        ):
            hashes = [intent.intent for intent in record.intents]
            intent_draft = self._only_intent(draft, record, hashes.index(follower.intent))
            self._nodes.fate(intent_draft, follower.intent)
            return intent_draft
        if isinstance(record, Step) and isinstance(follower, Step | Faulted):
            index = follower.entry[1]
            draft.set(left_out=len(record.events) + len(record.intents) - 1)
            return self._nodes.emitted(draft, record.events[index], record.seq, index)
        if isinstance(record, Event):
            draft.set(left_out=len(record.to) - 1)
        return draft

    def _only_intent(self, draft: Draft, record: Step, index: int) -> Draft:
        draft.set(left_out=len(record.events) + len(record.intents) - 1)
        return self._nodes.intent(draft, record, index)

    def _expand(self, draft: Draft, record: Record) -> None:
        """Add the immediate consequences of ``record``, and wait for the later ones."""
        match record:
            case Event():
                self._wait((record.seq, 0), record.to, draft)
            case Receipt() | KernelReceipt() if record.outcome in DELIVERED:
                self._wait((record.seq, 0), (record.cell,), draft)
            case Stream():
                self._wait((record.seq, 0), (record.cell,), draft)
            case Control(cell=tuple(cell)) if draft.node.is_target and not _is_end(record):
                self._goes_on(draft, record, cell)
            case Control(intent=bytes(intent)) if draft.node.is_target:
                self._open[Hash(intent)] = draft
            case Fork() if draft.node.is_target:
                self._ends(draft, record)
            case Step():
                for index, event in enumerate(record.events):
                    if self._nodes.has_room(draft):
                        emitted = self._nodes.emitted(draft, event, record.seq, index)
                        self._wait((record.seq, index), event.to, emitted)
                for index, request in enumerate(record.intents):
                    if self._nodes.has_room(draft):
                        self._open[request.intent] = self._nodes.intent(draft, record, index)
            case _:
                pass

    def _goes_on(self, draft: Draft, command: Control, cell: CellId) -> None:
        """Add the first step of a cell after a command that let it run again."""
        journal, index = self._view.journal, self._view.index
        first = command.seq + 1
        for record in records_naming(journal, cell, first=first, last=self._last, index=index):
            if isinstance(record, Step | Faulted) and record.cell == cell:
                self._expand(self._nodes.record(record, draft), record)
                return

    def _ends(self, draft: Draft, fork: Fork) -> None:
        """Wait for the receipts with which the core ended the open intents; they follow the fork
        directly."""
        for frame in self._view.journal.frames(fork.seq, self._last):
            for data in frame.records[max(fork.seq + 1 - frame.header.first, 0) :]:
                record = from_bytes(data)
                if not isinstance(record, KernelReceipt):
                    return
                if record.root == fork.seq:
                    self._open[record.intent] = draft

    def follow(self, emitted: Sequence[tuple[EntryId, tuple[CellId, ...], Draft]]) -> None:
        """Add the consequences of events that were emitted, each to the node of its event."""
        for entry, to, draft in emitted:
            self._wait(entry, to, draft)
        if emitted:
            self._finish(emitted[0][0][0] + 1)

    def _wait(self, entry: EntryId, to: Sequence[CellId], draft: Draft) -> None:
        other_cells = [cell for cell in to if cell != self._shown_cell]
        if other_cells:
            self._waiting[entry] = dict.fromkeys(other_cells, draft)

    def _finish(self, first: int) -> None:
        self._grow(first)
        self._say_what_waits()

    def _grow(self, first: int) -> None:
        """Read the journal until no further consequence can follow."""
        if not self._waiting and not self._open:
            return
        waiting, open_ones = self._waiting, self._open
        journal, index = self._view.journal, self._view.index
        for record in records_after(journal, first, self._last, waiting, open_ones, index=index):
            parent = self._parent_of(record)
            if parent is not None and self._nodes.has_room(parent):
                self._expand(self._nodes.record(record, parent), record)
            if not waiting and not open_ones:
                return

    def _parent_of(self, record: Record) -> Draft | None:
        """Return the node that ``record`` follows from."""
        match record:
            case Receipt() | KernelReceipt():
                parent = self._open.pop(record.intent, None)
                if parent is not None:
                    self._nodes.settled(parent, record)
                return parent
            case Step() | Faulted():
                return self._taken_by(record)
            case Stream() | Attempt() | Control(intent=bytes()):
                return self._told_of(record)
            case _:
                return None

    def _taken_by(self, record: Step | Faulted) -> Draft | None:
        """Return the node that the entry of a step came from, and stop waiting for that step. If
        the record is a fault that was retried or skipped afterwards, the wait continues."""
        cells = self._waiting.get(record.entry, {})
        parent = cells.get(record.cell)
        if parent is None:
            return None
        cell = self._view.state.cells.get(record.cell)
        if isinstance(record, Faulted) and (cell is None or cell.fault_seq != record.seq):
            self._failed.add((record.entry, record.cell))
            return parent
        del cells[record.cell]
        if not cells:
            del self._waiting[record.entry]
        return parent

    def _told_of(self, record: Stream | Attempt | Control) -> Draft | None:
        """Return the node of the open intent that ``record`` is about; None once enough frames
        are shown."""
        assert record.intent is not None
        parent = self._open.get(record.intent)
        if parent is None or parent.node.kind != "intent":
            return None
        if isinstance(record, Stream):
            self._frames[record.intent] += 1
            if self._frames[record.intent] > FRAMES_MAX:
                parent.set(left_out=parent.node.left_out + 1)
                return None
        return parent

    def _say_what_waits(self) -> None:
        """Note on each node without an expected consequence why that is still to come."""
        for entry, cells in self._waiting.items():
            for id, draft in cells.items():
                if (entry, id) not in self._failed:
                    self._nodes.waits(draft, id, entry)
        for intent, draft in self._open.items():
            self._nodes.unsettled(draft, intent)


def _is_end(command: Control) -> bool:
    """Whether no step follows from the command, because it ended its instance."""
    return command.action in (END, REMOVE)
