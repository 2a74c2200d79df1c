"""The current work of a process's executors, as the answer to a client (spec/host.md, H-53)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aos.host.executors.task import TaskNow
from aos.values.cbor import Value

TASKS_MAX: Final = 1_000
"""Tasks that an answer lists one by one; all are counted."""

LISTED: Final = ("running", "backoff")
"""The phases of these. The journal has the held and parked ones, with the reason (K-99)."""


def work_fields(tasks: Iterable[TaskNow], effects: frozenset[str]) -> dict[str, Value]:
    """Return ``effects``, that this process runs; ``executors``, for each name in the manifest and
    each phase ``[number, since_ns of the oldest]``; and ``tasks``, those that are running or in
    backoff, ``[intent, phase, attempt, since_ns]``."""
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
