"""The tasks that a worker has: their epochs, free slots, and the next claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aos.values.digests import Hash
from aos.worker.api import EffectFunction


@dataclass(slots=True)
class HeldTask:
    """A leased task. Its lease of ``lease_s`` lasts until ``until_s`` at least, on the clock that
    counts while the system sleeps. ``is_lost``: the node has given up the lease, or the worker has
    given it back, so the result is of no use."""

    intent: Hash
    effect: str
    epoch: int
    until_s: float
    lease_s: float
    is_lost: bool = False


class HeldTasks:
    """The tasks of one worker, and the slots that they leave free."""

    def __init__(self, functions: Mapping[str, EffectFunction[Any]], tasks_max: int | None) -> None:
        self._functions = functions
        self._tasks_max = tasks_max
        self._tasks: dict[Hash, HeldTask] = {}
        self._task_counts: Counter[str] = Counter()

    @property
    def effects(self) -> frozenset[str]:
        """The effects that the worker claims."""
        return frozenset(self._functions)

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: HeldTask) -> None:
        """Take a task, or another attempt of one that is here."""
        self.remove(task.intent)
        self._tasks[task.intent] = task
        self._task_counts[task.effect] += 1

    def get(self, intent: Hash) -> HeldTask | None:
        return self._tasks.get(intent)

    def remove(self, intent: Hash) -> None:
        """Free the slot of a task. Unknown ones are ignored."""
        task = self._tasks.pop(intent, None)
        if task is not None:
            self._task_counts[task.effect] -= 1

    def all(self) -> list[HeldTask]:
        return list(self._tasks.values())

    def claim_room(self) -> tuple[int, list[dict[str, Any]]]:
        """How many tasks fit, and the ``effects`` of a claim for them."""
        room = sum(function.concurrency for function in self._functions.values())
        room = min(room if self._tasks_max is None else self._tasks_max, 256 + len(self)) - len(
            self
        )
        effects = [
            _claim_effect(function, free)
            for name, function in self._functions.items()
            if (free := min(function.concurrency - self._task_counts[name], room)) > 0
        ]
        return room, effects


def _claim_effect(function: EffectFunction[Any], free: int) -> dict[str, Any]:
    document: dict[str, Any] = {"name": function.name, "max": free}
    if function.attempts is not None:
        document["attempts"] = function.attempts
    if function.backoff_ms is not None:
        document["backoff_ms"] = function.backoff_ms
    if function.backoff_cap_ms is not None:
        document["backoff_cap_ms"] = function.backoff_cap_ms
    return document
