"""Processes of a benchmark always end; and the places where a benchmark may measure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.processes import Children, run_child, stoppable, wait_for

from aos.errors import BadUsage, Unavailable
from aos.host.folder.folder import open_folder
from benchmarks import processes, scratch

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(60)
"""


def test_children_are_ended_when_the_block_fails(tmp_path: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def fail() -> None:
        with Children() as children:
            started.append(children.start(SLEEP, log=tmp_path / "log"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [each.returncode for each in started] == [-signal.SIGTERM]


def test_a_child_that_does_not_listen_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "END_S", 0.2)
    log = tmp_path / "log"

    with Children() as children:
        child = children.start([sys.executable, "-c", DEAF], log=log)
        while "deaf" not in log.read_text():
            os.sched_yield()

    assert child.returncode == -signal.SIGKILL


def test_a_command_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('too bad'); raise SystemExit(3)"]

    with pytest.raises(Unavailable, match=r"(?s)ended with 3.*too bad"):
        wait_for(command, folder=tmp_path, timeout_s=240, log=tmp_path / "log")


def test_a_command_that_takes_too_long_is_ended_and_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="took longer than 0 s"):
        wait_for(SLEEP, folder=tmp_path, timeout_s=0.1, log=tmp_path / "log")


def test_a_world_is_made_in_a_process_of_its_own(tmp_path: Path) -> None:
    given = {"do": "make", "path": tmp_path / "world", "workload": "counter"}

    assert run_child(given, tmp_path, timeout_s=240) == {}
    assert open_folder(tmp_path / "world").world


def test_sigterm_ends_the_program_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), stoppable():
        signal.raise_signal(signal.SIGTERM)

    assert signal.getsignal(signal.SIGTERM) is before


def test_a_folder_in_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "file_system", lambda _: "tmpfs")

    with pytest.raises(BadUsage, match="this is a tmpfs"), scratch.scratch(tmp_path):
        raise AssertionError("a folder was made")

    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_taken_away_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "file_system", lambda _: "ext4")

    def fail() -> None:
        with scratch.scratch(tmp_path) as folder:
            (folder / "file").write_text("x")
            assert scratch.sync_ms(folder) > 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_the_kind_of_a_file_system_is_that_of_the_nearest_mount() -> None:
    assert scratch.file_system(Path("/proc/self")) == "proc"
