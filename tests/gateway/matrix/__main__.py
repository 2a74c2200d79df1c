"""``make gateway-matrix``: perform all runs, and print a table.

    python -m tests.gateway.matrix [--part 1/4] [--mode NAME] [--module WASM] [--keep FOLDER]

It exits with 1 if a run has a finding or a control is not caught, and with 3 without anvil.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anvil import AnvilMissing, find_anvil

from tests.gateway.matrix.controls import (
    CAUGHT_MAX,
    Control,
    controls,
    is_caught,
    manifest_with,
)
from tests.gateway.matrix.crew import Crew
from tests.gateway.matrix.modes import all_runs
from tests.gateway.matrix.runs import Result, Run

SITES = 2
WIDTH = 40


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.matrix")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="every N-th run")
    parser.add_argument("--mode", metavar="NAME", help="only the runs of modes with this name")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what bad runs leave here")
    parser.add_argument(
        "--module", type=Path, metavar="WASM", help="this build of the module in all runs"
    )
    given = parser.parse_args(arguments)
    try:
        find_anvil()
    except AnvilMissing as problem:
        say(f"gateway-matrix: {problem}")
        return 3
    part, parts = map(int, given.part.split("/"))
    runs = [each for each in all_runs() if given.mode is None or given.mode in each.mode]
    with tempfile.TemporaryDirectory(prefix="aos-matrix-") as temporary:
        folder = given.keep or Path(temporary)
        if given.module is not None:
            manifest = manifest_with(given.module, folder)
            runs = [replace(each, manifest=manifest) for each in runs]
        return matrix(runs[part - 1 :: parts], folder)


def matrix(runs: Sequence[Run], folder: Path) -> int:
    began = time.monotonic()
    table = Table(runs)
    with Crew(folder, sites=SITES) as crew:
        say(f"{'mode':{WIDTH}} {'runs':>5} {'kills':>6} {'violations':>11} {'seconds':>8}")
        results = crew.perform(runs, on_result=table.add)
        say(line("all", results))
        missed = [each for each in controls() if not show_control(crew, each)]
    say(f"took {time.monotonic() - began:.0f} s on {SITES} sites")
    for each in missed:
        say(f"the control {each.name} was not caught")
    return 1 if missed or any(not each.is_good for each in results) else 0


class Table:
    """Prints the line of a mode when its last run is over, and every bad run at once."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._left = Counter(each.mode for each in runs)
        self._results: defaultdict[str, list[Result]] = defaultdict(list)

    def add(self, result: Result) -> None:
        mode = result.run.mode
        self._left[mode] -= 1
        self._results[mode].append(result)
        if not result.is_good:
            say(str(result))
        if not self._left[mode]:
            say(line(mode, self._results[mode]))


def line(name: str, results: Sequence[Result]) -> str:
    kills = sum(each.kills for each in results)
    violations = sum(len(each.findings) + len(each.problems) for each in results)
    seconds = sum(each.seconds for each in results)
    return f"{name:{WIDTH}} {len(results):5} {kills:6} {violations:11} {seconds:8.1f}"


def show_control(crew: Crew, control: Control) -> bool:
    """Perform the runs of a control; print its line, and the first finding. Was it caught?"""
    results = crew.perform(
        list(control.runs(crew.folder)), enough=lambda them: sum(map(is_caught, them)) >= CAUGHT_MAX
    )
    say(line(f"control {control.name}", results))
    caught = [each for result in results if is_caught(result) for each in result.findings]
    if caught:
        say(f"    {caught[0]}")
    return bool(caught)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
