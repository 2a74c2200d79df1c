"""Run the steps of a shadow, and compare them with recorded ones (spec/shadow.md, SH-12 to SH-15
and SH-30 to SH-34)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from aos.core.journal.faults import Fault, FaultKind, refuse_host_memory
from aos.core.journal.records import (
    CellId,
    Emitted,
    EntryId,
    Event,
    Faulted,
    Step,
)
from aos.core.state.cell import Mail
from aos.core.state.continuation import takes
from aos.core.state.state import State
from aos.core.state.version import runs_under, stays, workflow_of
from aos.errors import Erased
from aos.prove.replay.difference import FieldDifference, difference
from aos.prove.whatif.shadow_course import STEP_EXTRA, STEP_MISSING, Course, FirstDifference
from aos.prove.whatif.step_comparison import ShadowComparison, classes_of, on_text

KEPT_MAX: Final = 10_000
"""How many steps without a counterpart may still get one; the oldest are counted first."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """A step of the journal, the manifest's record that it ran ``under``, and what it ran ``on``.
    ``at`` is the record of the journal that the shadow had reached."""

    record: Step | Faulted
    under: int
    on: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowStep:
    """A step of the shadow, as ``RecordedStep``."""

    record: Step | Faulted
    on: str
    at: int


class Alone(Generic[T]):
    """Steps of one side that the other has not taken so far, by cell and entry."""

    def __init__(self) -> None:
        self._steps: OrderedDict[tuple[CellId, EntryId], T] = OrderedDict()

    def add(self, cell: CellId, entry: EntryId, step: T) -> list[T]:
        """Keep a step; return those that will have no counterpart because of it."""
        previous = self._steps.pop((cell, entry), None)
        lost = [] if previous is None else [previous]
        self._steps[cell, entry] = step
        if len(self._steps) > KEPT_MAX:
            lost.append(self._steps.popitem(last=False)[1])
        return lost

    def take(self, cell: CellId, entry: EntryId) -> T | None:
        """Remove the step that waits for this entry's counterpart, and return it."""
        return self._steps.pop((cell, entry), None)

    def has(self, cell: CellId, entry: EntryId) -> bool:
        return (cell, entry) in self._steps

    def end(self) -> list[T]:
        """Return all steps that are left, and forget them."""
        steps = list(self._steps.values())
        self._steps.clear()
        return steps


