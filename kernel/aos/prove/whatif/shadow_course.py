"""A shadow in progress: its two states, the pairs of their intents and mail, open work, and counts
(spec/shadow.md, SH-3, SH-13, SH-20, SH-33).

The other parts of a shadow share one ``Course`` and change it through its methods.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeAlias

from aos.core.journal.frame import Frame
from aos.core.journal.records import (
    CellId,
    Control,
    EntryId,
    Faulted,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Step,
    slot_hash,
)
from aos.core.state.cell import OpenIntent
from aos.core.state.fold import fold
from aos.core.state.state import State
from aos.prove.replay.difference import FieldDifference
from aos.prove.replay.journal_source import records_of_kinds
from aos.prove.whatif.shadow_state import EXTRA, BlobOverlay, ShadowState
from aos.prove.whatif.step_comparison import CLASSES, DIFFERENCES_KEPT, Renames
from aos.values.digests import Hash

STEP_MISSING: Final = "step_missing"
STEP_EXTRA: Final = "step_extra"
EVENT_REFUSED: Final = "event_refused"

SHADOW_CLASSES: Final = (*CLASSES, STEP_MISSING, STEP_EXTRA, EVENT_REFUSED)
"""The ways in which a cell may differ: those of a step (A-82), and a step or input that only one of
the two journals has."""

IntentKey: TypeAlias = tuple[CellId, str, Hash, str | bytes | None]
"""(cell, effect, hash of the params, requested key)."""

_MailPlace: TypeAlias = tuple[CellId, EntryId]


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


def recorded_keys(frames: Iterable[Frame], first: int, last: int) -> Counter[IntentKey]:
    """Count the intents that records after ``first`` open, up to ``last`` or the next manifest.

    Raises:
        Damage: A record cannot be read.
    """
    keys: Counter[IntentKey] = Counter()
    for record in records_of_kinds(frames, Manifest, Step):
        if isinstance(record, Manifest) and record.seq > first:
            return keys
        if isinstance(record, Step) and first < record.seq <= last:
            keys.update(
                (record.cell, intent.effect, slot_hash(intent.params), intent.key)
                for intent in record.intents
            )
    return keys


class IntentPairs:
    """Pairs the intents of a shadow with recorded ones (SH-20). ``recorded`` is the recorded intent
    of each of the shadow's, ``shadow`` the reverse.

    Two intents are a pair if the cell, the effect, the params and the requested key are the same:
    the first that the shadow opened with the first that the journal recorded, and so on. Either may
    come first.
    """

    def __init__(
        self, open_before: Iterable[OpenIntent], to_come: Counter[IntentKey] | None = None
    ) -> None:
        """``to_come`` are the intents that the journal opens later, if they are known."""
        self._to_come = Counter() if to_come is None else to_come
        self.recorded: dict[Hash, Hash] = {}
        self.shadow: dict[Hash, Hash] = {}
        self._recorded_alone: dict[IntentKey, deque[Hash]] = {}
        self._shadow_alone: dict[IntentKey, deque[Hash]] = {}
        for intent in open_before:
            self._pair(intent.intent, intent.intent)

    def opened_recorded(self, intent: OpenIntent) -> Hash | None:
        """Note an intent of the journal; return the shadow's that was waiting for it."""
        key = _intent_key(intent)
        self._to_come[key] -= 1
        shadow = _pop_first(self._shadow_alone, key)
        if shadow is None:
            self._recorded_alone.setdefault(key, deque()).append(intent.intent)
        else:
            self._pair(shadow, intent.intent)
        return shadow

    def opened_shadow(self, intent: OpenIntent) -> Hash | None:
        """Note an intent of the shadow; return the recorded one that was waiting for it."""
        key = _intent_key(intent)
        recorded = _pop_first(self._recorded_alone, key)
        if recorded is None:
            self._shadow_alone.setdefault(key, deque()).append(intent.intent)
        else:
            self._pair(intent.intent, recorded)
        return recorded

    def is_to_come(self, intent: OpenIntent) -> bool:
        """Whether the journal opens the counterpart of an intent of the shadow later."""
        key = _intent_key(intent)
        alone = self._shadow_alone.get(key)
        return alone is not None and intent.intent in islice(alone, max(0, self._to_come[key]))

    def settled_alone(self, intent: OpenIntent) -> None:
        """Let no recorded intent be paired with this one any more: it got another answer."""
        key = _intent_key(intent)
        alone = self._shadow_alone.get(key)
        if alone is not None and intent.intent in alone:
            alone.remove(intent.intent)
            if not alone:
                del self._shadow_alone[key]

    def forget(self, shadow: Hash) -> None:
        """Both intents of a pair are settled."""
        self.shadow.pop(self.recorded.pop(shadow), None)

    def _pair(self, shadow: Hash, recorded: Hash) -> None:
        self.recorded[shadow] = recorded
        self.shadow[recorded] = shadow


