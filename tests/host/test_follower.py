"""A follower's state and records, compared with those of a fresh reader (spec/host.md, H-45a)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Record
from aos.core.snapshot.take import take
from aos.core.state.state import State
from aos.errors import BadUsage, Unavailable
from aos.host import follower as follower_module
from aos.host.door.remote import ask_running
from aos.host.door.writer import open_writer
from aos.host.folder.reader import open_reader
from aos.host.follower import Follower
from aos.host.process import RunSettings, run_world
from aos.host.retention.gc import collect_world
from aos.host.retention.pruning import prune_world
from aos.host.world.snapshots import Every
from aos.values.digests import content_hash
from tests.host.puppet import PUPPET, asks, do
from tests.host.rig import eventually
from tests.host.test_crash import start
from tests.host.test_process import Echo, send

T = TypeVar("T")
WAIT_S = 120.0


@dataclass(eq=False)
class Heard:
    """The records that a listener was given. It checks that records come one by one."""

    begun: list[int] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    last: int = 0

    def rebased(self, state: State) -> None:
        self.begun.append(state.next_seq - 1)
        self.last = state.next_seq - 1

    def on_record(self, record: Record, state: State) -> None:
        assert record.seq == self.last + 1
        assert state.next_seq == record.seq + 1, "it was folded, and nothing after it"
        self.last = record.seq
        self.records.append(record)


def document(state: State) -> bytes:
    """The snapshot that would be taken of a state: equal if the states are."""

    def put(data: bytes) -> Any:
        return content_hash(data)

    return take(state, put).document


def is_fresh(follower: Follower, path: Path) -> None:
    with open_reader(path, at=follower.seq) as reader:
        assert document(follower.state) == document(reader.state)


def has_started(log: Path) -> bool:
    return log.exists() and "started" in log.read_text()


@contextlib.asynccontextmanager
async def running(path: Path, **more: Any) -> Any:
    """The world, run by this process until the end of the block."""
    up = asyncio.Event()
    world = asyncio.create_task(
        run_world(
            path,
            RunSettings(
                executors=lambda _b, _w: (Echo(),),
                handle_signals=False,
                on_started=lambda _: up.set(),
                snapshot_every=Every(records=0),
                **more,
            ),
        )
    )
    await asyncio.wait({world, asyncio.create_task(up.wait())}, return_when="FIRST_COMPLETED")
    try:
        yield world
    finally:
        with contextlib.suppress(Unavailable):
            await asyncio.to_thread(ask_running, path, "stop")
        await world


def run(body: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(WAIT_S):
            return await body

    return asyncio.run(bounded())


@contextlib.asynccontextmanager
async def following(path: Path, *listeners: Heard) -> AsyncIterator[Follower]:
    follower = Follower(path, listeners)
    await follower.start()
    try:
        yield follower
    finally:
        follower.close()


async def settled(follower: Follower, cells: int) -> None:
    """Fold until so many cells are there and all of them are at rest."""
    seq = await follower.advance_to()
    while len(follower.state.cells) < cells or follower.state.ring:
        await follower.wait_past(seq, 1.0)
        seq = await follower.advance_to()


def journal(path: Path, after: int, last: int) -> list[Record]:
    with open_reader(path) as reader:
        return [
            record
            for frame in reader.store.frames(after + 1)
            for data in frame.records
            if after < (record := from_bytes(data)).seq <= last
        ]


def test_a_follower_equals_a_fresh_reader_at_random_records_across_snapshots(world: Path) -> None:
    random = Random(13)
    heard = Heard()

    def some() -> int:
        items = [
            do(f"k{random.randrange(40)}", asks("x") if random.random() < 0.3 else None)
            for _ in range(random.randrange(1, 30))
        ]
        answers = send(world, *items)
        assert isinstance(answers[-1], Admitted)
        return answers[-1].seq

    async def body() -> None:
        async with running(world, cells_kept=4), following(world, heard) as follower:
            state = follower.state
            for round_ in range(12):
                seq = await asyncio.to_thread(some)
                assert await follower.advance_to(seq) >= seq
                is_fresh(follower, world)
                if round_ in (3, 7):
                    await asyncio.to_thread(ask_running, world, "snapshot")
            await follower.advance_to()
            is_fresh(follower, world)
            assert follower.state is state
            assert state.snapshot is not None
            assert state.cells.at == state.snapshot.at, "it reads from the newest snapshot"

    run(body())
    assert len(heard.begun) == 1
    assert heard.records == journal(world, after=heard.begun[0], last=heard.last)


def test_cells_that_a_snapshot_has_leave_the_memory_of_a_follower(world: Path) -> None:
    async def body() -> None:
        async with running(world), following(world) as follower:
            follower.state.cells.keep(1)
            for round_ in range(2):
                items = [do(f"{round_}-{number}") for number in range(100)]
                await asyncio.to_thread(send, world, *items)
                await settled(follower, 100 * (round_ + 1))
                assert len(follower.state.cells.shelves[PUPPET].delta) >= 99
                await asyncio.to_thread(ask_running, world, "snapshot")
                await follower.advance_to()
                assert len(follower.state.cells.shelves[PUPPET].delta) == 0

    run(body())


def test_a_follower_outlives_a_kernel_process_that_is_killed_in_the_middle(
    world: Path, tmp_path: Path
) -> None:
    heard = Heard()

    def flood() -> None:
        with open_writer(world) as writer, contextlib.suppress(Unavailable):
            for number in range(100_000):
                list(writer.send([do(f"k{number % 7}", asks("x"))]))

    async def body() -> None:
        async with following(world, heard) as follower:
            folding = asyncio.create_task(follower.run())
            for round_ in range(2):
                before = follower.seq
                log = tmp_path / f"log{round_}"
                host = await asyncio.to_thread(start, world, log)
                try:
                    await asyncio.to_thread(eventually, partial(has_started, log), "up")
                    flooding = asyncio.create_task(asyncio.to_thread(flood))
                    assert await follower.wait_past(before + 60, WAIT_S)
                finally:
                    host.send_signal(signal.SIGKILL)
                    await asyncio.to_thread(host.wait)
                await flooding
                await follower.advance_to()
                is_fresh(follower, world)
            assert not folding.done()
            folding.cancel()

    run(body())
    assert len(heard.begun) == 1
    assert heard.records == journal(world, after=heard.begun[0], last=heard.last)


def test_a_follower_that_is_behind_a_pruned_journal_begins_again(world: Path) -> None:
    heard = Heard()

    async def body() -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with running(world):
                follower = await stack.enter_async_context(following(world, heard))
                began = follower.seq
                await asyncio.to_thread(send, world, *(do(str(each)) for each in range(20)))
                await asyncio.to_thread(ask_running, world, "snapshot")
                await asyncio.to_thread(send, world, do("later"))
            await asyncio.to_thread(prune_world, world)
            await asyncio.to_thread(collect_world, world)

            end = await follower.advance_to()

            assert heard.begun == [began, end]
            assert heard.records == []
            is_fresh(follower, world)
            await asyncio.to_thread(send, world, do("last"))
            await follower.advance_to()
            assert [record.KIND for record in heard.records] == ["event"]

    run(body())


def test_a_restart_begins_again_where_the_follower_was(world: Path) -> None:
    heard = Heard()

    async def body() -> None:
        async with following(world, heard) as follower:
            before = follower.state
            await follower.restart()
            assert follower.state is not before
            assert document(follower.state) == document(before)
            assert heard.begun == [follower.seq] * 2

    run(body())


def test_a_wait_ends_when_a_head_is_announced_and_without_one_soon_after(world: Path) -> None:
    async def body(announce: Callable[[Follower], None]) -> None:
        async with running(world), following(world) as follower:
            seq = await follower.advance_to()
            while await follower.wait_past(seq, 0.3):  # the world's own records at its start
                seq = await follower.advance_to()
            assert not await follower.wait_past(seq, 0.0)
            waiting = asyncio.create_task(follower.wait_past(seq, WAIT_S))
            await asyncio.to_thread(send, world, do("a"))
            announce(follower)
            assert await waiting
            assert follower.seq == seq, "it waits for the journal and folds nothing"
            assert await follower.advance_to() > seq

    run(body(Follower.head_arrived))
    run(body(lambda _: None))


def test_while_a_follower_catches_up_the_loop_does_other_things(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "SLICE_S", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def body() -> None:
        async with running(world), following(world) as follower:
            for number in range(20):
                await asyncio.to_thread(send, world, do(str(number)))
            counting = asyncio.create_task(count())
            ends = await asyncio.gather(*(follower.advance_to() for _ in range(5)))
            counting.cancel()
            assert len(set(ends)) == 1
            is_fresh(follower, world)

    run(body())
    assert turns >= 4, "five of them fold a frame each in one turn"


def test_a_folder_without_a_world_cannot_be_followed(tmp_path: Path) -> None:
    async def body() -> None:
        async with following(tmp_path):
            pass

    with pytest.raises(BadUsage, match="no world's folder"):
        run(body())
