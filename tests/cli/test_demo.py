"""The demo, shortened (C-50 to C-53)."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from aos.errors import Unavailable
from aos_cli.commands import demo as command
from aos_cli.demo import files, processes, story
from tests.cli.shell import ROOT, Aos, run, start
from tests.cli.terminal import Terminal
from tests.cli.test_processes import eventually

ORDERS = "60"


def living(word: str) -> list[int]:
    """Ids of processes whose command line holds ``word``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and any(word.encode() in each for each in words):
            found.append(int(folder.name))
    return found


def await_end(folder: Path) -> None:
    """Wait until no process has the folder in its command line. A process whose parent was killed
    on purpose may still be ending."""
    eventually(lambda: not living(str(folder)), "all processes of the demo have ended")


@pytest.mark.rotated(3)
def test_the_demo_holds_and_every_command_that_it_shows_can_be_done_by_hand(
    aos: Aos, tmp_path: Path
) -> None:
    """C-50, C-51"""
    folder = tmp_path / "here"

    found = run("demo", folder, "--orders", ORDERS, "--seed", "11", cwd=ROOT)

    assert found.code == 0
    await_end(folder)
    lines = found.out.splitlines()
    checks = [line for line in lines if line.startswith("  ✓ ")]
    assert f"all {len(checks)} checks hold" in lines
    assert not [line for line in lines if "✗" in line]
    assert sorted(each.name for each in folder.iterdir()) == [
        "books.jsonl", "log.txt", "orders.jsonl", "world",
    ]  # fmt: skip
    shown = [line[2:] for line in lines if line.startswith("$ ")]
    assert [" ".join(each.split()[:2]) for each in shown if each.startswith("aos")] == [
        "aos init", "aos apply", "aos send", "aos trace", "aos replay", "aos verify",
    ]  # fmt: skip
    executors = "--executors manifests/orders/effects.py:shop"
    runs = [re.search(f"aos run (.*?){executors}", command) for command in shown]
    assert [run[1] for run in runs if run] == ["", "--until-idle "], "one to kill, one to its end"
    [killed] = [each for each in shown if each.startswith("kill -9 ")]
    assert int(killed.split()[2]) > 1
    [trace] = [each for each in shown if each.startswith("aos trace")]
    by_hand = aos(*shlex.split(trace)[1:])
    assert by_hand.code == 0
    assert by_hand.out in found.out
    assert "→ waiting · reserve (attempt 1)" in by_hand.out, "annotations are shown"
    [figures] = re.findall(r"^  (\d+) steps executed again", found.out, re.MULTILINE)
    assert int(figures) > 60


@pytest.mark.rotated(3)
def test_the_demo_with_the_workflow_in_python_builds_it_first(tmp_path: Path) -> None:
    """C-50c"""
    folder = tmp_path / "here"

    demo = run("demo", folder, "--python", "--orders", "20", "--seed", "11", cwd=ROOT)

    assert demo.code == 0, demo.out + demo.err
    await_end(folder)
    lines = demo.out.splitlines()
    checks = [line for line in lines if line.startswith("  ✓ ")]
    assert f"all {len(checks)} checks hold" in lines
    assert "  ✓ every order is closed" in checks
    assert "  ✓ both say the same" in checks
    shown = [line[2:] for line in lines if line.startswith("$ ")]
    assert shown[:4] == [
        f"cp -r manifests/orders/python {folder}/orders",
        f"cp modules/ledger/ledger.wasm {folder}/orders",
        f"aos build {folder}/orders",
        f"aos init {folder}/world",
    ]
    assert f"aos apply {folder}/orders --world {folder}/world" in shown
    assert any(command.startswith("kill -9 ") for command in shown)
    assert re.search(r"^Shipped\t\d+\t", demo.out, re.MULTILINE), "outcomes are those of the flows"
    [steps] = re.findall(r"^  (\d+) steps executed again", demo.out, re.MULTILINE)
    assert int(steps) > 60


