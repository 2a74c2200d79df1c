"""pm4py finds the cells, effects and statuses of the orders demo as ``aos inspect`` counts them
(EX-45)."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.values.cbor import Value
from tests.cli.shell import ROOT, here
from tests.host.on_disk import folder_of
from tests.modules.guests import WasmWorld, load_orders
from tests.modules.test_order_world import Driver
from tests.tools import missing

PYTHON = ROOT / ".venv" / "pm4py" / "bin" / "python"
READER = Path(__file__).parent / "read_with_pm4py.py"
HAPPENINGS = 160
SEED = 7


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders in every state: paid, refunded, canceled, overdue, and some that wait."""

    def run() -> WasmWorld:
        loaded = load_orders()
        sandbox = Sandbox(loaded.modules.__getitem__)
        try:
            driver = Driver(WasmWorld(loaded, sandbox, seed=str(SEED)), Random(SEED))
            for _ in range(HAPPENINGS):
                driver.happen()
            for number in range(3):
                driver.world.send("shop/OrderPlaced@1", new_order(number))
            driver.world.run()
        finally:
            sandbox.close()
        driver.world.blobs.update(loaded.modules)
        return driver.world

    return folder_of(run_on_big_stack(run), tmp_path_factory.mktemp("orders") / "world")


def new_order(number: int) -> Value:
    """An order that nothing has answered yet."""
    return {
        "order_id": f"new-{number}",
        "customer_id": "cus-1",
        "items": [{"sku": "rope", "quantity": 1, "price_cents": 100}],
        "patience": 60_000_000_000,
    }


def inspected(world: Path, *words: str) -> Any:
    result = here("inspect", *words, "--limit", "10000", "--json", "--world", world)
    assert result.code == 0, result.err
    return result.json


@pytest.fixture(scope="module")
def found(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The counts that pm4py found."""
    if not PYTHON.exists():
        missing("pm4py is not installed, so no tool but ours reads the exported logs: make pm4py")
    folder = tmp_path_factory.mktemp("logs")
    files = [folder / name for name in ("log.json", "log.sqlite", "log.xes")]
    for file, words in zip(files, ((), (), ("--workflow", "order")), strict=True):
        format = "xes" if file.suffix == ".xes" else "ocel"
        done = here("export", file, "--format", format, *words, "--world", world)
        assert done.code == 0, done.err
    done_by = subprocess.run(
        [PYTHON, READER, *files], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "MPLBACKEND": "agg", "PYTHONWARNINGS": "ignore"}, cwd=folder,
    )  # fmt: skip
    assert done_by.returncode == 0, done_by.stderr
    return json.loads(done_by.stdout)


def test_both_forms_of_ocel_are_read_as_the_same_log(found: Any) -> None:
    assert found["json"] == found["sqlite"]
    assert found["violated"] == [], "the constraints of OCEL 2.0 on tables"
    assert found["json"]["qualifiers"] == ["answered", "asked", "concerned", "emitted", "received"]


def test_cells_and_their_statuses_are_those_of_inspect(world: Path, found: Any) -> None:
    rows = inspected(world, "cells")["cells"]
    expected = Counter((each["workflow"], each["status"]) for each in rows)
    of_cells = {each["workflow"] for each in rows}
    counted = {
        (of, status): count
        for of, status, count in found["json"]["statuses"]
        if of in of_cells and status != "deleted"
    }

    assert counted == expected
    assert len(expected) >= 3


def test_effects_and_their_statuses_are_those_of_inspect(world: Path, found: Any) -> None:
    rows = inspected(world, "intents", "--status", "all")["intents"]
    expected = Counter((each["effect"], each["receipt_status"] or each["status"]) for each in rows)
    effects = {each["effect"] for each in rows}
    counted = {
        (of, status): count for of, status, count in found["json"]["statuses"] if of in effects
    }

    assert counted == expected
    assert {status for _, status in expected} >= {"ok", "error", "timeout", "open"}
    asked = Counter(each["effect"] for each in rows)
    events = found["json"]["events"]
    assert {each: events[f"ask {each}"] for each in effects} == asked
    assert found["json"]["o2o"] == len(rows), "each effect is linked to the cell that requested it"


def test_the_traces_of_xes_are_the_orders(world: Path, found: Any) -> None:
    orders = [
        each
        for each in inspected(world, "cells", "--workflow", "order")["cells"]
        if each["workflow"] == "shop/order@1"
    ]

    assert found["xes"]["traces"] == len(orders)
    assert (
        found["xes"]["events"]["shop/OrderPlaced@1"]
        == found["json"]["events"]["shop/OrderPlaced@1"]
    )
    assert set(found["xes"]["starts"]) == {"shop/OrderPlaced@1"}
    assert found["xes"]["edges"] > 5


def test_the_process_can_be_drawn(found: Any) -> None:
    assert found["drawn"] == len(found["json"]["events"])
