"""A world's folder that someone else hands over: no command follows a link out of it, waits for a
FIFO, or writes to a file that is not the world's (ST-80 to ST-84, C-11).

Every name of a real world is replaced in turn by everything that it may not be, and commands are
run on that: the long form runs all of them.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.folder import FILE_BYTES_MAX, open_folder
from aos.prove.verify import verify_world
from aos.store.lock import WorldLock
from aos.values.digests import content_hash
from tests.cli.shell import Aos, Result, in_silence, run
from tests.copies import copied
from tests.host import puppet

PACKED: Final = bytes(range(256)) * 4096
VICTIM: Final = b"a file of somebody else\n"
HANGS_S: Final = 120.0
DOCUMENTED: Final = {0, 1, 2, 3, 4}

PRUNE: Final = ("journal", "prune", "--before", "newest")
READERS: Final = (
    ("inspect", "world"), ("inspect", "manifest"), ("inspect", "cells"), ("inspect", "intents"),
    ("inspect", "cell", "puppet", "ada"), ("inspect", "faults"), ("inspect", "record", "1"),
    ("inspect", "journal"), ("trace", "1"), ("replay",), ("export", "OUT.aos"),
    ("fork", "OUT", "--at", "1"), ("gc", "--dry-run"), ("checkpoint",), ("proof", "1"),
)  # fmt: skip
WRITERS: Final = (
    ("send", puppet.DO, '{"key": "eve"}'), ("run", "--until-idle"), ("adopt",), ("snapshot",),
    PRUNE, ("gc",), ("cells", "retry", "--all-failed"), ("effects", "cancel", "ab"),
    ("erase", "ab" * 32, "--yes"), ("apply", "MANIFEST"),
)  # fmt: skip
SHORT: Final = {
    ("inspect", "world"), ("trace", "1"), ("export", "OUT.aos"), ("adopt",), PRUNE,
    ("send", puppet.DO, '{"key": "eve"}'), ("run", "--until-idle"), ("checkpoint",),
}  # fmt: skip

FOLDERS: Final = (
    "store", "store/packs", "keys", "keys/executors", "archives", "log", "log/tile",
    "log/tile/0", "log/tile/0/000.p", "log/tile/entries", "log/tile/entries/000.p",
)  # fmt: skip
ALWAYS: Final = ("world.json", "store", "store/data.mdb", "store/lock.mdb", "store/packs")
"""The paths in which no command follows a symbolic link, and which every command checks first."""


class Scene(NamedTuple):
    """A world, a folder outside it, and the paths in it; pruning creates the paths in ``later``."""

    world: Path
    later: Path


@pytest.fixture(scope="module")
def scene(lived_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A world with a file of every kind: packs, a snapshot, an archive, and one more to be made."""
    base = tmp_path_factory.mktemp("scene")
    world = copied(lived_in, base / "world")
    (world / "keys" / "executors").mkdir()
    shutil.copy(world / "keys" / "operator.key", world / "keys" / "executors" / "shop.key")
    with open_folder(world).open_store() as store:
        store.put_blobs({content_hash(PACKED): PACKED})
    _do(world, "snapshot")
    _do(world, *PRUNE)
    with open_writer(world) as writer:
        list(writer.send([puppet.do("ada")]))
    _do(world, "run", "--until-idle")
    _do(world, "snapshot")
    pruned = copied(world, base / "pruned")
    _do(pruned, *PRUNE)
    made = {each.name for each in (pruned / "archives").iterdir()}
    [name] = made - {each.name for each in (world / "archives").iterdir()}
    return Scene(world, Path("archives", name))


def _do(world: Path, *words: str) -> None:
    assert in_silence(*words, "--world", world) == 0, words


def names(scene: Scene) -> list[str]:
    """Every file and folder of the world, and those that a command would make in it."""
    found = {str(each.relative_to(scene.world)) for each in scene.world.rglob("*")}
    later = {str(scene.later), f"{scene.later}.part", "aos.sock", "store/data.mdb.compact"}
    return sorted(found | later)


def kinds(name: str) -> list[str]:
    more = ["file"] if name in FOLDERS else ["folder", "hard link"]
    return ["link", "dangling link", "fifo", *more]


