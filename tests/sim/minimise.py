"""A failing script -> one with fewer commands that fails in the same check."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.sim.failure import SimFailure
from tests.sim.script import Command

Run = Callable[[Sequence[Command]], object]


def minimise(
    commands: Sequence[Command], check: str, run: Run, *, seconds: float
) -> tuple[list[int], SimFailure | None]:
    """Which commands are enough, by their index, and how they fail. Larger parts are left out
    first; it ends when nothing can be left out alone, or when time is up."""
    kept = list(range(len(commands)))
    last: SimFailure | None = None
    until = time.monotonic() + seconds
    size = max(1, len(kept) // 2)
    while True:
        at, is_smaller = 0, False
        while at < len(kept):
            if time.monotonic() > until:
                return kept, last
            fewer = kept[:at] + kept[at + size :]
            failure = _failure(run, [commands[i] for i in fewer])
            if failure is not None and failure.check == check:
                kept, last, is_smaller = fewer, failure, True
            else:
                at += size
        if size == 1 and not is_smaller:
            return kept, last
        size = max(1, size // 2)


def _failure(run: Run, commands: Sequence[Command]) -> SimFailure | None:
    try:
        run(commands)
    except SimFailure as failure:
        return failure
    return None
