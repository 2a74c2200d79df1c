"""The demo on three nodes and three servers, shortened (C-50b; spec/cluster.md, CL-180 to
CL-182)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import ROOT, Aos, run, start
from tests.cli.test_demo import await_end, living
from tests.nats_servers import nats_program


@pytest.mark.rotated(3)
def test_the_books_agree_though_the_owner_is_killed_and_the_leader_is_stopped(
    tmp_path: Path,
) -> None:
    """CL-180, CL-181"""
    nats_program()
    folder = tmp_path / "here"

    shown = run("demo", folder, "--cluster", "--orders", "20", "--seed", "11", cwd=ROOT)

    assert shown.code == 0, shown.out + shown.err
    await_end(folder)
    lines = shown.out.splitlines()
    checks = [line for line in lines if line.startswith("  ✓ ")]
    assert f"all {len(checks)} checks hold" in lines
    assert "✗" not in shown.out
    for check in (
        "the head is the same on all three nodes", "every order is closed", "both say the same",
        *(f"aos {name} ends with 0 on {node}" for name in ("replay", "verify") for node in "abc"),
    ):  # fmt: skip
        assert f"  ✓ {check}" in checks
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    starts = [line for line in commands if re.search(r"aos run .*/[abc] &$", line)]
    assert len(starts) == 4, "each node, and the killed one again"
    [killed] = [index for index, line in enumerate(commands) if line.startswith("kill -9 ")]
    stopped = [index for index, line in enumerate(commands) if re.fullmatch(r"kill \d+", line)]
    assert len(stopped) == 4, "the leader, then each node"
    for end in (killed, stopped[0]):
        assert commands[end - 1].startswith("aos send --jsonl "), "a batch was under way"
    assert sum(" --config " in line for line in commands) == 1
    sent = {line.split()[3] for line in commands if line.startswith("aos send ")}
    assert sent == {str(path) for path in (folder / "batches").iterdir()}
    assert sum("is acknowledged" in line for line in lines) == len(sent) == 10
    assert any(re.search(r"^  [bc] owns the world \d+\.\d s later$", line) for line in lines)


def test_an_interrupted_demo_leaves_no_server_no_node_and_no_folder(tmp_path: Path) -> None:
    """CL-182"""
    nats_program()
    demo = start(
        "demo", "--cluster", "--orders", "20", env={"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert demo.stdout is not None
        for line in demo.stdout:
            if b"aos join " in line:
                break
        assert len(living(str(tmp_path))) >= 6, "three servers, their parent, the shop and a node"
        os.kill(demo.pid, signal.SIGINT)
        _, err = demo.communicate(timeout=180)
    finally:
        demo.kill()
        demo.wait()

    assert demo.returncode == 130
    assert err.endswith(b"aos: interrupted\n")
    await_end(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_demo_says_which_command_installs_a_server_or_its_client(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-50b"""
    monkeypatch.setenv("AOS_NATS_SERVER", str(tmp_path / "none"))
    without_server = aos("demo", tmp_path / "d", "--cluster")
    monkeypatch.delenv("AOS_NATS_SERVER")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    nowhere = aos("demo", tmp_path / "d", "--cluster")
    monkeypatch.setitem(sys.modules, "aos.store.log.nats_session", None)
    without_client = aos("demo", tmp_path / "d", "--cluster")

    assert without_server.code == nowhere.code == without_client.code == 2
    assert "AOS_NATS_SERVER: expected the path of a program" in without_server.err
    assert "nats-server was not found" in nowhere.err
    assert "make nats-server" in nowhere.err
    assert "pip install 'aos-kernel[cluster]'" in without_client.err
    assert not (tmp_path / "d").exists()


def test_the_demo_runs_on_servers_or_through_a_node(aos: Aos, tmp_path: Path) -> None:
    """C-50b"""
    both = aos("demo", tmp_path, "--cluster", "--workers", "2")

    assert both == (2, "", "aos: --cluster, --workers: expected one of them, found both\n")
