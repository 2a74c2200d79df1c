"""Measure what the SDKs cost: ``python -m benchmarks.sdk``, or ``make bench-sdk``.

A whole run writes ``benchmarks/results/sdk.json`` and ``benchmarks/RESULTS.md``; one with other
numbers prints its table and writes nothing but what ``--out`` asks for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.core.journal.ports import Call, Ran
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from benchmarks import report
from benchmarks.benchmark import Benchmark
from benchmarks.figures import NS_PER_S, median
from benchmarks.sdk.tables import sdk_tables
from benchmarks.sdk.variants import BY_HAND, NOTHING, VARIANTS, Variant, nothing, record
from benchmarks.sdk.whole_steps import measured

NS_PER_US: Final = 1_000
WARM_CALLS: Final = 64

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``items`` of each world that is recorded; its calls are timed ``rounds`` times, for at least
    ``seconds`` each."""

    items: int = 200
    rounds: int = 60
    seconds: float = 0.05


QUICK: Final = Options(items=40, rounds=3, seconds=0.02)


def measure(options: Options, _folder: Path) -> Json:
    """Record every variant, then time them by turns: what else the machine does meets all."""
    found: Json = {}
    made = [_of(variant, items=options.items) for variant in VARIANTS]
    made.insert(0, _nothing(next(each for each in made if each.is_base)))
    timed = run_on_big_stack(lambda: _timed(made, options))
    base = {each.workload: times for each, times in zip(made, timed, strict=True) if each.is_base}
    found["variants"] = [
        each.row(times, base[each.workload]) for each, times in zip(made, timed, strict=True)
    ]
    found["whole_steps"] = measured(items=options.items, rounds=max(1, options.rounds // 4))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A module, the calls that are made of it, and what they came to when they were recorded."""

    workload: str
    name: str
    wasm: bytes
    calls: tuple[Call, ...]
    ran: tuple[Ran, ...]

    @property
    def is_base(self) -> bool:
        return self.name == BY_HAND

    def row(self, times_us: Sequence[float], base_us: Sequence[float]) -> Json:
        steps = len(self.calls)
        return {
            "workload": self.workload,
            "name": self.name,
            "bytes": len(self.wasm),
            "steps": steps,
            "fuel": sum(each.fuel for each in self.ran) / steps,
            "pages": max(each.pages for each in self.ran),
            "input_bytes": sum(len(each.input) for each in self.calls) / steps,
            "output_bytes": sum(len(each.output or b"") for each in self.ran) / steps,
            "step_us": median(times_us),
            "step_us_least": min(times_us),
            "against_by_hand": median(
                [ours / base for ours, base in zip(times_us, base_us, strict=True)]
            ),
        }


def _of(variant: Variant, *, items: int) -> _Made:
    found = record(variant, items=items)
    return _Made(
        workload=variant.workload,
        name=variant.name,
        wasm=variant.wasm,
        calls=found.calls,
        ran=found.ran,
    )


def _nothing(base: _Made) -> _Made:
    wasm, calls = nothing(base.calls, base.ran)
    ran = run_on_big_stack(lambda: _run(wasm, calls))
    return _Made(workload=base.workload, name=NOTHING, wasm=wasm, calls=calls, ran=ran)


def _run(wasm: bytes, calls: Sequence[Call]) -> tuple[Ran, ...]:
    sandbox = Sandbox(lambda _hash: wasm)
    try:
        return tuple(sandbox.run(call) for call in calls)
    finally:
        sandbox.close()


def _timed(made: Sequence[_Made], options: Options) -> list[list[float]]:
    """µs of processor time a step of each in each round."""
    modules = {each.calls[0].module: each.wasm for each in made}
    sandbox = Sandbox(modules.__getitem__)
    try:
        for each in made:
            _step_us(sandbox, each.calls[:WARM_CALLS], 0)
        found: list[list[float]] = [[] for _ in made]
        for number in range(options.rounds):
            # The first variant is affected by the round before, so each round begins with another.
            for place in range(len(made)):
                at = (place + number) % len(made)
                found[at].append(_step_us(sandbox, made[at].calls, options.seconds))
        return found
    finally:
        sandbox.close()


def _step_us(sandbox: Sandbox, calls: Sequence[Call], seconds: float) -> float:
    # Of this thread, which does all of it: who else works on the machine counts less so.
    steps, began = 0, time.thread_time_ns()
    while True:
        for call in calls:
            sandbox.run(call)
        steps += len(calls)
        spent = time.thread_time_ns() - began
        if spent >= seconds * NS_PER_S:
            return spent / steps / NS_PER_US


BENCHMARK: Final = Benchmark(
    name="sdk",
    about=__doc__,
    whole=Options(),
    quick=QUICK,
    quick_help="few calls, a second",
    helps={
        "items": "in each world ({})",
        "rounds": "of each variant ({})",
        "seconds": "of one round ({:g})",
    },
    measure=measure,
    tables=sdk_tables,
    path=report.SDK,
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
