"""Timers and delayed answers that wait for the test's clock (spec/testing.md, T-13)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from aos.core.state.cell import OpenIntent
from aos.values.digests import Hash


@dataclass(order=True, slots=True)
class Due:
    """One scheduled action. Ordered by due time, then by the order of scheduling."""

    due_ns: int
    request_order: tuple[int, int, int]
    intent: Hash = field(compare=False)
    act: Callable[[], None] = field(compare=False)


class Agenda:
    """The scheduled actions of a world. ``drop`` removes those of one intent."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._live: dict[Hash, list[Due]] = {}
        self._count = itertools.count()

    def add(self, due_ns: int, intent: OpenIntent, act: Callable[[], None]) -> None:
        request_order = (intent.seq, intent.index, next(self._count))
        due = Due(due_ns=due_ns, request_order=request_order, intent=intent.intent, act=act)
        heapq.heappush(self._heap, due)
        self._live.setdefault(intent.intent, []).append(due)

    def drop(self, intent: Hash) -> None:
        self._live.pop(intent, None)

    def keep(self, intents: Collection[Hash]) -> None:
        """Drop the actions of all other intents."""
        self._live = {
            intent: actions for intent, actions in self._live.items() if intent in intents
        }

    def due_of(self, intent: Hash) -> int | None:
        """Due time of the intent's next action, in ns since 1970; None without one."""
        return min((due.due_ns for due in self._live.get(intent, ())), default=None)

    def first(self) -> Due | None:
        while self._heap:
            first = self._heap[0]
            if any(due is first for due in self._live.get(first.intent, ())):
                return first
            heapq.heappop(self._heap)
        return None

    def take(self, now_ns: int) -> Due | None:
        """Remove and return the first action that is due; None if there is none."""
        first = self.first()
        if first is None or first.due_ns > now_ns:
            return None
        heapq.heappop(self._heap)
        remaining = [due for due in self._live[first.intent] if due is not first]
        if remaining:
            self._live[first.intent] = remaining
        else:
            del self._live[first.intent]
        return first
