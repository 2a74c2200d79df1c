"""The benchmark of linear plans and of search: small runs of each part, tables and aims."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from benchmarks.linear.__main__ import BENCHMARK, Options
from benchmarks.linear.customer_world import CUSTOMER_WORLD, SETTINGS, WORKFLOW
from benchmarks.linear.customers import CELLS_OF_A_CUSTOMER, customers, row
from benchmarks.linear.module_steps import KINDS, measure_module_steps, module_sizes
from benchmarks.linear.plan_handlers import STEPS, first_context, handle
from benchmarks.linear.plan_world import plan_node, replayed
from benchmarks.linear.tables import linear_aims, linear_tables
from benchmarks.node.serving import served
from benchmarks.peers.tools import NotInstalled
from benchmarks.processes import run_child

from aos.host.folder.reader import open_reader
from aos.sandbox.stack import run_on_big_stack
from aos.values.cbor import encode
from benchmarks import report
from tests.benchmarks.test_report import MACHINE

pytestmark = pytest.mark.rotated(3)

TINY = Options(
    rounds=1, instances=4, workers=4, most=(3,), paced=2, core_events=20, cells=250, pages=3,
    module_instances=1,
)  # fmt: skip


def load_row(most: int, rate: float, pace: float | None = None, p50: float = 2.0) -> dict[str, Any]:
    return {
        "most": most, "pace": pace, "rate": rate, "instances": 4, "workers": 64,
        "ready_to_claimed_ms": {"p50": p50, "p99": 4 * p50}, "journal_bytes": 1_100.4,
        "store_bytes": 7_000.0,
    }  # fmt: skip


FOUND: dict[str, Any] = {
    "at": "2026-01-01", "seconds": 1, "machine": MACHINE, "missing": [],
    "modules": {
        "bytes": {"aos/linear@1": 63_496},
        "steps": [
            {"step": "a plan step is claimed", "turns": 9, "kernel_us": 400.0, "sandbox_us": 90.0},
        ],
    },
    "plans": [
        *(load_row(1, rate) for rate in (300.0, 750.0, 900.0)), load_row(16, 800.0),
        load_row(1, 99.0, 20.0, 30.0),
    ],
    "tables": [load_row(1, 1_000.0), load_row(16, 1_200.0), load_row(1, 99.0, 20.0, 5.0)],
    "queue": [{"rate": rate} for rate in (100.0, 400.0, 500.0)],
    "replays": [{"step_us": 300.0}],
    "core": [{"has_index": True, "rate": 900.0}, {"has_index": False, "rate": 1_000.0}],
    "lists": {
        "cells": 1_000_000,
        "index": {
            "rows": 100, "built_s": 92.0, "bytes": 5 << 20, "ms": {"p50": 2.0, "p99": 5.0},
        },
        "table": {"rows": 100, "ms": {"p50": 0.4, "p99": 1.0}},
    },
}  # fmt: skip


def test_workers_carry_out_all_plans_of_a_load(tmp_path: Path) -> None:
    with plan_node(tmp_path / "node") as node:
        for load in ({"most": 1}, {"most": 3}, {"most": 1, "pace": 50.0}):
            found = node.run(instances=3, workers=4, **load)
            assert found["rate"] > 0
            assert 0 < found["ready_to_claimed_ms"]["p50"] <= found["ready_to_claimed_ms"]["p99"]
            assert found["journal_bytes"] > 500
            assert found["pace"] == load.get("pace")

    # A start, a claim and a result of each plan step.
    assert replayed(tmp_path / "node")["steps"] == 9 * (1 + 2 * len(STEPS))


def test_a_handler_changes_the_context_by_the_item_of_its_instance() -> None:
    assert handle("TWO", first_context(7)) == {"two": 7}


def test_each_kind_of_step_is_measured_alone(tmp_path: Path) -> None:
    found: list[dict[str, Any]] = run_on_big_stack(
        lambda: measure_module_steps(tmp_path / "modules", 2)
    )

    assert [(each["step"], each["turns"]) for each in found] == [
        (kind, 2 * each) for kind, each in zip(KINDS, (1, 5, 4, 1, 1), strict=True)
    ]
    for each in found:
        assert each["kernel_us"] > each["sandbox_us"] > 0
    assert all(10_000 < size < 66_000 for size in module_sizes().values())


def test_each_customer_has_a_page_of_cells() -> None:
    cells = 3 * CELLS_OF_A_CUSTOMER
    names = [row(item, cells).customer for item in range(cells)]

    assert customers(cells) == 3
    assert {names.count(each) for each in names} == {CELLS_OF_A_CUSTOMER}


def test_pages_of_a_world_of_customers_come_from_its_index(tmp_path: Path) -> None:
    cells, world = 300, tmp_path / "world"
    made = run_child(
        {"do": "make", "path": world, "cells": cells}, tmp_path, timeout_s=240,
        module=CUSTOMER_WORLD,
    )  # fmt: skip
    assert made["cells"] == cells
    with open_reader(world) as reader:
        assert reader.state.snapshot is not None
        assert (WORKFLOW, encode(row(299, cells).key)) in reader.state.cells

    (world / "node.toml").write_text(SETTINGS)
    with served(world, tmp_path / "log") as port:
        found = run_child(
            {"do": "list", "port": port, "cells": cells, "pages": 5}, tmp_path, timeout_s=240,
            module=CUSTOMER_WORLD,
        )  # fmt: skip

    assert (found["pages"], found["rows"]) == (5, CELLS_OF_A_CUSTOMER)
    assert 0 < found["ms"]["p50"] <= found["ms"]["p99"]
    assert list((world / "node" / "index").iterdir()) != []


def test_without_postgresql_all_of_ours_is_measured_and_a_sentence_says_what_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise NotInstalled("there is no PostgreSQL")

    monkeypatch.setattr("benchmarks.peers.tools.python", missing)

    found = BENCHMARK.run(TINY, tmp_path)

    assert [(each["most"], each["pace"]) for each in found["plans"]] == [
        (3, None), (1, TINY.pace),
    ]  # fmt: skip
    assert sorted(each["has_index"] for each in found["core"]) == [False, True]
    assert all(each["rate"] > 0 for each in found["core"])
    assert found["lists"]["index"]["bytes"] > 0
    text = linear_tables(found)
    assert "Not measured: there is no PostgreSQL" in text
    assert "PostgreSQL, " not in text
    aims = {each.what.split(":")[0]: each.is_met for each in linear_aims(found)}
    assert [each for each in aims.values() if each is None] == [None] * 3
    assert {each.is_met for each in linear_aims(None)} == {None}


def test_tables_and_aims_of_linear_plans_are_of_the_medians() -> None:
    text = linear_tables(FOUND)

    assert "| AOS | 1 | all before | 750 | 0.75 | 2.0, 8.0 |" in text
    assert "| AOS | 1 | 20 a second | - | - | 30.0, 120.0 |" in text
    assert "| DBOS, a queue of workflows | - | all before | 400 | - | - |" in text
    assert "1,100 bytes of journal with 1 a claim" in text
    assert "| a plan step is claimed | 9 | 400 | 90 |" in text
    assert "`aos/linear@1` has 63,496 bytes. A replay takes 300 µs for each step." in text
    assert "built in 92 s; it has 5 MiB" in text
    assert "## Linear plans and search" in report.render(None, None, "", linear=FOUND)
    assert [(each.found, each.is_met) for each in linear_aims(FOUND)] == [
        ("0.75 times: 750/s and 1,000/s", True),
        ("2.00 times: 800/s and 400/s", True),
        ("5.00 times: 5.00 ms and 1.00 ms", True),
        ("0.90 times: 900/s and 1,000/s", True),
    ]


def test_an_aim_of_linear_plans_is_missed_just_beyond_its_bound() -> None:
    worse = deepcopy(FOUND)
    worse["plans"] = [load_row(1, 749.0), load_row(16, 799.0)]
    worse["lists"]["index"]["ms"]["p99"] = 5.01
    worse["core"][0]["rate"] = 899.0

    assert [each.is_met for each in linear_aims(worse)] == [False] * 4
