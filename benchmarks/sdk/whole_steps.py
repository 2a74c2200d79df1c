"""A step as the kernel decides it, of a module of ours and of one that speaks the AgentOS ABI."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest import mock

from aos.core.kernel_protocol import step
from aos.testing import World
from benchmarks.figures import median
from benchmarks.sdk.variants import DRIVES, ROOT, VARIANTS, Node, Variant

OURS: Final = "Rust SDK"
THEIRS: Final = "AgentOS ABI"
NS_PER_US: Final = 1_000
GUEST: Final = ROOT / "modules" / "agentos-guest" / "agentos-guest.wasm"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSteps:
    """A module and its definitions. Both of one workload do the same."""

    workload: str
    name: str
    module: str
    wasm: bytes
    nodes: tuple[Node, ...]

    def step_us(self, items: int) -> float:
        """µs of processor time of a step, in a world of ``items`` items."""
        spent_ns, steps = 0, 0

        def timed(kernel: Any, runner: Any) -> Any:
            nonlocal spent_ns, steps
            began = time.process_time_ns()
            try:
                return step(kernel, runner)
            finally:
                spent_ns += time.process_time_ns() - began
                steps += 1

        with mock.patch("aos.testing.desk.step", timed):
            self.run(items)
        return spent_ns / steps / NS_PER_US

    def run(self, items: int) -> Any:
        """Run a world of so many items, and return its results as plain values."""
        world = World(self.nodes, modules={self.module: self.wasm}, replay=False)
        try:
            return DRIVES[self.workload](world, items)
        finally:
            world.close()


def whole_steps() -> list[tuple[WholeSteps, WholeSteps]]:
    """(ours, theirs) of each workload."""
    found = [each for each in VARIANTS if each.name == OURS]
    return [(_ours(each), _theirs(each)) for each in found]


def measured(*, items: int, rounds: int) -> list[dict[str, Any]]:
    """A row for each workload, measured by turns. The least time of each is compared: the rest of
    the machine only adds to it."""
    rows = []
    for ours, theirs in whole_steps():
        for each in (ours, theirs):
            each.step_us(1)  # compiles the module
        times = [(ours.step_us(items), theirs.step_us(items)) for _ in range(rounds)]
        ours_us, theirs_us = (min(each) for each in zip(*times, strict=True))
        rows.append(
            {
                "workload": ours.workload,
                "ours_us": ours_us,
                "theirs_us": theirs_us,
                "ours_us_median": median([each for each, _ in times]),
                "theirs_us_median": median([each for _, each in times]),
                "against_ours": theirs_us / ours_us,
            }
        )
    return rows


def _ours(variant: Variant) -> WholeSteps:
    return WholeSteps(
        workload=variant.workload,
        name=OURS,
        module=variant.module,
        wasm=variant.wasm,
        nodes=tuple(variant.nodes()),
    )


def _theirs(variant: Variant) -> WholeSteps:
    return replace(
        _ours(variant),
        name=THEIRS,
        wasm=GUEST.read_bytes(),
        nodes=tuple(_in_their_abi(each) for each in variant.nodes()),
    )


def _in_their_abi(node: Node) -> Node:
    if node["$kind"] == "defmodule":
        return {**node, "abi": "agentos"}
    if node["$kind"] == "defworkflow":
        return {**node, "impl": {**node["impl"], "entrypoint": "step"}}
    return node
