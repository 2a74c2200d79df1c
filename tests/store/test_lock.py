"""One process writes a world (ST-40)."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from aos.errors import Unavailable
from aos.store.errors import WorldIsHeld
from aos.store.lock import WorldLock
from tests.store.children import ROOT, end, in_child, line

HOLD = """
import sys
from pathlib import Path
from aos.store.lock import WorldLock
WorldLock(Path(sys.argv[1])).acquire()
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.readline()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "kernel")},
    )
    assert line(child.stdout) == "held"
    return child


def test_a_second_process_is_told_who_holds_it(tmp_path: Path) -> None:
    child = holder(tmp_path)
    try:
        with pytest.raises(WorldIsHeld) as caught:
            WorldLock(tmp_path).acquire()
    finally:
        end(child)
    found = caught.value.holder
    assert found is not None
    assert (found.pid, found.host) == (child.pid, socket.gethostname())
    assert str(caught.value) == (
        f"{tmp_path}: the world is written by pid {child.pid} on {found.host} since {found.since} "
        "(stop that process, or send and apply through it)"
    )
    assert found.since.endswith("Z")
    assert issubclass(WorldIsHeld, Unavailable)


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        child = holder(tmp_path)
        end(child)
        with WorldLock(tmp_path) as lock:
            assert json.loads(lock.path.read_text())["pid"] == os.getpid()


def test_one_process_holds_it_once(tmp_path: Path) -> None:
    with (
        WorldLock(tmp_path),
        pytest.raises(WorldIsHeld, match=f"is written by this process .pid {os.getpid()}. since"),
    ):
        WorldLock(tmp_path).acquire()


def test_a_holder_of_another_pid_namespace_is_not_taken_for_a_process_of_this_one(
    tmp_path: Path,
) -> None:
    """ST-40"""
    held = {
        "pid": os.getpid(), "namespace": 1, "host": socket.gethostname(),
        "since": "2026-11-28T12:00:00Z", "runs": True,
    }  # fmt: skip
    fd = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, json.dumps(held).encode())
    with pytest.raises(WorldIsHeld) as caught:
        WorldLock(tmp_path).acquire()
    os.close(fd)

    assert str(caught.value) == (
        f"{tmp_path}: the world is written by a process of another container on "
        f"{held['host']} (pid {held['pid']} there) since {held['since']} "
        "(stop that process, or send and apply through it)"
    )


def test_a_holder_really_is_in_the_namespace_that_it_names(tmp_path: Path) -> None:
    """ST-40: pid 1 of a new namespace is not the first process of this machine."""
    unshare = shutil.which("unshare")
    ns = [unshare or "unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if (
        unshare is None
        or subprocess.run([*ns, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("this machine permits no pid namespace: it is NOT TESTED here")
    child = subprocess.Popen(
        [*ns, "--kill-child", sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "kernel")},
    )
    try:
        assert line(child.stdout) == "held"
        with pytest.raises(WorldIsHeld, match=r"a process of another container on .*\(pid 1 there"):
            WorldLock(tmp_path).acquire()
    finally:
        end(child)


@pytest.mark.parametrize("runs", [True, False])
def test_a_holder_says_whether_it_runs_the_world(tmp_path: Path, *, runs: bool) -> None:
    """ST-40"""
    with WorldLock(tmp_path, runs=runs), pytest.raises(WorldIsHeld) as caught:
        WorldLock(tmp_path).acquire()

    assert caught.value.holder is not None
    assert caught.value.holder.runs is runs


def test_it_is_given_back(tmp_path: Path) -> None:
    lock = WorldLock(tmp_path)

    with lock:
        assert lock.path.read_text() != ""
    lock.release()

    assert lock.path.read_text() == ""
    with lock, pytest.raises(AssertionError, match="acquired twice"):
        lock.acquire()


def test_a_program_that_was_started_does_not_inherit_it(tmp_path: Path) -> None:
    with WorldLock(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with WorldLock(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("text", ["", "{", '{"pid": 1}', "[]", '{"pid": "1"}', "\x00" * 5000])
def test_a_holder_without_a_name_is_another_process(tmp_path: Path, text: str) -> None:
    """It has the lock and did not write its name yet, or could not: the disk is full."""
    path = tmp_path / "lock"
    path.write_text(text)
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(WorldIsHeld) as caught:
        WorldLock(tmp_path).acquire()
    os.close(fd)

    assert caught.value.holder is None
    assert "the world is written by another process (stop that process" in str(caught.value)


def test_a_longer_name_from_before_does_not_show_through(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("x" * 2000)
    with WorldLock(tmp_path) as lock:
        assert json.loads(lock.path.read_text())["host"] == socket.gethostname()


def test_no_folder_no_lock(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="the lock file cannot be opened: No such file"):
        WorldLock(tmp_path / "absent").acquire()


def test_an_unwritable_folder_is_told(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user: permissions are NOT TESTED here")

    def act() -> str:
        os.setuid(65534)
        WorldLock(tmp_path).acquire()
        return "passed"

    assert "the lock file cannot be opened: Permission denied" in in_child(act)