@contextmanager
def sprung(world: Path, name: str, kind: str, outside: Path) -> Iterator[None]:
    """Something else is in the place of a name of the world, inside the block."""
    place, kept, victim = world / name, outside.with_name("kept"), outside / "victim"
    outside.mkdir()
    victim.write_bytes(VICTIM)
    is_there = os.path.lexists(place)
    if is_there:
        place.rename(kept)
        if kept.is_dir():
            victim = shutil.copytree(kept, outside / "folder")
    match kind:
        case "link":
            place.symlink_to(victim)
        case "dangling link":
            place.symlink_to(outside / "nothing")
        case "fifo":
            os.mkfifo(place)
        case "hard link":
            os.link(victim, place)
        case "file":
            place.write_bytes(b"")
        case "folder":
            place.mkdir()
    yield
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    if is_there:
        kept.rename(place)


def everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """All that could change outside of the world."""
    return {
        str(each.relative_to(folder)): (
            (stat := each.lstat()).st_mode,
            stat.st_mtime_ns,
            each.read_bytes() if each.is_file() else b"",
        )
        for each in (folder, *folder.rglob("*"))
    }


@contextmanager
def bounded() -> Iterator[None]:
    """Interrupt a command that hangs on a FIFO, and fail the test."""

    def late(*_: object) -> None:
        raise TimeoutError("a command hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, HANGS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def must_refuse(words: tuple[str, ...], name: str, kind: str) -> bool:
    is_writer = words in WRITERS
    if kind == "hard link":
        return name == "store/lock.mdb" or (is_writer and name in {"lock", "store/data.mdb"})
    if words == ("verify",):
        return name in ALWAYS and name != "world.json"
    if name == "aos.sock":
        return words == ("run", "--until-idle")
    if name.startswith("archives/") or name == "archives":
        return words == PRUNE and not name.endswith(".aos") and kind != "hard link"
    if name.split("/", maxsplit=1)[0] == "log":
        return words == ("checkpoint",)
    if name in {"lock", "store/closed", "store/data.mdb.compact"}:
        return is_writer or name != "lock"
    return name in ALWAYS


def wrong(found: Result, place: Path, is_refused: bool) -> Iterator[str]:
    """Yield each way in which the end of a command breaks the rules."""
    if found.code not in DOCUMENTED:
        yield "no documented exit code"
    if "Traceback" in found.err:
        yield "a traceback"
    if is_refused:
        last = (found.err.splitlines() or [""])[-1]
        if found.code != 3 or not last.startswith(f"aos: {place}: "):
            yield "expected exit 3 and a sentence"


def verified(world: Path) -> Result:
    """Run the child process of ``aos verify`` in this process, and return its result."""
    said = io.StringIO()
    verify_world._child(world, {"archives": [], "checkpoints": [], "log": None}, said)
    last = json.loads(said.getvalue().splitlines()[-1])
    if "report" not in last:
        return Result(4, "", f"aos: {last['message']}")
    found = [each["message"] for each in last["report"]["findings"]]
    return Result(3 if found else 0, "", "".join(f"aos: {each}" for each in found[:1]))


def test_no_command_leaves_a_folder_that_is_full_of_traps(
    aos: Aos, scene: Scene, manifest: Path, tmp_path: Path
) -> None:
    """ST-80 to ST-84, C-11."""
    commands = [each for each in (*READERS, *WRITERS) if each in SHORT] + [("verify",)]
    problems: list[str] = []
    count = 0
    for name in names(scene):
        base = tmp_path / name.replace("/", "-")
        world = copied(scene.world, base / "world")
        for kind in kinds(name):
            outside = base / f"{kind} outside"
            count += 1
            with sprung(world, name, kind, outside):
                before = everything(outside)
                for number, words in enumerate(commands):
                    is_refused = must_refuse(words, name, kind)
                    if not (is_refused or (count + number) % 12 == 0):
                        continue  # it would do its work, and take its time
                    out = base / f"{kind} {number}"
                    given = {"OUT.aos": f"{out}.aos", "OUT": str(out), "MANIFEST": str(manifest)}
                    with bounded():
                        found = (
                            verified(world)
                            if words == ("verify",)
                            else aos(*(given.get(each, each) for each in words), world=world)
                        )
                    case = f"{name} is a {kind}: aos {' '.join(words)}: {found}"
                    problems += (
                        f"{each}: {case}" for each in wrong(found, world / name, is_refused)
                    )
                    if everything(outside) != before:
                        problems.append(f"it changed what is outside: {case}")
                        before = everything(outside)
        shutil.rmtree(base)
    assert problems == []
    assert count > 60, "hardly a name was tried"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("world.json", "fifo"), ("store/lock.mdb", "link"), ("keys/world.key", "fifo")],
)
def test_a_process_of_its_own_ends_with_a_sentence(
    scene: Scene, tmp_path: Path, name: str, kind: str
) -> None:
    """C-11: the same from outside, where a hang would be one."""
    world, outside = copied(scene.world, tmp_path / "world"), tmp_path / "outside"

    with sprung(world, name, kind, outside):
        found = run("send", puppet.DO, '{"key": "eve"}', "--world", world, timeout=120)

        assert found.code == 3
        assert found.err.startswith(f"aos: {world / name}: nothing of a world is reached through")
        assert (outside / "victim").read_bytes() == VICTIM


