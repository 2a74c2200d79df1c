"""One process of ``make sim``: runs seeds and writes a line of JSON about each to its output.

    python -m tests.sim.worker FIRST LAST WORKER WORKERS

It takes every WORKERS-th seed. All workers also run every ``SHARED``-th seed, each with another
hash seed of the interpreter: their results must be equal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from tests.sim import ends, script, threads
from tests.sim.failure import SimFailure
from tests.sim.minimise import minimise
from tests.sim.trace import line_of, say

SHARED: Final = 50
THREADED: Final = 20
"""Every so many seeds run through the engine's threads, too."""

TRACE_LINES: Final = 30


def is_mine(seed: int, worker: int, workers: int) -> bool:
    return seed % workers == worker or seed % SHARED == 0


def run_seed(seed: int, *, seconds: float = 20.0) -> dict[str, Any]:
    """Run one seed and return its figures, or the report of its failure."""
    try:
        done = ends.simulate(seed, by_both=True)
        if seed % THREADED == 0:
            threads.simulate(seed)
    except SimFailure as failure:
        return {"seed": seed, "check": failure.check, "report": report(seed, failure, seconds)}
    return {"seed": seed, "records": done.records, "digest": done.digest.hex()}


def report(seed: int, failure: SimFailure, seconds: float) -> str:
    """Format a failure with everything that is needed to reproduce it."""
    lines = [f"seed {seed}: {str(failure)[:3000]}", f"again: make sim SEEDS={seed}..{seed}"]
    if failure.check == "threads" or not failure.trace:
        return "\n".join([*lines, "(through the engine's threads: it depends on timing)"])
    commands = script.script_of(seed)
    kept, smaller = minimise(
        commands,
        failure.check,
        lambda some: ends.simulate(seed, some, by_both=True),
        seconds=seconds,
    )
    named = ",".join(map(str, kept))
    lines += [
        f"smaller: python -m tests.sim {seed}..{seed} --keep {named}",
        f"  {len(kept)} of {len(commands)} commands: " + " ".join(str(commands[i]) for i in kept),
    ]
    if smaller is not None:
        lines.append(f"  {str(smaller)[-1500:]}")
    shown = (smaller or failure).trace[-TRACE_LINES:]
    return "\n".join([*lines, "trace:", *(f"  {line_of(each)}" for each in shown)])


def main(arguments: Sequence[str]) -> int:
    first, last, worker, workers = map(int, arguments)
    with ends.manifests_read_once():
        for seed in range(first, last + 1):
            if is_mine(seed, worker, workers):
                say(json.dumps(run_seed(seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
