"""Every command and option is in spec/cli.md (C-1 to C-75), and nothing else is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aos.author.project import LANGUAGES
from aos.core.journal.faults import FaultKind
from aos.core.journal.vocabulary import CELL_STATUSES, MODES, OPEN_WORK, STATUSES, TERMINAL
from aos.manifest.forms import ABIS
from aos.read.views.cell_selection import ORDERS
from aos.read.views.flow_reading import SHOWN_STATUSES
from aos.read.views.intent_view import INTENT_STATUSES
from aos.read.views.journal_view import KINDS
from aos_cli import registry
from aos_cli.extension_commands import PANEL
from aos_cli.lazy_group import LazyCommand
from tests.cli.all_commands import ALL_COMMANDS
from tests.cli.shell import ROOT, Aos

SPEC = (ROOT / "spec" / "cli.md").read_text()
GROUPS = {command.path for command in ALL_COMMANDS if command.is_group}
WITHOUT_WORLD = {
    "aos demo", "aos init", "aos import", "aos new", "aos build", "aos dev", "aos test",
    "aos sdk update", "aos gateway demo", "aos help", "aos version", "aos worker",
    "aos verify-proof", "aos witness", "aos cosign", "aos key new", "aos key show",
    "aos keyring new", "aos keyring rotate", "aos keyring show", "aos keyring drop",
    "aos cluster up", "aos cluster restore", "aos cluster forget", "aos cluster serve", "aos join",
    "aos world create", "aos world list", "aos world start", "aos world stop", "aos world remove",
}  # fmt: skip
VERBS = {
    "Add", "Allow", "Apply", "Approve", "Build", "Cancel", "Check", "Close", "Compare", "Cosign",
    "Create",
    "Delete", "End", "Erase", "Execute", "List", "Look", "Move", "Pause", "Print", "Propose",
    "Rebuild", "Reject", "Remove", "Replace", "Resume", "Run", "Send", "Settle", "Show", "Start",
    "Stop", "Submit", "Trigger", "Update", "Validate", "Withdraw", "Write",
}  # fmt: skip
EVERYWHERE = {"--help", "-h", "--world", "-w", "--json", "--timeout", "--core", "--operator-key",
    "--creds", "--fresh",
}  # fmt: skip


COMMANDS = {
    f"aos {command.path}": LazyCommand(command, ALL_COMMANDS).load()
    for command in ALL_COMMANDS
    if not command.is_group
}
EXAMPLES = {f"aos {command.path}": command.examples for command in ALL_COMMANDS}


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
    assert words <= known | {
        "--help",
        "--version",
        "--complete",
        "--install-completion",
        "--show-completion",
    }

    named = set(re.findall(r"`(aos [a-z][a-z-]*(?: [a-z][a-z-]*)?)", SPEC))
    groups = {" ".join(path.split()[:2]) for path in COMMANDS}
    assert named <= {*COMMANDS, *groups}


# Every option with fixed values, the command that it belongs to, and the values.
CHOICES = [
    ("new x", "--lang", LANGUAGES),
    ("apply .", "--mode", MODES),
    ("apply .", "--abi", ABIS),
    ("gov propose .", "--mode", MODES),
    ("gov propose .", "--abi", ABIS),
    ("gov patch .", "--abi", ABIS),
    ("cells end order", "--as", TERMINAL),
    ("fork x --at 1", "--intents", OPEN_WORK),
    ("replay", "--engine", ("native", "pulley")),
    ("replay --against .", "--abi", ABIS),
    ("export x.json", "--format", ("bundle", "ocel", "xes", "jsonl")),
    ("flow list", "--status", SHOWN_STATUSES),
    ("inspect cells", "--status", CELL_STATUSES),
    ("inspect cells", "--sort", ORDERS),
    ("inspect cells", "--fault", [each.value for each in FaultKind]),
    ("inspect faults", "--kind", [each.value for each in FaultKind]),
    ("inspect intents", "--status", (*INTENT_STATUSES, *STATUSES, "all")),
    ("inspect journal", "--kind", KINDS),
]


@pytest.mark.parametrize(("command", "option", "values"), CHOICES)
def test_an_option_with_fixed_values_names_them_in_help_and_in_the_error(
    aos: Aos, tmp_path: Path, command: str, option: str, values: Sequence[str]
) -> None:
    """C-2"""
    world = tmp_path / "world"
    assert aos("init", world).code == 0
    words = command.split()
    path = next(path for path in COMMANDS if path.split()[1:] == words[: len(path.split()) - 1])
    of_world = world if "--world" in options(COMMANDS[path]) else None

    refused = aos(*words, option, "no-such-value", world=of_world)

    shown = aos(*path.split()[1:], "--help").out
    of_option = re.split(r"│ [* ]  +(?=--)", shown.partition(f" {option} ")[2])[0]

    assert refused.code == 2
    for text in (of_option, refused.err):
        assert set(values) <= set(re.findall(r"[a-z0-9_/]+", text))


def test_a_missing_option_names_its_values(aos: Aos) -> None:
    """C-2"""
    assert aos("new", "x").err == (
        "aos: new: --lang is required: rust, assemblyscript or python (see aos new --help)\n"
    )


@pytest.mark.parametrize("path", COMMANDS)
def test_a_reading_command_has_json_and_a_world(path: str) -> None:
    if path not in WITHOUT_WORLD:
        assert {"--json", "--world", "-w"} <= options(COMMANDS[path])


@pytest.mark.parametrize("path", EXAMPLES)
def test_a_command_says_what_it_does_in_one_line_that_begins_with_a_verb(path: str) -> None:
    text = next(command.help for command in ALL_COMMANDS if f"aos {command.path}" == path)

    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) <= 80
    assert text.split()[0] in VERBS, text


@pytest.mark.parametrize("path", EXAMPLES)
def test_a_command_has_an_example_that_is_understood(path: str) -> None:
    """C-13"""
    assert EXAMPLES[path]
    for example in EXAMPLES[path]:
        assert example.startswith(path)
        words = shlex.split(example)
        understood(words, example)


@pytest.mark.parametrize("path", EXAMPLES)
def test_help_shows_the_examples(aos: Aos, path: str) -> None:
    """C-13"""
    found = aos(*path.split()[1:], "--help")

    assert found.code == 0
    shown = " ".join(found.out.split())
    for example in EXAMPLES[path]:
        assert " ".join(example.split()) in shown


def test_help_lists_every_command_in_one_of_five_panels_and_those_of_extensions(aos: Aos) -> None:
    """C-9, EP-12"""
    found = aos("--help").out

    panels = [*registry.PANELS, PANEL]
    places = [found.index(f"\u2500 {panel} \u2500") for panel in panels]
    assert places == sorted(places)
    assert {command.panel for command in registry.COMMANDS} == set(registry.PANELS)
    for command in registry.below("", ALL_COMMANDS):
        row_at = found.index(f"\u2502 {command.name} ")
        index = panels.index(command.panel)
        assert places[index] < row_at < [*places, len(found)][index + 1]


def test_a_command_is_one_verb_or_belongs_to_a_group_of_things() -> None:
    """C-9a"""
    for command in ALL_COMMANDS:
        group, _, verb = command.path.rpartition(" ")
        assert not group or group in GROUPS or command.path == "checkpoint status"
        assert verb.replace("-", "").isalpha()
    assert {group for group in GROUPS if not group.endswith("s")} == {
        "batch", "cluster", "flow", "gateway", "gov", "inspect", "journal", "key", "keyring",
        "linear", "schedule", "sdk", "token", "world",
    }  # fmt: skip


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_the_help_of_a_group_lists_its_commands(aos: Aos, group: str) -> None:
    """C-9a"""
    found = aos(group, "--help").out

    assert registry.below(group, ALL_COMMANDS)
    for command in registry.below(group, ALL_COMMANDS):
        assert f"\u2502 {command.name} " in found


def test_a_file_of_commands_is_named_after_its_command() -> None:
    folder = Path(registry.__file__).parent / "commands"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}

    names = {each.path.split()[0].partition("-")[0] for each in registry.COMMANDS}
    assert {name.partition("_")[0] for name in files} == names
    for each in registry.COMMANDS:
        module = each.function.partition(":")[0]
        name = each.path.split()[0].partition("-")[0]
        assert each.is_group or module.partition("_")[0] == name


def test_every_example_of_the_page_is_understood() -> None:
    blocks = re.findall(r"^  ```sh\n(.*?)^  ```$", SPEC, flags=re.MULTILINE | re.DOTALL)
    examples = [line.strip() for block in blocks for line in block.splitlines() if "aos " in line]

    assert len(examples) >= 30
    assert not re.search(r"^ {4,}aos ", SPEC, re.MULTILINE), "CommonMark joins these to the list"
    for example in examples:
        understood(shlex.split(example.rpartition("| ")[2]), example)


def understood(words: list[str], example: str) -> None:
    """The command is there, and has the options that are used."""
    path = " ".join(words[:3] if words[1] in GROUPS and len(words) > 2 else words[:2])
    if path.removeprefix("aos ") in GROUPS:
        return
    used = {word for word in words if re.fullmatch(r"--[a-z-]+", word)}
    assert used <= options(COMMANDS[path]), example