def _intent_key(intent: OpenIntent) -> IntentKey:
    return intent.cell, intent.effect.name, intent.params_hash, intent.key


def _pop_first(alone: dict[IntentKey, deque[Hash]], key: IntentKey) -> Hash | None:
    waiting = alone.get(key)
    if waiting is None:
        return None
    intent = waiting.popleft()
    if not waiting:
        del alone[key]
    return intent


class MailPairs:
    """The recorded entry of each entry in the shadow's mailboxes, where the two have other ids
    (SH-12 to SH-15).

    Mail of a record that is in both journals is the same mail. Of a step that emits other events
    than the recorded one, the first event of a schema that reaches a cell is the first recorded one
    there.
    """

    def __init__(self) -> None:
        self._recorded: dict[_MailPlace, EntryId | None] = {}
        self._shadow: dict[_MailPlace, EntryId] = {}

    def recorded(self, cell: CellId, shadow: EntryId) -> EntryId | None:
        """Return the recorded entry; None if there is none."""
        key = cell, shadow
        if key in self._recorded:
            return self._recorded[key]
        return shadow if shadow[0] < EXTRA else None

    def shadow(self, cell: CellId, recorded: EntryId) -> EntryId | None:
        """Return the shadow's entry of a recorded one, which may not be in its mailbox; None if
        there is none."""
        entry = self._shadow.get((cell, recorded))
        if entry is None and self.recorded(cell, recorded) == recorded:
            entry = recorded
        return entry

    def pair(self, cell: CellId, shadow: EntryId, recorded: EntryId | None) -> None:
        """Pair an entry of the shadow; with None, it has no recorded one."""
        if shadow == recorded:
            return
        self._recorded[cell, shadow] = recorded
        if recorded is not None:
            self._shadow[cell, recorded] = shadow

    def pair_events(
        self, recomputed: Step, recorded: Step
    ) -> list[tuple[CellId, EntryId, EntryId]]:
        """Pair the mail of two steps, of which one is the counterpart of the other. Return the
        pairs whose entries have other ids."""
        if recomputed.seq == recorded.seq and _events_alike(recomputed, recorded):
            return []
        waiting: dict[tuple[CellId, str], deque[EntryId]] = {}
        for index, event in enumerate(recorded.events):
            for id in event.to:
                key = id, event.schema
                waiting.setdefault(key, deque()).append((recorded.seq, index))
        pairs: list[tuple[CellId, EntryId, EntryId]] = []
        for index, event in enumerate(recomputed.events):
            for id in event.to:
                entries = waiting.get((id, event.schema))
                shadow = (recomputed.seq, index)
                twin = entries.popleft() if entries else None
                self.pair(id, shadow, twin)
                if twin is not None:
                    pairs.append((id, shadow, twin))
        return pairs


def _events_alike(recomputed: Step, recorded: Step) -> bool:
    if recomputed.events == recorded.events:
        return True
    return len(recomputed.events) == len(recorded.events) and all(
        (event.schema, event.to) == (twin.schema, twin.to)
        for event, twin in zip(recomputed.events, recorded.events, strict=True)
    )


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