@pytest.mark.parametrize("other", [["--workers", "2"], ["--cluster"]])
def test_the_demo_in_python_has_no_workers_and_no_servers(
    aos: Aos, tmp_path: Path, other: list[str]
) -> None:
    """C-50c"""
    refused = aos("demo", tmp_path / "d", "--python", *other)

    assert refused == (
        2, "", f"aos: --python, {other[0]}: expected one of them, found both\n",
    )  # fmt: skip
    assert not (tmp_path / "d").exists()


def test_a_temporary_world_is_removed_and_in_a_terminal_all_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-50"""
    found = Terminal("demo", "--orders", "10", "--seed", "5", TMPDIR=str(tmp_path))

    assert found.code == 0
    assert "orders closed" in found.text, "while it ran"
    assert "keep the world to look around in it: aos demo DIR" in found.plain
    assert [path.name for path in tmp_path.iterdir()] == []
    await_end(tmp_path)


def test_an_interrupted_demo_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    """C-52"""
    demo = start(
        "demo", "--orders", "600", env={"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith(b"$ SHOP_URL="):
                break
        eventually(lambda: len(living(str(tmp_path))) >= 2, "the shop and the world run")
        os.kill(demo.pid, signal.SIGINT)
        _, err = demo.communicate(timeout=180)
    finally:
        demo.kill()
        demo.wait()

    assert demo.returncode == 130
    assert err.endswith(b"aos: interrupted\n")
    await_end(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_the_demo_as_ctrl_c_does(number: signal.Signals) -> None:
    """C-52"""
    before = signal.getsignal(number)

    with pytest.raises(KeyboardInterrupt), processes.stoppable():
        signal.raise_signal(number)

    assert signal.getsignal(number) is before


class FailingStory(story.Story):
    def tell(self) -> None:
        self._check("one is two", False)
        self._check("replay", False, exit_code=3)
        self._check("one is one", True)


def test_a_check_that_fails_is_named_and_keeps_the_folder(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-51"""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(command, "Story", FailingStory)

    found = aos("demo")

    [kept] = tmp_path.iterdir()
    assert found.code == 3
    assert found.err.splitlines() == [
        f"kept: {kept}",
        "aos: demo: does not hold: one is two",
        "aos: demo: does not hold: replay",
        f"aos: 2 of 3 checks failed; see {kept}",
    ]


def test_an_error_on_the_way_keeps_the_folder(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-51"""

    def fail(_: Any) -> None:
        raise Unavailable("nothing happened")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(story.Story, "tell", fail)

    found = aos("demo")

    [kept] = tmp_path.iterdir()
    assert found.code == 4
    assert found.err == f"kept: {kept}\naos: nothing happened\n"


def test_a_run_that_ends_early_is_told_with_its_last_words(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-51"""
    monkeypatch.setattr(
        files.Files, "executors", property(lambda self: f"{self.folder}/effects.py:none")
    )

    found = aos("demo", tmp_path / "d", "--orders", "10")

    assert found.code == 4
    assert "aos: it should have been killed half way: it ended with 2" in found.err
    assert "there is no 'none' in it" in found.err
    await_end(tmp_path)


def test_a_folder_that_holds_anything_is_left_alone(aos: Aos, tmp_path: Path) -> None:
    """C-50"""
    (tmp_path / "letter.txt").write_text("dear")

    found = aos("demo", tmp_path)

    assert found == (
        1, "", f"aos: {tmp_path}: expected an empty or new folder, found 'letter.txt' in it\n",
    )  # fmt: skip


def test_the_demo_says_which_files_are_missing(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-53"""
    monkeypatch.setattr(files, "FOLDER", Path("elsewhere"))

    found = aos("demo", tmp_path / "d")

    assert found.code == 4
    assert "demo/shipped/elsewhere: the demo's files are missing: expected air/gen" in found.err
    assert "(install aos again)" in found.err
    assert not (tmp_path / "d").exists()