def test_the_folder_itself_may_be_named_through_a_link(
    aos: Aos, scene: Scene, tmp_path: Path
) -> None:
    """ST-80: a link to the world's folder itself is followed, for the operator chose it."""
    world = copied(scene.world, tmp_path / "world")
    (tmp_path / "link").symlink_to(world)

    for words in (("send", puppet.DO, '{"key": "eve"}'), ("run", "--until-idle"), ("verify",)):
        found = aos(*words, world=tmp_path / "link")
        assert found.code == 0, found.err


def test_a_client_connects_to_a_socket_of_the_world_only(
    aos: Aos, scene: Scene, tmp_path: Path
) -> None:
    """ST-80, H-50: while another process holds the world."""
    world = copied(scene.world, tmp_path / "world")
    with socket.socket(socket.AF_UNIX) as other, WorldLock(world, runs=True):
        other.bind(str(tmp_path / "other.sock"))
        other.listen()
        other.setblocking(False)
        (world / "aos.sock").symlink_to(tmp_path / "other.sock")

        found = aos("send", puppet.DO, '{"key": "eve"}', world=world)

        assert found.code == 3
        assert "expected a socket, found a symbolic link" in found.err
        with pytest.raises(BlockingIOError):
            other.accept()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[" * 60_000, "the file is not JSON: "),
        (b'{"format": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", "the file is not JSON: "),
        (b'{"format": ' + b"9" * 50_000 + b"}", "the file is not JSON: "),
        (b'{"format": 1, "format": 1}', "the file is not JSON: "),
        (b"\xff", "the file is not JSON: "),
        (b" " * (FILE_BYTES_MAX + 1), "the file is too large: expected at most 65536 bytes"),
        (b"[]", "expected {format, world, created}"),
        (b'{"format": 1, "world": "x", "created": "y", "executors": []}', "'list' object has no"),
    ],
    ids=["open", "nested", "number", "twice", "no text", "large", "list", "executors"],
)
def test_a_world_json_that_is_no_such_document_is_damage(
    aos: Aos, world: Path, text: bytes, said: str
) -> None:
    """H-5: exit 3 and a sentence, and no traceback."""
    (world / "world.json").write_bytes(text)

    for words in (("inspect", "world"), ("send", puppet.DO, "{}"), ("adopt",)):
        found = aos(*words, world=world)
        assert found.code == 3, found
        assert found.err.startswith(f"aos: {world / 'world.json'}: {said}")
        assert len(found.err) < 1000


def test_an_enormous_world_json_is_not_read(aos: Aos, world: Path) -> None:
    """H-5: its size is asked first."""
    with (world / "world.json").open("wb") as file:
        file.truncate(1 << 40)

    found = aos("inspect", "world", world=world)

    assert found.code == 3
    assert "expected at most 65536 bytes, found 1099511627776 bytes" in found.err
