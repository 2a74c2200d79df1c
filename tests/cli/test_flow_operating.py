"""Flows of the real engine that a fault has stopped, or that are stuck, and what an operator does
about them (spec/cli.md, C-72a, C-73)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import load
from aos.sandbox.inspect import check_module
from tests.cli.shell import Result, here, in_silence
from tests.cli.test_commands import is_sound, running
from tests.cli.test_flow_gate import files, written
from tests.copies import copied
from tests.flow.probe import HOUR

DONE = ("--ok", '{"note": "c-1"}')
BROKEN = ("--error", "broken", "it is broken")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operated") / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(load(files("probe"), check=check_module))
    return path


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "world")


def start(world: Path, key: str, program: str) -> Result:
    given = {"id": key, "program": program, "count": 0, "pause": HOUR, "until": 0, "blob": None}
    return here("flow", "start", "probe", json.dumps(given), "--world", world)


def run(world: Path) -> None:
    in_silence("run", "--until-waiting", "--world", world)


def begin(world: Path, key: str, program: str) -> None:
    assert start(world, key, program).code == 0
    run(world)


def settle(world: Path, *answer: str) -> int:
    """Answer the open effect of the only flow; return the record."""
    rows = here("inspect", "intents", "--json", "--world", world).json["intents"]
    [intent] = [row["intent"] for row in rows if row["flow"]["role"] is None]
    found = here("effects", "settle", intent, *answer, "--json", "--world", world).json
    seq: int = found["seq"]
    return seq


def shown(world: Path, key: str, *words: str) -> Any:
    return here("flow", "show", "probe", key, *words, "--json", "--world", world).json


@pytest.fixture
def diverged(world: Path, tmp_path: Path) -> Path:
    """A flow whose charge succeeded, but whose new code does not fit its history."""
    begin(world, "a", "moved")
    later = tmp_path / "later"
    later.mkdir()
    written(later, files("next"))
    allowed = here("apply", later, "--allow-diverged", "--world", world)
    settle(world, *DONE)
    run(world)

    assert allowed.code == 0, allowed
    assert (
        "1 flow in progress: the next step ends with a fault\n  t/probe@1 a: at one" in allowed.err
    )
    assert shown(world, "a")["status"] == "faulted"
    return world


def test_a_cancel_of_a_diverged_flow_reports_the_success_that_no_compensation_undoes(
    diverged: Path,
) -> None:
    """C-72a"""
    found = here("flow", "cancel", "probe", "a", "--world", diverged)
    run(diverged)

    assert found.code == 0, found
    assert "the receipt ok of t/do@1 for one (record " in found.out
    assert found.out.endswith('{"note":"c-1"}\n')
    assert "1 skipped receipt reported a success that the flow never got" in found.err
    assert "Cancel runs with the next aos run" in found.err
    [step] = shown(diverged, "a", "--history")["operations"]
    assert (step["path"], step["value"], step["is_skipped"]) == ("one", {"note": "c-1"}, True)
    assert shown(diverged, "a")["status"] == "canceled"
    text = here("flow", "show", "probe", "a", "--history", "--world", diverged).out
    assert ", its receipt skipped (journal)" in text
    is_sound(diverged)


def test_a_cancel_while_a_process_runs_the_world_waits_until_the_flow_is_cancelled(
    diverged: Path,
) -> None:
    """C-72a"""
    with running(diverged):
        found = here("flow", "cancel", "probe", "a", "--json", "--world", diverged).json

    assert found["is_over"] is True
    [skipped] = found["skipped"]
    assert (skipped["path"], skipped["role"], skipped["payload"]) == ("one", None, {"note": "c-1"})
    assert shown(diverged, "a")["status"] == "canceled"


def test_a_diverged_flow_resumes_when_its_code_is_mended(diverged: Path, tmp_path: Path) -> None:
    """C-73"""
    mended = tmp_path / "mended"
    mended.mkdir()
    written(mended, files("probe"))
    applied = here("apply", mended, "--world", diverged)
    resumed = here("flow", "resume", "probe", "a", "--world", diverged)
    run(diverged)
    settle(diverged, *DONE)
    run(diverged)

    assert applied.code == resumed.code == 0, (applied, resumed)
    assert "t/probe@1 a resumes with the entry that failed" in resumed.out
    found = shown(diverged, "a")
    assert (found["status"], found["output"]) == ("completed", "c-1")


@pytest.fixture
def stuck(world: Path) -> Path:
    """A flow whose second step failed, and whose compensation of the first one failed for good."""
    begin(world, "a", "steps")
    settle(world, *DONE)
    run(world)
    settle(world, *BROKEN)
    run(world)
    return world


def fail_for_good(world: Path) -> None:
    """Refuse the compensation in all its attempts. A pause ends if its timer is canceled."""
    for _ in range(5):
        settle(world, *BROKEN)
        run(world)
        for row in here("inspect", "intents", "--json", "--world", world).json["intents"]:
            assert row["flow"]["role"] == "retry"
            in_silence("effects", "cancel", row["intent"], "--world", world)
        run(world)


def test_a_stuck_flow_is_resumed_with_more_attempts_or_without_the_compensation(
    stuck: Path, tmp_path: Path
) -> None:
    """C-73"""
    fail_for_good(stuck)
    found = shown(stuck, "a")
    assert found["status"] == "stuck"
    assert "aos flow resume t/probe@1 a" in found["reasons"][-1]["next"]
    other = copied(stuck, tmp_path / "other")

    again = here("flow", "resume", "probe", "a", "--world", stuck)
    run(stuck)
    assert shown(stuck, "a")["status"] == "rolling_back"
    settle(stuck, *DONE)
    run(stuck)
    skipped = here("flow", "resume", "probe", "a", "--skip", "--world", other)
    run(other)

    assert "t/probe@1 a resumes its rollback" in again.out
    assert "t/probe@1 a resumes without the compensation that is stuck" in skipped.out
    for world, state in ((stuck, "done"), (other, "skipped")):
        found = shown(world, "a")
        assert (found["status"], found["compensations"][0]["state"]) == ("failed", state)


def test_a_flow_whose_start_has_not_run_is_pending_and_says_what_it_waits_for(world: Path) -> None:
    """C-74"""
    start(world, "a", "steps")

    text = here("flow", "show", "probe", "a", "--world", world).out
    listed = here("flow", "list", "--world", world).out
    assert "status\tpending\n" in text
    assert "events wait to be handled: 1 event" in text
    assert "1970" not in text + listed


def test_a_list_of_cells_shows_flows_on_one_line_without_their_operations(world: Path) -> None:
    """C-33"""
    begin(world, "a", "race")

    [row] = here("inspect", "cells", "--state", "--world", world).out.splitlines()[1:]
    assert row.split("\t")[-1] == "running; waits at race/work/one, race/note/note"
