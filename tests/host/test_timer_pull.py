"""A world with more timers than its process sets (X-21, X-23 to X-24)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import cbor2
import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import KEEP_OPEN
from aos.core.journal.records import Receipt, Step
from aos.errors import Damage
from aos.host import timer_pull
from aos.host.door.writer import Writer, open_writer
from aos.host.executors import timer
from aos.host.executors.task import Task
from aos.host.executors.timer import TimerExecutor
from aos.host.folder.reader import open_reader
from aos.host.open_work import OpenEffect
from aos.host.process import RunningWorld, Started
from aos.host.transfer.adopting import adopt_world
from aos.host.transfer.forking import fork_world
from aos.host.world.engine import Engine
from aos.host.world.snapshots import FORMAT_VARIABLE
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.copies import copied
from tests.host.puppet import PUPPET, asks_for, do, manifest
from tests.host.test_crash import records
from tests.host.test_process import run, until
from tests.run_seed import rotated

TIMER = "sys/timer.set@1"
HOUR = 3_600_000_000_000
COUNT = 30


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "HELD_MIN", 3)
    monkeypatch.setattr(timer, "HELD_MAX", 8)
    monkeypatch.setattr(timer_pull, "FIRST", 4)
    monkeypatch.setattr(timer_pull, "PAGE", 2)


@pytest.fixture(params=["1", "2"])
def world(
    request: pytest.FixtureRequest, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A world whose snapshots are of either format, without an instance."""
    monkeypatch.setenv(FORMAT_VARIABLE, request.param)
    path = tmp_path / "w"
    copied(template, path)
    with open_writer(path) as writer:
        assert isinstance(writer.apply(manifest(effects=(TIMER,))).answer, Admitted)
    return path


def sleep(path: Path, *due_ns: int) -> None:
    """An instance for each time, which has set a timer and waits; then a snapshot."""
    with open_writer(path) as writer:
        send(writer, *due_ns)
    run(path, until_idle=True, report=lambda _: None)
    with open_writer(path) as writer:
        writer.snapshot()


def send(writer: Writer, *due_ns: int) -> None:
    asks = [asks_for((TIMER, {"deliver_at_ns": due, "key": None})) for due in due_ns]
    list(writer.send(do(str(due), out) for due, out in zip(due_ns, asks, strict=True)))


def receipts(path: Path) -> list[tuple[int, str]]:
    """When the timer of each receipt was due, and the receipt's status, as in the journal."""
    dues: dict[bytes, int] = {}
    rows: list[tuple[int, str]] = []
    for record in records(path):
        if isinstance(record, Step):
            for intent in record.intents:
                assert isinstance(intent.params, bytes)
                dues[intent.intent] = cbor2.loads(intent.params)["deliver_at_ns"]
        elif isinstance(record, Receipt):
            rows.append((dues[record.intent], record.status))
    return rows


def test_all_timers_of_a_snapshot_fire_in_their_order(world: Path) -> None:
    sleep(world, *[1 + (n * 7) % COUNT for n in range(COUNT)])
    started: list[Started] = []

    ended = run(world, TimerExecutor(), until_idle=True, on_started=started.append)

    assert started[0].open_intents == COUNT
    assert (ended.is_idle, ended.open, ended.timers) == (True, (), 0)
    assert receipts(world) == [(due, "ok") for due in range(1, COUNT + 1)]


def test_a_start_sets_the_first_timers_only_and_counts_all(world: Path) -> None:
    due = time.time_ns() + HOUR
    sleep(world, *range(due, due + COUNT))
    executor = TimerExecutor()

    ended = run(world, executor, until_waiting=True)

    assert executor.stats().running == 4
    assert (ended.is_idle, ended.timers) == (True, COUNT)
    (timers,) = ended.open
    assert timers == OpenEffect(effect=TIMER, number=COUNT, oldest_ns=None, due_ns=due)
    assert receipts(world) == []


def test_timers_that_are_set_while_a_world_runs_fire_with_the_others(world: Path) -> None:
    now = time.time_ns()
    sleep(world, *range(1, 11), *range(now + HOUR, now + HOUR + 10))

    @contextlib.asynccontextmanager
    async def around(_: RunningWorld) -> AsyncIterator[None]:
        await asyncio.to_thread(send_more)
        yield

    def send_more() -> None:
        with open_writer(world) as writer:
            send(writer, *range(11, 31), *range(now + 2 * HOUR, now + 2 * HOUR + 20))

    ended = run(world, TimerExecutor(), until_waiting=True, around=around)

    assert ended.timers == 30
    assert sorted(receipts(world)) == [(due, "ok") for due in range(1, 31)]


