"""Measure the gateway: ``python -m benchmarks.gateway`` (``make bench-gateway``).

One lane against a bare client, 16 signers against one, and a lane with a full queue against an
empty one. A whole run writes ``benchmarks/results/gateway.json`` and ``benchmarks/RESULTS.md``; one
with other numbers, or without anvil, prints its tables and writes nothing but what ``--out`` asks
for.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anvil import AnvilMissing, find_anvil
from chain import ChainError

from aos.errors import Unavailable
from aos.sandbox.stack import run_on_big_stack
from benchmarks import report
from benchmarks.benchmark import Benchmark, tell
from benchmarks.gateway import ROOT
from benchmarks.gateway.lane_steps import measure_lane_steps
from benchmarks.gateway.rates import BLOCK_S, measure_instant, measure_signers
from benchmarks.gateway.tables import gateway_tables

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


QUICK: Final = Options(
    scores=6, rounds=2, alone=1, works=1, signer_rounds=1, waiting=(0, 256), steps=10
)


def measure(options: Options, folder: Path) -> Json:
    """Measure everything, each part on a chain and in worlds of its own below ``folder``. Without
    anvil, ``missing`` says why there is no figure of a chain.

    Raises:
        Unavailable: A chain failed.
    """
    found: Json = {
        "module_bytes": MODULE.stat().st_size,
        "missing": [],
        "instant": None,
        "signers": None,
    }
    tell("a lane with a full queue")
    run_on_big_stack(lambda: found.update(steps=_steps(options, folder)))
    try:
        find_anvil()
    except AnvilMissing as problem:
        found["missing"].append(f"no transaction was sent to a real node: {problem}")
        tell(found["missing"][0])
    else:
        try:
            found |= _on_chains(options, folder)
        except ChainError as problem:
            raise Unavailable(str(problem)) from problem
    return found


def _steps(options: Options, folder: Path) -> list[Json]:
    return measure_lane_steps(folder / "steps", options.waiting, options.steps)


def _on_chains(options: Options, folder: Path) -> Json:
    tell("one lane and a bare client, by turns")
    instant = measure_instant(
        folder / "instant", scores=options.scores, works=options.alone, rounds=options.rounds
    )
    tell("works of one signer, and of many")
    signers = measure_signers(
        folder / "signers",
        signers=options.signers,
        works=options.works,
        rounds=options.signer_rounds,
        block_s=options.block_s,
    )
    return {"instant": instant, "signers": signers}


BENCHMARK: Final = Benchmark(
    name="gateway",
    about=__doc__,
    whole=Options(),
    quick=QUICK,
    quick_help="fewer of each, about 30 s",
    helps={
        "scores": "of a lane in a round ({})",
        "rounds": "of lane and bare client ({})",
        "works": "of each signer ({})",
        "steps": "of each kind in a lane ({})",
    },
    measure=measure,
    tables=gateway_tables,
    path=report.GATEWAY,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
