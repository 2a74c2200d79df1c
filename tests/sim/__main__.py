"""``make sim``: seeds in two processes, a line of progress, an exit code.

python -m tests.sim 10000            seeds 0 to 9999
python -m tests.sim 5..9             seeds 5 to 9
python -m tests.sim 4711..99999      continue a run of 100,000 seeds that ended at seed 4711
python -m tests.sim 7..7 --keep 0,3  run some commands of one seed and print the trace
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.sim import ends, script
from tests.sim.failure import SimFailure
from tests.sim.trace import line_of, say
from tests.sim.worker import SHARED

WORKERS: Final = 2
FAILURES_MAX: Final = 5
"""After so many the run ends: they are most often one."""


def seeds_of(text: str) -> tuple[int, int]:
    first, dots, last = text.partition("..")
    if dots:
        return int(first), int(last)
    return 0, int(first) - 1


@dataclass
class Tally:
    """Counts over the reports that the workers have sent so far."""

    first: int
    last: int
    began: float = field(default_factory=time.monotonic)
    done: int = 0
    records: int = 0
    failures: list[str] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    next_seed: int = -1
    """The first seed that has not ended: with it, a run that was stopped continues."""
    ended_early: set[int] = field(default_factory=set)
    """Seeds after ``next_seed`` that have ended: the processes run at their own pace."""

    def __post_init__(self) -> None:
        self.next_seed = self.first

    def take(self, told: dict[str, Any]) -> None:
        seed = told["seed"]
        if "check" in told:
            self.fail(told["report"])
            self.end(seed)
            return
        digest = self.digests.pop(seed, None)
        if digest is None:
            self.done += 1
            self.records += told["records"]
            if seed % SHARED == 0:
                self.digests[seed] = told["digest"]
                return
        elif digest != told["digest"]:
            self.fail(f"seed {seed}: two processes came to different journals (K-7)")
        self.end(seed)

    def end(self, seed: int) -> None:
        """Note that nothing of this seed is left to run."""
        if seed >= self.next_seed:
            self.ended_early.add(seed)
        while self.next_seed in self.ended_early:
            self.ended_early.remove(self.next_seed)
            self.next_seed += 1

    def rest(self) -> str:
        """The command that continues this run; empty after the last seed."""
        if self.next_seed > self.last:
            return ""
        return f"continue: make sim SEEDS={self.next_seed}..{self.last}"

    def fail(self, report: str) -> None:
        self.failures.append(report)
        say(f"\n{report}\n")

    def line(self) -> str:
        seconds = time.monotonic() - self.began
        rate = self.done / seconds if seconds else 0.0
        return (
            f"{self.done}/{self.last - self.first + 1} seeds, next {self.next_seed}, "
            f"{self.records} records, {len(self.failures)} failures, {rate:.1f} seeds/s"
        )


def run_all(first: int, last: int) -> int:
    """Run seeds in processes of their own; 0 when all kept every promise.

    If it ends before the last seed, by Ctrl-C too, it prints the command that continues it.
    """
    tally = Tally(first, last)
    lines: queue.Queue[str | None] = queue.Queue()
    children = [_start(first, last, worker, lines) for worker in range(WORKERS)]
    left = len(children)
    said, stopped = 0.0, False
    try:
        while left and len(tally.failures) < FAILURES_MAX:
            line = lines.get()
            if line is None:
                left -= 1
                continue
            tally.take(json.loads(line))
            if time.monotonic() - said > 1.0:
                said = time.monotonic()
                say(f"\r{tally.line()}", end="")
    except KeyboardInterrupt:
        stopped = True
    finally:
        for child in children:
            child.terminate()
        codes = [child.wait() for child in children]
    say(f"\r{tally.line()}")
    if tally.rest():
        say(tally.rest())
    if stopped:
        return 130
    if left == 0 and any(codes):
        say(f"a worker ended by itself with {codes}")
        return 1
    return 1 if tally.failures else 0


def _start(
    first: int, last: int, worker: int, lines: queue.Queue[str | None]
) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.sim.worker", *map(str, (first, last, worker, WORKERS))],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": str(worker + 1)},
        process_group=0,  # Ctrl-C is for this process, which ends the others
    )

    def read() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            lines.put(line)
        child.wait()
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return child


def run_some(seed: int, kept: Sequence[int]) -> int:
    """Some commands of one seed, with everything that happened."""
    commands = script.script_of(seed)
    try:
        with ends.manifests_read_once():
            done = ends.simulate(seed, [commands[i] for i in kept], by_both=True)
    except SimFailure as failure:
        for line in failure.trace:
            say(f"  {line_of(line, most=2000)}")
        say(str(failure))
        return 1
    say(f"seed {seed}: {done.records} records in {done.frames} frames, nothing is wrong")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds", type=seeds_of, help="how many seeds, or FIRST..LAST")
    parser.add_argument("--keep", help="indices of the commands to run, of one seed")
    asked = parser.parse_args()
    first, last = asked.seeds
    if asked.keep is not None:
        return run_some(first, [int(each) for each in asked.keep.split(",")])
    return run_all(first, last)


if __name__ == "__main__":
    sys.exit(main())
