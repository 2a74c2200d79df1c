"""The examples of spec/testing.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from aos.testing import World
from aos.testing.play import play
from aos.testing.scenario import parse
from tests.testing.stage import ROOT

PAGE = (ROOT / "spec" / "testing.md").read_text("utf-8")


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", examples("python"))
def test_an_example_in_python_passes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(text, names)  # the page's own code
    (test,) = (each for name, each in names.items() if name.startswith("test_"))
    worlds: list[World] = []

    def aos_world(path: str) -> World:
        worlds.append(World(path))
        return worlds[-1]

    test(*[aos_world] * test.__code__.co_argcount)
    for world in worlds:
        world.close()


def test_the_example_of_a_scenario_passes() -> None:
    (text,) = examples("toml")
    found = play(parse(text.encode(), Path(ROOT / "example.scenario.toml")))
    assert found.failure is None, found.failure
