"""Bytes that a turn adds to the store, with and without deltas (spec/store.md, ST-90)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.bench_world import BenchWorld, Turn
from benchmarks.figures import median
from benchmarks.flow.air import FILE
from benchmarks.flow.turns import STEPS
from benchmarks.workloads import ORDERS

Json = dict[str, Any]

ROW: Final = "steps of a flow"
LEDGER: Final = "orders in a ledger"


class Grower(Protocol):
    """Cells that grow by one in each turn."""

    manifest: Path

    def grow(self, world: BenchWorld, key: str, size: int) -> Turn:
        """Take the turn after which the cell ``key`` has ``size``."""


class _Row:
    manifest = FILE

    def __init__(self, most: int) -> None:
        self._steps = most + 1

    def grow(self, world: BenchWorld, key: str, size: int) -> Turn:
        if size == 1:
            world.send("bench/Begin@1", {"key": key, "run": 0, "steps": self._steps})
        return world.answer(STEPS, key)


class _Ledger:
    manifest = ORDERS

    def grow(self, world: BenchWorld, key: str, size: int) -> Turn:
        return world.send(
            "shop/OrderCharged@1",
            {"order_id": f"{key}-{size}", "customer_id": key, "amount_cents": 1_000},
        )


def measure_space(folder: Path, sizes: Sequence[int], turns: int) -> list[Json]:
    """Measure flows with finished steps, and the ledger of one customer, each about as large as
    every one of ``sizes``."""
    return [
        {
            "kind": kind,
            "size": size,
            "whole": _space(folder / f"{number}-{size}-whole", grower, size, turns, deltas=False),
            "deltas": _space(folder / f"{number}-{size}-deltas", grower, size, turns, deltas=True),
        }
        for number, (kind, grower) in enumerate(_growers(2 * max(sizes)).items())
        for size in sizes
    ]


def _growers(most: int) -> dict[str, Grower]:
    return {ROW: _Row(most), LEDGER: _Ledger()}


def _space(folder: Path, grower: Grower, size: int, turns: int, *, deltas: bool) -> Json:
    with BenchWorld(folder, grower.manifest, has_deltas=deltas) as world:
        rest = _prepare(world, grower, size, turns)
        before = world.store.size_bytes()
        taken = list(rest)
        return {
            "bytes": (world.store.size_bytes() - before) / len(taken),
            "processor_us": median([each.processor_us for each in taken]),
            "commit_us": median([each.processor["commit"] / 1_000 for each in taken]),
        }


def _prepare(world: BenchWorld, grower: Grower, size: int, turns: int) -> Iterator[Turn]:
    """Make as many cells as ``turns`` need, each a little smaller than ``size``; then take turns
    until each is a little larger."""
    span = min(turns, max(2, size // 5))
    first = size - span // 2
    keys = [f"cell-{number}" for number in range(-(-turns // span))]
    for key in keys:
        for at in range(1, first + 1):
            grower.grow(world, key, at)
    return (grower.grow(world, key, first + at) for key in keys for at in range(1, span + 1))
