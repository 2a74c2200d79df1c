"""A failing disk stops ``aos run``, which publishes nothing that is not durable (H-25).

A test chooses the moment from which system calls on the store's file fail. A commit of LMDB calls
``writev`` or ``pwrite64`` for pages, ``fdatasync``, and ``pwrite64`` for the meta page through a
descriptor that syncs by itself. It writes nothing through its memory map, so there is no ``msync``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Receipt, Step
from aos.errors import Damage
from aos.host.door.writer import open_writer
from aos.host.folder.reader import open_reader
from tests.host.disk_world import Books, Running, check, check_journal, strace_on
from tests.host.puppet import asks, do
from tests.host.rig import eventually
from tests.store.strace import need_strace
from tests.tools import long_form

EFFECTS = Path(__file__).parent / "disk_effects.py"
PAGES = "pwrite64,writev"


@pytest.fixture(autouse=True)
def strace() -> None:
    need_strace(of_aos=True)


def data(world: Path) -> Path:
    return world / "store" / "data.mdb"


def under_strace(world: Path, *inject: str) -> tuple[str, ...]:
    """A program that runs another one whose calls on the store's file fail."""
    failing = (f"--inject={each}" for each in inject)
    return ("strace", "-f", "-q", "-o", os.devnull, "-P", str(data(world)), *failing)


def goes_on(books: Books, *others: Books) -> None:
    """The world opens at its durable head and works."""
    with Running(books.world) as running:
        assert books.send(5, busy_s=5)
        assert running.stop()[0] == 0
    check(books, *others)


FAILURES = {
    "the sync fails": ("fdatasync:error=EIO:when=1", "Input/output error"),
    "a page alone or the meta page cannot be written": (
        "pwrite64:error=EIO:when=2+",
        "Input/output error",
    ),
    "the sync is interrupted": ("fdatasync:error=EINTR:when=1", "Interrupted system call"),
    "the pages cannot be written": (f"{PAGES}:error=EIO:when=1", "Input/output error"),
    "the pages are written in part": (f"{PAGES}:retval=100:when=1", "Input/output error"),
    "a page alone or the meta page is written in part": (
        "pwrite64:retval=60:when=2+",
        "Input/output error",
    ),
}
SHORT = 2
"""So many of them in the short form of the tests."""


@pytest.mark.long
@pytest.mark.parametrize("failure", list(FAILURES) if long_form() else list(FAILURES)[:SHORT])
def test_a_commit_that_fails_stops_the_world_with_its_reason(world: Path, failure: str) -> None:
    """H-25, ST-4: exit 3; senders that wait for that commit get its failure."""
    inject, why = FAILURES[failure]
    books, late = Books(world), Books(world, "late")
    with Running(world) as running:
        assert books.send(10, busy_s=5)
        with strace_on(running.process, data(world), inject):
            with pytest.raises(Damage, match="the commit failed: mdb_txn_commit: "):
                late.send(5, busy_s=5)
            code, said = running.ended()

    assert code == 3
    assert said.startswith(f"aos: {world / 'store'}: the commit failed: mdb_txn_commit: {why}")
    assert said.endswith("(look at the disk; the world reopens at its last durable record)")
    assert len(books.acknowledged) == 10
    assert len(late.acknowledged) < 5
    assert len(check(books, late)) >= 10 + len(late.acknowledged)
    goes_on(books, late)


def test_a_commit_that_finds_no_room_for_a_moment_is_made_again(world: Path) -> None:
    """H-24, ST-4: by the same process, and its sender hears of nothing but of a longer while."""
    books = Books(world)
    with Running(world) as running:
        with strace_on(running.process, data(world), "writev:error=ENOSPC:when=1..3"):
            assert books.send(3, busy_s=5)
        assert running.status()["no_room"] is None
        assert running.stop()[0] == 0
    assert len(books.acknowledged) == 3
    check(books)


def test_the_first_commit_of_a_process_may_fail(world: Path) -> None:
    """H-25: of the record that says that it started."""
    books = Books(world)
    before = under_strace(world, "fdatasync:error=EIO:when=1")
    with Running(world, before=before, is_awaited=False) as running:
        code, said = running.ended()
    assert code == 3
    assert "the commit failed: mdb_txn_commit: Input/output error" in said
    assert [record.KIND for record in check(books)] == ["genesis", "manifest"]
    goes_on(books)


def test_the_commit_of_a_receipt_may_fail(world: Path, tmp_path: Path) -> None:
    """H-25, H-42: its executor gets the intent again, with the same key, and settles it once."""
    words = ("--executors", f"{EFFECTS}:gated")
    env = {"DISK_FOLDER": str(tmp_path)}
    with Running(world, *words, env=env) as running:
        with open_writer(world) as writer:
            [answer] = writer.send([do("a", asks("x"), "first")], batch_items=1)
        assert isinstance(answer, Admitted)
        eventually((tmp_path / "asked").exists, "the executor is asked")
        with strace_on(running.process, data(world), "fdatasync:error=EIO:when=1"):
            (tmp_path / "open").touch()
            code, said = running.ended()
    assert code == 3
    assert "the commit failed: " in said
    records = check_journal(world, ["first"], {"first": answer.seq})
    assert not any(isinstance(record, Receipt) for record in records)
    with open_reader(world) as reader:
        [intent] = reader.state.intents.values()

    with Running(world, *words, "--until-idle", env=env, is_awaited=False) as running:
        assert running.ended()[0] == 0
    asked = (tmp_path / "asked").read_text().split()
    assert asked == [intent.idempotency_key] * 2
    records = check_journal(world, ["first"], {"first": answer.seq})
    assert [each.intent for each in records if isinstance(each, Receipt)] == [intent.intent]
    assert len([each for each in records if isinstance(each, Step)]) == 2


def test_a_restart_over_open_work_may_fail(world: Path, tmp_path: Path) -> None:
    """H-25, H-42: it folds, publishes what is open, and dies at its first commit; and again."""
    words = ("--executors", f"{EFFECTS}:gated")
    env = {"DISK_FOLDER": str(tmp_path)}
    with open_writer(world) as writer:
        [answer] = writer.send([do("a", asks("x"), "first")], batch_items=1)
    assert isinstance(answer, Admitted)
    for call in ("fdatasync", PAGES):
        before = under_strace(world, f"{call}:error=EIO:when=1+")
        with Running(world, *words, env=env, before=before, is_awaited=False) as running:
            code, said = running.ended()
        assert (code, "the commit failed: " in said) == (3, True), said
        check_journal(world, ["first"], {"first": answer.seq})

    (tmp_path / "open").touch()
    with Running(world, *words, "--until-idle", env=env, is_awaited=False) as running:
        assert running.ended()[0] == 0
    assert len(set((tmp_path / "asked").read_text().split())) == 1
    records = check_journal(world, ["first"], {"first": answer.seq})
    assert len([each for each in records if isinstance(each, Receipt)]) == 1


def test_a_write_that_is_interrupted_is_made_again(world: Path) -> None:
    """ST-4: a signal in the middle of a commit is no failure."""
    books = Books(world)
    with Running(world) as running:
        with strace_on(running.process, data(world), f"{PAGES}:error=EINTR:when=1..9"):
            assert books.send(10, busy_s=5)
        assert running.stop()[0] == 0
    assert len(books.acknowledged) == 10
    check(books)
