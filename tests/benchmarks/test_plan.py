"""The points of a world, and what the options make of the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import Options, main, read_options
from benchmarks.plan import IN_FLIGHT, WORKLOADS, Workload, points

from benchmarks import child, report, scratch


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_smallest_world_meets_every_load_and_a_busy_thread(workload: Workload) -> None:
    found = points(workload, is_smallest=True)

    for cells in ("many", "hot"):
        numbers = [each.in_flight for each in found if each.cells == cells and not each.is_busy]
        assert tuple(numbers) == IN_FLIGHT
    assert [each.in_flight for each in found if each.is_busy] == [1, 64]
    assert ("line" in {each.cells for each in found}) == (workload == "steps")


def test_a_larger_world_meets_many_cells_alone() -> None:
    found = points("counter", is_smallest=False)

    assert {(each.cells, each.is_busy) for each in found} == {("many", False)}
    assert [each.in_flight for each in found] == [1, 64, 256]


def test_a_run_without_options_is_whole_and_any_other_is_not() -> None:
    for arguments, is_whole in (
        ([], True),
        (["--restart-events", "5"], True),
        (["--quick"], False),
        (["--scenario", "steps"], False),
        (["--seconds", "1"], False),
    ):
        options, _, _ = read_options(arguments)
        assert options.is_whole is is_whole, arguments


def test_options_say_what_is_run_and_where() -> None:
    options, folder, out = read_options(
        ["--scenario=counter", "--sizes=10,20", "--in-flight=1,2", "--dir=/there", "--out=x.json"]
    )

    assert options == Options(workloads=("counter",), sizes=(10, 20), in_flight=(1, 2))
    assert (folder, out) == (Path("/there"), Path("x.json"))


def test_a_run_writes_what_it_found_and_prints_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_here(job: Any, _folder: Path, *, timeout_s: float, env: Any = None) -> Any:
        assert timeout_s > 100
        with monkeypatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            return child.run(child.Spec.read(json.loads(json.dumps(job, default=str))))

    monkeypatch.setattr(scratch, "file_system", lambda _: "ext4")
    # Six processes would take longer to start than all of this.
    monkeypatch.setattr("benchmarks.__main__.run_child", run_here)
    out = tmp_path / "found.json"
    small = ["--scenario=counter", "--sizes=20", "--in-flight=1", "--seconds=0.1", "--items=20"]

    code = main([*small, f"--dir={tmp_path}", f"--out={out}"])

    assert code == 0
    found = json.loads(out.read_text())
    assert [world["core"] for world in found["worlds"]] == ["fast", "python"]
    for world in found["worlds"]:
        loads = [(point["cells"], point["is_busy"]) for point in world["points"]]
        assert loads == [("many", False), ("hot", False), ("stream", False), ("many", True)]
    assert [journal["core"] for journal in found["journals"]] == ["python", "fast"]
    assert [journal["replay"]["steps"] for journal in found["journals"]] == [20, 20]
    assert report.bench_tables(found) in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [out]


def test_a_run_that_cannot_be_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scratch, "file_system", lambda _: "tmpfs")

    assert main([f"--dir={tmp_path}"]) == 1
    assert "this is a tmpfs" in capsys.readouterr().err
