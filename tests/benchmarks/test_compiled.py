"""The kernel interpreted and compiled: the comparison and its tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.compiled import __main__ as command
from benchmarks.compiled.tables import COMPILED, INTERPRETED, compiled_aims, compiled_tables
from benchmarks.processes import compiled_env

from aos.errors import Unavailable
from benchmarks import processes, report
from tests.benchmarks.test_report import MACHINE


def turn(form: str, rate: float, seconds: float, number: int = 0) -> dict[str, Any]:
    points = [
        {
            "cells": cells,
            "in_flight": in_flight,
            "is_busy": is_busy,
            "rate": rate / (10 if is_busy else 1),
            "finish_ms": None if in_flight == 1 else {"p50": 1000 / rate},
            "floor": {"rate": 4000.0},
        }
        for cells, in_flight, is_busy in [
            ("many", 1, False), ("many", 64, False), ("many", 64, True), ("hot", 64, False)
        ]
    ]  # fmt: skip
    journal = {
        "workload": "counter",
        "items": 100,
        "live": {"rate": rate},
        "replay": {"seconds": seconds, "records": 204},
        "start": {"seconds": seconds},
    }
    return {
        "form": form,
        "round": number,
        "worlds": [{"workload": "counter", "size": 90, "points": points}],
        "journals": [journal],
    }


def found(*turns: dict[str, Any]) -> dict[str, Any]:
    return {
        "at": "now",
        "seconds": 1,
        "machine": MACHINE,
        "options": {"rounds": 3, "items": {"counter": 100}},
        "turns": list(turns),
    }


THREE = found(
    turn(INTERPRETED, 1000, 4), turn(COMPILED, 1500, 1.5),
    turn(INTERPRETED, 900, 2), turn(COMPILED, 1800, 1),
    turn(INTERPRETED, 1100, 3), turn(COMPILED, 2000, 2.5),
)  # fmt: skip


def test_each_cell_says_both_medians_and_their_ratio() -> None:
    text = compiled_tables(THREE)
    assert "| counter | many | 1 | 1,000, 1,800, 1.80 | -, -, - | 4.00, 2.22 |" in text
    assert "| counter | hot | 64 | 1,000, 1,800, 1.80 | 1.0, 0.6, 0.56 | 4.00, 2.22 |" in text
    assert "| counter | 204 | 1,000, 1,800, 1.80 | 33, 67, 2.00 | 3.00, 1.50, 0.50 |" in text


def test_aims_are_those_of_the_compiled_form() -> None:
    floor, restart = compiled_aims(THREE)
    assert (floor.found, floor.is_met) == ("2.2 at 1, 2.2 at 64", True)
    assert (restart.found, restart.is_met) == ("1.5 s, 204 records", True)
    slow = compiled_aims(found(turn(COMPILED, 1000, 2.0)))
    assert [each.is_met for each in slow] == [False, False]
    assert compiled_aims(None) == []


def test_the_report_has_them_where_they_were_measured() -> None:
    text = report.render(None, None, "", forms=THREE)
    assert "## Compiled" in text
    assert "restart, as far from a snapshot as can be; compiled | less than 2 s | 1.5 s" in text
    assert "compiled" not in report.render(None, None, "").replace("bench-compiled", "")


def test_without_a_compiled_kernel_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "COMPILED", tmp_path / "compiled")
    with pytest.raises(Unavailable, match=r"found no compiled kernel \(make compiled\)"):
        compiled_env()
    assert command.BENCHMARK.main(["--quick"]) == 1
    assert "make compiled" in capsys.readouterr().err


def test_a_folder_that_holds_no_compiled_kernel_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "compiled").mkdir()
    monkeypatch.delenv("PYTHONPATH", raising=False)  # these tests may run compiled themselves
    monkeypatch.setattr(processes, "COMPILED", tmp_path / "compiled")
    assert command.BENCHMARK.main(["--quick"]) == 1
    assert "of another Python" in capsys.readouterr().err


def test_both_forms_are_measured_by_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    turns: list[str] = []

    class Fake:
        def __init__(self, plan: Any, _folder: Path, env: dict[str, str]) -> None:
            self.form = COMPILED if env else INTERPRETED
            assert plan.in_flight == (1, 64)

        def run(self) -> dict[str, Any]:
            turns.append(self.form)
            return turn(self.form, 1000, 1)

    monkeypatch.setattr(command, "Bench", Fake)
    monkeypatch.setattr(command, "compiled_env", lambda: {"PYTHONPATH": "x"})
    monkeypatch.setattr(command, "wait_for", lambda *_, **__: None)
    out = tmp_path / "out.json"
    assert command.BENCHMARK.main(["--quick", "--rounds", "2", "--out", str(out)]) == 0
    assert turns == [INTERPRETED] * 2 + [COMPILED] * 2 + [INTERPRETED] * 2 + [COMPILED] * 2
    assert len(json.loads(out.read_text())["turns"]) == 8
    assert "| counter | many | 64 |" in capsys.readouterr().out
