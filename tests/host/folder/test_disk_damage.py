"""Commands on a world whose store's file is damaged: exit 3 and one sentence (ST-17 to ST-18b)."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from aos.errors import Unavailable
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.prove.verify.findings import FindingKind
from aos.prove.verify.verify_world import verify_world
from aos_cli.main import run_command
from tests.copies import copied
from tests.host.disk_world import AOS, ENDS_S, environment
from tests.host.puppet import asks, do, manifest
from tests.run_seed import in_turns
from tests.store.children import in_child

PAGE = 4096
Damaging: TypeAlias = Callable[[Path, Path], None]
"""Takes a world, and another one."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two worlds with some hundred records and large values."""
    made = []
    for name in ("one", "another"):
        path = tmp_path_factory.mktemp("damage") / name
        init_world(path)
        with open_writer(path) as writer:
            writer.apply(manifest())
            items = (do(f"k{n}", asks("x" * (100 * n % 9000)), f"id {n}") for n in range(150))
            assert len(list(writer.send(items))) == 150
        made.append(path)
    return made[0], made[1]


def data(world: Path) -> Path:
    return world / "store" / "data.mdb"


def over(first: float, last: float, piece: Callable[[int], bytes]) -> Damaging:
    """Overwrite this part of the file, in whole pages."""

    def damage(world: Path, _: Path) -> None:
        whole = data(world).read_bytes()
        pages = len(whole) // PAGE
        start, end = (int(pages * each) * PAGE for each in (first, last))
        data(world).write_bytes(whole[:start] + piece(end - start) + whole[end:])

    return damage


def garbage(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def metas(count: int) -> Damaging:
    def damage(world: Path, _: Path) -> None:
        whole = data(world).read_bytes()
        data(world).write_bytes(garbage(count * PAGE) + whole[count * PAGE :])

    return damage


def cut(size: int | None) -> Damaging:
    def damage(world: Path, _: Path) -> None:
        kept = data(world).stat().st_size // 2 if size is None else size
        with data(world).open("r+b") as file:
            file.truncate(kept)

    return damage


def swapped(world: Path, another: Path) -> None:
    shutil.copyfile(data(another), data(world))


def no_file(world: Path, _: Path) -> None:
    data(world).unlink()


def no_folder(world: Path, _: Path) -> None:
    shutil.rmtree(world / "store")


DAMAGES: dict[str, tuple[Damaging, str]] = {
    "zeros in the middle": (over(0.2, 0.6, bytes), "is damaged: found "),
    "garbage in the middle": (over(0.2, 0.6, garbage), "is damaged: found "),
    "zeros but for the meta pages": (over(0.02, 1, bytes), "is damaged: found "),
    "cut in half": (cut(None), "the store's data file is cut off: expected "),
    "cut to the meta pages": (cut(2 * PAGE), "the store's data file is cut off: expected "),
    "cut within the meta pages": (cut(5000), "the store's data file is cut off: expected "),
    "empty": (cut(0), "the store's data file is empty (restore a backup)"),
    "one meta page": (metas(1), "is damaged: found page 0, which is no meta page"),
    "both meta pages": (metas(2), "is damaged: found page 0, which is no meta page"),
    "another world's file": (swapped, "the store holds another world: expected "),
    "no file": (no_file, "the store's data file is missing (restore a backup)"),
    "no folder": (no_folder, "the store's data file is missing (restore a backup)"),
}

COMMANDS = {
    "run": ("run", "--until-idle"),
    "inspect": ("inspect", "world"),
    "replay": ("replay",),
    "send": ("send", "host/Do@1", '{"key": "a"}'),
    "verify": ("verify",),
}


def forked(*words: str | Path) -> tuple[int, str]:
    """Run a command in a fork of this process, which may die of it; its exit code, and what it
    wrote to stderr. A signal is its negative number."""

    def act() -> str:
        signal.alarm(int(ENDS_S))
        err = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            code = run_command([*map(str, words)])
        return json.dumps([code, err.getvalue()])

    said = in_child(act)
    if said.startswith("signal "):
        return -int(said.split()[1]), ""
    code, err = json.loads(said)
    return code, err


def the_sentence(err: str) -> str:
    """The one line of an error."""
    [line] = [line for line in err.splitlines() if line.startswith("aos: ")]
    return line


@pytest.fixture
def world(worlds: tuple[Path, Path], tmp_path: Path) -> Path:
    return copied(worlds[0], tmp_path / "world")


@pytest.mark.long
@pytest.mark.parametrize("name", in_turns(3, DAMAGES))
def test_every_command_ends_with_one_sentence_that_says_what_is_wrong(
    worlds: tuple[Path, Path], world: Path, name: str
) -> None:
    """ST-17, ST-18a, H-41a: no command hangs or dies of the bytes that it reads."""
    damage, sentence = DAMAGES[name]
    damage(world, worlds[1])

    for command, words in COMMANDS.items():
        code, err = forked(*words, "--world", world)
        assert code == 3, (command, err)
        line = the_sentence(err)
        if command == "verify":
            assert "aos: the world is damaged: " in line or sentence in line
        else:
            assert sentence in line, command
            assert "backup" in line or "from one copy" in line, "what to do is not said"


def test_commands_do_not_rely_on_one_that_may_die_itself(
    worlds: tuple[Path, Path], world: Path
) -> None:
    """ST-18b: all commands run concurrently, each in its own process."""
    damage, sentence = DAMAGES["zeros in the middle"]
    damage(world, worlds[1])
    started = {
        command: subprocess.Popen(
            [*AOS, *words, "--world", world],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, words in COMMANDS.items()
        if command != "send"  # it may meet the lock of the other writer
    }
    for command, process in started.items():
        _, err = process.communicate(timeout=ENDS_S)
        assert process.returncode == 3, (command, err)
        assert command == "verify" or sentence in the_sentence(err)


def test_the_child_of_verify_dies_of_the_file_and_verify_says_so(world: Path) -> None:
    """ST-18: the report gives the cause, the progress and the remedy."""
    cut(None)(world, world)

    report = verify_world(world)

    assert not report.is_sound
    [finding] = report.findings
    assert finding.kind is FindingKind.STORE_UNREADABLE
    assert finding.message.startswith("the store's file killed the process that read it (SIG")
    assert finding.message.endswith("it was cut short or overwritten: restore a backup)")


def test_a_verify_that_something_else_ends_says_nothing_of_the_file(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST-18: such as a system that is short of memory."""
    killer = world / "killer"
    killer.write_text("#!/bin/sh\nkill -KILL $$\n")
    killer.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(killer))
    with pytest.raises(Unavailable, match="the process that verified was ended by SIGKILL"):
        verify_world(world)


def test_a_world_whose_process_was_killed_is_checked_and_continues(world: Path) -> None:
    """ST-18b: a file without the mark of who closed it is whole all the same."""
    mark = world / "store" / "closed"
    mark.unlink()
    assert forked("inspect", "world", "--world", world)[0] == 0
    assert not mark.exists()
    code, err = forked("send", "host/Do@1", '{"key": "a"}', "--world", world)
    assert (code, mark.exists()) == (0, True), err