def test_a_timer_that_is_not_set_is_canceled_when_its_instance_ends(world: Path) -> None:
    due = time.time_ns() + HOUR
    sleep(world, *range(due, due + COUNT))
    executor = TimerExecutor()
    victims = (due + COUNT - 1, due + 9, due)

    @contextlib.asynccontextmanager
    async def around(_: RunningWorld) -> AsyncIterator[None]:
        await asyncio.to_thread(end)
        await until(lambda: len(receipts(world)) == len(victims))
        yield

    def end() -> None:
        with open_writer(world) as writer:
            for victim in victims:
                cell = PUPPET, encode(str(victim))
                answer = writer.control("end", cell=cell, status="completed")
                assert isinstance(answer, Admitted)

    ended = run(world, executor, until_waiting=True, around=around)

    assert ended.timers == COUNT - len(victims)
    assert sorted(receipts(world)) == [(victim, "canceled") for victim in sorted(victims)]
    assert run(world, TimerExecutor(), until_waiting=True).timers == ended.timers


class PagedExecutor(TimerExecutor):
    """Counts the pages that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = 0

    def add_page(self, after: Hash | None, tasks: Sequence[Task], until: Hash | None) -> None:
        self.pages += 1
        super().add_page(after, tasks, until)


def forked(world: Path, fork: Path) -> Path:
    """A fork that keeps the open timers of a world, and may run."""
    with open_reader(world) as reader:
        at = reader.seq
    fork_world(world, fork, at=at, open_work=KEEP_OPEN)
    adopt_world(fork)
    return fork


def test_a_fork_sets_no_timer_that_it_inherited(world: Path, tmp_path: Path) -> None:
    """K-113. Its start reads one page, so the inherited timers after it still count (X-23a)."""
    sleep(world, *range(1, COUNT + 1))
    fork = forked(world, tmp_path / "fork")
    sleep(fork, 100, 101, 102, 103, 104)
    executor = PagedExecutor()
    starts: list[tuple[int, int]] = []

    def on_started(started: Started) -> None:
        starts.append((executor.pages, started.open_intents))

    ended = run(fork, executor, until_idle=True, on_started=on_started)

    assert starts == [(1, COUNT + 5 - timer_pull.FIRST)]
    assert (ended.is_idle, ended.open) == (True, ())
    assert receipts(fork) == [(due, "ok") for due in range(100, 105)]
    assert ended.stats.figures.open_timers == COUNT


@pytest.mark.long
@pytest.mark.parametrize("own", rotated([0, 2]))
def test_a_fork_that_waits_has_counted_its_own_timers(
    world: Path, tmp_path: Path, own: int
) -> None:
    """X-23a, also if inherited ones end while it runs, before and after their page came."""
    due = time.time_ns() + HOUR
    sleep(world, *range(due, due + COUNT))
    fork = forked(world, tmp_path / "fork")
    sleep(fork, *range(due + 2 * COUNT, due + 2 * COUNT + own))

    @contextlib.asynccontextmanager
    async def around(_: RunningWorld) -> AsyncIterator[None]:
        await asyncio.to_thread(end)
        yield

    def end() -> None:
        with open_writer(fork) as writer:
            for victim in (due, due + COUNT // 2, due + COUNT - 1):
                cell = PUPPET, encode(str(victim))
                assert isinstance(writer.control("end", cell=cell, status="completed"), Admitted)

    ended = run(fork, TimerExecutor(), until_waiting=True, around=around)

    assert (ended.is_idle, ended.timers) == (True, own)
    assert ended.stats.figures.open_timers == COUNT - 3 + own


def test_timers_that_cannot_be_read_end_the_run(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-83."""
    sleep(world, *range(1, COUNT + 1))

    def fail(*_: object) -> Future[object]:
        future: Future[object] = Future()
        future.set_exception(Damage("a part of the snapshot is lost"))
        return future

    monkeypatch.setattr(Engine, "between_frames", fail)
    with pytest.raises(Damage, match="a part of the snapshot is lost"):
        run(world, TimerExecutor(), until_idle=True)
