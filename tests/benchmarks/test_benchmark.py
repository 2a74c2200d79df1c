"""The command of a benchmark: its options, its exit codes, and the files that it writes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.audit.__main__ import BENCHMARK as AUDIT
from benchmarks.benchmark import Benchmark
from benchmarks.flow.__main__ import BENCHMARK as FLOW
from benchmarks.gateway.__main__ import BENCHMARK as GATEWAY
from benchmarks.linear.__main__ import BENCHMARK as LINEAR
from benchmarks.node.__main__ import BENCHMARK as NODE
from benchmarks.page.__main__ import BENCHMARK as PAGE
from benchmarks.rest.__main__ import BENCHMARK as REST
from benchmarks.sdk.__main__ import BENCHMARK as SDK

from aos.errors import Unavailable
from benchmarks import report, scratch

ALL: tuple[Benchmark[Any], ...] = (
    AUDIT, FLOW, GATEWAY, LINEAR, NODE, PAGE, REST, SDK,
)  # fmt: skip
each_benchmark = pytest.mark.parametrize("benchmark", ALL, ids=[each.name for each in ALL])


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    cells: int = 1_000
    seconds: float = 4.0


@dataclass
class Tried:
    """A benchmark of nothing. ``written`` counts how often ``RESULTS.md`` was written again."""

    benchmark: Benchmark[Options]
    folder: Path
    written: int = 0

    def run(self, *arguments: str, **changes: Any) -> int:
        benchmark = replace(self.benchmark, **changes)
        return benchmark.main([*arguments, "--dir", str(self.folder)])

    def kept(self) -> Any:
        path = self.benchmark.path
        return json.loads(path.read_text()) if path.exists() else None


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tried:
    def write() -> None:
        made.written += 1

    benchmark = Benchmark(
        name="nothing",
        about="Measure nothing.\n\nReally.",
        whole=Options(),
        quick=Options(cells=10, seconds=0.5),
        quick_help="few cells",
        helps={"cells": "of the world ({:,})", "seconds": "of a round ({:g})"},
        measure=lambda options, folder: {"cells": options.cells, "is_there": folder.is_dir()},
        tables=lambda found: f"| {found['cells']} |",
        path=tmp_path / "results" / "nothing.json",
    )
    made = Tried(benchmark, tmp_path)
    monkeypatch.setattr(scratch, "MEMORY", frozenset())
    monkeypatch.setattr(report, "write", write)
    return made


def test_a_whole_run_is_kept_with_its_machine_and_its_options(
    tried: Tried, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tried.run() == 0

    found = tried.kept()
    assert list(found) == [
        "kind", "at", "options", "kernel", "machine", "cells", "is_there", "seconds"
    ]  # fmt: skip
    assert (found["kind"], found["options"]) == ("nothing", asdict(Options()))
    assert (found["cells"], found["is_there"]) == (1_000, True)
    assert found["seconds"] >= 0
    assert tried.written == 1
    assert capsys.readouterr().out == "| 1000 |\n"
    assert [each.name for each in tried.folder.iterdir()] == ["results"]


@pytest.mark.parametrize("arguments", [("--quick",), ("--cells", "7"), ("--seconds", "0.1")])
def test_a_run_with_other_options_prints_its_tables_and_writes_nothing(
    tried: Tried, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert tried.run(*arguments) == 0

    assert (tried.kept(), tried.written) == (None, 0)
    assert capsys.readouterr().out.startswith("| ")


@pytest.mark.parametrize("arguments", [(), ("--quick",)])
def test_a_run_with_a_file_writes_only_this_file(tried: Tried, arguments: tuple[str, ...]) -> None:
    out = tried.folder / "found.json"

    assert tried.run(*arguments, "--out", str(out)) == 0

    assert json.loads(out.read_text())["kind"] == "nothing"
    assert (tried.kept(), tried.written) == (None, 0)


@pytest.mark.parametrize("missing", [["there is no PostgreSQL"], {"Restate": "not installed"}])
def test_a_run_without_a_system_is_kept_only_by_a_benchmark_that_keeps_partial_ones(
    tried: Tried, missing: Any
) -> None:
    def measure(*_: object) -> dict[str, Any]:
        return {"cells": 1, "missing": missing}

    assert tried.run(measure=measure) == 0
    assert (tried.kept(), tried.written) == (None, 0)

    assert tried.run(measure=measure, keeps_partial=True) == 0
    assert (tried.kept()["missing"], tried.written) == (missing, 1)


@pytest.mark.parametrize(
    ("problem", "code", "text"),
    [
        (Unavailable("the child failed"), 1, "benchmarks: the child failed\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_a_run_that_fails_leaves_nothing(
    tried: Tried, problem: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(*_: object) -> dict[str, Any]:
        raise problem

    assert tried.run(measure=measure) == code

    assert capsys.readouterr().err == text
    assert list(tried.folder.iterdir()) == []


def test_a_folder_in_memory_is_refused(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scratch, "MEMORY", {"tmpfs"})
    monkeypatch.setattr(scratch, "file_system", lambda _: "tmpfs")

    assert tried.run() == 1
    assert "this is a tmpfs, which no sync makes durable" in capsys.readouterr().err


def test_help_describes_each_option_with_its_default(
    tried: Tried, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        tried.run("--help")

    text = capsys.readouterr().out
    assert "python -m benchmarks.nothing" in text
    assert "\n\nMeasure nothing.\n\n" in text
    for each in ("few cells", "of the world (1,000)", "of a round (4)", "on a disk (/var/tmp)"):
        assert each in text


@each_benchmark
def test_options_of_the_command_line_change_the_run(benchmark: Benchmark[Any]) -> None:
    assert benchmark.read_options([]).options == benchmark.whole != benchmark.quick
    assert benchmark.read_options(["--quick"]).options == benchmark.quick
    for name in benchmark.helps:
        chosen = benchmark.read_options(["--quick", f"--{name}", "77", "--dir", "/x", "--out", "y"])
        assert chosen.options == replace(benchmark.quick, **{name: 77})
        assert (chosen.below, chosen.out) == (Path("/x"), Path("y"))


@each_benchmark
def test_a_benchmark_writes_a_file_of_its_own_that_the_report_reads(
    benchmark: Benchmark[Any],
) -> None:
    tables: Callable[..., str] = benchmark.tables
    assert [each.name for each in ALL if each.path == benchmark.path] == [benchmark.name]
    assert benchmark.path.parent == report.BENCH.parent
    assert tables.__name__ in vars(report)


def test_only_a_node_keeps_a_run_without_its_peers() -> None:
    assert [each.name for each in ALL if each.keeps_partial] == ["node"]


def test_a_benchmark_of_kernels_measures_both_and_keeps_both(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AOS_CORE")
    measured: list[str] = []

    def measure(*_: object) -> dict[str, Any]:
        measured.append(os.environ["AOS_CORE"])
        return {"cells": len(measured)}

    assert tried.run(measure=measure, has_kernels=True) == 0

    assert measured == ["fast", "python"]
    figures = tried.kept()
    assert (figures["kernel"], figures["cells"]) == ("fast", 1)
    assert (figures["reference"]["kernel"], figures["reference"]["cells"]) == ("python", 2)
    heading = "### The same with the reference kernel"
    assert capsys.readouterr().out == f"| 1 |\n\n{heading}\n\n| 2 |\n"


def test_half_of_a_benchmark_of_kernels_is_printed_and_not_kept(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AOS_CORE")

    assert tried.run("--core", "python", has_kernels=True) == 0

    assert (tried.kept(), tried.written) == (None, 0)
    assert capsys.readouterr().out == "| 1000 |\n"


def test_worlds_of_all_processes_run_on_the_kernel_that_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AOS_CORE")
    assert FLOW.read_options(["--quick"]).kernels == ("fast", "python")
    assert AUDIT.read_options([]).kernels == ("fast",)
    assert FLOW.read_options(["--quick", "--core", "python"]).kernels == ("python",)

    monkeypatch.setenv("AOS_CORE", "python")  # the environment's, where no option names one
    assert FLOW.read_options(["--quick"]).kernels == AUDIT.read_options([]).kernels == ("python",)
    assert FLOW.read_options(["--core", "fast"]).kernels == ("fast",)
