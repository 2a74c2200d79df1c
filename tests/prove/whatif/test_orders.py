"""Shadows of the demo's orders, whose shop fails in every way (spec/shadow.md, SH-61)."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.host.apply.manifest_files import load_manifest_files, read_manifest_files
from aos.host.executors.carrying import carry_out
from aos.manifest.load import Loaded, load
from aos.prove.verify.journal_source import JournalSource, source_of_store
from aos.prove.whatif.shadow_state import Proposed
from aos.prove.whatif.shadowing import ShadowRequest, chosen_range, run_shadow
from aos.read.views.proposal_view import read_report
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.values.cbor import Value
from tests.modules.guests import MS, WasmWorld
from tests.modules.test_order_world import DONE, FAILED, ORDER, PATHS, Driver
from tests.prove.journals import store_of
from tests.prove.whatif.shadows import beginnings
from tests.prove.whatif.test_null import CUSTOM
from tests.run_seed import run_seed
from tests.tools import long_form

ROOT = Path(__file__).parents[3]
ORDERS = ROOT / "manifests" / "orders"
CHARGE = "shop/card.charge@1"
HAPPENINGS = 4_000 if long_form() else 400


@pytest.fixture(scope="module")
def history() -> JournalSource:
    """A journal of orders, with snapshots while orders are open."""
    loaded = load_manifest_files(ORDERS)

    def live() -> WasmWorld:
        world = WasmWorld(loaded, Sandbox(loaded.modules.__getitem__), seed="shadow")
        world.blobs.update(loaded.modules)
        driver = Driver(world, Random(f"shadow {run_seed()}"))
        ask_three_times(driver)
        for number in range(HAPPENINGS):
            driver.happen()
            if number % (HAPPENINGS // 4) == 0:
                assert isinstance(world.snapshot(), Admitted)
        world.seal()
        return world

    return source_of_store(store_of(run_on_big_stack(live)))


def ask_three_times(driver: Driver) -> None:
    """Play an order whose charge has a clear answer at the third attempt only."""
    order: Value = {
        "order_id": "ord-0",
        "customer_id": "cus-0",
        "items": [{"sku": "rope", "quantity": 1, "price_cents": 100}],
        "patience": 600_000 * MS,
    }
    assert isinstance(driver.world.send("shop/OrderPlaced@1", order), Admitted)
    driver.world.run()
    charges = 0
    while driver.world.open():
        calls = [intent for intent in driver.world.open() if intent.effect.name in PATHS]
        if calls:
            charges += calls[0].effect.name == CHARGE
            is_unclear = calls[0].effect.name == CHARGE and charges < 3
            driver.call(calls[0], FAILED if is_unclear else DONE)
        else:
            driver.fire(min(driver.world.open(), key=driver.due_ns))
    assert charges == 3


def edited(module: str, wasm: bytes) -> Loaded:
    """The demo's manifest with other bytes for a module."""
    files, problems = read_manifest_files(ORDERS)
    assert not problems
    (path,) = [name for name in files if name.endswith(f"/{module}.wasm")]
    return load({**files, path: wasm})


def shadowed(source: JournalSource, proposed: Loaded, first: int | None = None) -> dict[str, Any]:
    request = ShadowRequest(
        proposed=Proposed(effective=proposed.effective), range=chosen_range(source, first=first)
    )
    return read_report(run_shadow(source, request, proposed.modules, carry_out=carry_out))


@pytest.mark.long
def test_another_build_decides_alike_from_every_beginning(history: JournalSource) -> None:
    wasm = (ROOT / "modules" / "orders" / "orders.wasm").read_bytes()
    proposed = edited("orders", wasm + CUSTOM)

    for first in beginnings(history):
        report = shadowed(history, proposed, first)

        assert report["same"], (first, report["differences"][:1])
        assert report["steps"]["compared"] or first > history.last - 10
    assert len(beginnings(history)) == 5


def test_version_2_gives_charges_up_that_version_1_asks_for_again(history: JournalSource) -> None:
    wasm = (ROOT / "modules" / "orders-2" / "orders-2.wasm").read_bytes()
    report = shadowed(history, edited("orders", wasm))

    asked = {
        side: effects.get(CHARGE, {"asked": 0})["asked"]
        for side, effects in report["effects"].items()
    }
    assert asked["shadow"] < asked["recorded"]
    different = [each for each in report["differences"] if each["cell"]["workflow"] == ORDER]
    assert different
    for each in different:
        assert each["first"]["on"].startswith(f"receipt of {CHARGE}")
        assert each["first"]["classes"][:2] == ["state", "effects"]
        outcome = each["last"]["shadow"]["state"]["outcome"]
        assert outcome["$tag"] in {"Unavailable", "Cancelled", "Declined", "OutOfStock", "Overdue"}
