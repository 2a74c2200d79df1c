"""spec/changing.md is true: its commands are run in order, and print the lines that it quotes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

from tests.author import fakes
from tests.cookbook.test_concepts import OUTPUT, comparable
from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT
from tests.host import puppet
from tests.host.upgrades import TIMER, migrating_files

pytestmark = pytest.mark.rotated(3)

__all__ = ["bin_"]

PAGE: Final = ROOT / "spec" / "changing.md"


def test_the_page_on_changes_quotes_the_output_of_its_own_commands(
    bin_: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("manifests", "modules"):
        Path(folder).symlink_to(ROOT / folder)
    _counters()
    _project()
    tools = fakes.toolchain(Path("toolchain").resolve())
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")

    printed = "".join(follow(block, bin_=bin_) for block in blocks(PAGE))

    found = [comparable(line) for line in printed.splitlines()]
    quotes = [line for quote in OUTPUT.findall(PAGE.read_text()) for line in quote.splitlines()]
    assert len(quotes) >= 20
    for quote in quotes:
        assert comparable(quote) in found, f"{quote}\n{printed}"


def _counters() -> None:
    """Two builds of a counter: the second one migrates the state of the first."""
    for name, files in (
        ("counter-1", puppet.files(effects=(TIMER,))),
        ("counter-2", migrating_files()),
    ):
        Path(name).mkdir()
        for file, data in files.items():
            named = data.replace(b"host/puppet@1", b"demo/counter@1").replace(b"host/", b"demo/")
            (Path(name) / file).write_bytes(named if file.endswith(".json") else data)


def _project() -> None:
    """The project of the second counter, without its migration, for a compiler that is a fake."""
    folder = fakes.project(Path("counter")).folder
    files = migrating_files()
    nodes = [
        {key: value for key, value in node.items() if key != "migrate"}
        for node in json.loads(files["m.air.json"])
        if node["$kind"] != "manifest"
    ]
    for node in nodes:
        if node["$kind"] == "defmodule":
            node["runtime"]["artifact"].pop("path")
    routes = [each for each in fakes.nodes() if each["$kind"] == "subscription"]
    text = fakes.source([*nodes, *routes]).replace("host/puppet@1", "demo/counter@1")
    (folder / "src/lib.rs").write_text(text.replace("host/", "demo/"))
    (folder / "src/state.rs").write_text('#[schema("demo/Counts@1")]\npub struct Counts;\n')
