"""The table of leases on the disk: durable, checked, and cleared when it cannot be trusted (N-54 to
N-56)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.errors import AosError, Damage, Unavailable
from aos.node.leases.row import LeaseHolder, Phase, RetryPolicy, Row
from aos.node.leases.table import (
    Changes,
    Syncing,
    Table,
    begin_table,
    clear_table,
    leased,
    open_table,
)
from aos.store.memory_store import MemoryStore
from aos.store.store import Store
from aos.values.digests import Hash, content_hash

INTENT = content_hash(b"an intent")
OTHER = content_hash(b"another intent")
NUMBERS = st.integers(0, 2**63)
ROW = Row(
    epoch=3,
    phase=Phase.LEASED,
    holder=LeaseHolder("ann", "shop"),
    claim="c-1",
    until_ns=5,
    lease_ns=4,
    lost=2,
    failed=1,
    policy=RetryPolicy(attempts=4, base_ms=10),
)


def opened(path: Path, seq: int = 7) -> tuple[Table, list[str]]:
    lines: list[str] = []
    return open_table(path, seq=seq, report=lines.append), lines


def written(path: Path) -> Path:
    """A table with a row, closed. Returns its data file."""
    table, lines = opened(path)
    assert not lines
    table.write({INTENT: ROW, OTHER: ROW})
    table.write({OTHER: None})
    table.close()
    return path / "node" / "leases" / "data.mdb"


def test_rows_are_there_after_a_start_and_the_table_remembers_where_it_began(
    tmp_path: Path,
) -> None:
    """N-54."""
    written(tmp_path)
    table, lines = opened(tmp_path, seq=90)
    assert (table.rows, table.since, lines) == ({INTENT: ROW}, 7, [])
    table.close()
    assert leased(tmp_path) == {INTENT: 3}
    assert (tmp_path / "node").stat().st_mode & 0o777 == 0o700


@given(
    st.builds(
        Row,
        epoch=st.integers(1, 2**32),
        phase=st.sampled_from(Phase),
        holder=st.builds(LeaseHolder, st.text(), st.text()),
        claim=st.text(),
        until_ns=NUMBERS,
        lease_ns=NUMBERS,
        lost=NUMBERS,
        failed=NUMBERS,
        pause_ns=NUMBERS,
        resume_ns=NUMBERS,
        problem=st.none() | st.text(),
        policy=st.builds(
            RetryPolicy,
            attempts=st.none() | st.integers(1, 100),
            base_ms=st.none() | NUMBERS,
            cap_ms=st.none() | NUMBERS,
        ),
    )
)
def test_a_row_is_read_as_it_was_written(row: Row) -> None:
    assert Row.from_bytes(row.to_bytes()) == row


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x81\x01", ROW.to_bytes()[:-1]])
def test_bytes_that_are_no_row_are_damage(data: bytes) -> None:
    with pytest.raises(Damage):
        Row.from_bytes(data)


def test_a_damaged_table_is_cleared_with_a_message_and_begins_at_the_journals_head(
    tmp_path: Path,
) -> None:
    """N-56: every byte of a row is under its checksum."""
    data = written(tmp_path)
    content = data.read_bytes()
    for part, other in ((b"shop", b"shoq"), (b"c-1", b"c-2"), (INTENT, content_hash(b"x"))):
        assert part in content
        data.write_bytes(content.replace(part, other))
        assert leased(tmp_path) == {}
        table, (line,) = opened(tmp_path, seq=90)
        assert "begins empty" in line
        assert (table.rows, table.since) == ({}, 90)
        table.close()
        data.write_bytes(content)


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_a_table_that_is_cut_off_is_cleared(tmp_path: Path, size: int) -> None:
    """N-56."""
    data = written(tmp_path)
    data.write_bytes(data.read_bytes()[:size])
    table, (line,) = opened(tmp_path, seq=90)
    assert "begins empty" in line
    assert (table.rows, table.since) == ({}, 90)
    table.close()


def test_a_copied_table_is_cleared(tmp_path: Path) -> None:
    """N-56: a copy does not know what was given out after it was made."""
    (tmp_path / "a").mkdir()
    written(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert leased(tmp_path / "b") == {}
    table, (line,) = opened(tmp_path / "b", seq=90)
    assert "copy" in line
    assert (table.rows, table.since) == ({}, 90)
    table.close()


def test_a_deleted_table_begins_at_the_journals_head(tmp_path: Path) -> None:
    """N-56."""
    written(tmp_path)
    clear_table(tmp_path)
    clear_table(tmp_path)
    table, lines = opened(tmp_path, seq=90)
    assert (table.rows, table.since, lines) == ({}, 90, [])
    table.close()
    clear_table(tmp_path / "nothing")


def test_only_the_first_table_of_a_world_begins_at_its_first_record(tmp_path: Path) -> None:
    """N-56."""
    with contextlib.closing(MemoryStore()) as store:
        assert began(tmp_path, store) == 0
        assert began(tmp_path, store) == 0
        shutil.rmtree(tmp_path / "node")
        assert began(tmp_path, store) == 90


def test_the_first_table_of_an_adopted_world_begins_at_the_journals_head(tmp_path: Path) -> None:
    """N-56: its tasks may be at workers of the folder that it was."""
    clear_table(tmp_path)
    with contextlib.closing(MemoryStore()) as store:
        assert began(tmp_path, store) == 90


def began(path: Path, store: Store) -> int:
    """Where the table begins at a start of the node at record 90."""
    begin_table(path, store)
    table, _ = opened(path, seq=90)
    table.close()
    return table.since


class Disk:
    """A table that the test lets write."""

    def __init__(self) -> None:
        self.groups: list[dict[Hash, Row | None]] = []
        self.may_write = threading.Event()
        self.is_writing = threading.Event()
        self.problem: AosError | None = None

    def write(self, changes: Changes) -> None:
        self.is_writing.set()
        assert self.may_write.wait(60)
        if self.problem is not None:
            raise self.problem
        self.groups.append(dict(changes))


def test_changes_of_one_moment_share_a_transaction() -> None:
    """N-54."""

    async def scene() -> None:
        disk = Disk()
        syncing = Syncing(disk.write)
        syncing.put({INTENT: ROW})
        first = asyncio.ensure_future(syncing.synced())
        assert await asyncio.to_thread(disk.is_writing.wait, 60)
        later = []
        for _ in range(3):
            syncing.put({OTHER: ROW})
            later.append(asyncio.ensure_future(syncing.synced()))
        await asyncio.sleep(0)
        assert not first.done()
        disk.may_write.set()
        await asyncio.gather(first, *later)
        assert [set(each) for each in disk.groups] == [{INTENT}, {OTHER}]
        await syncing.close()

    asyncio.run(scene())


def test_changes_that_found_no_room_are_written_later_and_newer_ones_win() -> None:
    """N-54."""

    async def scene() -> None:
        disk = Disk()
        disk.may_write.set()
        disk.problem = Unavailable("the disk is full")
        syncing = Syncing(disk.write)
        syncing.put({INTENT: ROW, OTHER: ROW})
        with pytest.raises(Unavailable):
            await syncing.synced()
        disk.problem = None
        syncing.put({INTENT: None})
        await syncing.synced()
        assert disk.groups == [{INTENT: None, OTHER: ROW}]
        await syncing.synced()
        await syncing.close()

    asyncio.run(scene())
