"""Figures in, words out: tables, aims and the chart, also where some figures are missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from benchmarks.aims import AOS, AOS_FLOW, RESTATE, RESTATE_AS_SHIPPED, aims, peer_figure
from benchmarks.chart import Panel, Series, svg
from benchmarks.cores import REFERENCE, SECOND
from benchmarks.machine import machine

from benchmarks import report

MACHINE = {
    "cpu": "A CPU",
    "cpus": 2,
    "memory_gib": 8.0,
    "system": "Linux",
    "file_system": "ext4",
    "sync_ms": 0.3,
    "load_before": 0.1,
    "python": "CPython 3.11",
    "wasmtime": "50",
    "lmdb": "0.9",
    "commit": "abc",
}


def point(rate: float = 2_000.0, **more: Any) -> dict[str, Any]:
    found = {
        "in_flight": 64,
        "cells": "many",
        "is_busy": False,
        "rate": rate,
        "is_whole": False,
        "accept_ms": {"p50": 1.0, "p99": 2.0},
        "finish_ms": {"p50": 3.0, "p99": 4.0},
        "all_items": 10,
        "steps": 40,
        "commits": 5,
        "bytes_per_item": 1234.5,
        "bytes_per_record": 300.0,
        "floor": {"rate": 4_000.0, "step_us": 20.0, "commit_ms": 0.3, "item_ms": 0.25},
    }
    return found | more


def world(
    workload: str = "counter",
    size: int = 1_000,
    *points: Mapping[str, Any],
    core: str = SECOND,
    read_s: float = 0.5,
) -> Any:
    start = {
        "seconds": read_s,
        "records": 2_000,
        "cells": size,
        "rss_anon_mib": 30.0,
        "store_bytes": 1 << 20,
    }
    return {
        "workload": workload,
        "size": size,
        "core": core,
        "make": {"cells": size, "seconds": 0.5},
        "start": start,
        "points": list(points) or [point()],
        "end": {"rss_anon_mib": 40.0, "store_bytes": 2 << 20},
    }


def bench(*worlds: Any, journals: Any = (), restarts: Any = ()) -> dict[str, Any]:
    return {
        "at": "2026-01-01",
        "seconds": 9,
        "machine": MACHINE,
        "worlds": list(worlds),
        "journals": list(journals),
        "restarts": list(restarts),
    }


def journal(live: float, replay_s: float, *, core: str = SECOND) -> dict[str, Any]:
    return {
        "workload": "counter",
        "core": core,
        "items": 1_000,
        "live": point(live),
        "start": {"seconds": 0.1},
        "replay": {"seconds": replay_s, "records": 2_000, "steps": 1_000},
    }


def turn(system: str, rate: float, p50: float, *, cells: str = "fresh", number: int = 64) -> Any:
    found = {
        "cells": cells, "in_flight": number, "rate": rate, "finish_ms": {"p50": p50, "p99": p50 * 2}
    }  # fmt: skip
    return {"round": 1, "system": system, "points": [found]}


def peers(*turns: Any, missing: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {
        "at": "2026-01-01",
        "seconds": 9,
        "machine": MACHINE,
        "versions": {"dbos": "3"},
        "turns": list(turns),
        "missing": dict(missing or {}),
    }


def met(found: list[Any]) -> dict[str, bool | None]:
    return {each.what.split(":")[0].split(",")[0]: each.is_met for each in found}


def test_without_figures_every_aim_is_not_measured() -> None:
    found = aims(None, None)

    assert {each.is_met for each in found} == {None}
    assert {each.found for each in found} == {"not measured"}


def test_aims_are_met_at_their_bounds_and_not_beyond() -> None:
    hot = point(5_000.0, cells="hot")
    good = bench(world("counter", 1_000, point(2_000.0), hot), journals=[journal(1_000.0, 1.0)])
    bad = bench(
        world("counter", 1_000, point(1_000.0), hot | {"rate": 4_999.0}),
        journals=[journal(1_000.0, 1.1)],
    )

    assert met(aims(good, None))["a hot cell"] is True
    assert met(aims(bad, None))["a hot cell"] is False
    assert [each.is_met for each in aims(good, None) if "replay against" in each.what] == [True]
    assert [each.is_met for each in aims(bad, None) if "replay against" in each.what] == [False]
    # The floor's rate is 4,000 in both.
    assert [each.found for each in aims(good, None) if "floor" in each.what] == ["2.0 at 64"]
    assert [each.is_met for each in aims(bad, None) if "floor" in each.what] == [False]


def test_flat_is_the_best_rate_against_the_worst_over_all_sizes() -> None:
    found = bench(
        world("counter", 1_000, point(1_300.0)),
        world("counter", 10_000, point(1_500.0)),
        world("counter", 100_000, point(1_000.0)),
        world("steps", 100_000, point(1.0)),
    )

    [flat] = [each for each in aims(found, None) if "best rate against worst" in each.what]

    assert flat.is_met is False
    assert flat.found == "1.50 times: 1,300/s of 1,000, 1,500/s of 10,000, 1,000/s of 100,000"


@pytest.mark.parametrize(
    ("events", "seconds", "is_met"),
    [(1_000_000, 1.9, True), (1_000_000, 2.0, False), (999_999, 0.1, None)],
)
def test_a_restart_counts_only_after_a_million_events(
    events: int, seconds: float, is_met: bool | None
) -> None:
    restart = {"events": events, "core": SECOND, "start": {"seconds": seconds}}
    found = bench(restarts=[restart])

    assert aims(found, None)[-1].is_met is is_met


def test_a_figure_of_a_peer_is_the_median_of_its_rounds() -> None:
    found = peers(turn(AOS, 3, 1), turn(AOS, 9, 1), turn(AOS, 5, 1), turn(RESTATE, 100, 1))

    assert peer_figure(found, AOS, "fresh", 64, "rate") == 5
    assert peer_figure(found, AOS, "fresh", 1, "rate") is None
    assert peer_figure(found, "nobody", "fresh", 64, "rate") is None


def test_against_restate_the_rate_counts_at_64_and_p50_at_1() -> None:
    turns = [
        turn(AOS, 500, 9), turn(RESTATE, 200, 9), turn(RESTATE_AS_SHIPPED, 101, 9),
        turn(AOS, 9, 1.8, number=1), turn(RESTATE, 9, 4.0, number=1),
    ]  # fmt: skip

    rate, shipped, p50, *_ = aims(None, peers(*turns))

    assert (rate.is_met, rate.found) == (True, "2.50 times: 500/s and 200/s")
    assert (shipped.is_met, shipped.found) == (False, "4.95 times: 500/s and 101/s")
    assert (p50.is_met, p50.found) == (True, "0.45 times: 1.8 ms and 4.0 ms")


def test_aims_are_about_the_second_kernel() -> None:
    slow = point(24_999.0, cells="many")
    figures = bench(
        world("counter", 1_000, slow, read_s=0.1, core=REFERENCE),
        world("counter", 1_000, point(25_000.0), read_s=0.004),
        world("counter", 1_000, slow, read_s=0.1, core=REFERENCE),
        journals=[journal(1.0, 0.06, core=REFERENCE), journal(1.0, 0.05)],
    )

    second = {aim.what: aim for aim in aims(figures, None)}

    assert (second["counter, 64 in flight"].is_met, second["counter, 64 in flight"].found) == (
        True, "25,000 events/s",
    )  # fmt: skip
    assert second["restart: records read"].found == "500,000/s"
    assert second["replay: its best rate"].found == "20,000 steps/s"
    only = bench(world("counter", 1_000, slow, core=REFERENCE))
    assert {aim.found for aim in aims(only, None)} == {"not measured"}


def test_both_kernels_are_compared_at_the_same_points() -> None:
    both = bench(
        world("counter", 1_000, point(900.0), point(5.0, cells="hot")),
        world("counter", 1_000, point(600.0, finish_ms={"p50": 6.0, "p99": 2.0}), core=REFERENCE),
    )
    one = bench(world("counter", 1_000, point(900.0)))

    text = report.bench_tables(both)

    assert "| counter | 1,000 | many | 64 | 1.50 | 0.50 | 2.00 |" in text.splitlines()
    assert "| counter | 1,000 | hot |" not in text
    assert "### The two kernels" not in report.bench_tables(one)


def test_a_flow_is_compared_with_the_reducer_by_rate_and_with_restate_by_p50() -> None:
    turns = [
        turn(AOS, 400, 9), turn(AOS_FLOW, 320, 9),
        turn(AOS, 100, 9, number=1), turn(AOS_FLOW, 79, 3.0, number=1),
        turn(RESTATE, 1, 4.0, number=1),
    ]  # fmt: skip

    found = {each.what: each for each in aims(None, peers(*turns))}

    one, many = (
        found[f"three effects, {number} in flight: rate of a flow against a reducer"]
        for number in (1, 64)
    )
    assert (one.is_met, one.found) == (False, "0.79 times: 79/s and 100/s")
    assert (many.is_met, many.found) == (True, "0.80 times: 320/s and 400/s")
    p50 = found["three effects, 1 in flight: p50 of a flow against Restate (TypeScript)"]
    assert (p50.is_met, p50.found) == (True, "0.75 times: 3.0 ms and 4.0 ms")


def test_the_machine_tells_what_the_report_says_of_it(tmp_path: Path) -> None:
    assert machine(tmp_path).keys() == MACHINE.keys()


def test_a_row_of_ours_has_rate_floor_times_and_bytes() -> None:
    text = report.bench_tables(bench(world("counter", 1_000, point(is_busy=True))))

    [row] = [line for line in text.splitlines() if "busy thread" in line]
    assert row == (
        "| second kernel | 1,000 | many, busy thread | 64 | 2,000 | 4,000 | 2.00 | 1.0, 2.0 "
        "| 3.0, 4.0 | 1,234 | 4.0 | 0.50 | 20, 0.30 |"
    )


def test_a_rate_of_a_whole_load_is_marked_and_explained() -> None:
    plain = report.bench_tables(bench(world("counter", 1_000, point(5.0))))
    marked = report.bench_tables(bench(world("counter", 1_000, point(5.0, is_whole=True))))

    assert "| 5* |" in marked
    assert report.WHOLE in marked
    assert report.WHOLE not in plain


def test_ratios_compare_ours_with_each_peer_and_missing_peers_have_a_reason() -> None:
    text = report.peer_tables(
        peers(turn(AOS, 400, 2), turn(RESTATE, 100, 8), missing={"DBOS": "not\ninstalled | no"})
    )

    assert f"| {RESTATE} | -; - | -; - | 4.00; 0.25 | -; - |" in text.splitlines()
    assert "| DBOS | not installed / no |" in text.splitlines()


def test_every_row_of_every_table_has_as_many_cells_as_its_head() -> None:
    text = report.render(
        bench(world(), world("steps"), world("orders"), journals=[journal(1.0, 1.0)]),
        peers(turn(AOS, 1, 1), turn(RESTATE, 1, 1)),
        "## Where the time goes\n\nBy hand.\n",
    )

    widths: list[set[int]] = [set()]
    for line in text.splitlines():
        if line.startswith("| "):
            widths[-1].add(line.count(" | "))
        elif widths[-1]:
            widths.append(set())
    assert all(len(each) == 1 for each in widths if each)
    assert len([each for each in widths if each]) >= 7
    assert "By hand." in text


def test_results_are_written_from_the_figures_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BENCH", "PEERS", "CHART", "NOTES", "RESULTS"):
        monkeypatch.setattr(report, name, tmp_path / name)
    report.NOTES.write_text("notes by hand")

    report.write()

    assert "notes by hand" in report.RESULTS.read_text()
    assert "## The kernel" not in report.RESULTS.read_text()
    assert ET.fromstring(report.CHART.read_text()).tag.endswith("svg")


def test_a_bar_is_as_high_as_its_value_and_a_missing_one_is_not_there() -> None:
    panel = Panel(
        title="a < b",
        groups=("1", "2"),
        series=(Series(name="x", values=(50.0, 100.0)), Series(name="y", values=(None, 25.0))),
    )

    found = ET.fromstring(svg([panel]))

    heights = [
        float(each.attrib["height"])
        for each in found.iter("{http://www.w3.org/2000/svg}rect")
        if "x" in each.attrib and each.attrib["width"] != "11"
    ]
    assert len(heights) == 3
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.1)
    assert heights[2] == pytest.approx(heights[0] / 2, abs=0.1)
    assert svg([panel]) == svg([panel])
