"""Pair the mail of a shadow with recorded mail, and its steps with recorded steps (spec/shadow.md,
SH-12 to SH-15).

Mail of a record that is in both journals is the same mail. Of a step that emits other events than
the recorded one, the first event of a schema that reaches a cell is the first recorded one there.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from aos.core.journal.records import CellId, EntryId, Faulted, Step

EXTRA: Final = 1 << 62
"""From this sequence on, the records of a shadow have no recorded counterpart (SH-10)."""

KEPT_MAX: Final = 10_000
"""How many steps without a counterpart may still get one; the oldest are counted first."""

_Place: TypeAlias = tuple[CellId, EntryId]


class MailPairs:
    """The recorded entry of each entry in the shadow's mailboxes, where the two have other ids."""

    def __init__(self) -> None:
        self._recorded: dict[_Place, EntryId | None] = {}
        self._shadow: dict[_Place, EntryId] = {}

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


T = TypeVar("T")


class Alone(Generic[T]):
    """Steps of one side that the other has not taken so far, by cell and entry."""

    def __init__(self) -> None:
        self._steps: OrderedDict[_Place, T] = OrderedDict()

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
