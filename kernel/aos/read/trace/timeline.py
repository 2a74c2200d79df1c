"""List everything that came in for a cell, in order, and what it did with each (spec/audit.md,
A-45)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    EntryId,
    Event,
    Faulted,
    KernelReceipt,
    Receipt,
    Record,
    Step,
    Stream,
)
from aos.read.lens.record_finding import records_naming
from aos.read.lens.words import name_cell
from aos.read.trace.trace_nodes import DELIVERED, Draft, Nodes
from aos.read.views.view import View
from aos.values.digests import Hash


@dataclass(slots=True)
class Timeline:
    """The inputs and the steps of one cell.

    ``roots`` are its latest inputs in order, each with the steps that it caused; ``earlier`` counts
    the inputs before these. ``emitted`` are the nodes of the events that it emitted to other cells,
    each with its entry and these cells. ``ended`` is the step that deleted the cell, if no later
    record reached it.
    """

    name: str
    roots: list[Draft]
    earlier: int
    emitted: list[tuple[EntryId, tuple[CellId, ...], Draft]]
    ended: Draft | None


@dataclass(slots=True)
class _Input:
    """One input: a record itself, or event ``index`` that the record emitted. ``runs`` are the
    faults that were retried, then the step that took the input."""

    record: Record
    index: int
    runs: list[Step | Faulted] = field(default_factory=list)

    @property
    def entry(self) -> EntryId:
        return self.record.seq, self.index


def timeline(view: View, nodes: Nodes, cell: CellId, *, inputs_max: int) -> Timeline:
    """Read the timeline of a cell from the journal."""
    return _Timeline(view, nodes, cell).read(inputs_max)


class _Timeline:
    def __init__(self, view: View, nodes: Nodes, cell: CellId) -> None:
        self._view = view
        self._nodes = nodes
        self._cell = cell
        self._last = view.state.next_seq - 1
        self._open: dict[Hash, Draft] = {}
        self._emitted: list[tuple[EntryId, tuple[CellId, ...], Draft]] = []
        self._ended: Draft | None = None

    def read(self, inputs_max: int) -> Timeline:
        inputs: deque[_Input] = deque(maxlen=inputs_max)
        waiting: dict[EntryId, _Input] = {}
        view, first, count = self._view, 1, 0
        if view.index is not None:
            first, count = view.index.latest_inputs(self._cell, inputs_max)
        for record in records_naming(
            view.journal, self._cell, first=first, last=self._last, index=view.index
        ):
            for index in reaching(record, self._cell):
                cell_input = _Input(record, index)
                count += 1
                inputs.append(cell_input)
                waiting[cell_input.entry] = cell_input
            if isinstance(record, Step | Faulted) and record.cell == self._cell:
                run_input = waiting.get(record.entry)
                if run_input is not None:
                    run_input.runs.append(record)
                if isinstance(record, Step):
                    waiting.pop(record.entry, None)
        roots = [self._input(mailbox_input) for mailbox_input in inputs]
        for intent, draft in self._open.items():
            self._nodes.unsettled(draft, intent)
        name = name_cell(self._cell[0], self._nodes.key(self._cell, self._last + 1))
        return Timeline(name, roots, count - len(inputs), self._emitted, self._ended)

    def _input(self, cell_input: _Input) -> Draft:
        record = cell_input.record
        if isinstance(record, Receipt | KernelReceipt):
            intent_draft = self._open.pop(record.intent, None)
            if intent_draft is not None:
                self._nodes.settled(intent_draft, record)
        if isinstance(record, Step):
            event = record.events[cell_input.index]
            draft = self._nodes.emitted(None, event, record.seq, cell_input.index)
            source = name_cell(record.cell[0], self._nodes.key(record.cell, record.seq))
            draft.set(note=f"from step {record.seq} of {source}")
        else:
            draft = self._nodes.record(record, None)
        for run in cell_input.runs:
            self._run(run, draft)
        if not cell_input.runs and _is_delivered(cell_input, self._cell):
            self._nodes.waits(draft, self._cell, cell_input.entry)
        return draft

    def _run(self, record: Step | Faulted, parent: Draft) -> None:
        """Add a step with its intents and events, but not their consequences in other cells."""
        draft = self._nodes.record(record, parent)
        self._ended = draft if isinstance(record, Step) and record.state is None else None
        if isinstance(record, Step):
            for index, event in enumerate(record.events):
                emitted = self._nodes.emitted(draft, event, record.seq, index)
                other_cells = tuple(cell for cell in event.to if cell != self._cell)
                if other_cells:
                    self._emitted.append(((record.seq, index), other_cells, emitted))
            for index, intent in enumerate(record.intents):
                self._open[intent.intent] = self._nodes.intent(draft, record, index)


def _is_delivered(cell_input: _Input, cell: CellId) -> bool:
    """Return whether the input is in the mailbox, or was in it."""
    match cell_input.record:
        case Receipt() | KernelReceipt() as receipt:
            return receipt.outcome in DELIVERED
        case Step() as step:
            return cell in step.events[cell_input.index].to
        case Event() as event:
            return cell in event.to
        case Stream():
            return True
        case _:
            return False


def reaching(record: Record, cell: CellId) -> Iterator[int]:
    """Yield the indexes under which ``record`` came in for ``cell`` as an input of its timeline, or
    did not reach it: its mailbox was full, or it did not exist."""
    match record:
        case Event() if cell in record.to or cell in record.overloaded:
            yield 0
        case Receipt() | KernelReceipt() | Stream() | Attempt() | Control() if record.cell == cell:
            yield 0
        case Step():
            for index, event in enumerate(record.events):
                if cell in (*event.to, *event.overloaded, *event.unknown):
                    yield index
        case _:
            pass


def inputs_by_cell(record: Record) -> Mapping[CellId, int]:
    """Return how many inputs ``reaching`` yields, for each cell that has one."""
    match record:
        case Event():
            return dict.fromkeys((*record.to, *record.overloaded), 1)
        case Receipt() | KernelReceipt() | Stream() | Attempt():
            return {record.cell: 1}
        case Control(cell=tuple(cell)):
            return {cell: 1}
        case Step() if record.events:
            counts: Counter[CellId] = Counter()
            for event in record.events:
                counts.update({*event.to, *event.overloaded, *event.unknown})
            return counts
        case _:
            return {}
