"""Measure what auditors read: ``python -m benchmarks.audit``, or ``make bench-audit``.

It exports event logs of two journals, one four times as long as the other, and folds them, by
turns; the shorter one is also replayed and shadowed. Then it makes checkpoints and proofs in a
world of few frames and in one of many. A whole run writes ``benchmarks/results/audit.json`` and
``benchmarks/RESULTS.md``; one with options prints its tables, and writes its figures to ``--out``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import report
from benchmarks.audit.tables import EXECUTED, FORMS, audit_tables
from benchmarks.benchmark import Benchmark, tell
from benchmarks.processes import run_child

CHILD_S: Final = 900.0
"""Time that one process may take, in seconds."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``items`` of three effects, eight records each, are in the longer journal; ``frames`` of one
    event each are in the world whose records are proven."""

    items: int = 20_000
    frames: int = 1_000_000
    rounds: int = 3


QUICK: Final = Options(items=2_000, frames=20_000, rounds=1)
SHARE: Final = 4
"""How many times as long as the shorter journal the longer one is."""

FEWER: Final = 100
"""How many times as many frames the larger world of proofs has as the smaller one."""

ADDED: Final = 1_000
"""Frames between two checkpoints."""


class Audit:
    """One run, in ``folder``."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._options = options
        self._folder = folder

    def run(self) -> Json:
        sizes = {"small": self._options.items // SHARE, "large": self._options.items}
        found: Json = {
            "made": {name: self._do(name, "make", items=n) for name, n in sizes.items()},
            "rounds": [
                {name: self._round(name) for name in sizes} for _ in range(self._options.rounds)
            ],
        }
        found["proofs"] = self._proofs()
        return found

    def _round(self, name: str) -> Json:
        exports = {form: self._do(name, "export", form=form) for form in FORMS}
        executed = {what: self._do(name, what) for what in EXECUTED if name == "small"}
        return {"fold": self._do(name, "fold"), **exports, **executed}

    def _proofs(self) -> Json:
        found = {}
        for name, frames in (
            ("few", self._options.frames // FEWER),
            ("many", self._options.frames),
        ):
            self._do(name, "frames", frames=frames)
            first = self._do(name, "checkpoint")
            rounds = []
            for _ in range(self._options.rounds):
                made = self._do(name, "frames", frames=ADDED)
                rounds.append({**made, "checkpoint": self._do(name, "checkpoint")})
                rounds[-1]["proofs"] = self._do(name, "proofs")
            found[name] = {"first": first, "rounds": rounds}
        return found

    def _do(self, name: str, what: str, **more: Any) -> Json:
        tell(f"{what} {name} {more or ''}")
        given = {"do": what, "path": self._folder / name / "world", **more}
        (self._folder / name).mkdir(exist_ok=True)
        found: Json = run_child(
            given, self._folder, timeout_s=CHILD_S, module="benchmarks.audit.child"
        )
        return found


BENCHMARK: Final = Benchmark(
    name="audit",
    about=__doc__,
    whole=Options(),
    quick=QUICK,
    quick_help="short journals, half a minute",
    helps={
        "items": "of the longer journal ({:,})",
        "frames": "of the larger world ({:,})",
        "rounds": "of all readers ({})",
    },
    measure=lambda options, folder: Audit(options, folder).run(),
    tables=audit_tables,
    path=report.AUDIT,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
