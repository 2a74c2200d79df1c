"""Measure the gateway: ``python -m benchmarks.gateway`` (``make bench-gateway``).

One lane against a bare client, 16 signers against one, and a lane with a full queue against an
empty one. A whole run writes ``benchmarks/results/gateway.json`` and ``benchmarks/RESULTS.md``; one
with other numbers, or without anvil, prints its tables and writes nothing but what ``--out`` asks
for.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from anvil import AnvilMissing, find_anvil
from chain import ChainError

from aos.errors import AosError
from aos.sandbox.stack import run_on_big_stack
from benchmarks import report
from benchmarks.gateway import ROOT
from benchmarks.gateway.lane_steps import measure_lane_steps
from benchmarks.gateway.rates import BLOCK_S, measure_instant, measure_signers
from benchmarks.gateway.tables import gateway_tables
from benchmarks.machine import machine
from benchmarks.processes import stoppable
from benchmarks.scratch import DEFAULT, scratch

MODULE: Final = ROOT / "modules" / "gateway" / "gateway.wasm"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``scores`` in each of ``rounds`` by a lane and by the bare client; ``alone`` works one after
    the other. ``works`` of each of so many ``signers``, ``signer_rounds`` times, with a block each
    ``block_s``. ``steps`` of each kind in lanes in which so many requests are ``waiting``."""

    scores: int = 25
    rounds: int = 5
    alone: int = 5
    signers: tuple[int, ...] = (1, 16)
    works: int = 6
    signer_rounds: int = 2
    block_s: float = BLOCK_S
    waiting: tuple[int, ...] = (0, 64, 256)
    steps: int = 40

    @property
    def is_whole(self) -> bool:
        return self == Options()


QUICK: Final = Options(
    scores=6, rounds=2, alone=1, works=1, signer_rounds=1, waiting=(0, 256), steps=10
)


def measure(options: Options, folder: Path) -> Json:
    """Measure everything, each part on a chain and in worlds of its own below ``folder``. Without
    anvil, ``missing`` says why there is no figure of a chain."""
    began = time.monotonic()
    found: Json = {
        "kind": "gateway",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "options": asdict(options),
        "machine": machine(folder),
        "module_bytes": MODULE.stat().st_size,
        "missing": [],
        "instant": None,
        "signers": None,
    }
    _tell("a lane with a full queue")
    run_on_big_stack(lambda: found.update(steps=_steps(options, folder)))
    try:
        find_anvil()
    except AnvilMissing as problem:
        found["missing"].append(f"no transaction was sent to a real node: {problem}")
        _tell(found["missing"][0])
    else:
        found |= _on_chains(options, folder)
    found["seconds"] = round(time.monotonic() - began)
    return found


def _steps(options: Options, folder: Path) -> list[Json]:
    return measure_lane_steps(folder / "steps", options.waiting, options.steps)


def _on_chains(options: Options, folder: Path) -> Json:
    _tell("one lane and a bare client, by turns")
    instant = measure_instant(
        folder / "instant", scores=options.scores, works=options.alone, rounds=options.rounds
    )
    _tell("works of one signer, and of many")
    signers = measure_signers(
        folder / "signers",
        signers=options.signers,
        works=options.works,
        rounds=options.signer_rounds,
        block_s=options.block_s,
    )
    return {"instant": instant, "signers": signers}


def _tell(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def read_options(arguments: Sequence[str]) -> tuple[Options, Path, Path | None]:
    """Options of the run, a folder on the disk for its worlds, and the file to write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway", description=(__doc__ or "").split("\n", 1)[0]
    )
    whole = Options()
    parser.add_argument("--quick", action="store_true", help="fewer of each, about 30 s")
    parser.add_argument("--scores", type=int, help=f"of a lane in a round ({whole.scores})")
    parser.add_argument("--rounds", type=int, help=f"of lane and bare client ({whole.rounds})")
    parser.add_argument("--works", type=int, help=f"of each signer ({whole.works})")
    parser.add_argument("--steps", type=int, help=f"of each kind in a lane ({whole.steps})")
    parser.add_argument("--dir", type=Path, default=DEFAULT, help=f"on a disk ({DEFAULT})")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    given = parser.parse_args(arguments)
    base = asdict(QUICK if given.quick else whole)
    named = {name: getattr(given, name) for name in ("scores", "rounds", "works", "steps")}
    asked = {name: value for name, value in named.items() if value is not None}
    return Options(**{**base, **asked}), given.dir, given.out


def main(arguments: Sequence[str] | None = None) -> int:
    options, below, out = read_options(sys.argv[1:] if arguments is None else arguments)
    try:
        with stoppable(), scratch(below) as folder:
            found = measure(options, folder)
    except KeyboardInterrupt:
        return 130
    except (AosError, ChainError) as problem:
        print(f"benchmarks: {problem}", file=sys.stderr)
        return 1
    is_whole = options.is_whole and not found["missing"]
    report.keep(found, gateway_tables, path=report.GATEWAY, is_whole=is_whole, out=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
