"""The example of spec/extending.md adds a command and an effect to ``aos``."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

from aos_cli import extension_commands
from tests.cli.shell import ROOT, Result, run
from tests.extending.packages import HELLO, aos_with, install_project
from tests.host.puppet import DO, asks, files

GREET = "hello/greet@1"
PAGE = (ROOT / "spec" / "extending.md").read_text("utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    install_project(folder, HELLO)
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world whose cells may ask for the effect."""
    folder = tmp_path_factory.mktemp("hello")
    (folder / "manifest").mkdir()
    for name, data in files(effects=(GREET,)).items():
        (folder / "manifest" / name).write_bytes(data)
    assert run("init", folder / "world").code == 0
    assert run("apply", folder / "manifest", "--world", folder / "world").code == 0
    return folder / "world"


@pytest.mark.parametrize(
    "name", ["pyproject.toml", *(f"hello_aos/{n}.py" for n in ("__init__", "command", "effects"))]
)
def test_the_page_shows_the_files_of_the_example(name: str) -> None:
    language = "toml" if name.endswith("toml") else "python"
    shown = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)

    assert (HELLO / name).read_text("utf-8") in shown


def test_its_command_runs(site: Path, world: Path) -> None:
    """EP-10, EP-13"""
    greeted = aos_with(site, "hello", "--world", world, cwd=world.parent)

    assert greeted == Result(0, f"hello {world}, of 2 records\n", "")


def test_its_command_has_a_help_text_and_errors_of_one_sentence(site: Path, tmp_path: Path) -> None:
    """EP-12"""
    shown = aos_with(site, "hello", "--help", cwd=tmp_path)
    listed = aos_with(site, "--help", cwd=tmp_path)
    refused = aos_with(site, "hello", "--q7", cwd=tmp_path)
    near = aos_with(site, "helo", cwd=tmp_path)
    missing = aos_with(site, "hello", "--world", "none", cwd=tmp_path)

    assert (shown.code, shown.err) == (0, "")
    assert "aos hello --world shop" in shown.out
    assert (listed.code, listed.err) == (0, "")
    assert "│ hello " in listed.out.partition(f"─ {extension_commands.PANEL} ─")[2]
    assert refused == Result(2, "", "aos: hello: there is no option --q7 (see aos hello --help)\n")
    assert near == Result(
        2, "", "aos: there is no command 'helo'; did you mean hello or help? (see aos --help)\n"
    )
    assert missing.code == 2
    assert missing.err.startswith("aos: ")
    assert missing.err.count("\n") == 1


def test_its_executor_carries_out_an_effect(site: Path, world: Path) -> None:
    """EP-3"""
    value = {"key": "c", "out": base64.b64encode(asks("ada", effect=GREET)).decode(), "trap": None}
    sent = run("send", DO, json.dumps(value), "--world", world)
    assert sent.code == 0, sent.err

    ran = aos_with(
        site, "run", "--until-idle", "--executors", "hello", "--world", world, cwd=world.parent
    )

    assert ran.code == 0, ran.err
    shown = run("inspect", "intents", "--status", "ok", "--json", "--world", world).json
    [intent] = shown["intents"]
    assert intent["effect"] == GREET
    output = run("inspect", "intent", intent["intent"], "--world", world).out
    assert "hello ada" in output
