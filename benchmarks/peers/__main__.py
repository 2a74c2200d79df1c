"""The three steps on AOS and on others, by turns: ``python -m benchmarks.peers``.

A whole run writes ``benchmarks/results/peers.json`` and ``benchmarks/RESULTS.md``. One of some
systems, or a quick one, prints its tables and writes nothing but what ``--out`` asks for.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aos.errors import AosError
from benchmarks import report
from benchmarks.benchmark import tell
from benchmarks.machine import machine
from benchmarks.peers.systems import SYSTEMS, System, versions
from benchmarks.peers.tools import NotInstalled
from benchmarks.plan import Cells, Point
from benchmarks.processes import stoppable
from benchmarks.scratch import DEFAULT, scratch

ROUNDS: Final = 3
SECONDS: Final = 3.0
WARM_S: Final = 1.0
LOADS: Final[tuple[tuple[Cells, int], ...]] = (
    ("fresh", 1),
    ("fresh", 16),
    ("fresh", 64),
    ("line", 64),
)

Json = dict[str, Any]


def run(systems: Sequence[System], folder: Path, *, rounds: int, seconds: float) -> Json:
    """Measure all systems in turn, for several rounds; each turn has its own processes and data.

    If a system cannot be installed or its turn fails, that is printed and the others continue.
    """
    began = time.monotonic()
    missing: dict[str, str] = {}
    installed = [each for each in systems if _is_installed(each, missing)]
    found: Json = {
        "kind": "peers",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "options": {"rounds": rounds, "seconds": seconds},
        "machine": machine(folder),
        "versions": versions(installed),
        "turns": [],
        "missing": missing,
    }
    points = [
        asdict(Point(in_flight=number, cells=cells, seconds=seconds, warm_s=WARM_S))
        for cells, number in LOADS
    ]
    for number in range(1, rounds + 1):
        for system in installed:
            tell(f"round {number} of {rounds}: {system.name}")
            place = folder / f"turn-{number}-{installed.index(system)}"
            place.mkdir(mode=0o711)
            try:
                measured = system.measure(place, points)
            except (AosError, OSError) as problem:
                missing[system.name] = f"round {number}: {problem}"
                tell(f"  {problem}")
                continue
            found["turns"].append({"round": number, "system": system.name, "points": measured})
            for each in measured:
                tell(
                    f"  {each['cells']}, {each['in_flight']} in flight: {each['rate']:,.0f}/s, "
                    f"p50 {(each['finish_ms'] or {}).get('p50', 0):.1f} ms"
                )
    found["seconds"] = round(time.monotonic() - began)
    return found


def _is_installed(system: System, missing: Json) -> bool:
    try:
        system.install()
    except NotInstalled as problem:
        missing[system.name] = f"not installed: {problem}"
        tell(f"{system.name}: not installed: {problem}")
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    names = {each.name: each for each in SYSTEMS}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--quick", action="store_true", help="one round, one second each")
    parser.add_argument(
        "--system", action="append", choices=list(names), help="only this one (may be repeated)"
    )
    parser.add_argument("--rounds", type=int, help=f"({ROUNDS})")
    parser.add_argument("--seconds", type=float, help=f"of one load ({SECONDS:g})")
    parser.add_argument("--dir", type=Path, default=DEFAULT, help=f"on a disk ({DEFAULT})")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    systems = [names[each] for each in given.system] if given.system else list(SYSTEMS)
    is_whole = not (given.quick or given.system)
    try:
        with stoppable(), scratch(given.dir) as folder:
            found = run(
                systems,
                folder,
                rounds=given.rounds or (1 if given.quick else ROUNDS),
                seconds=given.seconds or (1.0 if given.quick else SECONDS),
            )
    except KeyboardInterrupt:
        return 130
    except AosError as problem:
        tell(f"benchmarks: {problem}")
        return 1
    report.keep(found, report.peer_tables, path=report.PEERS, is_whole=is_whole, out=given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
