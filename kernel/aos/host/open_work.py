"""Open effects of a running world, and the tasks of its executors (spec/host.md, H-53, H-81a)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aos.core.state.cell import OpenIntent
from aos.host.executors.task import TaskNow
from aos.manifest.names import TIMER
from aos.values.cbor import Value
from aos.values.digests import Hash

TASKS_MAX: Final = 1_000
"""Tasks that an answer lists one by one; all are counted."""

LISTED: Final = ("running", "backoff")
"""The phases of these tasks. The journal has the held and parked ones, with the reason (K-99)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEffect:
    """How many intents of one effect are open. ``oldest_ns`` is when the first of them was opened;
    ``due_ns`` is the time of the next timer, for ``sys/timer.set@1``."""

    effect: str
    number: int
    oldest_ns: int
    due_ns: int | None


class OpenEffects:
    """The intents that are open at the durable head, in the order of opening: a run waits for them
    (H-81a)."""

    def __init__(self) -> None:
        self._intents: dict[Hash, OpenIntent] = {}
        self._by_effect: Counter[str] = Counter()

    def __contains__(self, intent: Hash) -> bool:
        return intent in self._intents

    def __len__(self) -> int:
        return len(self._intents)

    def __iter__(self) -> Iterator[Hash]:
        return iter(self._intents)

    def add(self, intents: Iterable[OpenIntent]) -> None:
        for intent in intents:
            if intent.intent not in self._intents:
                self._intents[intent.intent] = intent
                self._by_effect[intent.effect.name] += 1

    def end(self, intents: Iterable[Hash]) -> None:
        """Remove intents that are settled or abandoned; unknown ones are passed over."""
        for intent in intents:
            ended = self._intents.pop(intent, None)
            if ended is not None:
                self._by_effect[ended.effect.name] -= 1

    def by_effect(self) -> Mapping[str, int]:
        """Return how many intents of each effect are open."""
        return dict(+self._by_effect)

    def open_effects(self, *, next_timer_ns: int | None) -> tuple[OpenEffect, ...]:
        """Return the open effects by name. Reads every open intent."""
        oldest: dict[str, int] = {}
        for intent in self._intents.values():
            oldest.setdefault(intent.effect.name, intent.opened_ns)
        return tuple(
            OpenEffect(
                effect=name,
                number=number,
                oldest_ns=oldest[name],
                due_ns=next_timer_ns if name == TIMER else None,
            )
            for name, number in sorted(self.by_effect().items())
        )


def work_fields(tasks: Iterable[TaskNow], effects: frozenset[str]) -> dict[str, Value]:
    """The current work of a process's executors, as the answer to a client (H-53).

    Return ``effects``, that this process runs; ``executors``, for each name in the manifest and
    each phase ``[number, since_ns of the oldest]``; and ``tasks``, those that are running or in
    backoff, ``[intent, phase, attempt, since_ns]``.
    """
    executors: dict[str, dict[str, list[int]]] = {}
    rows: list[Value] = []
    for task_now in tasks:
        phases = executors.setdefault(task_now.task.effect.executor, {})
        number, oldest = phases.get(task_now.phase, [0, task_now.since_ns])
        phases[task_now.phase] = [number + 1, min(oldest, task_now.since_ns)]
        if task_now.phase in LISTED and len(rows) < TASKS_MAX:
            rows.append([task_now.task.intent, task_now.phase, task_now.attempt, task_now.since_ns])
    counts: dict[str | int, Value] = {
        name: {phase: list(figures) for phase, figures in phases.items()}
        for name, phases in executors.items()
    }
    return {"effects": list[Value](sorted(effects)), "executors": counts, "tasks": rows}
