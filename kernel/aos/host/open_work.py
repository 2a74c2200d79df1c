"""Open effects of a running world, and the tasks of its executors (spec/host.md, H-53, H-81a)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
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
    for ``sys/timer.set@1``, where no one looks for that, ``due_ns`` is the time of the next one."""

    effect: str
    number: int
    oldest_ns: int | None
    due_ns: int | None


class OpenEffects:
    """The intents that are open at the durable head: a run waits for them (H-81a).

    A world may have a million timers: the kernel counts them. Of each other intent, the hash and
    the time are kept, by effect. Timers are among these, too, if no executor here runs them.
    """

    def __init__(self) -> None:
        self.timers = 0
        """The open timers that an executor here runs."""
        self._by_effect: dict[str, dict[Hash, int]] = {}
        """For each effect, when its intents were opened, in the order of opening."""

    def __contains__(self, intent: Hash) -> bool:
        """Whether an intent is open that is kept."""
        return any(intent in opened for opened in self._by_effect.values())

    def __len__(self) -> int:
        """The number of those that are kept."""
        return sum(map(len, self._by_effect.values()))

    def __iter__(self) -> Iterator[Hash]:
        """Those that are kept."""
        return chain.from_iterable(self._by_effect.values())

    def add(self, intents: Iterable[OpenIntent]) -> None:
        for intent in intents:
            opened = self._by_effect.setdefault(intent.effect.name, {})
            opened.setdefault(intent.intent, intent.opened_ns)

    def end(self, intents: Iterable[Hash]) -> None:
        """Remove intents that are settled or abandoned; unknown ones are passed over."""
        for intent in intents:
            for opened in self._by_effect.values():
                if opened.pop(intent, None) is not None:
                    break

    def by_effect(self) -> Mapping[str, int]:
        """Return how many intents of each effect are open."""
        counts = {effect: len(opened) for effect, opened in self._by_effect.items() if opened}
        return {**counts, TIMER: self.timers} if self.timers else counts

    def open_effects(self, *, next_timer_ns: int | None) -> tuple[OpenEffect, ...]:
        """Return the open effects by name."""
        return tuple(
            OpenEffect(
                effect=effect,
                number=number,
                oldest_ns=next(iter(self._by_effect.get(effect, {}).values()), None),
                due_ns=next_timer_ns if effect == TIMER else None,
            )
            for effect, number in sorted(self.by_effect().items())
        )


def work_fields(tasks: Iterable[TaskNow], effects: frozenset[str]) -> dict[str, Value]:
    """The current work of a process's executors, as the answer to a client (H-53).

    Return ``effects``, that this process runs; ``executors``, for each name in the manifest and
    each phase ``[number, since_ns of the oldest]``; and ``tasks``, those that are running or in
    backoff, ``[intent, phase, attempt, since_ns, problem or null, limit_ns or null]``.
    """
    executors: dict[str, dict[str, list[int]]] = {}
    rows: list[Value] = []
    for task_now in tasks:
        phases = executors.setdefault(task_now.task.effect.executor, {})
        number, oldest = phases.get(task_now.phase, [0, task_now.since_ns])
        phases[task_now.phase] = [number + 1, min(oldest, task_now.since_ns)]
        if task_now.phase in LISTED and len(rows) < TASKS_MAX:
            rows.append(
                [
                    task_now.task.intent,
                    task_now.phase,
                    task_now.attempt,
                    task_now.since_ns,
                    task_now.problem,
                    task_now.limit_ns,
                ]
            )
    counts: dict[str | int, Value] = {
        name: {phase: list(figures) for phase, figures in phases.items()}
        for name, phases in executors.items()
    }
    return {"effects": list[Value](sorted(effects)), "executors": counts, "tasks": rows}
