"""State at rest: a small run from its worlds to its tables, and the checks of its figures."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.memory import peaks
from benchmarks.rest import child, commands, reads
from benchmarks.rest.__main__ import BENCHMARK, QUICK
from benchmarks.rest.feed import feed
from benchmarks.rest.steady import Steady
from benchmarks.rest.tables import rest_aims, rest_tables
from benchmarks.workloads import cell_name, load_of, scattered
from benchmarks.world import World
from typer.testing import CliRunner

from aos.core.journal.inputs import EventInput
from aos.host.world.snapshots import Every
from aos_cli.main import app
from benchmarks import report
from tests.benchmarks.test_report import MACHINE

pytestmark = pytest.mark.rotated(3)

SMALL = replace(
    QUICK, cells=90, small=30, every=60, seconds=0.2, shares=(0.1, 0.5), steady_share=0.1,
    since=600, reads=20, commands=1, waiting=40,
)  # fmt: skip


def run_here(given: Any, _folder: Path, *, timeout_s: float, module: str) -> Any:
    """In this process: nine others would take longer to start than all of this."""
    spec = json.loads(json.dumps(given, default=str))
    if module == "benchmarks.rest.reads":
        return reads.read(Path(spec["path"]), cells=spec["cells"], count=spec["count"])
    assert module == "benchmarks.rest.child"
    assert timeout_s > 100
    return child.run(spec)


def command_here(words: list[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    assert timeout_s > 100
    ended = CliRunner().invoke(app, words)
    return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout, ended.stderr)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The results of a run with 90 cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.rest.__main__.run_child", run_here)
        patch.setattr("benchmarks.rest.reads.run_child", run_here)
        patch.setattr(commands, "_run", command_here)
        folder = tmp_path_factory.mktemp("rest")
        return json.loads(json.dumps(BENCHMARK.run(SMALL, folder)))


def test_a_run_counts_cells_records_and_bytes(found: Any) -> None:
    small, large = found["made"]
    assert (small["cells"], large["cells"]) == (30, 90)
    assert large["snapshots"] >= 1
    disk = found["disk"]
    assert disk["node_count"] > 1  # 90 entries are more than one leaf
    assert 0 < disk["nodes"] < disk["blobs"] < disk["file"]
    assert disk["frames"] + disk["blobs"] <= disk["file"]
    assert 1 <= disk["frames_rows"] <= 1 + 2 + 90 + 90


def test_a_snapshot_has_what_changed(found: Any) -> None:
    first, last = found["snapshots"]

    assert (first["changed"], last["changed"]) == (9, 45)
    # A record for each event and each step, and the record of the snapshot before.
    assert (first["records"], last["records"]) == (19, 91)
    # Each cell that changed has a new state.
    assert first["blobs"] > 9
    assert last["blobs"] > 45
    assert first["bytes"] < last["bytes"]
    assert first["snapshot_mib"] > 1


def test_a_restart_reads_what_no_snapshot_has(found: Any) -> None:
    [rounds] = found["rounds"]
    since = found["since"]

    assert rounds["large"]["start"]["cells"] == 90
    assert rounds["large"]["rate"] > 0
    assert since["records_since"] >= 600  # more where the machine took its time
    assert since["start"]["cells"] == 90
    assert since["reads"]["count"] == 20
    assert 0 < since["reads"]["ms"]["p50"] <= since["reads"]["ms"]["p99"]
    assert since["commands"]["rss_anon_mib"] > 10
    assert found["replay"]["records"] == since["records_since"]  # the start among them
    assert 0 < found["replay"]["steps"] < found["replay"]["records"]


def test_a_pin_is_measured_while_every_instance_waits(found: Any) -> None:
    assert found["pin"]["waiting"] == 40
    assert found["pin"]["cpu_s"] > 0
    assert found["pin"]["seconds"] > 0


def test_the_aim_of_a_pin_is_met_below_a_second() -> None:
    for cpu_s, is_met in ((0.99, True), (1.0, False)):
        pin = {"waiting": 5_000, "seconds": 3.0, "cpu_s": cpu_s}
        assert rest_aims(large(pin=pin))[5].is_met is is_met


def test_gc_and_prune_are_measured_on_the_world_that_is_left(found: Any) -> None:
    gc, prune = found["commands"]

    assert (gc["command"], prune["command"]) == ("aos gc", "aos journal prune")
    assert 0 < prune["bytes_after"] < prune["bytes_before"]


def test_a_steady_load_is_sent_by_the_clock(found: Any) -> None:
    steady = found["steady"]

    assert 0 < steady["without"]["sent"] <= 101  # 500 a second for 0.2 s
    assert steady["beside"]["sent"] > 0
    for each in (steady["without"], steady["beside"]):
        assert 0 < each["accept_ms"]["p50"] <= each["accept_ms"]["p99"] <= each["worst_ms"]


def test_every_row_of_its_tables_has_as_many_cells_as_its_head(found: Any) -> None:
    widths: list[set[int]] = [set()]
    for line in rest_tables(found).splitlines():
        if line.startswith("| "):
            widths[-1].add(line.count(" | "))
        elif widths[-1]:
            widths.append(set())

    filled = [each for each in widths if each]
    assert len(filled) == 9
    assert all(len(each) == 1 for each in filled)


def test_of_a_small_world_no_aim_is_said_to_be_met(found: Any) -> None:
    assert {each.is_met for each in rest_aims(found)} == {None}
    assert {each.is_met for each in rest_aims(None)} == {None}


def large(**more: Any) -> dict[str, Any]:
    """Figures at the bounds of every aim."""
    found: dict[str, Any] = {
        "options": {"cells": 1_000_000},
        "rounds": [{"small": {"rate": 4_000.0}, "large": {"rate": 2_000.0, "own_mib": 600.0}}],
        "snapshots": [
            {"seconds": 9.0, "bytes": 9, "changed": 1},
            {"seconds": 1.0, "bytes": 100, "changed": 10},
            {"seconds": 10.0, "bytes": 1_000, "changed": 100},
        ],
        "steady": {
            "without": {"accept_ms": {"p50": 1.0, "p99": 2.0}},
            "beside": {"accept_ms": {"p50": 1.0, "p99": 4.0}},
        },
        "since": {"start": {"seconds": 1.99}, "records_since": 50_000},
    }
    return found | more


@pytest.mark.parametrize(
    ("index", "worse"),
    [
        (0, {"rounds": [{"small": {"rate": 4.0}, "large": {"rate": 2.0, "own_mib": 600.1}}]}),
        (1, {"rounds": [{"small": {"rate": 4.0}, "large": {"rate": 1.9, "own_mib": 1.0}}]}),
        (2, {"snapshots": [
            {"seconds": 1.0, "bytes": 1, "changed": 1}, {"seconds": 1.0, "bytes": 11, "changed": 10}
        ]}),
        (3, {"steady": {
            "without": {"accept_ms": {"p99": 2.0}}, "beside": {"accept_ms": {"p99": 4.1}}
        }}),
        (4, {"since": {"start": {"seconds": 2.0}, "records_since": 50_000}}),
    ],
)  # fmt: skip
def test_aims_are_met_at_their_bounds_and_not_beyond(index: int, worse: dict[str, Any]) -> None:
    assert [each.is_met for each in rest_aims(large())] == [True] * 5

    assert rest_aims(large(**worse))[index].is_met is False


def test_its_section_is_part_of_the_results(found: Any) -> None:
    text = report.render(None, None, "", rest=found | {"machine": MACHINE})

    assert "## State at rest" in text
    assert "## The kernel" not in text


def test_every_cell_has_its_turn_before_any_has_a_second() -> None:
    for size in (1, 90, 10_000):
        assert {scattered(each, size) for each in range(5, 5 + size)} == set(range(size))


def test_no_two_cells_have_the_same_state() -> None:
    load = load_of("keeper")

    events = {load.first(each, cell_name(each)).value for each in range(100)}

    assert len(events) == 100
    assert {len(each) for each in events} == {312, 313}


def test_memory_is_this_processs_and_that_of_one_it_started() -> None:
    words = "data = bytearray(64 << 20); print(flush=True); input()"
    with peaks() as found:
        started = subprocess.Popen(
            [sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert started.stdout is not None
        started.stdout.readline()
        found.look()
        started.communicate(b"\n")

    assert found.child > 64
    assert found.own > 1


def wrong(_: int) -> EventInput:
    return EventInput(schema="bench/Keep@1", value=b"\x00")


def test_a_refused_event_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "world"
    child.run({"do": "make", "path": str(path), "cells": 3, "every": 1_000})

    async def send() -> None:
        async with World(path, child.LOAD, every=Every(records=0)) as world:
            with pytest.raises(AssertionError, match="2 events were refused"):
                await feed(world, map(wrong, range(2)))
            with pytest.raises(AssertionError, match=r"\d+ failed"):
                await Steady(world, map(wrong, forever()), rate=100).run(seconds=0.1)

    asyncio.run(send())


def forever() -> Iterator[int]:
    while True:
        yield 0
