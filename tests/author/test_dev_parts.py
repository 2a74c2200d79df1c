"""Parts of aos dev: the watcher, the scratch world, typed lines (AU-80 to AU-87)."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.author.build import build
from aos.author.build_record import Changes, Watch
from aos.author.live import shortened
from aos.author.project import Project
from aos.author.scratch import for_scratch, prepare
from aos.author.screen import LINE_BYTES_MAX, Command, Typed, parse_line
from aos.author.toolchain import Console
from aos.errors import BadUsage, Refused, Unavailable
from aos.host.door.writer import Item
from aos.host.folder.folder import UNFINISHED_FILE, open_folder
from aos.host.folder.making import init_world
from aos.manifest.keys import key_text
from aos.read.trace.render import Branch, plain
from aos.store.lock import WorldLock
from tests.author import fakes


def test_nothing_has_changed_until_something_has(project: Project) -> None:
    watch = Watch(project)

    assert watch.changes() is None
    (project.folder / "src/lib.rs").write_text("changed")
    assert watch.changes() is None, "it may still be changing"
    assert watch.changes() == Changes(sources=("src/lib.rs",), effects=())
    assert watch.changes() is None


def test_files_that_change_together_are_one_change(project: Project) -> None:
    watch = Watch(project)

    (project.folder / "src/new.rs").touch()
    assert watch.changes() is None
    (project.folder / "effects.py").write_text("pass")
    (project.folder / "aos.toml").unlink()
    assert watch.changes() is None

    assert watch.changes() == Changes(sources=("aos.toml", "src/new.rs"), effects=("effects.py",))


@pytest.mark.parametrize(
    "name",
    [
        "air/generated.air.json", "assembly/generated.ts", "build/shop.json", "target/x.rs",
        "node_modules/a/index.ts", "tests/test_shop.py", ".aos/dev/world.json", ".git/x.toml",
        "notes.txt", "sdk/target/x.rs", "src/.hidden.rs",
    ],
)  # fmt: skip
def test_files_that_no_build_reads_are_not_watched(project: Project, name: str) -> None:
    watch = Watch(project)

    (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
    (project.folder / name).write_text("changed")

    assert [watch.changes() for _ in range(3)] == [None] * 3


def test_a_scratch_world_is_made_once_and_rebuilt_on_request(tmp_path: Path) -> None:
    path = tmp_path / ".aos/dev"
    prepare(path, fresh=False)
    first = open_folder(path).world
    prepare(path, fresh=False)
    second = open_folder(path).world
    prepare(path, fresh=True)

    assert first == second
    assert open_folder(path).world != first


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_that_aos_dev_has_not_made_is_left_alone(tmp_path: Path, *, fresh: bool) -> None:
    init_world(tmp_path / "mine")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("mine")
    before = open_folder(tmp_path / "mine").world

    for name in ("mine", "notes"):
        with pytest.raises(Refused, match="this is not a scratch world of aos dev"):
            prepare(tmp_path / name, fresh=fresh)

    assert open_folder(tmp_path / "mine").world == before
    assert (tmp_path / "notes/a.txt").read_text() == "mine"


def test_a_running_scratch_world_is_not_deleted(tmp_path: Path) -> None:
    prepare(tmp_path / "dev", fresh=False)
    before = open_folder(tmp_path / "dev").world

    with WorldLock(tmp_path / "dev"), pytest.raises(Unavailable, match="the world is written by"):
        prepare(tmp_path / "dev", fresh=True)

    assert open_folder(tmp_path / "dev").world == before


def test_a_scratch_world_whose_making_was_killed_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "dev/keys").mkdir(parents=True)
    (tmp_path / "dev" / UNFINISHED_FILE).touch()

    prepare(tmp_path / "dev", fresh=False)

    assert open_folder(tmp_path / "dev").created


def test_keys_of_other_worlds_are_left_out_in_a_scratch_world(
    tmp_path: Path, rust: Path, console: Console
) -> None:
    """AU-83"""
    assert rust.is_dir()
    world = init_world(tmp_path / "world", executors=["test"])

    keys = "".join(
        f'[[manifest.executors]]\nname = "{name}"\npublic_key = "{key_text(key)}"\n'
        f"effects = {json.dumps(effects)}\n"
        for name, key, effects in [
            ("node", bytes(world.world_key().verify_key), []),
            ("test", world.executors["test"], ["host/echo@1"]),
        ]
    )
    governance = (
        "[manifest.governance]\nquorum = 1\n[[manifest.governance.approvers]]\n"
        f'name = "ann"\npublic_key = "{key_text(bytes(SigningKey(bytes(32)).verify_key))}"\n'
    )
    built = build(fakes.project(tmp_path / "shop", more=keys + governance), console=console)

    found = for_scratch(built)

    assert built.loaded.effective.governance is not None
    assert found.effective.governance is None

    assert built.loaded.effective.executors is not None
    assert found.effective.executors is None
    assert found.effective.workflows.keys() == built.loaded.effective.workflows.keys()


def test_a_line_is_an_event_or_a_command_or_empty() -> None:
    """AU-87"""
    assert parse_line("  \n") is None
    assert parse_line(" fresh ") is Command.FRESH
    assert parse_line('a/B@1 {"x": 1}') == Item(schema="a/B@1", value={"x": 1})
    assert parse_line("a/B@1   7") == Item(schema="a/B@1", value=7)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "expected SCHEMA JSON, such as shop/Placed@1 {…}, or fresh, quit, help"),
        ("a/B@1 {", "a/B@1: "),
        ("a/B@1 1.5", "a/B@1: "),
    ],
)
def test_a_line_that_is_neither_is_said_to_be(line: str, message: str) -> None:
    with pytest.raises(BadUsage) as refused:
        parse_line(line)

    assert message in str(refused.value)


def test_lines_come_whole_however_they_are_cut() -> None:
    reads, writes = os.pipe()
    typed, over = Typed(reads), threading.Event()
    try:
        os.write(writes, b"one\ntw")
        assert list(typed.lines(1, over)) == ["one"]
        assert list(typed.lines(0.01, over)) == []
        os.write(writes, b"o\nthree\nlast")
        assert list(typed.lines(1, over)) == ["two", "three"]
        os.close(writes)
        assert list(typed.all()) == ["last"]
        assert list(typed.all()) == []
    finally:
        os.close(reads)


def test_without_stdin_there_are_no_lines_and_an_end_is_heard() -> None:
    over = threading.Event()
    over.set()

    assert list(Typed(None).lines(60, over)) == []
    assert list(Typed(None).all()) == []


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    with pytest.raises(BadUsage):
        parse_line("x" * (LINE_BYTES_MAX + 1))


def chain(*names: str, target: str) -> Branch:
    made: Branch | None = None
    for name in reversed(names):
        children = (Branch(kind="step", text="aside"), made) if made else ()
        made = Branch(kind="step", text=name, is_target=name == target, children=children)
    assert made is not None
    return made


def test_a_tree_is_told_without_what_was_told_on_the_way_before() -> None:
    """AU-86"""
    long = chain("a", "b", "c", "d", "e", "f", target="e")

    assert plain((shortened(long),)) == [
        "a",
        "└─ … 2 more on the way",
        "   └─ d",
        "      ├─ aside",
        "      └─ e  ◀",
        "         ├─ aside",
        "         └─ f",
    ]


@pytest.mark.parametrize("target", ["a", "b", "c", "nowhere"])
def test_a_short_way_is_told_whole(target: str) -> None:
    short = chain("a", "b", "c", "d", target=target)

    assert shortened(short) is short
