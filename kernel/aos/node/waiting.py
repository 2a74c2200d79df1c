"""Wait until the cells that an event reached have taken it, or have settled
(spec/node-api.md, N-115).

The listener sees each record once, so that a wait costs nothing until a record names its cell. An
event's answer and its records arrive on two ways. If the step was folded before the answer came,
``_recent`` still has it; if it is older, the journal is read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Event, Faulted, Record, Step
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import workflow_of
from aos.errors import Pruned
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.store.store import Store

RECENT_MAX: Final = 2_048
"""Steps that are remembered for answers that arrive after them."""

SCANNED_MAX: Final = 4_096
"""Records that are read after an event for the step that took it."""

Run: TypeAlias = Step | Faulted

_DELETED: Final = "deleted"


@dataclass(slots=True, eq=False)
class OutcomeWait:
    """The wait of one event for one cell.

    ``run`` is the last step or fault of the cell that the wait saw; the first is the one that took
    the event. ``has_run`` is false if the event was dropped, or waits behind a fault.
    """

    cell: CellId
    seq: int
    until_settled: bool
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    run: Run | None = None
    has_run: bool = False
    is_out: bool = False
    """Whether the event has left the mailbox."""
    status: str = ""

    def look(self, state: State) -> None:
        """Find out from the cell whether the wait is over."""
        if self.finished.is_set() or state.next_seq <= self.seq:
            return  # it is over, or the event itself is not folded yet
        cell = state.cells.get(self.cell)
        if not self.is_out:
            self.is_out = cell is None or not _is_queued(cell, self.seq)
        if not (self.is_out or (cell is not None and cell.fault is not None)):
            return
        if self.until_settled and cell is not None and not is_settled(state, cell):
            return
        self.status = _DELETED if cell is None else cell.status
        if not self.until_settled and isinstance(self.run, Step):
            self.status = self.run.status
        self.finished.set()

    def take(self, run: Run, state: State) -> None:
        """Take a step or a fault of the cell."""
        if self.finished.is_set():
            return  # several records are folded before the request continues
        if run.entry == (self.seq, 0):
            self.has_run = self.is_out = isinstance(run, Step)
        elif not self.is_out:
            return
        self.run = run
        self.look(state)


def is_settled(state: State, cell: Cell) -> bool:
    """Return whether a cell has ended: it declared its end, failed, or, if its workflow is
    quiescent, has nothing open or queued."""
    if cell.fault is not None:
        return True
    if cell.declared is not None:
        return not cell.mailbox
    workflow = workflow_of(state, cell)
    is_quiescent = workflow is not None and workflow.lifecycle == "quiescent"
    return is_quiescent and not cell.mailbox and not cell.inflight


def _is_queued(cell: Cell, seq: int) -> bool:
    return any(mail.entry == (seq, 0) for mail in cell.mailbox)


class OutcomeWaits:
    """The waits of all requests. A listener of the follower."""

    def __init__(self) -> None:
        self._waits: dict[CellId, list[OutcomeWait]] = {}
        self._recent: OrderedDict[tuple[CellId, int], Run] = OrderedDict()
        self._state: State | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waits.values()))

    def rebased(self, state: State) -> None:
        """Records may have been passed over: look at each cell that a wait names."""
        self._state = state
        self._recent.clear()
        for waits in list(self._waits.values()):
            for wait in waits:
                wait.look(state)

    def on_record(self, record: Record, state: State) -> None:
        """Take a record; look at the waits for its cell."""
        self._state = state
        cell: CellId | None = getattr(record, "cell", None)
        if isinstance(record, Event):
            for reached_cell in record.to:
                for wait in self._waits.get(reached_cell, ()):
                    wait.look(state)
        if cell is None:
            return
        if isinstance(record, Step | Faulted):
            if record.entry[1] == 0 and record.root == record.entry[0]:
                self._recent[cell, record.root] = record
                if len(self._recent) > RECENT_MAX:
                    self._recent.popitem(last=False)
            for wait in self._waits.get(cell, ()):
                wait.take(record, state)
            return
        for wait in self._waits.get(cell, ()):
            wait.look(state)

    async def wait(
        self,
        seq: int,
        cells: Sequence[CellId],
        *,
        until_settled: bool,
        seconds: float,
        store: Store,
    ) -> tuple[list[OutcomeWait], bool]:
        """Wait for the cells that the event ``seq`` reached; return the waits, and whether all of
        them are over."""
        waits = [OutcomeWait(cell, seq, until_settled) for cell in dict.fromkeys(cells)]
        for wait in waits:
            self._waits.setdefault(wait.cell, []).append(wait)
        try:
            for wait in waits:
                self._begin(wait, store)
            async with asyncio.timeout(seconds):
                for wait in waits:
                    await wait.finished.wait()
        except TimeoutError:
            return waits, False
        finally:
            for wait in waits:
                self._forget(wait)
        return waits, True

    def _begin(self, wait: OutcomeWait, store: Store) -> None:
        """Look at the present, in case the cell has taken the event already."""
        state = self._state
        if state is None or state.next_seq <= wait.seq:
            return
        run = self._recent.get((wait.cell, wait.seq))
        cell = state.cells.get(wait.cell)
        if run is None and (cell is None or not _is_queued(cell, wait.seq)):
            run = _find_run(store, wait.cell, wait.seq, state.next_seq - 1)
        if run is not None:
            wait.take(run, state)
        wait.look(state)
        if wait.until_settled and wait.is_out and cell is not None:
            wait.run = _run_at(store, cell.last_seq) or wait.run

    def _forget(self, wait: OutcomeWait) -> None:
        waits = self._waits[wait.cell]
        waits.remove(wait)
        if not waits:
            del self._waits[wait.cell]


def _find_run(store: Store, cell: CellId, seq: int, last: int) -> Run | None:
    """Read the step that took an event from the journal; None if it is far away or pruned."""
    try:
        for frame in store.frames(seq, min(last, seq + SCANNED_MAX)):
            for data in frame.records:
                if cell[0].encode() not in data:
                    continue
                record = from_bytes(data)
                if (
                    isinstance(record, Step | Faulted)
                    and record.cell == cell
                    and record.entry == (seq, 0)
                ):
                    return record
    except Pruned:
        return None
    return None


def _run_at(store: Store, seq: int) -> Run | None:
    """Return the step or the fault at a record; None for another record, or a pruned one."""
    record = _record(store, seq)
    return record if isinstance(record, Step | Faulted) else None


def _record(store: Store, seq: int) -> Record | None:
    try:
        frame = store.frame_at(seq)
    except Pruned:
        return None
    return None if frame is None else from_bytes(frame.records[seq - frame.header.first])


def reached(store: Store, seq: int) -> tuple[CellId, ...] | None:
    """Return the cells that the event ``seq`` reached; None if the record was pruned."""
    record = _record(store, seq)
    if record is None:
        return None
    return record.to if isinstance(record, Event) else ()


def wait_document(view: View, wait: OutcomeWait, *, with_state: bool) -> Document:
    """Return the answer for one cell: its status, the record of its last step that the wait saw,
    the annotation of that step, and with ``with_state`` the state."""
    run = wait.run
    document: Document = {
        "ran": wait.has_run,
        "status": wait.status or None,
        "record": None if run is None else run.seq,
        "annotation": None,
    }
    if isinstance(run, Step) and run.ann is not None:
        document["annotation"] = view.full_lens.annotations(run, run.ann)
    if isinstance(run, Faulted):
        document["fault"] = {"kind": run.fault.kind.value, "message": run.fault.message}
    if with_state:
        slot = run.state if isinstance(run, Step) else None
        document["state"] = (
            view.full_lens.state(run, slot) if isinstance(run, Step) and slot is not None else None
        )
    return document
