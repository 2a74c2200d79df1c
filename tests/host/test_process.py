"""A whole world in this process: socket, executors, signals, and when it is idle."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from aos.core.decide.answers import Admitted, Answer, Refusal, Rule
from aos.core.journal.faults import FaultKind
from aos.core.journal.inputs import AttemptInput, EventInput
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Attempt, KernelReceipt, Receipt, Record, Start
from aos.core.state.cell import OpenIntent
from aos.errors import BadUsage, Refused, Unavailable
from aos.host.door.link import Link
from aos.host.door.remote import ask_running
from aos.host.door.writer import Item, open_writer
from aos.host.errors import Stopping
from aos.host.executors.blob import BlobExecutor
from aos.host.executors.outbox import JournalOutbox
from aos.host.executors.redelivery import left_open
from aos.host.executors.task import ExecutorStats, Task, TaskExecutor, WorkJournal
from aos.host.executors.timer import TimerExecutor
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.host.process import Ended, RunningWorld, RunSettings, Started, Status, run_world
from aos.host.run_end import RunEnd
from aos.manifest.effective import Effective
from aos.manifest.load import load
from aos.store import lock
from aos.store.errors import CommitFailed, WorldIsHeld
from aos.store.lmdb_store import LmdbStore
from aos.store.lock import WorldLock
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, content_hash
from aos.worker.outcome import Outcome
from tests.answers import word
from tests.copies import copied
from tests.core.desk import ONCE as ONCE_DESK
from tests.core.desk import desks, pay, tell, wish
from tests.host.puppet import DO, ECHO, PUPPET, asks, asks_for, do, files, manifest, trap

T = TypeVar("T")
WAIT_S = 120.0


@dataclass(eq=False)
class Echo:
    """Settles each task with its own params; ``silent`` keeps them open, ``forged`` signs wrong."""

    name: str = "echo"
    effects: frozenset[str] = frozenset({ECHO})
    silent: bool = False
    forged: bool = False
    signer: tuple[str, bytes] | None = None
    published: list[Task] = field(default_factory=list)
    canceled: list[Hash] = field(default_factory=list)
    answers: list[Answer | None] = field(default_factory=list)
    manifests: list[Hash] = field(default_factory=list)
    outbox: JournalOutbox | None = None

    async def start(self, journal: WorkJournal) -> None:
        self.outbox = JournalOutbox(self.name, journal, lambda _: None)

    def use(self, effective: Effective) -> None:
        self.manifests.append(effective.hash)

    def publish(self, tasks: Sequence[Task]) -> None:
        self.published += tasks
        for task in tasks:
            if not self.silent:
                self.settle(task)

    def settle(self, task: Task) -> None:
        assert self.outbox is not None
        outcome = Outcome(
            intent=task.intent,
            effect=task.effect.name,
            attempt=task.attempt,
            status="ok",
            payload=task.params,
            started_ns=task.opened_ns,
            finished_ns=task.opened_ns,
            executor="shop" if self.forged else "node",
            key_id=bytes(32) if self.forged else None,
            signature=bytes(64) if self.forged else None,
        )
        self.outbox.settle(outcome, lambda _, answer: self.answers.append(answer))

    def cancel(self, intents: Sequence[Hash]) -> None:
        self.canceled += intents

    async def stop(self) -> None:
        if self.outbox is not None:
            await self.outbox.drain(1.0)

    def stats(self) -> ExecutorStats:
        return ExecutorStats(running=0, queued=0, settled=len(self.answers))


def run(path: Path, *executors: TaskExecutor, **more: Any) -> Ended:
    return asyncio.run(
        asyncio.wait_for(
            run_world(
                path, RunSettings(executors=lambda _b, _w: executors, handle_signals=False, **more)
            ),
            WAIT_S,
        )
    )


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110  # what is waited for happens on other threads
        await asyncio.sleep(0.01)


def send(path: Path, *items: Item) -> list[Answer]:
    with open_writer(path) as writer:
        return list(writer.send(items))


def while_running(
    path: Path, body: Callable[[], Coroutine[Any, Any, T]], *executors: TaskExecutor, **more: Any
) -> tuple[T, Ended]:
    """Run the world, and ``body`` on its loop once it has started; then stop it."""

    async def both() -> tuple[T, Ended]:
        up = asyncio.Event()
        world = asyncio.ensure_future(
            run_world(
                path,
                RunSettings(
                    executors=lambda _b, _w: executors,
                    handle_signals=False,
                    on_started=lambda _: up.set(),
                    **more,
                ),
            )
        )
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait(
                {world, waiting := asyncio.ensure_future(up.wait())}, return_when="FIRST_COMPLETED"
            )
            waiting.cancel()
            if world.done():
                world.result()
            found = await body()
            if not world.done():
                with contextlib.suppress(Unavailable):  # it may be about to stop by itself
                    await asyncio.to_thread(ask_running, path, "stop")
            return found, await world

    return asyncio.run(both())


def states(path: Path) -> dict[bytes, Any]:
    with open_reader(path) as reader:
        return {key: cell.state for (_, key), cell in reader.state.cells.items()}


# From event to settled effect


def test_a_world_runs_until_nothing_is_left_to_do(world: Path) -> None:  # H-80
    send(world, do("a", asks("x", "y")), do("b", asks("z")), do("a"))
    echo = Echo()

    ended = run(world, echo, until_idle=True)

    assert ended.is_idle
    assert ended.waiting == {}
    assert ended.stats.figures.open_intents == 0
    assert [decode_record(task.params) for task in echo.published] == [
        {"word": "x"},
        {"word": "y"},
        {"word": "z"},
    ]
    assert [word(each) for each in echo.answers if each] == ["settled"] * 3
    # One step of asking, one of the plain event, two of the settled effects.
    assert states(world) == {encode("a"): encode(4), encode("b"): encode(2)}
    task = echo.published[0]
    assert (task.workflow, task.cell_key) == (PUPPET, encode("a"))
    assert task.idempotency_key.startswith("blake3:")


def test_an_idle_world_ends_at_once_and_journals_that_it_ran(world: Path) -> None:  # H-13, H-80
    ended = run(world, until_idle=True)
    assert ended.is_idle
    with open_reader(world) as reader:
        [frame] = reader.store.frames(3)
        [start] = [from_bytes(record) for record in frame.records]
    assert isinstance(start, Start)
    assert sorted(dict(start.host)) == ["core", "engine", "kernel", "target", "wasmtime"]


def test_effects_without_an_executor_stay_open_and_are_named(world: Path) -> None:  # H-81
    lines: list[str] = []
    send(world, do("a", asks("x", "y")))
    ended = run(world, until_idle=True, report=lines.append)
    assert ended.is_idle
    assert ended.waiting == {ECHO: 2}
    assert ended.stats.figures.open_intents == 2
    assert any(f"effect {ECHO} is waiting for an executor" in line for line in lines)


def test_a_receipt_that_is_refused_leaves_its_intent_open_and_named(world: Path) -> None:  # H-81
    send(world, do("a", asks("x")))
    echo = Echo(forged=True)
    ended = run(world, echo, until_idle=True, report=lambda _: None)
    [intent] = [task.intent for task in echo.published]
    assert ended.is_idle
    assert list(ended.refused) == [intent]
    assert ended.refused[intent].rule is Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN


def test_a_restart_publishes_exactly_the_open_effects_with_the_same_identity(world: Path) -> None:
    """H-42"""
    send(world, do("a", asks("x", "y")))
    silent = Echo(silent=True)

    async def wait_published() -> None:
        await until(lambda: len(silent.published) == 2)
        silent.settle(silent.published[0])
        await until(lambda: bool(silent.answers))

    while_running(world, wait_published, silent)
    echo = Echo()
    started: list[Started] = []
    run(world, echo, until_idle=True, on_started=started.append)

    assert started[0].open_intents == 1
    [again] = echo.published
    before = silent.published[1]
    assert (again.intent, again.idempotency_key) == (before.intent, before.idempotency_key)
    assert (again.params, again.opened_seq, again.opened_ns) == (
        before.params,
        before.opened_seq,
        before.opened_ns,
    )
    with open_reader(world) as reader:
        records = [from_bytes(r) for frame in reader.store.frames() for r in frame.records]
    assert sum(isinstance(record, Receipt) for record in records) == 2


def test_the_effects_of_a_failed_instance_are_canceled(world: Path) -> None:  # H-31
    # The second effect's receipt does not fit, and there is no arm for that: the instance fails.
    send(world, do("a", asks("x", "y")))

    class Misfit(Echo):
        def settle(self, task: Task) -> None:
            if decode_record(task.params) == {"word": "y"}:
                object.__setattr__(task, "params", encode({"other": 1}))
                super().settle(task)

    executor = Misfit()

    async def wait_canceled() -> None:
        await until(lambda: bool(executor.canceled))

    lines: list[str] = []
    while_running(world, wait_canceled, executor, report=lines.append)
    assert executor.canceled == [executor.published[0].intent]


# Effects that may run only once, and canceled effects


ONCE, CANCEL = "host/once@1", "sys/effect.cancel@1"


@pytest.fixture
def careful(world: Path) -> Path:
    """The world with an effect that may run once, and one that cancels."""
    given = files(effects=(ECHO, ONCE, CANCEL))
    nodes: list[dict[str, Any]] = json.loads(given["m.air.json"])
    for node in nodes:
        if node.get("name") == ONCE:
            node["delivery"] = "at_most_once"
    with open_writer(world) as writer:
        applied = writer.apply(load({**given, "m.air.json": json.dumps(nodes).encode()}))
        assert isinstance(applied.answer, Admitted)
    return world


def records_of(path: Path) -> list[Record]:
    with open_reader(path) as reader:
        return [from_bytes(r) for frame in reader.store.frames() for r in frame.records]


def test_an_effect_that_may_run_once_is_journaled_before_any_executor_has_it(careful: Path) -> None:
    """X-14: also one that knows nothing of attempts."""
    send(careful, do("a", asks("x", effect=ONCE)))
    silent = Echo(silent=True, effects=frozenset({ONCE}))

    async def wait_published() -> None:
        await until(lambda: len(silent.published) == 1)
        attempts = [each for each in records_of(careful) if isinstance(each, Attempt)]
        assert [(each.attempt, each.phase) for each in attempts] == [(1, "begun")]

    while_running(careful, wait_published, silent)
    echo = Echo(effects=frozenset({ONCE}))
    started: list[Started] = []
    ended = run(careful, echo, until_idle=True, on_started=started.append)

    assert ended.is_idle
    assert echo.published == []
    assert started[0].open_intents == 0
    attempt, receipt = [
        each for each in records_of(careful) if isinstance(each, Attempt | KernelReceipt)
    ][1:]
    assert isinstance(attempt, Attempt)
    assert (attempt.phase, attempt.problem) == (
        "lost",
        "the process that ran it ended before its receipt was durable",
    )
    assert isinstance(receipt, KernelReceipt)
    assert (receipt.intent, receipt.status) == (silent.published[0].intent, "error")
    assert states(careful)[encode("a")] == encode(2)


def test_an_effect_that_may_run_once_without_an_executor_here_was_not_begun(careful: Path) -> None:
    send(careful, do("a", asks("x", effect=ONCE)))
    assert run(careful, until_idle=True, report=lambda _: None).waiting == {ONCE: 1}
    echo = Echo(effects=frozenset({ONCE}))

    ended = run(careful, echo, until_idle=True)

    assert ended.is_idle
    assert [word(each) for each in echo.answers if each] == ["settled"]


@pytest.mark.parametrize(
    ("command", "late"),
    [
        ({"action": "end", "status": "completed"}, "abandoned"),
        ({"action": "remove"}, "abandoned"),
        ({"action": "settle"}, "receipt_intent_is_settled"),
    ],
)
def test_an_operator_who_ends_the_work_of_an_executor_makes_it_stop(
    world: Path, command: dict[str, Any], late: str
) -> None:
    """K-108, K-109, H-31."""
    silent = Echo(silent=True)
    lines: list[str] = []

    def give(intent: Hash) -> Answer:
        about: dict[str, Any] = {"cell": (PUPPET, encode("a"))}
        if command["action"] == "settle":
            about = {"intent": intent, "status": "ok", "payload": encode({"word": "x"})}
        with open_writer(world) as writer:
            return writer.control(**command, **about)

    async def ended() -> Answer:
        await asyncio.to_thread(send, world, do("a", asks("x")))
        await until(lambda: len(silent.published) == 1)
        answer = await asyncio.to_thread(give, silent.published[0].intent)
        await until(lambda: bool(silent.canceled))
        silent.settle(silent.published[0])
        await until(lambda: bool(silent.answers))
        return answer

    answer, ended_world = while_running(world, ended, silent, report=lines.append)

    assert isinstance(answer, Admitted)
    assert answer.abandoned == (0 if command["action"] == "settle" else 1)
    assert silent.canceled == [silent.published[0].intent]
    assert [word(each) for each in silent.answers if each] == [late]
    assert ended_world.stats.figures.open_intents == 0
    assert lines == []
    assert run(world, Echo(), until_idle=True).is_idle


def test_a_canceled_effect_is_dropped_and_its_late_answer_does_no_harm(
    careful: Path,
) -> None:
    """X-6, K-84."""
    asked: Any = [{"effect": ECHO, "params": encode({"word": "x"}), "issuer_ref": "count"}]
    ask = encode({"state": encode(1), "effects": asked, "status": "running"})
    params = {"intent": None, "issuer_ref": "count"}
    silent = Echo(silent=True)
    lines: list[str] = []

    async def canceled() -> None:
        await asyncio.to_thread(send, careful, do("a", ask))
        await until(lambda: len(silent.published) == 1)
        await asyncio.to_thread(send, careful, do("a", asks_for((CANCEL, params))))
        await until(lambda: bool(silent.canceled))
        silent.settle(silent.published[0])
        await until(lambda: bool(silent.answers))

    _, ended = while_running(careful, canceled, silent, report=lines.append)

    assert silent.canceled == [silent.published[0].intent]
    assert len(silent.published) == 1
    assert [word(each) for each in silent.answers if each] == ["receipt_intent_is_settled"]
    assert ended.refused == {}
    assert ended.stats.figures.open_intents == 0
    assert lines == []
    assert [each.effect for each in records_of(careful) if isinstance(each, KernelReceipt)] == [
        ECHO,
        CANCEL,
    ]


def test_a_start_finds_what_executors_had_to_do_and_not_what_the_core_ends_itself() -> None:
    """H-42, K-96: with their last attempt, and the frames that they may have."""
    world = desks()
    tell(world, "a", pay("plain"), pay("retried"), pay("told"), wish(ONCE_DESK, {"n": 1}, "begun"))
    tell(world, "a", wish(ONCE_DESK, {"n": 1}, "new"), pay("aborted"))
    by_ref = {each.issuer_ref: each for each in world.open()}
    world.attempt(by_ref["retried"], 2)
    world.attempt(by_ref["retried"], 3)
    world.attempt(by_ref["begun"], 1)
    world.stream(by_ref["told"], 41)
    world.control("cancel", intent=by_ref["aborted"].intent)
    assert [each.intent for each in world.state.owed] == [by_ref["aborted"].intent]

    found = [
        (each.intent.issuer_ref, each.attempt, each.next_frame, each.is_lost)
        for each in left_open(world.kernel.open_intents())
    ]

    assert found == [
        ("plain", 1, 0, False),
        ("retried", 3, 0, False),
        ("told", 1, 42, False),
        ("begun", 1, 0, True),
        ("new", 1, 0, False),
    ]


def test_a_fault_is_told_with_the_engines_words(world: Path) -> None:  # H-85
    lines: list[str] = []
    fault = encode({"fault": {"kind": "puppet", "message": "as asked"}})
    send(world, do("a", fault))
    ended = run(world, until_idle=True, report=lines.append)
    assert ended.stats.figures.faults == 1
    assert any(line.startswith(f"{PUPPET} a failed at record ") for line in lines)


def test_the_engines_messages_are_kept_outside_the_journal(world: Path) -> None:  # H-85
    send(world, trap("a"))
    lines: list[str] = []
    run(world, until_idle=True, report=lines.append)
    with open_reader(world) as reader:
        ((seq, cell),) = ((each.fault_seq, each) for each in reader.state.cells.values())
        assert cell.fault is not None
        assert cell.fault.kind is FaultKind.TRAP
        assert seq is not None
        noted = reader.store.note(seq)
        assert noted is not None
        assert "wasm" in noted
        assert reader.store.note(seq - 1) is None


# Clients and manifests while the world runs


def test_clients_write_while_the_world_runs(world: Path) -> None:  # H-54
    echo = Echo()

    async def client() -> list[Answer]:
        return await asyncio.to_thread(send, world, *(do(f"k{i}", asks("x")) for i in range(50)))

    answers, ended = while_running(world, client, echo)
    assert all(isinstance(answer, Admitted) for answer in answers)
    assert not ended.is_idle
    assert ended.stats.figures.events == 50


def test_a_manifest_applied_to_a_running_world_reaches_the_executors(world: Path) -> None:  # H-84
    echo = Echo()
    changed = manifest(version=3)

    def apply() -> Answer | None:
        with open_writer(world) as writer:
            return writer.apply(changed).answer

    async def client() -> Answer | None:
        answer = await asyncio.to_thread(apply)
        await until(lambda: len(echo.manifests) == 2)
        return answer

    answer, _ = while_running(world, client, echo)
    assert isinstance(answer, Admitted)
    assert echo.manifests == [manifest().effective.hash, changed.effective.hash]


def test_one_world_is_run_by_one_process(world: Path) -> None:  # H-50
    with WorldLock(world, runs=True), pytest.raises(WorldIsHeld):
        run(world, until_idle=True)


def test_a_run_waits_for_a_writer_that_is_about_to_end(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-54a"""
    monkeypatch.setattr(lock, "TELL_S", 0.1)
    reports: list[str] = []
    writer = open_writer(world)
    assert writer.is_direct

    def report(line: str) -> None:
        reports.append(line)
        writer.close()

    ended = run(world, until_idle=True, report=report)

    assert ended.is_idle
    [line] = [each for each in reports if "waiting up to" in each]
    assert line.startswith(f"{world}: the world is written by this process (pid {os.getpid()})")
    assert line.endswith(": waiting up to 30 s until it answers or ends")


