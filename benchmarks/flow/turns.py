"""Time of a turn, by how much has happened in the flow before it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aos.core.journal.ports import Call
from aos.sandbox.engine import Sandbox
from aos.values.digests import Hash, content_hash
from benchmarks.bench_world import STAGES, WHOLE, BenchWorld, Turn
from benchmarks.figures import median
from benchmarks.flow.air import FILE, SOURCES
from benchmarks.sdk.variants import VARIANTS, WORLDS, record

STEPS: Final = "bench/steps@1"
REPEAT: Final = "bench/repeat@1"
SPREAD: Final = "bench/spread@1"

REDUCER_RUN: Final = "reducer"
FLOW_RUN: Final = "flow"
RUN_STEPS: Final = 3

REDUCER: Final = "Rust SDK"
REDUCER_ITEMS: Final = 20
FLOW_CALLS: Final = 8

KEYS: Final = 70
"""Iterations with an effect before the one that is measured: more than the 64 idempotency keys that
a flow's cell keeps."""

Json = dict[str, Any]


def measure_rows(folder: Path, finished: Sequence[int], rounds: int) -> list[Json]:
    """Measure turns of flows with so many finished steps in a row, and one more open."""
    with BenchWorld(folder, FILE) as world:
        return _by_turns({each: _row(world, each) for each in finished}, rounds)


def measure_loops(folder: Path, iterations: Sequence[int], rounds: int) -> list[Json]:
    """Measure turns of a loop from these iterations on."""
    with BenchWorld(folder, FILE) as world:
        return _by_turns({each: _loop(world, each, rounds) for each in iterations}, rounds)


def measure_joins(folder: Path, branches: Sequence[int]) -> list[Json]:
    """Run joins of so many branches, with a step in each, from the start to the end."""
    with BenchWorld(folder, FILE) as world:
        return [_join(world, each) for each in branches]


def measure_runs(folder: Path, runs: int) -> list[Json]:
    """Measure whole runs of three steps, as a reducer and as a flow, by turns: the run's event and
    three answers, each with its commit."""
    spent: dict[str, list[list[Turn]]] = {REDUCER_RUN: [], FLOW_RUN: []}
    with (
        BenchWorld(folder / "reducer", WORLDS / "steps.air.json") as reducer,
        BenchWorld(folder / "flow", FILE) as flow,
    ):
        worlds = [(REDUCER_RUN, reducer), (FLOW_RUN, flow)]
        for number in range(runs + 1):
            for name, world in worlds if number % 2 else reversed(worlds):
                spent[name].append(_run(world, f"run-{number}"))
    # The first run compiles the module.
    base = spent[REDUCER_RUN][1:]
    return [_run_row(name, taken[1:], base) for name, taken in spent.items()]


def _run(world: BenchWorld, key: str) -> list[Turn]:
    turns = [world.send("bench/Begin@1", {"key": key, "run": 0, "steps": RUN_STEPS})]
    return [*turns, *(world.answer(STEPS, key) for _ in range(RUN_STEPS))]


def _run_row(name: str, runs: Sequence[Sequence[Turn]], base: Sequence[Sequence[Turn]]) -> Json:
    def of(turns: Sequence[Turn], stages: Sequence[str]) -> float:
        return sum(each.processor[stage] for each in turns for stage in stages) / 1_000

    def against(stages: Sequence[str]) -> float:
        pairs = zip(base, runs, strict=True)
        return median([of(first, stages) / of(ours, stages) for first, ours in pairs])

    return {
        "name": name,
        "processor_us": median([of(each, WHOLE) for each in runs]),
        "rate_ratio": against(WHOLE),
        "rate_ratio_without_commits": against([each for each in WHOLE if each != "commit"]),
        "stages_us": {stage: median([of(each, [stage]) for each in runs]) for stage in STAGES},
    }


def _row(world: BenchWorld, finished: int) -> Iterator[Turn]:
    """Turns with about so many finished steps: a new flow when there are a twentieth more."""
    less = finished // 20
    for number in itertools.count():
        key = f"row-{finished}-{number}"
        world.send("bench/Begin@1", {"key": key, "run": 0, "steps": 2 * finished + 3})
        for _ in range(finished - less):
            world.answer(STEPS, key)
        for _ in range(2 * less + 1):
            yield world.answer(STEPS, key)


