"""Every command and option is in spec/cli.md (C-1 to C-53), and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from aos_cli.main import app
from tests.cli.shell import ROOT

SPEC = (ROOT / "spec" / "cli.md").read_text()
GROUPS = {"inspect", "cells", "effects", "journal", "sdk"}
WITHOUT_WORLD = {
    "aos demo", "aos init", "aos import", "aos new", "aos build", "aos dev", "aos test",
    "aos sdk update",
}  # fmt: skip
EVERYWHERE = {"--help", "-h", "--world", "-w", "--json"}


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(typer.main.get_command(app), "aos"))


def options(command: Any) -> set[str]:
    return {word for each in command.params for word in each.opts if word.startswith("-")}


def section(path: str) -> str:
    """The part of the page about a command, or about its group."""
    first = " ".join(path.split()[:2])
    parts = re.split(r"^## ", SPEC, flags=re.MULTILINE)
    return next((part for part in parts if f"`{first}" in part.splitlines()[0]), "")


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_is_documented_with_every_option(path: str) -> None:
    text = section(path)

    assert f"`{path}" in text
    for option in options(COMMANDS[path]) - EVERYWHERE:
        assert f"`{option}" in text or f" {option} " in text, f"{path} {option}"


def test_nothing_is_documented_that_is_not_there() -> None:
    known = {word for command in COMMANDS.values() for word in options(command)}
    words = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", SPEC))
    assert words <= known | {"--help", "--version"}

    named = set(re.findall(r"`(aos [a-z]+(?: [a-z]+)?)", SPEC))
    groups = {" ".join(path.split()[:2]) for path in COMMANDS}
    assert {name for name in named if name not in {*COMMANDS, *groups}} == set()


@pytest.mark.parametrize("path", COMMANDS)
def test_a_reading_command_has_json_and_a_world(path: str) -> None:
    if path not in WITHOUT_WORLD:
        assert {"--json", "--world", "-w"} <= options(COMMANDS[path])


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_says_what_it_does(path: str) -> None:
    assert COMMANDS[path].help.strip().endswith(".")


def test_every_example_is_a_command_line_that_is_understood() -> None:
    examples = re.findall(r"^      (aos .*)$", SPEC, flags=re.MULTILINE)

    assert len(examples) >= 8
    for example in examples:
        words = example.split()
        path = " ".join(words[:3] if words[1] in GROUPS else words[:2])
        used = {word for word in words if re.fullmatch(r"--[a-z-]+", word)}
        assert used <= options(COMMANDS[path]), example