def test_a_run_that_a_writer_keeps_waiting_ends_with_its_name(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-54a"""
    monkeypatch.setattr(lock, "HELD_S", 0.2)
    with WorldLock(world), pytest.raises(WorldIsHeld, match="the world is written by"):
        run(world, until_idle=True)


def test_the_status_is_told_now_and_then(world: Path) -> None:  # H-85
    seen: list[Status] = []

    async def client() -> None:
        await asyncio.to_thread(send, world, do("a"))
        await until(lambda: any(status.stats.figures.steps == 1 for status in seen))

    while_running(world, client, Echo(), on_status=seen.append)
    assert seen[-1].executors["echo"].settled == 0
    assert max(status.steps_per_s for status in seen) > 0


def test_a_signal_stops_the_world_cleanly(world: Path) -> None:  # H-82
    async def signalled() -> Ended:
        up = asyncio.Event()
        task = asyncio.ensure_future(run_world(world, RunSettings(on_started=lambda _: up.set())))
        async with asyncio.timeout(WAIT_S):
            await up.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            return await task

    ended = asyncio.run(signalled())
    assert not ended.is_idle
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    send(world, do("a"))


def test_a_signal_is_heard_while_the_journal_is_read(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-82"""
    is_heard = threading.Event()
    signaled = RunEnd.signaled

    def heard(end: RunEnd) -> None:
        signaled(end)
        is_heard.set()

    def interrupt(done: int, of: int) -> None:
        assert done <= of
        os.kill(os.getpid(), signal.SIGINT)
        assert is_heard.wait(WAIT_S)

    monkeypatch.setattr(RunEnd, "signaled", heard)
    with pytest.raises(Stopping, match="stopped while its journal was read"):
        asyncio.run(run_world(world, RunSettings(on_fold=interrupt)))
    with WorldLock(world):
        pass


def test_a_signal_is_heard_while_the_executors_are_started(world: Path) -> None:
    """H-82: a module of effects may take long to load."""
    ended: list[str] = []

    class Slow(Echo):
        async def start(self, journal: WorkJournal) -> None:  # noqa: ARG002  # of the protocol
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.sleep(WAIT_S)
            finally:
                ended.append("start")

    with pytest.raises(Stopping, match="stopped while its executors were started"):
        asyncio.run(run_world(world, RunSettings(executors=lambda _blob, _world: [Slow()])))
    assert ended == ["start"]
    with WorldLock(world):
        pass


# Worlds that cannot start or cannot continue


def test_an_executor_that_cannot_be_given_its_tasks_ends_the_run(world: Path) -> None:  # H-83
    class Broken(Echo):
        def publish(self, tasks: Sequence[Task]) -> None:
            raise ZeroDivisionError(f"in the executor, with {len(tasks)} task")

    async def client() -> list[Answer]:
        return await asyncio.to_thread(send, world, do("a", asks("x")))

    with pytest.raises(ZeroDivisionError, match="in the executor"):
        while_running(world, client, Broken())
    with open_reader(world) as reader:
        assert len(reader.state.intents) == 1


def test_a_misspelt_executor_does_not_start_and_leaves_nothing_behind(world: Path) -> None:  # H-83
    with pytest.raises(BadUsage, match=r"did you mean host/echo@1"):
        run(world, Echo(effects=frozenset({"host/ecko@1"})), until_idle=True)
    assert not (world / "aos.sock").exists()
    assert all(isinstance(answer, Admitted) for answer in send(world, do("a")))


def test_a_folder_that_is_no_world_is_not_run(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="this is no world's folder"):
        run(tmp_path)


def test_a_world_whose_key_is_open_to_others_is_not_run(world: Path) -> None:
    (world / "keys" / "world.key").chmod(0o644)
    with pytest.raises(Refused, match="others may read this secret key"):
        run(world)
    with WorldLock(world):
        pass


def test_a_failed_commit_ends_the_run_with_what_happened(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-25"""

    def fail(*_: object, **__: object) -> None:
        raise CommitFailed("input/output error")

    monkeypatch.setattr(LmdbStore, "append", fail)
    with pytest.raises(CommitFailed) as raised:
        run(world, Echo())
    assert raised.value.exit_code == 3
    monkeypatch.undo()
    assert run(world, Echo(), until_idle=True).is_idle


def test_a_clients_request_ends_with_the_world(world: Path) -> None:  # H-59
    # Not the loop's own threads: on those the world ends, and a client may wait for that end.
    threads = ThreadPoolExecutor(8)

    async def client() -> list[str]:
        loop = asyncio.get_running_loop()

        async def one(i: int) -> str:
            try:
                [answer] = await loop.run_in_executor(threads, send, world, do(f"k{i}"))
            except Unavailable:
                return "unavailable"
            return "refused" if isinstance(answer, Refusal) else "admitted"

        asks_ = [asyncio.ensure_future(one(i)) for i in range(8)]
        await asyncio.to_thread(ask_running, world, "stop")
        return await asyncio.gather(*asks_)

    with threads:
        found, ended = while_running(world, client)
    # Those that were late opened the store themselves, or met a world that was stopping.
    with open_reader(world) as reader:
        assert sum(each == "admitted" for each in found) == len(reader.state.cells)
    assert ended.stats.figures.events <= found.count("admitted")


def test_with_until_waiting_a_timer_that_is_not_due_holds_up_nothing(
    tmp_path: Path, template: Path
) -> None:
    """H-80"""
    path = tmp_path / "w"
    copied(template, path)
    timer = "sys/timer.set@1"
    with open_writer(path) as writer:
        assert isinstance(writer.apply(manifest(effects=(timer, ECHO))).answer, Admitted)
        now, hour = time.time_ns(), 3_600_000_000_000
        out = asks_for(
            (timer, {"deliver_at_ns": now, "key": "due"}),
            (timer, {"deliver_at_ns": now + hour, "key": "not due"}),
            (ECHO, {"word": "x"}),
        )
        list(writer.send([do("a", out)]))

    for _ in range(2):  # at a start, too, when all that is left waits already
        ended = run(path, TimerExecutor(), until_waiting=True, report=lambda _: None)

        assert ended.is_idle
        assert ended.waiting == {ECHO: 1}
        assert (ended.timers, ended.stats.figures.open_intents) == (1, 2)
    with open_reader(path) as reader:
        assert reader.state.cells[PUPPET, encode("a")].state == encode(2), "the one due has fired"


def test_a_run_that_is_late_names_the_next_timer(tmp_path: Path, template: Path) -> None:  # H-81a
    path = tmp_path / "w"
    copied(template, path)
    timer = "sys/timer.set@1"
    with open_writer(path) as writer:
        assert isinstance(writer.apply(manifest(effects=(timer, ECHO))).answer, Admitted)
        due = time.time_ns() + 3_600_000_000_000
        out = asks_for(
            (timer, {"deliver_at_ns": due + 1, "key": "later"}),
            (timer, {"deliver_at_ns": due, "key": "next"}),
        )
        list(writer.send([do("a", out)]))
    assert not run(path, TimerExecutor(), until_waiting=True).is_late
    seen: list[Status] = []

    ended = run(path, TimerExecutor(), until_idle=True, max_wait_s=1.0, on_status=seen.append)

    assert (ended.is_idle, ended.is_late) == (False, True)
    (left,) = ended.open
    assert (left.effect, left.number, left.due_ns) == (timer, 2, due)
    assert (seen[-1].open, seen[-1].next_timer_ns) == ({timer: 2}, due)
    assert not run(path, TimerExecutor(), until_waiting=True, max_wait_s=30.0).is_late


# The executors of a node


def test_timers_and_blobs_work_in_a_running_world(tmp_path: Path, template: Path) -> None:  # H-80
    path = tmp_path / "w"
    copied(template, path)
    timer, put, get = "sys/timer.set@1", "sys/blob.put@1", "sys/blob.get@1"
    with open_writer(path) as writer:
        applied = writer.apply(manifest(effects=(timer, put, get)))
        assert isinstance(applied.answer, Admitted)
        due = time.time_ns() + 200_000_000
        out = asks_for(
            (timer, {"deliver_at_ns": due, "key": None}),
            (put, {"bytes": b"kept", "blob_ref": None, "refs": None}),
        )
        list(writer.send([do("a", out)]))
    ended = asyncio.run(
        asyncio.wait_for(
            run_world(
                path,
                RunSettings(
                    executors=lambda blob, _: [TimerExecutor(), BlobExecutor(blob)],
                    until_idle=True,
                    handle_signals=False,
                ),
            ),
            WAIT_S,
        )
    )
    assert ended.is_idle
    assert time.time_ns() >= due
    with open_reader(path) as reader:
        assert reader.store.blob(content_hash(b"kept")) == b"kept"
        assert reader.state.cells[PUPPET, encode("a")].state == encode(3)


# Effects that run elsewhere, and the code around a run


def test_an_effect_that_is_left_to_clients_is_open_work_without_a_word(world: Path) -> None:
    """X-8a"""
    send(world, do("a", asks("one", "two")))
    reports: list[str] = []
    seen: list[Status] = []

    async def body() -> Ended:
        running = asyncio.create_task(
            run_world(
                world,
                RunSettings(
                    elsewhere=True, handle_signals=False, until_idle=True, report=reports.append,
                    on_status=seen.append,
                ),
            )
        )  # fmt: skip
        await until(lambda: bool(seen) and seen[-1].waiting == {ECHO: 2})
        link = Link(open_folder(world))
        with open_reader(world) as reader:
            intents = list(reader.state.intents.values())
        outcomes = [
            Outcome(
                intent=each.intent, effect=ECHO, attempt=1, status="ok",
                payload=encode({"word": "hello"}), started_ns=each.opened_ns,
                finished_ns=each.opened_ns,
            )
            for each in intents
        ]  # fmt: skip
        answers = await asyncio.gather(*map(link.answer, outcomes))
        assert {type(each) for each in answers} == {Admitted}
        await link.close()
        return await running

    ended = asyncio.run(asyncio.wait_for(body(), WAIT_S))
    assert ended.is_idle, "it waited for the clients, and then nothing was left"
    assert not ended.waiting
    assert not [line for line in reports if "executor" in line], reports


def test_an_executor_that_takes_over_a_leased_task_begins_with_the_next_attempt(
    world: Path,
) -> None:
    """X-16b"""
    send(world, do("a", asks("one", "two")))
    run(world, until_waiting=True)
    with open_reader(world) as reader:
        first, second = list(reader.state.intents)
    echo = Echo()

    run(world, echo, until_idle=True, leases=lambda _: {first: 3, Hash(bytes(32)): 7})

    assert {task.intent: task.attempt for task in echo.published} == {first: 4, second: 1}
    begun = [each for each in records_of(world) if isinstance(each, Attempt)]
    assert [(each.intent, each.attempt, each.phase) for each in begun] == [(first, 4, "begun")]
    assert begun[0].problem is not None
    assert begun[0].problem.startswith("a worker had it")


def test_a_begun_attempt_of_an_effect_of_clients_is_not_called_lost_at_a_start(
    careful: Path,
) -> None:
    """K-97"""
    path = careful
    send(path, do("a", asks("x", effect=ONCE)))

    def intents() -> list[OpenIntent]:
        with open_reader(path) as reader:
            return list(reader.state.intents.values())

    while_running(path, lambda: until(lambda: bool(intents())), elsewhere=True)
    [intent] = intents()

    async def left_alone() -> None:
        async with asyncio.timeout(WAIT_S):
            up = asyncio.Event()
            running = asyncio.create_task(
                run_world(
                    path,
                    RunSettings(
                        elsewhere=True, handle_signals=False, on_started=lambda _: up.set()
                    ),
                )
            )
            await up.wait()
            link = Link(open_folder(path))
            assert isinstance(
                await link.answer(AttemptInput(intent=intent.intent, attempt=1)), Admitted
            )
            await link.close()
            await asyncio.to_thread(ask_running, path, "stop")
            await running

    asyncio.run(left_alone())
    run(path, elsewhere=True, until_idle=True, max_wait_s=0.2)
    assert [each.phase for each in records_of(path) if isinstance(each, Attempt)] == ["begun"]

    run(path, Echo(effects=frozenset({ONCE})), until_idle=True)
    assert [each.phase for each in records_of(path) if isinstance(each, Attempt)] == [
        "begun",
        "lost",
    ]


def test_the_world_answers_while_the_code_around_it_ends_and_a_second_signal_ends_its_wait(
    world: Path,
) -> None:
    """H-82a"""
    seen: list[object] = []
    late = EventInput(schema=DO, value=encode({"key": "late", "out": None}))

    @contextlib.asynccontextmanager
    async def around(running: RunningWorld) -> AsyncIterator[None]:
        seen.append("began")
        yield
        running.announce_stop()
        link = Link(open_folder(world))
        seen.append(type((await link.send([late], None))[0]))
        await link.close()
        os.kill(os.getpid(), signal.SIGTERM)
        await running.hurry.wait()
        seen.append("hurried")

    async def body() -> Ended:
        up = asyncio.Event()
        running = asyncio.create_task(
            run_world(world, RunSettings(around=around, on_started=lambda _: up.set()))
        )
        await up.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        return await running

    asyncio.run(asyncio.wait_for(body(), WAIT_S))
    assert seen == ["began", Admitted, "hurried"]


def test_a_problem_of_the_code_around_a_run_ends_it_and_is_raised(world: Path) -> None:
    @contextlib.asynccontextmanager
    async def around(running: RunningWorld) -> AsyncIterator[None]:
        running.fail(Unavailable("it is gone"))
        yield

    with pytest.raises(Unavailable, match="it is gone"):
        run(world, around=around)
    assert isinstance(send(world, do("a"))[0], Admitted), "the world is free"