class ShadowSteps:
    """The steps of both journals, each with its counterpart, if it has one."""

    def __init__(self, course: Course, comparison: ShadowComparison) -> None:
        self._course = course
        self._comparison = comparison
        self._recorded_alone: Alone[RecordedStep] = Alone()
        self._shadow_alone: Alone[ShadowStep] = Alone()

    def finish(self) -> None:
        """Count the steps that only one of the two journals has."""
        for recorded_step in self._recorded_alone.end():
            self._missing(recorded_step)
        for shadow_step in self._shadow_alone.end():
            self._extra(shadow_step)

    def take(self, record: Step | Faulted) -> None:
        """Fold a recorded step, and run its counterpart."""
        cell = self._course.recorded.cells[record.cell]
        step = RecordedStep(
            record=record,
            under=runs_under(self._course.recorded, cell),
            on=on_text(cell.mailbox[0]),
            at=record.seq,
        )
        self._course.fold(record)
        id, entry = record.cell, self._course.mail.shadow(record.cell, record.entry)
        if isinstance(record, Faulted) and record.fault.environmental:
            self._fault_of_the_machine(step, entry)
            return
        early = None if entry is None else self._shadow_alone.take(id, entry)
        if early is not None:
            self._compare(step, early)
            return
        if entry is None or not self._run_up_to(id, entry):
            for lost in self._recorded_alone.add(id, record.entry, step):
                self._missing(lost)
            return
        mail = self._course.state.cells[id].mailbox[0]
        try:
            recomputed = self._run(id, record.seq)
        except Erased:
            self._course.tally.erased += 1
            self._copy(step)
            return
        self._compare(step, ShadowStep(record=recomputed, on=on_text(mail), at=self._course.at))

    def _fault_of_the_machine(self, step: RecordedStep, entry: EntryId | None) -> None:
        """Fail the cell as the machine did. If its entry has run here already, the step that a
        retry makes of it in the journal is its counterpart."""
        self._course.tally.environmental += 1
        id = step.record.cell
        if entry is None or self._shadow_alone.has(id, entry):
            return
        if self._run_up_to(id, entry):
            self._copy(step)

    def _run_up_to(self, id: CellId, entry: EntryId) -> bool:
        """Whether the shadow can run this entry now, after those before it."""
        cell = self._course.state.cells.active.get(id)
        if cell is None or not any(mail.entry == entry for mail in cell.mailbox):
            return False
        while cell.in_ring and cell.mailbox[0].entry != entry:
            self.run_alone(id)
        return cell.in_ring

    def _copy(self, step: RecordedStep) -> None:
        """Take the recorded result over."""
        seq = self._course.writing.begin_record(step.record.seq)
        copied = copied_step(self._course.state, step.record, seq)
        self._course.append(copied)
        if isinstance(copied, Step) and isinstance(step.record, Step):
            self._course.mail.pair_events(copied, step.record)

    def _run(self, id: CellId, seq: int | None) -> Step | Faulted:
        recomputed = self._course.writing.step(id, seq)
        self._course.note_record(recomputed)
        if isinstance(recomputed, Faulted):
            refuse_host_memory(recomputed.fault, f"record {recomputed.seq}")
        return recomputed

    def run_alone(self, id: CellId) -> None:
        """Run the first entry of a cell without a recorded step, or before that."""
        mail = self._course.state.cells[id].mailbox[0]
        try:
            recomputed = self._run(id, None)
        except Erased as problem:
            self._course.tally.erased += 1
            self._cannot_run(id, mail, problem)
            return
        shadow_step = ShadowStep(record=recomputed, on=on_text(mail), at=self._course.at)
        twin = self._course.mail.recorded(id, mail.entry)
        recorded_step = None if twin is None else self._recorded_alone.take(id, twin)
        if recorded_step is not None:
            self._compare(recorded_step, shadow_step)
            return
        for lost in self._shadow_alone.add(id, mail.entry, shadow_step):
            self._extra(lost)

    def _cannot_run(self, id: CellId, mail: Mail, problem: Erased) -> None:
        fault = Fault(kind=FaultKind.HOST_MEMORY, message=f"{problem}")
        under = runs_under(self._course.state, self._course.state.cells[id])
        self._course.append(
            Faulted(
                seq=self._course.writing.begin_record(None),
                cell=id,
                entry=mail.entry,
                root=mail.root.seq,
                depth=mail.depth,
                fault=fault,
                fuel=0,
                pages=0,
                output=None,
                under=None if under == self._course.state.manifest_seq else under,
            )
        )

    def will_run(self, id: CellId, shadow: EntryId) -> bool:
        """Whether the journal may run this entry of the shadow later."""
        entry = self._course.mail.recorded(id, shadow)
        cell = self._course.recorded.cells.active.get(id)
        if entry is None or cell is None or cell.fault is not None:
            return False
        return any(mail.entry == entry for mail in cell.mailbox)

    def _compare(self, recorded_step: RecordedStep, shadow_step: ShadowStep) -> None:
        recomputed, record = shadow_step.record, recorded_step.record
        if isinstance(recomputed, Step) and isinstance(record, Step):
            self._pair_mail(recomputed, record)
        if isinstance(recomputed, Faulted) and recomputed.fault.environmental:
            self._course.tally.environmental += 1
            return
        try:
            field_differences = self._comparison.differences(
                recomputed, record, recorded_step.under
            )
        except Erased:
            self._course.tally.erased += 1
            return
        self._course.tally.compared += 1
        if field_differences:
            self._course.tally.different += 1
            self._differs(recorded_step, classes_of(field_differences), field_differences)

    def _pair_mail(self, recomputed: Step, record: Step) -> None:
        """Pair the mail of two steps; parts of it may have run already."""
        for id, shadow, recorded in self._course.mail.pair_events(recomputed, record):
            self._course.loose[id] = None
            if self._recorded_alone.has(id, recorded) and self._shadow_alone.has(id, shadow):
                recorded_step = self._recorded_alone.take(id, recorded)
                shadow_step = self._shadow_alone.take(id, shadow)
                assert recorded_step is not None
                assert shadow_step is not None
                self._compare(recorded_step, shadow_step)

    def _missing(self, step: RecordedStep) -> None:
        self._course.tally.missing += 1
        step_difference = difference("step", _step_text(step.record), None)
        self._differs(step, (STEP_MISSING,), (step_difference,))

    def _extra(self, step: ShadowStep) -> None:
        self._course.tally.extra += 1
        step_difference = difference("step", None, _step_text(step.record))
        self._differs(step, (STEP_EXTRA,), (step_difference,))

    def _differs(
        self,
        step: RecordedStep | ShadowStep,
        classes: tuple[str, ...],
        field_differences: tuple[FieldDifference, ...],
    ) -> None:
        first = FirstDifference(
            at=step.at, on=step.on, classes=classes, differences=field_differences
        )
        self._course.tally.differs(step.record.cell, first)


