"""A shadow in progress: its two states, pairs, open work, and counts (spec/shadow.md, SH-3, SH-33).

The other parts of a shadow share one ``Course`` and change it through its methods.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Final

from aos.core.journal.records import (
    CellId,
    Control,
    Faulted,
    KernelReceipt,
    Receipt,
    Record,
    Step,
)
from aos.core.state.cell import OpenIntent
from aos.core.state.fold import fold
from aos.core.state.state import State
from aos.prove.replay.difference import FieldDifference
from aos.prove.whatif.shadow_pairs import IntentKey, IntentPairs, MailPairs
from aos.prove.whatif.shadow_state import BlobOverlay, ShadowState
from aos.prove.whatif.step_comparison import CLASSES, DIFFERENCES_KEPT, Renames
from aos.values.digests import Hash

STEP_MISSING: Final = "step_missing"
STEP_EXTRA: Final = "step_extra"
EVENT_REFUSED: Final = "event_refused"

SHADOW_CLASSES: Final = (*CLASSES, STEP_MISSING, STEP_EXTRA, EVENT_REFUSED)
"""The ways in which a cell may differ: those of a step (A-82), and a step or input that only one of
the two journals has."""


class Course:
    """The recorded state is folded on, the shadow's is decided.

    Attributes:
        recorded: The state of the journal.
        state: The state of the shadow; ``writing`` changes it.
        unanswered: Intents of the shadow that may have no recorded answer to come.
        early_receipts: Recorded intents whose receipt came before the shadow asked.
        loose: Cells whose mail the journal may not run.
        touched: All cells that a record of either changed.
    """

    def __init__(
        self,
        recorded: State,
        writing: ShadowState,
        overlay: BlobOverlay,
        renames: Renames,
        to_come: Counter[IntentKey] | None,
    ) -> None:
        self.recorded = recorded
        self.writing = writing
        self.state = writing.state
        self.read = overlay.read
        self.tally = ShadowTally()
        open_before = [*self.state.intents.values(), *self.state.abandoned.values()]
        self.intents = IntentPairs(open_before, to_come)
        self.mail = MailPairs()
        self.unanswered: deque[Hash] = deque(self.state.intents)
        self.early_receipts: dict[Hash, Receipt] = {}
        self.loose: dict[CellId, None] = {}
        self.touched: dict[CellId, None] = {}
        self._renames = renames

    @property
    def at(self) -> int:
        """The record of the journal that the shadow has reached."""
        return self.recorded.next_seq - 1

    def fold(self, record: Record) -> None:
        """Fold a record of the journal."""
        fold(self.recorded, record, self.read)
        if isinstance(record, Step):
            for intent in record.intents:
                shadow = self.intents.opened_recorded(self.recorded.intents[intent.intent])
                if shadow is not None:
                    self._paired(shadow)
            if record.abandoned:
                self._ended(record.abandoned)
        elif isinstance(record, KernelReceipt):
            self._ended((record.intent, *record.abandoned))
        elif isinstance(record, Receipt | Control) and record.abandoned:
            self._ended(record.abandoned)

    def _paired(self, shadow: Hash) -> None:
        self._renames.add(shadow, self.intents.recorded[shadow])
        self.unanswered.append(shadow)

    def _ended(self, recorded: tuple[Hash, ...]) -> None:
        """Intents ended without a receipt of an executor. Those that the shadow still has open are
        alone now."""
        for intent in recorded:
            shadow = self.intents.shadow.get(intent)
            if shadow is not None:
                self.unanswered.append(shadow)

    def is_alone(self, shadow: Hash) -> bool:
        """Whether no recorded receipt can come for an open intent of the shadow."""
        recorded = self.intents.recorded.get(shadow)
        if recorded is None:
            return True
        is_open = recorded in self.recorded.intents
        return not is_open and recorded not in self.early_receipts

    def note_end(self, intent: OpenIntent) -> None:
        """An intent of the shadow was cancelled or abandoned: a recorded receipt that is still to
        come is for a live one (SH-20)."""
        if intent.intent not in self.intents.recorded:
            self.intents.settled_alone(intent)

    def append(self, record: Record) -> None:
        """Fold a record that was not decided here."""
        if isinstance(record, Step | Faulted):
            self.state.ring.remove(record.cell)
            self.state.ring.appendleft(record.cell)
        self.writing.append(record, {})
        self.note_record(record)

    def note_record(self, record: Record) -> None:
        """Note what a record of the shadow opened, ended and reached."""
        self.tally.shadow.take(record)
        if isinstance(record, Step):
            for intent_ref in record.intents:
                intent = self.state.intents[intent_ref.intent]
                if self.intents.opened_shadow(intent) is not None:
                    self._paired(intent.intent)
                else:
                    self.unanswered.append(intent.intent)
        for intent_ref in getattr(record, "abandoned", ()):
            abandoned = self.state.abandoned.get(intent_ref)
            if abandoned is not None:
                self.note_end(abandoned)
        for id in self.writing.touched:
            self.loose[id] = None
            self.touched[id] = None
        self.writing.touched.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """Where a cell differs first. ``at`` is the record of the journal that the shadow had reached,
    ``on`` what the step ran on, or the input that was refused."""

    at: int
    on: str
    classes: tuple[str, ...]
    differences: tuple[FieldDifference, ...]


@dataclass(slots=True)
class CellNote:
    """A cell that differs: in which classes, and where first."""

    first: FirstDifference
    classes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Observed:
    """The effects of one of the two journals: how often each was asked for, and how often a receipt
    with each status came."""

    requests: Counter[str] = field(default_factory=Counter)
    statuses: Counter[tuple[str, str]] = field(default_factory=Counter)

    def take(self, record: Record) -> None:
        if isinstance(record, Step):
            self.requests.update(intent.effect for intent in record.intents)
        elif isinstance(record, Receipt | KernelReceipt):
            self.statuses[record.effect, record.status] += 1


@dataclass(slots=True)
class ShadowTally:
    """The counts of one shadow, and the cells that differ (SH-33).

    Attributes:
        compared: Steps, with faults, that have a counterpart and were compared.
        different: How many of them differ; ``by_class`` counts them and all others by class.
        missing, extra: Steps without a counterpart, of the journal and of the shadow.
        admitted, refused: Recorded inputs by whether the shadow took them.
        erased: Records that needed an erased value.
        environmental: Faults of the machine.
        answered: Answers to intents without a recorded one, by who gave them.
    """

    compared: int = 0
    different: int = 0
    missing: int = 0
    extra: int = 0
    admitted: int = 0
    refused: int = 0
    erased: int = 0
    environmental: int = 0
    by_class: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    recorded: Observed = field(default_factory=Observed)
    shadow: Observed = field(default_factory=Observed)
    cells: dict[CellId, CellNote] = field(default_factory=dict)
    _detailed_cells: set[CellId] = field(default_factory=set)
    """The cells whose fields are kept."""

    def differs(self, cell: CellId, first: FirstDifference) -> None:
        """Note that a cell differs. The fields are kept of the cells that differ first."""
        self.by_class.update(first.classes)
        note = self.cells.get(cell)
        if note is None:
            note = self.cells[cell] = CellNote(first)
            self._detailed_cells.add(cell)
        elif first.at < note.first.at:
            note.first = first
            self._detailed_cells.add(cell)
        note.classes.update(first.classes)
        if len(self._detailed_cells) > 2 * DIFFERENCES_KEPT:
            self._drop_fields()

    def _drop_fields(self) -> None:
        """Drop the fields of all but the first cells: no later one puts another before those."""
        order = sorted(self._detailed_cells, key=lambda cell: (self.cells[cell].first.at, cell))
        for cell in order[DIFFERENCES_KEPT:]:
            note = self.cells[cell]
            note.first = replace(note.first, differences=())
        self._detailed_cells = set(order[:DIFFERENCES_KEPT])
