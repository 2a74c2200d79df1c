"""The order workflow in Python (C-50c): its interface is that of the reducer, and the books add up
whatever happens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from aos.author.build import build
from aos.author.project import read_project
from aos.author.toolchain import Console
from aos.core.state.cell import OpenIntent
from aos.manifest.load import Loaded
from aos.sandbox.cache import standard_cache
from aos.sandbox.engine import Sandbox
from aos.values.cbor import Value
from aos_cli.demo.files import find_files
from aos_cli.demo.python_story import copy_project
from tests.modules.guests import MS, WasmWorld
from tests.modules.test_order_world import GARBLED, LEDGER, LOST, ORDER, ORDERS, PATHS, Driver
from tests.run_seed import examples, seeds

SAME_TYPE: Final = frozenset({"shop/OrderId@1", "shop/CustomerId@1", "shop/Outcome@1"})
"""Schemas whose type the flow writes where it is used."""

ASKED_AGAIN: Final = frozenset({"shop/stock.reserve@1", "shop/card.charge@1"})
"""After an answer of these that does not fit its schema, the order is undone. After one of another
effect, the flow fails, and a person has to look."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "orders"
    copy_project(find_files(), folder)
    return folder


@pytest.fixture(scope="module")
def python_orders(project: Path) -> Loaded:
    return build(read_project(project), console=Console(report=lambda _: None)).loaded


@pytest.fixture(scope="module")
def python_sandbox(python_orders: Loaded) -> Iterator[Sandbox]:
    cache = standard_cache(outside=None)
    sandbox = Sandbox(python_orders.modules.__getitem__, cache=cache)
    yield sandbox
    sandbox.close()


def definitions(air: Path) -> dict[str, dict[str, Any]]:
    nodes = json.loads(air.read_bytes())
    return {node["name"]: node for node in nodes if "name" in node}


def expanded(value: Any, nodes: Mapping[str, dict[str, Any]]) -> Any:
    """The value without comments, and with the types of ``SAME_TYPE`` in place of their names."""
    match value:
        case {"ref": str(name)} if name in SAME_TYPE:
            return expanded(nodes[name]["type"], nodes)
        case dict():
            return {key: expanded(part, nodes) for key, part in value.items() if key != "$comment"}
        case list():
            return [expanded(part, nodes) for part in value]
    return value


def test_events_and_effects_have_the_schemas_of_the_reducer(
    project: Path, python_orders: Loaded
) -> None:
    reducer = definitions(find_files().manifest / "air/generated.air.json")
    flow = definitions(project / "air/generated.air.json")
    handwritten = definitions(project / "air/ledger.air.json")

    shared = {
        name
        for name in flow.keys() & reducer.keys()
        if flow[name]["$kind"] in {"defschema", "defeffect"} and name != "shop/Progress@1"
    }
    assert {name for name in shared if flow[name]["$kind"] == "defeffect"} == {
        "shop/card.charge@1", "shop/card.refund@1", "shop/parcel.ship@1", "shop/stock.release@1",
        "shop/stock.reserve@1",
    }  # fmt: skip
    assert {"shop/OrderPlaced@1", "shop/OrderClosed@1", "shop/OrderCharged@1"} < shared
    for name in shared:
        assert expanded(flow[name], reducer) == expanded(reducer[name], reducer), name
    ledger = handwritten.pop("shop/ledger.module@1")
    assert ledger["runtime"]["artifact"]["path"] == "../ledger.wasm"
    assert handwritten == {name: reducer[name] for name in handwritten}
    assert LEDGER in python_orders.effective.workflows


@dataclass
class FlowDriver(Driver):
    """A driver whose shop may also do what the flow has canceled. An order that is placed again has
    the same patience, and no order is canceled before it is placed: a flow keeps such a message."""

    patience_ms: dict[str, int] = field(default_factory=dict)
    open: dict[bytes, OpenIntent] = field(default_factory=dict)

    def happen(self) -> None:
        super().happen()
        still_open = {bytes(intent.intent): intent for intent in self.world.open()}
        gone = [intent for key, intent in self.open.items() if key not in still_open]
        self.late += [intent for intent in gone if intent.effect.name in PATHS]
        self.open = still_open

    def place(self) -> None:
        number = self.random.randint(1, ORDERS)
        order_id = f"ord-{number}"
        choices = [-1, 0, 300, 2_000, *[600_000] * 7]
        patience_ms = self.patience_ms.setdefault(order_id, self.random.choice(choices))
        value: Value = {
            "order_id": order_id,
            "customer_id": f"cus-{number % 3}",
            "items": [{"sku": "rope", "quantity": number, "price_cents": 100 + number}],
            "patience": patience_ms * MS,
        }
        self.world.send("shop/OrderPlaced@1", value)

    def cancel(self) -> None:
        if self.patience_ms:
            order_id = self.random.choice(sorted(self.patience_ms))
            self.world.send("shop/OrderCancelRequested@1", {"order_id": order_id})

    def call(self, intent: OpenIntent, how: str) -> None:
        is_given_up = how == GARBLED and intent.effect.name not in ASKED_AGAIN
        super().call(intent, LOST if is_given_up else how)


@pytest.mark.parametrize("seed", seeds(examples(6)))
def test_the_books_add_up_whatever_happens(
    seed: int, python_orders: Loaded, python_sandbox: Sandbox
) -> None:
    steps = Random(seed).randint(1, 150)
    driver = FlowDriver(WasmWorld(python_orders, python_sandbox, seed=str(seed)), Random(seed))
    for _ in range(steps):
        driver.happen()
        driver.check_always()

    driver.calm_down()

    driver.check_at_rest()


@pytest.mark.parametrize("refused_share", [0.0, 1.0])
def test_an_order_takes_few_steps(
    python_orders: Loaded, python_sandbox: Sandbox, refused_share: float
) -> None:
    driver = FlowDriver(
        WasmWorld(python_orders, python_sandbox), Random(1), refused_share=refused_share
    )
    driver.place()
    driver.world.run()
    driver.calm_down()

    driver.check_at_rest()
    cells = [step.cell[0] for step in driver.world.steps()]
    if refused_share == 0.0:
        # Placed, three answers, and two about the timer that is canceled; charged and shipped.
        assert {name: cells.count(name) for name in set(cells)} == {ORDER: 6, LEDGER: 2}
    else:
        assert set(cells) == {ORDER}