def _step_text(record: Step | Faulted) -> str:
    """A step that has no counterpart, in a word."""
    if isinstance(record, Faulted):
        return f"fault {record.fault.kind.value}"
    return "deleted" if record.state is None else record.status


def copied_step(state: State, record: Step | Faulted, seq: int) -> Step | Faulted:
    """Return a step or fault of the cell that is to run, for the first entry of its mailbox, with
    the recorded result. Recorded results are taken over where an erased value keeps the shadow from
    deciding (SH-34).

    A recorded result was decided under another manifest, so it is fitted to the shadow first: cells
    that do not take an event there do not get it, and effects that are not there are not asked for.
    """
    cell = state.cells[record.cell]
    mail, under = cell.mailbox[0], runs_under(state, cell)
    placed = replace(
        record,
        seq=seq,
        entry=mail.entry,
        root=mail.root.seq,
        depth=mail.depth,
        under=None if under == state.manifest_seq else under,
    )
    if isinstance(placed, Faulted) or isinstance(record, Faulted):
        return placed
    effects = state.effective.effects
    fits = record.under is None or placed.fits is not None
    return replace(
        placed,
        fits=state.manifest_seq if fits and placed.under is not None else None,
        events=tuple(_copied_emitted(state, event) for event in placed.events),
        intents=tuple(
            intent
            for intent in placed.intents
            if intent.effect in effects and intent.intent not in state.intents
        ),
        abandoned=tuple(cell.inflight) if placed.state is None else (),
    )


def copied_event(state: State, record: Event) -> Event:
    """Return an event that ``state`` can fold."""
    to, overloaded = (
        _cells_taking(state, cells, record.schema) for cells in (record.to, record.overloaded)
    )
    kept_cells = _kept_in_shadow(state, record.kept, to + overloaded)
    return replace(record, to=to, overloaded=overloaded, kept=kept_cells)


def _copied_emitted(state: State, event: Emitted) -> Emitted:
    to, overloaded = (
        _cells_taking(state, cells, event.schema) for cells in (event.to, event.overloaded)
    )
    kept_cells = _kept_in_shadow(state, event.kept, to + overloaded)
    return replace(event, to=to, overloaded=overloaded, unknown=(), kept=kept_cells)


def _cells_taking(state: State, cells: tuple[CellId, ...], schema: str) -> tuple[CellId, ...]:
    return tuple(cell for cell in cells if _cell_takes(state, cell, schema))


def _kept_in_shadow(
    state: State, kept_cells: tuple[CellId, ...], to: tuple[CellId, ...]
) -> tuple[CellId, ...]:
    """The receivers that stay under an earlier manifest in the shadow, too."""
    return tuple(id for id in kept_cells if id in to and _may_be_kept(state, id))


def _may_be_kept(state: State, id: CellId) -> bool:
    cell = state.cells.get(id)
    if cell is None or cell.fault is not None or state.eras.is_one:
        return False
    return cell.is_kept or not stays(state, cell)


def _cell_takes(state: State, id: CellId, schema: str) -> bool:
    cell = state.cells.get(id)
    workflow = state.effective.workflows.get(id[0]) if cell is None else workflow_of(state, cell)
    return workflow is not None and takes(workflow, schema)
