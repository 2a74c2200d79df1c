"""The effects that the process of a world carries out, as far as views show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunningTask:
    """An effect that a process carries out: its ``attempt`` is ``running`` since ``since_ns``, or
    in ``backoff`` until then."""

    phase: str
    attempt: int
    since_ns: int


@dataclass(frozen=True, slots=True)
class Running:
    """The process that runs the world: the effects that its executors run, and the tasks that are
    running or in backoff there. Of a task that is not listed, only the journal is known."""

    effects: frozenset[str]
    tasks: Mapping[bytes, RunningTask]
