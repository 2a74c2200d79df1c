"""Pair the intents, the mail and the steps of a shadow with recorded ones (spec/shadow.md, SH-12 to
SH-15, SH-20, SH-31)."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar

from aos.core.journal.frame import Frame
from aos.core.journal.records import CellId, EntryId, Faulted, Manifest, Step, slot_hash
from aos.core.state.cell import OpenIntent
from aos.prove.whatif.journal_source import records_of_kinds
from aos.values.digests import Hash

EXTRA: Final = 1 << 62
"""From this sequence on, the records of a shadow have no recorded counterpart (SH-10)."""

KEPT_MAX: Final = 10_000
"""How many steps without a counterpart may still get one; the oldest are counted first."""

IntentKey: TypeAlias = tuple[CellId, str, Hash, str | bytes | None]
"""(cell, effect, hash of the params, requested key)."""

_MailPlace: TypeAlias = tuple[CellId, EntryId]

T = TypeVar("T")


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
        self._steps: OrderedDict[_MailPlace, T] = OrderedDict()

    def add(self, cell: CellId, entry: EntryId, step: T) -> list[T]:
        """Keep a step; return those that will have no counterpart because of it."""
        previous = self._steps.pop((cell, entry), None)
        lost = [] if previous is None else [previous]
        self._steps[cell, entry] = step
        if len(self._steps) > KEPT_MAX:
            lost.append(self._steps.popitem(last=False)[1])
        return lost

    def take(self, cell: CellId, entry: EntryId) -> T | None:
        return self._steps.pop((cell, entry), None)

    def has(self, cell: CellId, entry: EntryId) -> bool:
        return (cell, entry) in self._steps

    def end(self) -> list[T]:
        """Return all steps that are left, and forget them."""
        steps = list(self._steps.values())
        self._steps.clear()
        return steps
