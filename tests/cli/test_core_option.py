"""``--core`` and ``AOS_CORE`` name the kernel that a command opens; ``aos inspect world`` names the
one that runs (spec/cli.md, C-8b; spec/core.md, CR-33)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aos.fastcore.core_kind import CORE_VARIABLE, CoreKind
from aos.host.door import writer
from aos.host.retention import gc as collecting
from aos_cli import apply_target, open_writing
from aos_cli.commands import node as node_command
from aos_cli.commands import run as run_command
from aos_cli.lazy_group import LazyCommand
from aos_cli.registry import WRITING
from tests.cli.all_commands import ALL_COMMANDS
from tests.cli.shell import Aos
from tests.cli.test_processes import eventually, running
from tests.host import puppet
from tests.run_core import run_core


class Naming(NamedTuple):
    """Words of a command and the value of ``AOS_CORE``, and the core that they name together."""

    words: tuple[str, ...]
    variable: str
    core: CoreKind | None


NAMINGS = [
    Naming(("--core", "fast"), "", CoreKind.FAST),
    Naming(("--core", "python"), "fast", CoreKind.PYTHON),
    Naming((), "fast", CoreKind.FAST),
    Naming((), "python", CoreKind.PYTHON),
    Naming((), "", None),
]


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("command", ["run", "node"])
def test_a_world_runs_with_the_core_that_the_option_or_the_environment_names(
    aos: Aos,
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    naming: Naming,
) -> None:
    """C-8b"""
    cores: list[CoreKind | None] = []

    async def run(_: Path, settings: Any) -> None:
        cores.append(settings.core)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command, "run_world", run)
    monkeypatch.setattr(node_command, "run_node", run)
    monkeypatch.setenv(CORE_VARIABLE, naming.variable)

    assert aos(command, *naming.words, world=world).code == 0
    assert cores == [naming.core]


@pytest.mark.parametrize("naming", NAMINGS)
def test_a_command_that_writes_opens_the_world_with_that_core(
    aos: Aos,
    world: Path,
    manifest: Path,
    monkeypatch: pytest.MonkeyPatch,
    naming: Naming,
) -> None:
    """C-8b"""
    cores: list[CoreKind | None] = []
    open_writer = writer.open_writer

    def opened(path: Path, *, core: CoreKind | None, **settings: Any) -> Any:
        cores.append(core)
        return open_writer(path, **settings)

    for module in (open_writing, apply_target, collecting):
        monkeypatch.setattr(module, "open_writer", opened)
    monkeypatch.setenv(CORE_VARIABLE, naming.variable)

    for command in (("send", puppet.DO, '{"key": "ada"}'), ("apply", manifest), ("gc",)):
        assert aos(*command, *naming.words, world=world).code == 0

    assert cores == [naming.core] * 3
    assert open_writing.current_core() is None


def test_every_command_that_writes_has_the_option() -> None:
    """C-8b"""
    paths = {*WRITING, "run", "node"}
    with_option = {
        command.path
        for command in ALL_COMMANDS
        if not command.is_group
        and any("--core" in each.opts for each in LazyCommand(command, ALL_COMMANDS).load().params)
    }

    of_extensions = {command.path for command in ALL_COMMANDS if command.is_writing}
    assert with_option == {*paths, *of_extensions, "replay"}


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("node",),
        ("send", puppet.DO, '{"key": "ada"}'),
        ("replay",),
        ("audit", "--replay"),
    ],
    ids=" ".join,
)
def test_a_word_of_the_environment_that_names_no_core_is_refused(
    aos: Aos, lived_in: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """C-8b"""
    monkeypatch.setenv(CORE_VARIABLE, "both")

    refused = aos(*words, world=lived_in)

    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "aos: AOS_CORE: expected python or fast, found 'both'\n"


def core_line(aos: Aos, world: Path, *words: str) -> str:
    lines = aos("inspect", "world", *words, world=world).out.splitlines()
    [line] = [line for line in lines if line.startswith("core\t")]
    return line.removeprefix("core\t")


def test_inspect_world_names_the_core_of_the_last_start(
    aos: Aos, template: Path, lived_in: Path, settled: Path
) -> None:
    """C-31, A-61"""
    core = run_core().value
    assert core_line(aos, template) == "not named by the latest records"
    assert core_line(aos, lived_in) == f"last start: {core} (record 8)"
    second = aos("inspect", "world", "--json", world=settled).json["last_start"]
    assert second["record"] > 8
    assert core_line(aos, settled) == f"last start: {core} (record {second['record']})"
    assert core_line(aos, settled, "--at", "8") == f"last start: {core} (record 8)"
    assert core_line(aos, settled, "--at", "7") == "not named by the latest records"


@pytest.mark.parametrize("core", list(CoreKind))
def test_inspect_world_names_the_core_of_the_process(aos: Aos, world: Path, core: CoreKind) -> None:
    """C-31"""

    def document() -> Any:
        return aos("inspect", "world", "--json", world=world).json

    with running(world, "--core", core.value):
        eventually(lambda: document()["last_start"], "its start record is durable")
        shown, line = document(), core_line(aos, world)

    assert shown["process"]["core"] == core.value
    assert shown["last_start"] == {"record": 3, "core": core.value}
    assert line == f"{core.value} runs it; last start: {core.value} (record 3)"
