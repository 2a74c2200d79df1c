"""The same workflow from different sources, and the calls that a world makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

import wasmtime

from aos.core.journal.ports import Call, Ran
from aos.testing import World
from aos.testing.sources import SHARED
from aos.values.digests import content_hash

ROOT: Final = Path(__file__).resolve().parents[2]
WORLDS: Final = ROOT / "benchmarks" / "worlds"
MODULES: Final = ROOT / "modules" / "bench-sdk"

COUNTER: Final = "counter"
STEPS: Final = "steps"
BY_HAND: Final = "by hand"
NOTHING: Final = "nothing but one answer"
EFFECTS: Final = 3
CELLS: Final = 20

Node = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to write a workload. ``air`` is its world's file; ``context`` adds the context that
    both SDKs are given, to a world that has none."""

    workload: str
    name: str
    air: str
    module: str
    file: str
    context: bool = False

    @property
    def wasm(self) -> bytes:
        return (MODULES / self.file).read_bytes()

    def nodes(self) -> list[Node]:
        """The world's definitions with this workflow and this module alone."""
        workflow = f"bench/{self.workload}@1"
        kept = {"defworkflow": workflow, "defmodule": self.module}
        nodes: list[Node] = json.loads((WORLDS / self.air).read_text())
        found = [
            node for node in nodes if kept.get(node["$kind"], node.get("name")) == node.get("name")
        ]
        return [self._fitted(node, workflow) for node in found]

    def _fitted(self, node: Node, workflow: str) -> Node:
        if node["$kind"] == "manifest":
            routes = node["routing"]["subscriptions"]
            return node | {
                "modules": [{"name": self.module}],
                "workflows": [{"name": workflow}],
                "routing": {
                    "subscriptions": [each for each in routes if each["workflow"] == workflow]
                },
            }
        if self.context and node["$kind"] == "defworkflow":
            return node | {"context": "sys/WorkflowContext@1"}
        return node


def _by_hand(workload: str, *, context: bool = False) -> Variant:
    return Variant(
        workload=workload,
        name=f"{BY_HAND}, with the context" if context else BY_HAND,
        air=f"{workload}.air.json",
        module="bench/module@1",
        file=f"hand-{workload}/hand-{workload}.wasm",
        context=context,
    )


def _sdk(workload: str, name: str, file: str) -> Variant:
    module = f"bench/{workload}.module@1"
    return Variant(workload=workload, name=name, air="sdk.air.json", module=module, file=file)


VARIANTS: Final = tuple(
    variant
    for workload in (COUNTER, STEPS)
    for variant in (
        _by_hand(workload),
        _by_hand(workload, context=True),
        _sdk(workload, "Rust SDK", f"rust-{workload}/rust-{workload}.wasm"),
        _sdk(workload, "AssemblyScript SDK", f"as-{workload}/as-{workload}.wasm"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Every call of a small world, the end of each, and all results as plain values. It must be the
    same for every variant of a workload."""

    calls: tuple[Call, ...]
    ran: tuple[Ran, ...]
    outcome: Any


def record(variant: Variant, *, items: int) -> Recorded:
    """Run ``items`` items in a world in memory. A fault is raised."""
    calls: list[Call] = []
    ran: list[Ran] = []
    run = SHARED.run

    def watched(call: Call) -> Ran:
        calls.append(call)
        ran.append(run(call))
        return ran[-1]

    modules = {variant.module: variant.wasm}
    with mock.patch.object(SHARED, "run", watched):
        world = World(variant.nodes(), modules=modules, replay=False)
        outcome = DRIVES[variant.workload](world, items)
        world.close()
    return Recorded(calls=tuple(calls), ran=tuple(ran), outcome=outcome)


def _count(world: World, items: int) -> Any:
    for item in range(items):
        world.send("bench/Add@1", {"key": f"cell-{item % CELLS}", "by": item, "item": item})
    world.run()
    return [(cell.key, cell.status, cell.state) for cell in world.cells()]


def _ask(world: World, items: int) -> Any:
    world.on("bench/noop@1", lambda params: {"step": params["step"]})
    for item in range(items):
        world.send("bench/Begin@1", {"key": f"run-{item}", "run": item, "steps": EFFECTS})
    world.run()
    cells = world.cells()
    annotations = [world.annotations(cell.workflow, cell.key) for cell in cells]
    asked = [(effect.key, effect.params) for effect in world.asked()]
    return [(cell.key, cell.status) for cell in cells], annotations, asked


DRIVES: Final[Mapping[str, Callable[[World, int], Any]]] = {COUNTER: _count, STEPS: _ask}


_WAT: Final = """(module
  (memory (export "memory") 2)
  (data (i32.const 8) "{answer}")
  (func (export "alloc") (param i32) (result i32) (i32.const 65536))
  (func (export "count") (param i32 i32) (result i32 i32) (i32.const 8) (i32.const {length})))
"""


def nothing(calls: Sequence[Call], ran: Sequence[Ran]) -> tuple[bytes, tuple[Call, ...]]:
    """A module that gives one answer whatever it is asked, and the same calls made of it: what the
    sandbox itself costs."""
    answer = ran[0].output
    assert answer is not None
    text = "".join(f"\\{byte:02x}" for byte in answer)
    wasm = bytes(wasmtime.wat2wasm(_WAT.format(answer=text, length=len(answer))))
    hash = content_hash(wasm)
    return wasm, tuple(call._replace(module=hash, entrypoint="count") for call in calls)
