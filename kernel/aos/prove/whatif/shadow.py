"""Follow a journal as it would have been under another manifest (spec/shadow.md).

    recorded   fold, fold, fold, …                 the journal, as it is
    shadow     decide and fold the same inputs     under the proposed manifest

Rule 1: everything is a function of the journal, the manifest with its mode, the range and the
answers that the user gives. Nothing is signed, nothing is written, no executor is asked.

Rule 2: a record of the shadow with a recorded counterpart takes its sequence, time and chance. So
whatever differs afterwards is a decision.

Rule 3: the shadow runs mail when the journal runs it, and mail that the journal does not run at
once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from aos.core.journal.inputs import ERASE, AttemptInput, ControlInput, EventInput, StreamInput
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    Event,
    Faulted,
    Fork,
    Governance,
    KernelReceipt,
    Receipt,
    Record,
    Snapshot,
    Stamp,
    Start,
    Step,
    Stream,
)
from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.errors import Erased, Refused
from aos.manifest.names import NODE
from aos.prove.replay.difference import difference
from aos.prove.replay.recorded_inputs import input_of
from aos.prove.whatif.shadow_answers import (
    CarryOut,
    ScriptAnswers,
    ShadowAnswers,
    carries_nothing_out,
)
from aos.prove.whatif.shadow_course import (
    EVENT_REFUSED,
    Course,
    FirstDifference,
    IntentKey,
    ShadowTally,
)
from aos.prove.whatif.shadow_state import BlobOverlay, ShadowState, cells_of
from aos.prove.whatif.shadow_steps import ShadowSteps, copied_event
from aos.prove.whatif.step_comparison import ShadowComparison
from aos.values.digests import Hash

ROUNDS_MAX: Final = 100_000
"""Answers, timers and steps between two records, after which a shadow never comes to rest."""

AT_THE_END: Final = "the end"
"""A status may differ although no step does: one more entry may have overloaded a mailbox."""


class Shadow:
    """One shadow, after the proposed manifest is in force. ``follow`` takes the recorded records
    one by one; ``finish`` counts what is left over.

    Args:
        recorded: The state of the journal after the record that the manifest replaces. The
            shadow folds it on.
        state: The state of the shadow.
        answers: Those of a user to intents that the journal does not open; ``to_come`` are those
            that it opens.
    """

    def __init__(
        self,
        recorded: State,
        state: ShadowState,
        comparison: ShadowComparison,
        overlay: BlobOverlay,
        *,
        answers: ScriptAnswers | None = None,
        to_come: Counter[IntentKey] | None = None,
        carry_out: CarryOut = carries_nothing_out,
    ) -> None:
        self.course = Course(recorded, state, overlay, comparison.renames, to_come)
        self._steps = ShadowSteps(self.course, comparison)
        self._answers = ShadowAnswers(self.course, answers, carry_out)
        self._rounds = 0

    @property
    def recorded(self) -> State:
        return self.course.recorded

    @property
    def state(self) -> State:
        return self.course.state

    @property
    def tally(self) -> ShadowTally:
        return self.course.tally

    def follow(self, record: Record) -> None:
        """Take the next record of the journal.

        Raises:
            Refused: The proposed manifest does not come to rest.
            Unavailable: This machine lacks something that a step needs.
            Damage: The journal cannot be read.
        """
        self._rounds = 0
        stamp: Stamp | None = getattr(record, "stamp", None)
        if stamp is not None:
            self._fire_until(stamp.ns)
        match record:
            case Step() | Faulted():
                self._steps.take(record)
            case KernelReceipt():
                self.course.fold(record)
                self._kernel_receipt(record)
            case _:
                self.course.fold(record)
                self._input(record)
        self.course.tally.recorded.take(record)
        for id in cells_of(record):
            self.course.loose[id] = None
            self.course.touched[id] = None
        self._settle_down()

    def finish(self) -> None:
        """Count the steps that only one of the two journals has, and compare the last statuses."""
        self._steps.finish()
        course = self.course
        for id in course.touched:
            if id not in course.tally.cells:
                recorded_status, shadow_status = (
                    _status(state, id) for state in (course.recorded, course.state)
                )
                if recorded_status != shadow_status:
                    status_difference = difference("status", recorded_status, shadow_status)
                    first = FirstDifference(
                        at=course.at,
                        on=AT_THE_END,
                        classes=("status",),
                        differences=(status_difference,),
                    )
                    course.tally.differs(id, first)

    def _input(self, record: Record) -> None:
        match record:
            case Event():
                self._event(record)
            case Receipt():
                self._answers.take(record)
            case Stream() | Attempt():
                self._progress(record)
            case Control():
                self._control(record)
            case Start() | Fork():
                self.course.writing.begin_record(record.seq)
                self.course.append(record)
            case Snapshot():
                self.course.writing.pass_by(record.stamp)
                self.course.state.snapshot = self.course.recorded.snapshot
            case Governance():
                self.course.writing.pass_by(record.stamp)

    def _event(self, record: Event) -> None:
        try:
            event = input_of(record, self.course.read)
            assert isinstance(event, EventInput)
            refused = self.course.writing.admit(event, record.stamp, record.seq)
        except Erased:
            self.course.tally.erased += 1
            self.course.writing.begin_record(record.seq)
            self.course.append(copied_event(self.course.state, record))
            return
        self._admitted(refused, record, record.to, record.schema)

    def _admitted(
        self,
        refused: str | None,
        record: Event | Control,
        cells: tuple[CellId, ...],
        on: str,
    ) -> None:
        self.course.writing.pass_by(record.stamp)
        self.course.note_record(record)
        if refused is None:
            self.course.tally.admitted += 1
            return
        self.course.tally.refused += 1
        input_difference = difference("input", "admitted", refused)
        for cell in cells:
            first = FirstDifference(
                at=record.seq, on=on, classes=(EVENT_REFUSED,), differences=(input_difference,)
            )
            self.course.tally.differs(cell, first)

    def _progress(self, record: Stream | Attempt) -> None:
        """Attempts and stream frames of an intent that the shadow has open, too. One that it cannot
        take is no decision of a workflow."""
        self.course.writing.pass_by(record.stamp)
        shadow = self.course.intents.shadow.get(record.intent)
        intent = None if shadow is None else self.course.state.intents.get(shadow)
        if intent is None:
            return
        try:
            progress = input_of(record, self.course.read)
        except Erased:
            self.course.tally.erased += 1
            return
        assert isinstance(progress, StreamInput | AttemptInput)
        progress = replace(progress, intent=intent.intent)
        if isinstance(progress, StreamInput):
            name, key = self._signer(intent)
            progress = replace(progress, executor=name, key_id=key)
        self.course.writing.admit(progress, record.stamp, record.seq)
        self.course.note_record(record)

    def _signer(self, intent: OpenIntent) -> tuple[str, bytes]:
        """An executor and a key that may sign for an intent of the shadow: the proposed manifest
        may give the effect to another executor than the one that answered."""
        for executor in (intent.executors or {}).values():
            if intent.effect.name in executor.effects and executor.name != NODE:
                return executor.name, executor.public_key
        return NODE, self.course.state.world_key

    def _control(self, record: Control) -> None:
        if record.action == ERASE:
            self.course.writing.pass_by(record.stamp)
            return
        try:
            command = input_of(record, self.course.read)
        except Erased:
            self.course.tally.erased += 1
            self.course.writing.pass_by(record.stamp)
            return
        assert isinstance(command, ControlInput)
        cell = record.cell
        if record.intent is not None:
            shadow = self.course.intents.shadow.get(record.intent, record.intent)
            command = replace(command, intent=shadow)
            target = self.course.state.intents.get(shadow) or self._recorded_intent(record.intent)
            cell = None if target is None else target.cell
        refused = self.course.writing.admit(command, record.stamp, record.seq)
        cells = () if cell is None else (cell,)
        self._admitted(refused, record, cells, f"command {record.action}")

    def _recorded_intent(self, intent: Hash) -> OpenIntent | None:
        return self.course.recorded.intents.get(intent) or self.course.recorded.abandoned.get(
            intent
        )

    def _kernel_receipt(self, record: KernelReceipt) -> None:
        """Make the same receipt, if the shadow owes it, too."""
        owed = self.course.state.owed
        cause = record.intent if record.by is None else record.by
        while owed:
            recorded = self.course.intents.recorded.get(owed[0].intent)
            if recorded == cause:
                self._owed(record.seq, record)
                break
            if recorded is not None and self._owes(recorded):
                break
            self._owed(None, None)
            owed = self.course.state.owed

    def _owes(self, recorded: Hash) -> bool:
        return any(debt.intent == recorded for debt in self.course.recorded.owed)

    def _owed(self, seq: int | None, record: KernelReceipt | None) -> None:
        intent = self.course.state.owed[0].intent
        cell_intents = self._opened_with(intent)
        try:
            receipt = self.course.writing.answer_owed(seq)
        except Erased:
            # The intent stays open, and the report tells of it.
            self.course.tally.erased += 1
            self.course.state.owed.popleft()
            return
        self.course.note_record(receipt)
        if receipt.by is not None and receipt.intent in cell_intents:
            self.course.note_end(cell_intents[receipt.intent])
        if record is not None:
            self.course.mail.pair(receipt.cell, (receipt.seq, 0), (record.seq, 0))
        elif self.course.intents.recorded.get(intent) is None:
            self.course.tally.answered["core"] += 1
        for abandoned in receipt.abandoned:
            self.course.unanswered.append(abandoned)

    def _opened_with(self, intent: Hash) -> dict[Hash, OpenIntent]:
        """The open intents of the instance that asked for this one."""
        state = self.course.state
        open_intent = state.intents.get(intent)
        inflight = () if open_intent is None else state.cells[open_intent.cell].inflight
        return {sibling: state.intents[sibling] for sibling in inflight if sibling in state.intents}

    def _settle_down(self) -> None:
        """Do everything that the journal will not do for the shadow."""
        while (
            self._answer_owed()
            or self._answers.answer_open()
            or self._answers.fire()
            or self._run_loose()
        ):
            self._rounds += 1
            if self._rounds > ROUNDS_MAX:
                raise Refused(
                    "the proposed manifest does not come to rest",
                    location=f"after record {self.course.at}",
                    expected=f"at most {ROUNDS_MAX} steps and answers before the next record",
                    hint="look for a timer that is due at once, or an effect that it repeats",
                )

    def _answer_owed(self) -> bool:
        """Make a receipt of the core that the journal does not make next."""
        owed = self.course.state.owed
        if not owed:
            return False
        recorded = self.course.intents.recorded.get(owed[0].intent)
        if recorded is not None and self._owes(recorded):
            return False
        self._owed(None, None)
        return True

    def _fire_until(self, now_ns: int) -> None:
        """Fire every timer that no recorded receipt fires, up to a time."""
        while (due := self._answers.first_due()) is not None and due <= now_ns:
            self._answers.fire(now_ns)
            self._settle_down()

    def _run_loose(self) -> bool:
        """Run the first entry of a cell whose mail the journal will not run."""
        if self.course.state.owed:
            return False
        while self.course.loose:
            id = next(iter(self.course.loose))
            cell = self.course.state.cells.active.get(id)
            if cell is None or not cell.in_ring or self._steps.will_run(id, cell.mailbox[0].entry):
                del self.course.loose[id]
                continue
            self._steps.run_alone(id)
            return True
        return False


def _status(state: State, id: CellId) -> str | None:
    cell = state.cells.get(id)
    return None if cell is None else cell.status
