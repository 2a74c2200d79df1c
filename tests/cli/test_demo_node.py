"""The demo through a node, shortened (C-50a)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aos_cli.demo.processes import child_of
from tests.cli.shell import ROOT, Aos, run
from tests.cli.test_demo import await_end
from tests.cli.test_processes import eventually


@pytest.mark.rotated(3)
def test_the_books_agree_though_a_worker_the_front_and_the_kernel_process_are_killed(
    tmp_path: Path,
) -> None:
    """C-50a, C-51"""
    folder = tmp_path / "here"

    found = run("demo", folder, "--orders", "12", "--seed", "11", "--workers", "2", cwd=ROOT)

    assert found.code == 0, found.err
    await_end(folder)
    lines = found.out.splitlines()
    checks = [line for line in lines if line.startswith("  ✓ ")]
    assert f"all {len(checks)} checks hold" in lines
    assert "  ✓ every order is closed" in checks
    shown = [line[2:] for line in lines if line.startswith("$ ")]
    killed = [int(each.split()[2]) for each in shown if each.startswith("kill -9 ")]
    assert len(set(killed)) == 3
    assert sum(each.startswith("aos node ") for each in shown) == 2
    assert sum(" aos worker " in each for each in shown) == 3
    bodies = sorted((folder / "batches").iterdir())
    assert [each.split()[2] for each in shown if each.startswith("curl ")] == [
        f"@{each}" for each in bodies
    ]
    assert sum("events are durable" in line for line in lines) == len(bodies) == 2
    log = (folder / "log.txt").read_text()
    assert "the front died (signal 9); it is started again" in log


def test_a_demo_needs_a_worker(aos: Aos, tmp_path: Path) -> None:
    """C-50a"""
    found = aos("demo", tmp_path, "--workers", "0")

    assert found == (2, "", "aos: --workers: expected 1 or more, found 0\n")


def test_a_child_is_found_by_a_word_of_its_command_line() -> None:
    waits = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "one"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        # `Popen` returns a moment before the child has its command line.
        assert child.stdout is not None
        child.stdout.readline()
        assert child_of(os.getpid(), "one") == child.pid
        assert child_of(os.getpid(), "another") is None
        assert child_of(child.pid, "one") is None


def test_a_thread_that_ends_during_the_look_has_no_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    glob = Path.glob

    def with_an_ended_one(path: Path, pattern: str) -> list[Path]:
        return [path / "0" / "children", *glob(path, pattern)]

    monkeypatch.setattr(Path, "glob", with_an_ended_one)

    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            eventually(lambda: child_of(os.getpid(), "600") == child.pid, "the child is found")
        finally:
            child.kill()
