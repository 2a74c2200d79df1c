"""Commands against a running world whose disk is full (spec/cli.md C-8a, spec/host.md H-57a)."""

from __future__ import annotations

import ast
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import aos_cli
from aos.host.door.way import WaitPatience
from aos_cli.lazy_group import LazyCommand
from aos_cli.registry import COMMANDS, WRITING, Command
from tests.cli.shell import Result, run
from tests.copies import copied
from tests.host.conftest import template
from tests.host.disk_world import Books, Load, Running
from tests.host.puppet import files
from tests.run_seed import in_turns
from tests.store.disk import SmallDisk

__all__ = ["template"]

LEFT = 700_000
EVENT = '{"key": "c", "out": null, "trap": null}'


@pytest.fixture(scope="module")
def full(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A world that runs on a full disk, with a frame that waits for room; and a manifest."""
    folder = tmp_path_factory.mktemp("full")
    manifest = folder / "manifest"
    manifest.mkdir()
    for name, data in files().items():
        (manifest / name).write_bytes(data)
    with SmallDisk(folder, megabytes=8) as disk:
        world = disk.path / "world"
        copied(template, world)
        disk.fill(leave=LEFT)
        books = Books(world)
        with Running(world) as running:
            with Load(books):
                running.until("no_room", is_set=True)
                yield world, manifest
                disk.make_room()
                running.until("no_room", is_set=False)
            assert running.stop()[0] == 0


def commands(manifest: Path) -> dict[str, Sequence[str | Path]]:
    return {
        "send": ("send", "host/Do@1", EVENT),
        "snapshot": ("snapshot",),
        "apply": ("apply", manifest),
        "cells retry": ("cells", "retry", "--all-failed"),
    }


@pytest.mark.long
@pytest.mark.parametrize("name", in_turns(2, commands(Path())))
def test_a_command_says_what_it_waits_for_and_ends_at_its_timeout(
    full: tuple[Path, Path], name: str
) -> None:
    """C-8a."""
    world, manifest = full
    done: Result = run(*commands(manifest)[name], "--timeout", "4s", "--world", world)
    assert done.code == 4, done
    assert "aos: waiting for at most 4 s: nothing can be made durable now, so nothing" in done.err
    assert "no room to commit" in done.err.splitlines()[-1]


def test_every_command_that_waits_has_the_option() -> None:
    """C-8a."""
    with_option = {
        command.path
        for command in COMMANDS
        if not command.is_group
        and any(
            "--timeout" in option.opts for option in LazyCommand(command, COMMANDS).load().params
        )
    }
    assert with_option >= WRITING


def test_every_command_whose_module_opens_a_world_for_writing_waits() -> None:
    """C-8a."""
    writing = {command.path for command in COMMANDS if ":" in command.function and opens(command)}
    assert {"send", "snapshot", "clock", "effects cancel"} <= writing <= WRITING


def opens(command: Command) -> bool:
    """Whether the function of a command calls ``writing_to``, itself or through others of its
    module."""
    module, _, name = command.function.partition(":")
    file = Path(aos_cli.__file__).parent / "commands" / f"{module}.py"
    names_in = {
        node.name: {word.id for word in ast.walk(node) if isinstance(word, ast.Name)}
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    reached, names = set[str](), {name}
    while names:
        reached |= names
        names = set[str]().union(*(names_in.get(function, ()) for function in names)) - reached
    return "writing_to" in reached


def test_a_command_through_a_node_ends_at_its_timeout() -> None:
    """C-8a: a node that takes the request and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        sent = run("send", "host/Do@1", EVENT, "--timeout", "1s", "--node", address)
    assert sent.code == 4, sent
    assert f"the node at {address} does not answer" in sent.err


def test_patience_ends_only_while_the_world_stands_still() -> None:
    """H-57a."""
    said: list[str] = []
    patience = WaitPatience(0.05, report=said.append)
    assert not patience.is_over("full")
    assert not patience.is_over(None)
    time.sleep(0.06)
    assert not patience.is_over("full")
    assert said == []
    time.sleep(0.06)
    assert patience.is_over("full")
    assert patience.is_over("full")
    assert said == ["waiting for at most 0.05 s: full"]
