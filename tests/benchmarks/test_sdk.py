"""Cost of the SDKs: variants with the same behaviour, a small run, and its tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.sdk.__main__ import BENCHMARK, Options
from benchmarks.sdk.tables import COUNTER_BYTES, sdk_aims, sdk_tables
from benchmarks.sdk.variants import COUNTER, EFFECTS, NOTHING, STEPS, VARIANTS, Recorded, record
from benchmarks.sdk.whole_steps import WholeSteps, whole_steps

from benchmarks import report
from tests.benchmarks.test_report import MACHINE

ITEMS = 6


@pytest.fixture(scope="module")
def recorded() -> dict[tuple[str, str], Recorded]:
    return {(each.workload, each.name): record(each, items=ITEMS) for each in VARIANTS}


def row(workload: str, name: str, size: int = 9_000, step_us: float = 20.0) -> dict[str, Any]:
    return {
        "workload": workload,
        "name": name,
        "bytes": size,
        "steps": 10,
        "fuel": 1234.5,
        "pages": 3,
        "input_bytes": 500.0,
        "output_bytes": 24.0,
        "step_us": step_us,
        "step_us_least": step_us / 2,
        "against_by_hand": step_us / 20.0,
    }


def found(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"machine": MACHINE, "at": "now", "seconds": 9, "variants": list(rows)}


@pytest.mark.parametrize(("workload", "calls"), [(COUNTER, ITEMS), (STEPS, ITEMS * (EFFECTS + 1))])
def test_all_variants_of_a_workload_do_the_same(
    recorded: dict[tuple[str, str], Recorded], workload: str, calls: int
) -> None:
    """Else their figures would not be comparable."""
    ours = [each for (of, _), each in recorded.items() if of == workload]

    assert len(ours) == 4
    for each in ours:
        assert each.outcome == ours[0].outcome
        assert len(each.calls) == len(each.ran) == calls
        assert all(ran.fault is None for ran in each.ran)


@pytest.mark.parametrize(("ours", "theirs"), whole_steps(), ids=[COUNTER, STEPS])
def test_a_module_of_agentos_does_the_same(ours: WholeSteps, theirs: WholeSteps) -> None:
    ours_did, theirs_did = ours.run(ITEMS), theirs.run(ITEMS)

    # Of the steps, the statuses differ: a module of AgentOS declares none.
    is_counter = ours.workload == COUNTER
    assert ours_did[0 if is_counter else 1 :] == theirs_did[0 if is_counter else 1 :]


def test_with_the_context_the_input_is_longer_and_nothing_else_differs(
    recorded: dict[tuple[str, str], Recorded],
) -> None:
    plain, more = (recorded[COUNTER, name] for name in ("by hand", "by hand, with the context"))

    assert len(more.calls[0].input) > len(plain.calls[0].input)
    assert more.calls[0].module == plain.calls[0].module
    assert [each.output for each in more.ran] == [each.output for each in plain.ran]


def test_a_small_run_measures_every_variant(tmp_path: Path) -> None:
    options = Options(items=2, rounds=2, seconds=0.0)
    found = json.loads(json.dumps(BENCHMARK.run(options, tmp_path)))
    rows = found["variants"]

    assert [(each["workload"], each["name"]) for each in rows] == [
        (COUNTER, NOTHING),
        *((each.workload, each.name) for each in VARIANTS),
    ]
    assert rows[0]["output_bytes"] == rows[1]["output_bytes"]
    assert [each["workload"] for each in found["whole_steps"]] == [COUNTER, STEPS]
    assert all(each["against_ours"] > 0 for each in found["whole_steps"])
    for each in rows:
        assert 0 < each["step_us_least"] <= each["step_us"]
        assert each["fuel"] > 0
        assert (each["against_by_hand"] == 1) is (each["name"] == "by hand")
        assert each["bytes"] > (100 if each["name"] == NOTHING else 1_000)


def test_tables_compare_with_what_is_written_by_hand() -> None:
    rows = [row(COUNTER, "by hand"), row(COUNTER, "Rust SDK", step_us=30.0), row(STEPS, "other")]
    text = sdk_tables(found(*rows))

    assert "| Rust SDK | 9,000 | 1,234 | 30.0 | 15.0 | 1.50 | 500 | 24 |" in text
    assert "| other | 9,000 | 1,234 | 20.0 | 10.0 | 1.00 | 500 | 24 |" in text
    assert text.index("A keyed counter") < text.index("Three effects in a row")


@pytest.mark.parametrize(("size", "is_met"), [(COUNTER_BYTES - 1, True), (COUNTER_BYTES, False)])
def test_a_counter_of_the_rust_sdk_is_to_be_small(size: int, *, is_met: bool) -> None:
    _, aim = sdk_aims(found(row(COUNTER, "by hand", 1), row(COUNTER, "Rust SDK", size)))

    assert aim.is_met is is_met
    assert f"{size:,}" in aim.found


def test_without_figures_nothing_is_said_to_be_met() -> None:
    for aim in sdk_aims(None):
        assert (aim.is_met, aim.found) == (None, "not measured")


@pytest.mark.parametrize(("ratio", "is_met"), [(1.15, True), (1.16, False)])
def test_the_worst_step_of_agentos_counts(ratio: float, *, is_met: bool) -> None:
    rows = [
        {"workload": name, "ours_us": 2.0, "theirs_us": 2.0, "against_ours": each}
        for name, each in ((COUNTER, 1.0), (STEPS, ratio))
    ]
    aim, _ = sdk_aims({**found(), "whole_steps": rows})

    assert (aim.is_met, aim.found) == (is_met, f"{ratio:.2f} times")
    assert f"{ratio:.2f}" in sdk_tables({**found(), "whole_steps": rows})


def test_results_have_a_section_of_the_sdks() -> None:
    text = report.render(None, None, "", sdk=found(row(COUNTER, "Rust SDK")))

    assert "## SDKs" in text
    assert "size of a counter with the Rust SDK" in text
