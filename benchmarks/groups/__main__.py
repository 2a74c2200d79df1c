"""Measure groups: ``python -m benchmarks.groups [EVENTS [ROUNDS]]``.

The same events for a keyed counter go to one world and to a group of two shards, by turns. Each
time, one command sends them and another one runs them until it is idle. Processor time is that of
the commands with all their processes, less that of the same commands with ``FEW`` events, so that
the start of a second kernel process and its first steps do not count.

It prints a table, and the ratio of the processor time for an event with two shards to that with one
(aim: at most 1.15). It writes no file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from aos.private_memory import keep_memory_private

MANIFEST: Final = Path(__file__).resolve().parents[1] / "worlds" / "counter.air.json"
EVENTS: Final = 20_000
FEW: Final = 2_000
KEYS: Final = 1_000
ROUNDS: Final = 3
RATIO_MAX: Final = 1.15


class Cost(NamedTuple):
    """Seconds of the clock and of the processors that a command took."""

    wall_s: float
    cpu_s: float

    def less(self, other: Cost) -> Cost:
        return Cost(self.wall_s - other.wall_s, self.cpu_s - other.cpu_s)


def cost_of(*words: str | Path) -> Cost:
    """Run ``aos`` and all processes that it starts; raises CalledProcessError."""
    command = [sys.executable, "-m", "aos_cli.entry", *map(str, words)]
    began_s = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ}
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(time.perf_counter() - began_s, usage.ru_utime + usage.ru_stime)


def write_events(path: Path, count: int) -> Path:
    """A file of events, in turn for each of ``KEYS`` counters."""
    with path.open("w") as file:
        for item in range(count):
            value = {"key": f"key-{item % KEYS}", "by": 1, "item": item}
            file.write(json.dumps({"schema": "bench/Add@1", "value": value}) + "\n")
    return path


def measured(folder: Path, shards: int, events: int) -> tuple[Cost, Cost]:
    """The cost of sending ``events`` to new worlds, and of running them."""
    world = folder / f"world-{shards}-{events}-{time.monotonic_ns()}"
    cost_of("init", world, *(["--shards", str(shards)] if shards > 1 else []))
    cost_of("apply", MANIFEST, "--world", world)
    # Every kernel process has started once, so that its code is in the cache.
    cost_of("run", "--until-idle", "--world", world)
    lines = write_events(folder / "events.jsonl", events)
    sent = cost_of("send", "--jsonl", lines, "--world", world)
    return sent, cost_of("run", "--until-idle", "--world", world)


def main(words: Sequence[str]) -> int:
    """Measure, print, and return the exit code: 1 if the aim is missed."""
    events, rounds = (*map(int, words), *(EVENTS, ROUNDS)[len(words) :])
    run_us: dict[int, list[float]] = {1: [], 2: []}
    print("shards\tsend us/event\trun us/event\trun events/s")
    with tempfile.TemporaryDirectory(prefix="aos-groups-") as name:
        for _ in range(rounds):
            for shards, costs in run_us.items():
                sent, ran = measured(Path(name), shards, FEW + events)
                few_sent, few_ran = measured(Path(name), shards, FEW)
                sending, running = sent.less(few_sent), ran.less(few_ran)
                costs.append(running.cpu_s / events * 1e6)
                print(
                    f"{shards}\t{sending.cpu_s / events * 1e6:.1f}\t{costs[-1]:.1f}\t"
                    f"{events / running.wall_s:,.0f}",
                    flush=True,
                )
    ratio = median(run_us[2]) / median(run_us[1])
    print(f"processor time for an event, two shards to one: {ratio:.2f} (aim: {RATIO_MAX})")
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main(sys.argv[1:]))
