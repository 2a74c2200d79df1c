"""``aos run`` on a file system that is really full (spec/host.md, H-24 and H-24a)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aos.host.folder.reader import open_reader
from tests.cli.shell import here
from tests.copies import copied
from tests.host.disk_world import Books, Load, Running, check
from tests.run_seed import rotated
from tests.store.disk import SmallDisk
from tests.tools import long_form

KINDS = {"tmpfs": 8, "ext4": 16}
"""Megabytes, of which a test takes most away before it begins."""

LEFT = 700_000
NO_ROOM = "nothing can be made durable now, so nothing is admitted: "


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    kind = getattr(request, "param", "tmpfs")
    with SmallDisk(tmp_path, megabytes=KINDS[kind], kind=kind) as disk:
        yield disk


@pytest.fixture
def books(disk: SmallDisk, template: Path) -> Books:
    """A world on a disk that is nearly full."""
    world = disk.path / "world"
    copied(template, world)
    disk.fill(leave=LEFT)
    return Books(world)


@contextmanager
def filling(books: Books, running: Running) -> Iterator[None]:
    """Send until there is no room, and have the last sender wait while the block runs."""
    with Load(books):
        said = running.until("no_room", is_set=True)
        assert "no room to commit (mdb_txn_commit: " in said
        yield


@pytest.mark.long
@pytest.mark.parametrize("disk", KINDS if long_form() else ["ext4"], indirect=True)
def test_a_world_on_a_full_disk_loses_nothing_and_continues_once_there_is_room(
    disk: SmallDisk, books: Books
) -> None:
    """H-24: the world needs no action of an operator."""
    others = Books(books.world, "other")
    with Running(books.world) as running:
        with filling(books, running):
            seq, many = running.status()["seq"], len(books.acknowledged)
            assert many > 20

            # The world waits as long as the disk is full; readers are not disturbed.
            with open_reader(books.world) as reader:
                assert reader.seq == seq
            inspected = here("inspect", "world", "--json", "--world", books.world)
            assert inspected.code == 0, inspected.err
            assert running.status()["seq"] == seq
            assert len(books.acknowledged) == many

            disk.make_room()
            running.until("no_room", is_set=False)
        assert others.send(30)
        assert running.stop()[0] == 0

    assert len(books.acknowledged) > many, "the sender that waited was never answered"
    records = check(books, others)
    assert [each.KIND for each in records].count("event") >= many + 30


@pytest.mark.long
@pytest.mark.parametrize("room", rotated([True, False]), ids="room={}".format)
def test_a_world_that_is_killed_while_the_disk_is_full_loses_nothing(
    disk: SmallDisk, books: Books, room: bool
) -> None:
    """H-24, ST-14a: it starts again, too, and waits for room where there is none yet."""
    others = Books(books.world, "other")
    with Running(books.world) as running, filling(books, running):
        running.kill()
    check(books)
    if room:
        disk.make_room()

    with Running(books.world) as running:
        if not room:
            # A small commit may still find a free page within the file.
            with filling(others, running):
                disk.make_room()
        running.until("no_room", is_set=False)
        assert others.send(5)
        assert running.stop()[0] == 0
    check(books, others)


def test_a_world_that_is_stopped_while_the_disk_is_full_says_so_and_loses_nothing(
    disk: SmallDisk, books: Books
) -> None:
    """H-24: until then it admits nothing; it tries once more, and ends with exit 4."""
    others = Books(books.world, "other")
    with Running(books.world) as running, filling(books, running):
        assert not others.send()
        assert others.busy.startswith(NO_ROOM)
        code, said = running.stop()
    assert code == 4
    assert others.acknowledged == {}
    assert said.startswith("aos: the world stopped before there was room: ")
    assert said.endswith("(make room; nothing is lost and nothing was acknowledged)")
    check(books, others)

    disk.make_room()
    with Running(books.world) as running:
        assert others.send(5)
        assert running.stop()[0] == 0
    check(books, others)


def test_a_sender_to_a_full_disk_without_a_running_world_gets_an_error(
    disk: SmallDisk, books: Books
) -> None:
    """H-24a: the sender does not wait forever, and its event is not in the journal."""
    disk.fill()
    assert not books.send(busy_s=0.3)
    assert "before there was room: " in books.busy
    assert books.acknowledged == {}
    check(books)

    disk.make_room()
    assert books.send()
    check(books)