def _loop(world: BenchWorld, at: int, rounds: int) -> Iterator[Turn]:
    key, before = f"loop-{at}", min(at, KEYS)
    world.send("bench/Repeat@1", {"key": key, "idle": at - before, "rounds": before + rounds + 1})
    for _ in range(before):
        world.answer(REPEAT, key)
    while True:
        yield world.answer(REPEAT, key)


def _join(world: BenchWorld, branches: int) -> Json:
    key = f"join-{branches}"
    turns = [world.send("bench/Spread@1", {"key": key, "branches": branches})]
    turns += [world.answer(SPREAD, key) for _ in range(branches)]
    state = world.state(SPREAD, key)
    assert state["status"] == "completed", state["status"]
    spent = [each.processor_us for each in turns]
    return {
        "branches": branches,
        "first_us": spent[0],
        "answer_us": median(spent[1:]),
        "sandbox_us": median([each.processor["sandbox"] / 1_000 for each in turns[1:]]),
        "whole_us": sum(spent),
    }


def _by_turns(flows: Mapping[int, Iterator[Turn]], rounds: int) -> list[Json]:
    """Take a turn of each flow in each round: other work of the machine meets all of them."""
    taken: dict[int, list[Turn]] = {size: [next(turns)] for size, turns in flows.items()}
    order = list(flows)
    for number in range(rounds - 1):
        for at in range(len(order)):
            size = order[(at + number) % len(order)]
            taken[size].append(next(flows[size]))
    base = taken[order[0]]
    return [_row_of(size, turns, base) for size, turns in taken.items()]


def _row_of(size: int, turns: Sequence[Turn], base: Sequence[Turn]) -> Json:
    def against(time_of: Callable[[Turn], float]) -> float:
        return median([time_of(each) / time_of(of) for each, of in zip(turns, base, strict=True)])

    return {
        "size": size,
        "clock_us": median([each.clock_us for each in turns]),
        "processor_us": median([each.processor_us for each in turns]),
        "clock_ratio": against(lambda each: each.clock_us),
        "processor_ratio": against(lambda each: each.processor_us),
        "stages_us": {
            name: median([each.processor[name] / 1_000 for each in turns]) for name in STAGES
        },
    }


def measure_sandbox(folder: Path, finished: Sequence[int], rounds: int) -> list[Json]:
    """Measure a module's steps alone, each in a fresh instance: those of the reducer that has the
    same three steps, and turns of flows with so many finished steps."""
    reducer = next(each for each in VARIANTS if (each.workload, each.name) == ("steps", REDUCER))
    calls: dict[int | None, Sequence[Call]] = {None: record(reducer, items=REDUCER_ITEMS).calls}
    with BenchWorld(folder, FILE) as world:
        for size in finished:
            turns = _row(world, size)
            calls[size] = [call for _ in range(FLOW_CALLS) for call in next(turns).calls]
    return _alone(calls, rounds)


def _alone(calls: Mapping[int | None, Sequence[Call]], rounds: int) -> list[Json]:
    sandbox = Sandbox(_modules().__getitem__)
    spent: dict[int | None, list[float]] = {size: [] for size in calls}
    fuel: dict[int | None, int] = {}
    try:
        for number in range(rounds + 1):
            for size, own in calls.items():
                began_ns = time.thread_time_ns()
                ran = [sandbox.run(call) for call in own]
                each_us = (time.thread_time_ns() - began_ns) / len(own) / 1_000
                assert not any(each.fault for each in ran), ran
                if number:  # the first round compiles the modules and warms the caches
                    spent[size].append(each_us)
                fuel[size] = sum(each.fuel for each in ran) // len(ran)
    finally:
        sandbox.close()
    return [
        {"size": size, "us": median(found), "least_us": min(found), "fuel": fuel[size]}
        for size, found in spent.items()
    ]


def _modules() -> dict[Hash, bytes]:
    wasms = [path.read_bytes() for path in SOURCES.glob("*/*.wasm")]
    return {content_hash(wasm): wasm for wasm in wasms}
