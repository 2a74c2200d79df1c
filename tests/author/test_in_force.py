"""How aos dev applies a build that conflicts with its world's state (AU-84 to AU-84b)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from aos.author.build import Built, build
from aos.author.project import Project
from aos.author.scratch import put_in_force
from aos.author.toolchain import Console
from aos.core.decide.answers import Blocker
from aos.core.journal.records import slot_bytes
from aos.errors import AosError, Refused
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.host.process import RunSettings, run_world
from aos.manifest.difference import Difference
from aos.read.trace.render import Branch
from aos.values.cbor import decode_record, encode
from tests.author import fakes
from tests.host.puppet import asks, do
from tests.host.upgrades import MIGRATOR, state_of


class Heard:
    """A screen, and what it was told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.changes: list[Difference] = []
        self.stood: list[Blocker] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def note(self, text: str) -> None:
        self.said.append(text)

    def problem(self, problem: AosError) -> None:
        self.said.append(str(problem))

    def built(self, built: Built) -> None:
        self.said.append(built.project.name)

    def changed(self, difference: Difference) -> None:
        self.changes.append(difference)

    def blockers(self, blockers: Sequence[Blocker]) -> None:
        self.stood.extend(blockers)

    def trace(self, branches: tuple[Branch, ...]) -> None:
        self.said.append(str(branches))


@pytest.fixture
def screen() -> Heard:
    return Heard()


@pytest.fixture
def world(tmp_path: Path) -> Path:
    init_world(tmp_path / "world")
    return tmp_path / "world"


def run(world: Path, key: str, out: bytes | None = None) -> None:
    with open_writer(world) as writer:
        [_] = writer.send([do(key, out)], batch_items=1)
    asyncio.run(run_world(world, RunSettings(until_idle=True, handle_signals=False)))


def state_in(world: Path, key: str) -> object:
    with open_reader(world) as reader:
        cell = reader.state.cells[fakes.PUPPET, encode(key)]
        assert cell.state is not None
        return decode_record(slot_bytes(cell.state, reader.store.blob))


def changed(
    project: Project, *, name: str = "host/Counts@1", migrates: bool = True, word: str = "migrate"
) -> None:
    """Lists for states, by a module that takes numbers over."""
    nodes: list[dict[str, Any]] = fakes.nodes()
    for node in nodes:
        if node.get("name") == "host/Count@1":
            node |= {"name": name, "type": {"list": {"nat": {}}}}
        if node["$kind"] == "defworkflow":
            node["state"] = name
            if migrates:
                node["migrate"] = {"from": "host/Count@1", "entrypoint": word}
    (project.folder / "own.wasm").write_bytes(wasmtime.wat2wasm(MIGRATOR))
    (project.folder / "src/lib.rs").write_text(fakes.source(nodes))


def apply(project: Project, world: Path, screen: Heard, console: Console) -> None:
    put_in_force(world, build(project, console=console), screen)


def test_a_declared_migration_takes_the_old_states_over(
    project: Project, world: Path, screen: Heard, console: Console
) -> None:
    """AU-84b: also what is in flight, and once."""
    apply(project, world, screen, console)
    run(world, "rests", state_of(3))
    run(world, "waits", asks("hi"))

    changed(project)
    apply(project, world, screen, console)

    assert (state_in(world, "rests"), state_in(world, "waits")) == ([6], [2])
    assert screen.said == [f"{fakes.PUPPET}: its migration has converted the old states"]

    (project.folder / "own.wasm").write_bytes(wasmtime.wat2wasm(MIGRATOR.replace("7", "8")))
    apply(project, world, screen, console)
    assert state_in(world, "rests") == [6]


def test_a_migration_that_fails_leaves_everything_as_it_was(
    project: Project, world: Path, screen: Heard, console: Console
) -> None:
    """AU-84b"""
    apply(project, world, screen, console)
    run(world, "seven", state_of(7))
    run(world, "three", state_of(3))
    changed(project)

    with pytest.raises(Refused) as refused:
        apply(project, world, screen, console)

    assert [each.kind for each in screen.stood] == ["migration_failed"]
    assert "fix the migration; or undo the change; or type `fresh`" in str(refused.value)
    assert (state_in(world, "seven"), state_in(world, "three")) == (7, 3)


def test_states_that_do_not_fit_are_told_with_the_three_ways_out(
    project: Project, world: Path, screen: Heard, console: Console
) -> None:
    """AU-84a"""
    apply(project, world, screen, console)
    run(world, "three", state_of(3))
    changed(project, name="host/Count@1", migrates=False)

    with pytest.raises(Refused) as refused:
        apply(project, world, screen, console)

    assert str(refused.value).endswith(
        "(type `fresh`, or restart with --fresh, for an empty world; or undo the change; or "
        "migrate the old states: migrate(from = …, by = …) in #[workflow], from a type equal to "
        "the old host/Count@1 to a state with another name; aos build --migration host/puppet@1 "
        "writes most of it)"
    )
    assert state_in(world, "three") == 3


def test_a_migration_to_a_state_of_the_same_name_is_none(
    project: Project, world: Path, screen: Heard, console: Console
) -> None:
    """AU-84b"""
    apply(project, world, screen, console)
    run(world, "three", state_of(3))
    changed(project, name="host/Count@1")

    with pytest.raises(Refused, match=r"to a state with another name"):
        apply(project, world, screen, console)


def test_in_assemblyscript_the_way_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: Path, screen: Heard, console: Console
) -> None:
    """AU-84a"""
    monkeypatch.setenv("PATH", str(fakes.node(tmp_path / "node")))
    script = fakes.script_project(tmp_path / "shop")
    apply(script, world, screen, console)
    run(world, "three", state_of(3))
    file = script.folder / "air/shop.air.json"
    file.write_text(
        file.read_text().replace(
            '"host/Count@1", "type": {"nat": {}}', '"host/Count@1", "type": {"text": {}}'
        )
    )

    with pytest.raises(Refused) as refused:
        apply(script, world, screen, console)

    assert str(refused.value).endswith(
        'or undo the change; or migrate the old states: "migrate": {"from": "host/Count@1", '
        '"entrypoint": …} in the defworkflow; in air/ the old host/Count@1 unchanged and the new '
        "state under another name; in the module's entry file a class that extends "
        "PuppetMigration and the function of that entrypoint, which runs it with "
        "migrate<…>(pointer, length); aos build --migration host/puppet@1 writes most of it)"
    )


def test_no_migration_is_suggested_when_no_state_blocks_the_build(
    project: Project, world: Path, screen: Heard, console: Console
) -> None:
    """AU-84a"""
    apply(project, world, screen, console)
    run(world, "three", state_of(3))
    nodes = fakes.nodes()
    for node in nodes:
        if node.get("name") == "host/Key@1":
            node["type"] = {"uuid": {}}
    (project.folder / "src/lib.rs").write_text(
        fakes.source(each for each in nodes if each["$kind"] != "subscription")
    )

    with pytest.raises(Refused) as refused:
        apply(project, world, screen, console)

    assert [each.kind for each in screen.stood] == ["cell_does_not_fit"]
    assert str(refused.value).endswith("for an empty world; or undo the change)")
