"""Erased values are no longer on disk once no process runs the world (ST-22, ST-50, ST-51)."""

from __future__ import annotations

from pathlib import Path

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import ERASE
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.values.digests import Hash
from tests.cli.shell import here
from tests.host.disk_world import Books, Running
from tests.host.puppet import asks, do

EFFECTS = Path(__file__).parent.parent / "disk_effects.py"
SECRET = "the secret of the day, "


def holding(world: Path) -> list[Hash]:
    """The values of the world that the secret is in."""
    with open_folder(world).open_store(readonly=True) as store:
        return [each for each in store.blob_hashes() if SECRET.encode() in store.blob(each)]


def erase(world: Path, values: list[Hash]) -> bool:
    """Erase values as an operator does; whether the file was compacted."""
    with open_writer(world) as writer:
        for value in values:
            assert isinstance(writer.control(ERASE, value=value), Admitted)
        return writer.compact()


def test_erased_values_are_nowhere_in_the_file_and_the_world_continues(
    world: Path, tmp_path: Path
) -> None:
    """An event, the effect that it asked for, and the receipt that came back."""
    (tmp_path / "open").touch()
    with open_writer(world) as writer:
        [answer] = writer.send([do("a", asks(SECRET * 100), "first")])
    assert isinstance(answer, Admitted)
    words = ("--executors", f"{EFFECTS}:gated", "--until-idle")
    with Running(world, *words, env={"DISK_FOLDER": str(tmp_path)}, is_awaited=False) as running:
        assert running.ended()[0] == 0
    held = holding(world)
    assert len(held) >= 2
    data = world / "store" / "data.mdb"
    assert SECRET.encode() in data.read_bytes()

    # While a process runs the world the values are gone from it, and may be in the file.
    with Running(world) as running:
        assert erase(world, held[:1]) is False
        assert holding(world) == held[1:]
        assert running.stop()[0] == 0
    assert erase(world, held[1:]) is True

    assert SECRET.encode() not in data.read_bytes()
    assert not any(
        SECRET.encode() in each.read_bytes() for each in world.rglob("*") if each.is_file()
    )
    assert holding(world) == []
    for command in ("verify", "replay"):
        done = here(command, "--world", world)
        assert done.code == 0, done.out + done.err
    books = Books(world, sent=["first"], acknowledged={"first": answer.seq})
    assert books.send(3)
    with open_folder(world).open_store(readonly=True) as store:
        assert len(list(store.erasures())) == len(held)
