"""Count what a shadow did, and note the cells that differ (spec/shadow.md, SH-33)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from aos.audit.replay.against_report import CLASSES
from aos.audit.replay.difference import FieldDifference
from aos.core.journal.records import CellId, KernelReceipt, Receipt, Record, Step

STEP_MISSING: Final = "step_missing"
STEP_EXTRA: Final = "step_extra"
EVENT_REFUSED: Final = "event_refused"

SHADOW_CLASSES: Final = (*CLASSES, STEP_MISSING, STEP_EXTRA, EVENT_REFUSED)
"""The ways in which a cell may differ: those of a step (A-82), and a step or input that only one of
the two journals has."""

DIFFERENCES_KEPT: Final = 100
"""How many differing cells a report shows one by one; the others are only counted."""


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
    """The counts of one shadow.

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
