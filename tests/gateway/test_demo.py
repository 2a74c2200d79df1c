"""``aos gateway demo``, shortened (C-126 to C-128)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from aos.errors import Unavailable
from aos_gateway.commands import demo as command
from aos_gateway.demo import chain as demo_chain
from aos_gateway.demo import story as demo_story
from tests.cli.conftest import aos
from tests.cli.shell import ROOT, Aos, run, start
from tests.cli.test_demo import await_end, living
from tests.gateway.real_chain import require_anvil

__all__ = ["aos"]

SMALL = ("--works", "4", "--scores", "2")
STARTS_S = 60.0


@pytest.mark.rotated(3)
def test_the_demo_holds_though_the_world_and_the_node_are_killed(tmp_path: Path) -> None:
    """C-126, C-127"""
    require_anvil()
    folder = tmp_path / "here"

    found = run("gateway", "demo", folder, *SMALL, cwd=ROOT, timeout=280)

    assert found.code == 0, found.out + found.err
    await_end(folder)
    lines = found.out.splitlines()
    checks = [line for line in lines if line.startswith("  ✓ ")]
    assert f"all {len(checks)} checks hold" in lines
    assert "✗" not in found.out
    for each in (
        "4 of 4 works COMPLETED", "2 of 2 scores COMPLETED", "2 of 2 epochs COMPLETED",
        "no step has landed twice", "15 transactions did 15 steps", "aos replay ends with 0",
    ):  # fmt: skip
        assert f"  ✓ {each}" in checks
    assert sorted(each.name for each in folder.iterdir()) == [
        "chain", "findings.json", "log.txt", "report.json", "rows.json", "scores.jsonl",
        "works.jsonl", "world",
    ]  # fmt: skip
    shown = [line[2:] for line in lines if line.startswith("$ ")]
    assert [" ".join(each.split()[:3]) for each in shown if each.startswith("aos gateway")] == [
        "aos gateway create-work", "aos gateway create-work", "aos gateway reconcile",
        "aos gateway create-score", "aos gateway close-epoch", "aos gateway close-epoch",
        "aos gateway list", "aos gateway show",
    ]  # fmt: skip
    runs = [re.search(r" aos run (.*?)--secrets ", command) for command in shown]
    assert [run[1] for run in runs if run] == ["", "--until-idle ", "--until-idle "]
    assert sum("anvil_reorg" in each for each in shown) == 1
    assert [each.split()[2] for each in shown if "chain.py " in each] == ["up", "kill", "restart"]
    [killed] = [each for each in shown if each.startswith("kill -9 ")]
    assert int(killed.split()[2]) > 1
    assert "emits gw/WorkTxSettled@1" in found.out


def test_an_interrupted_demo_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    """C-128"""
    require_anvil()
    demo = start(
        "gateway", "demo", *SMALL, env={"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith(b"$ aos init"):
                break
        assert len(living(str(tmp_path))) >= 2
        os.kill(demo.pid, signal.SIGINT)
        _, err = demo.communicate(timeout=180)
    finally:
        demo.kill()
        demo.wait()

    assert demo.returncode == 130
    assert err.endswith(b"aos: interrupted\n")
    await_end(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_the_chain_starts_leaves_no_process(tmp_path: Path) -> None:
    """C-128: anvil is started by a program of its own, which has then ended."""
    require_anvil()
    demo = start(
        "gateway", "demo", *SMALL, env={"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        until_s = time.monotonic() + STARTS_S
        while len(living(str(tmp_path))) < 2:  # chain.py and its first program
            assert time.monotonic() < until_s
            time.sleep(0.01)
        os.kill(demo.pid, signal.SIGTERM)
        demo.communicate(timeout=180)
    finally:
        demo.kill()
        demo.wait()

    await_end(tmp_path)
    assert list(tmp_path.iterdir()) == []


class FailingStory(demo_story.GatewayStory):
    def tell(self) -> None:
        self._check("one is two", holds=False)


@pytest.fixture
def no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo without programs: `chain.py` is not run."""

    def chain_of(files: Any, folder: Path, *_: str) -> Any:
        names = ("STUDIO", "SIGNER", "SIGNER2", "SIGNER3", "SIGNER4")
        return demo_chain.LocalChain(files, folder, dict.fromkeys(names, "0x0"))

    class Silent:
        def __init__(self, *words: Any) -> None:
            self._words = words

        def __enter__(self) -> Any:
            return chain_of(*self._words)

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(command, "local_chain", Silent)
    monkeypatch.setattr(demo_chain, "_find_anvil", lambda _: None)


@pytest.mark.usefixtures("no_chain")
def test_a_check_that_fails_is_named_and_keeps_the_folder(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-127"""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(command, "GatewayStory", FailingStory)

    found = aos("gateway", "demo")

    [kept] = tmp_path.iterdir()
    assert found.code == 1
    assert found.err.splitlines() == [
        f"kept: {kept}",
        "aos: gateway demo: does not hold: one is two",
        f"aos: 1 of 1 checks failed; see {kept}",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--works", "3"], "--works: expected 4 to 400, found 3"),
        (["--works", "401"], "--works: expected 4 to 400, found 401"),
        (["--works", "6", "--scores", "7"], "--scores: expected 2 to 6, found 7"),
        (["--scores", "1"], "--scores: expected 2 to 60, found 1"),
    ],
)
def test_numbers_out_of_range_are_refused(aos: Aos, words: list[str], message: str) -> None:
    assert aos("gateway", "demo", *words) == (2, "", f"aos: {message}\n")


@pytest.mark.usefixtures("no_chain")
def test_a_folder_that_holds_anything_is_left_alone(aos: Aos, tmp_path: Path) -> None:
    """C-126"""
    (tmp_path / "letter.txt").write_text("dear")

    found = aos("gateway", "demo", tmp_path)

    assert found == (
        1, "", f"aos: {tmp_path}: expected an empty or new folder, found 'letter.txt' in it\n",
    )  # fmt: skip


def test_without_anvil_one_sentence_says_what_to_install(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-126"""
    monkeypatch.setenv("AOS_ANVIL", str(tmp_path / "none"))

    found = aos("gateway", "demo", tmp_path / "d")

    assert (found.code, found.out) == (4, "")
    assert found.err.startswith("aos: the demo needs anvil, a local EVM node: AOS_ANVIL: expected")
    assert found.err.count("\n") == 1
    assert not (tmp_path / "d").exists()


def test_without_the_packages_one_sentence_names_the_extra(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-126"""
    monkeypatch.setattr(demo_chain, "PACKAGES", ("no_such_package",))

    found = aos("gateway", "demo", tmp_path / "d")

    assert (found.code, found.out) == (4, "")
    assert found.err == (
        "aos: the demo needs packages that are not installed (no_such_package is missing): run pip "
        "install 'aos-kernel[gateway]'\n"
    )
    assert not (tmp_path / "d").exists()


def test_a_node_that_refuses_is_an_error_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1: expected an answer to .*method"):
        demo_chain.post("http://127.0.0.1:1", {"method": "x"}, is_shown=False)
