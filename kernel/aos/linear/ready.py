"""Which plan step a worker gets next: advisory, from the states of the instances (L-32)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from aos.linear.rows import Claimable


def matches(pattern: str, plan: str, step: str) -> bool:
    """Whether ``order.process/SHIP``, ``*/SHIP`` or ``order.process/*`` has a plan step."""
    wanted_plan, _, wanted_step = pattern.rpartition("/")
    return wanted_plan in ("*", plan) and wanted_step in ("*", step)


class ReadyList:
    """The plan steps that can be claimed, now or later, at most one of an instance.

    An instance that is taken comes back with ``put``, once it is known what became of it.
    """

    def __init__(self) -> None:
        self._by_instance: dict[str, Claimable] = {}
        self._queues: dict[tuple[str, str, int], list[Claimable]] = {}

    def __len__(self) -> int:
        return len(self._by_instance)

    def clear(self) -> None:
        """Forget everything."""
        self._by_instance.clear()
        self._queues.clear()

    def put(self, instance: str, claimable: Claimable | None) -> bool:
        """Note what can be claimed of an instance; None if nothing. True if that is new."""
        if self._by_instance.get(instance) == claimable:
            return False
        if claimable is None:
            del self._by_instance[instance]
            return False
        self._by_instance[instance] = claimable
        queue = self._queues.setdefault((claimable.plan, claimable.step, claimable.rank), [])
        heapq.heappush(queue, claimable)
        return True

    def take(self, patterns: Iterable[str], now_ns: int) -> Claimable | None:
        """Take the first that is due and that one of ``patterns`` has; None if there is none."""
        heads = self._heads(patterns)
        first = min((head for head in heads if head.due_ns <= now_ns), default=None)
        if first is not None:
            del self._by_instance[first.instance]
        return first

    def due_ns(self, patterns: Iterable[str]) -> int | None:
        """When the next of them is due; None if none will be."""
        return min((head.due_ns for head in self._heads(patterns)), default=None)

    def _heads(self, patterns: Iterable[str]) -> list[Claimable]:
        """The first of each queue of the patterns, without what no longer holds."""
        all_patterns = tuple(patterns)
        heads = []
        for key, queue in list(self._queues.items()):
            if not any(matches(pattern, key[0], key[1]) for pattern in all_patterns):
                continue
            while queue and self._by_instance.get(queue[0].instance) is not queue[0]:
                heapq.heappop(queue)
            if queue:
                heads.append(queue[0])
            else:
                del self._queues[key]
        return heads
