"""A writer that dies at any point leaves a prefix that has all that it acknowledged (ST-3)."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from aos.core.journal.frame import Tip, follow
from aos.store.derived import differences
from aos.store.lmdb_store import LmdbStore
from tests.store.children import end, line, spawn
from tests.store.journal import WORLD, Journal, derived_rows
from tests.store.writer import group

ROUNDS = 6


def check(folder: Path, acknowledged: int) -> int:
    """The store is exactly the writer's journal up to some group; return its last record."""
    with LmdbStore.open(folder, readonly=True) as store:
        head = store.head()
        assert head is not None
        assert head.seq >= acknowledged
        journal = Journal()
        while journal.tip.seq < head.seq:
            group(journal)
        assert head == journal.head()
        assert list(store.frames()) == journal.frames
        tip = Tip(world=WORLD)
        for frame in store.frames():
            tip = follow(tip, frame)
        for made in journal.made:
            for hash, data in made.blobs.items():
                assert store.blob(hash) == data
        assert list(differences(store, derived_rows(store.frames()))) == []
        return head.seq


def test_a_killed_writer_leaves_a_prefix_with_all_that_it_acknowledged(tmp_path: Path) -> None:
    """ST-3: kill -9 in a loop of commits, at a random moment."""
    chance = random.Random(7)
    folder = tmp_path / "store"
    last = 0
    for _ in range(ROUNDS):
        child = spawn("writer", str(folder))
        assert line(child.stdout) == f"open {last}"
        first = [int(line(child.stdout)) for _ in range(chance.randrange(8))]
        time.sleep(chance.uniform(0.01, 0.2))
        seen = end(child).split()
        # The last line may have been cut off by the kill: it is no acknowledgement then.
        whole = [*first, *(int(number) for number in seen[:-1])]
        acknowledged = max(whole, default=last)

        last = check(folder, acknowledged)
    assert last > 10, "the writer came nowhere"


def under_strace(folder: Path, *inject: str) -> list[str]:
    """The lines of a writer some of whose system calls fail."""
    trace = ("strace", "-f", "-o", "/dev/null", *(f"--inject={each}" for each in inject))
    child = spawn("writer", str(folder), "8", before=trace)
    out, error = child.communicate()
    assert child.returncode == 0, error
    return out.splitlines()


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize(
    ("call", "after"),
    [("fdatasync", "an earlier commit failed"), ("pwrite64", "an earlier commit failed")],
    ids=["the sync of the pages fails", "the write of the meta page fails"],
)
def test_a_disk_that_fails_in_a_commit_ends_the_writer(
    tmp_path: Path, call: str, after: str
) -> None:
    """ST-4: the group is not visible, the store takes no more, and opens again at the head."""
    folder = tmp_path / "store"
    which = "5+" if call == "fdatasync" else "8+"

    lines = under_strace(folder, f"{call}:error=EIO:when={which}")

    durable = [int(each) for each in lines if each.isdigit()]
    failed = [each for each in lines if each.startswith("failed: ")]
    assert len(durable) > 1
    assert len(failed) == 2
    assert failed[0].startswith("failed: CommitFailed: ")
    assert "the commit failed: mdb_txn_commit: Input/output error" in failed[0]
    assert after in failed[1]
    assert lines[-1] == f"ends {durable[-1]}" or lines[-1].startswith("ends: CommitFailed: ")
    assert check(folder, durable[-1]) == durable[-1]


@pytest.mark.usefixtures("strace")
def test_a_full_disk_is_told_from_a_broken_one(tmp_path: Path) -> None:
    """ST-4: the same group is appended again, and passes once there is room."""
    folder = tmp_path / "store"

    lines = under_strace(folder, "pwrite64,pwritev:error=ENOSPC:when=12")

    failed = [each for each in lines if each.startswith("failed: ")]
    assert len(failed) == 1
    assert failed[0].startswith("failed: NoRoom: ")
    durable = [int(each) for each in lines if each.isdigit()]
    assert len(durable) == 8
    assert lines[-1] == f"ends {durable[-1]}"
    check(folder, durable[-1])
