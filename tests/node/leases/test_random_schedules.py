"""Claims, connections, disks and clocks in any order: no attempt has two workers (N-51 to N-61).

Each seed is one schedule. It decides when a request arrives, when the table is written, when the
world answers and when the front hears of it, and when a client reads an answer or is gone.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from aos.core.journal.records import Attempt, Receipt
from aos.host.executors.limiter import Limit
from aos.node.leases.leases import TaskEntry, TaskPlace
from aos.node.node_settings import NodeSettings
from aos.node.problems import Problem
from aos.values.cbor import decode_record
from aos.values.digests import hash_text, parse_hash
from tests.core.desk import ONCE, PAY, tell, wish
from tests.node.claim_clients import ClaimClients, ClaimRequest
from tests.node.leases.scheduled_stage import ScheduledStage, world_with_lanes
from tests.node.leases.stage import SECOND, Clock, Token
from tests.node.schedules import run_scheduled, turns
from tests.tools import long_form

SEEDS = 4_000 if long_form() else 60
STEPS = 160
WORKERS = ("ann", "bob", "cid")


@dataclass(eq=False)
class ReadTask:
    """An attempt that a worker has read; it believes in its lease until ``until_ns``."""

    worker: str
    claim: str
    task: str
    effect: str
    epoch: int
    until_ns: int
    has_begun: bool
    is_unused: bool = False
    is_halted: bool = False
    """Its worker has reported that it cannot run now."""
    may_be_over: bool = False


class Schedule(ClaimClients):
    """Draws and carries out one action after the other, and checks what workers read."""

    def __init__(self, rng: random.Random, clock: Clock) -> None:
        super().__init__(rng)
        limit = Limit(concurrency=2, interval_ns=SECOND, burst=2)
        limits = {PAY: limit} if rng.random() < 0.4 else {}
        lane = ["n"] if rng.random() < 0.3 else []
        self.stage = ScheduledStage(world_with_lanes(lane), clock, NodeSettings(limits=limits), rng)
        self._background: set[asyncio.Task[Any]] = set()
        self._read: defaultdict[str, list[ReadTask]] = defaultdict(list)
        self._ended_early: dict[str, int] = {}
        """The last attempt of each task whose lease an operator or a lost table may have ended."""
        self._actions = {
            self.a_step_opens_tasks: 3,
            self.a_worker_claims: 6,
            self.a_worker_repeats_its_claim: 8,
            self.a_client_closes: 3,
            self.a_close_arrives: 6,
            self.a_client_reads: 8,
            self.a_delivery_is_known: 5,
            self.a_job_advances: 30,
            self.a_record_is_followed: 10,
            self.a_worker_sends_a_result: 5,
            self.a_worker_sends_a_heartbeat: 4,
            self.a_worker_releases: 2,
            self.time_passes: 3,
            self.an_operator_acts: 1,
            self.a_cell_is_deleted: 0.3,
            self.the_front_is_killed: 0.7,
        }

    async def play(self) -> None:
        await self.stage.work.start()
        actions, weights = list(self._actions), list(self._actions.values())
        for _ in range(STEPS):
            [action] = self.rng.choices(actions, weights)
            result = action()
            if result is not None:
                await result
            await turns(self.rng.choice((0, 1, 1, 2, 5)))
            self.check()
        await self.end()

    # The world

    def a_step_opens_tasks(self) -> None:
        rng = self.rng
        wishes = [
            wish(rng.choice((PAY, PAY, ONCE)), {"n": rng.randrange(2)}, "r")
            for _ in range(rng.randint(1, 2))
        ]
        tell(self.stage.link.world, rng.choice("kl"), *wishes)
        self.stage.link.publish()

    def a_cell_is_deleted(self) -> None:
        tell(self.stage.link.world, self.rng.choice("kl"), note="delete")
        self.stage.link.publish()

    def a_job_advances(self) -> None:
        self.stage.work_on_a_job(may_fail=True)

    def a_record_is_followed(self) -> None:
        self.stage.link.follow(self.rng.randint(1, 3))

    async def time_passes(self) -> None:
        self.stage.pass_s(self.rng.choice((0.01, 0.5, 2, 16, 40)))
        await self.stage.work.tick()

    async def the_front_is_killed(self) -> None:
        """A cleared table is one that was damaged or deleted."""
        clears_table = self.rng.random() < 0.2
        if clears_table:
            for entry in self.stage.work.leases.tasks.values():
                self._end_early(entry)

        def before() -> None:
            self.lose_connections()
            for task in self._background:
                task.cancel()

        await self.stage.kill(clears_table=clears_table, before=before)

    def _end_early(self, entry: TaskEntry) -> None:
        """The last lease of a task may end before its time."""
        epoch = 0 if entry.row is None else entry.row.epoch
        self._ended_early[hash_text(entry.task.intent)] = max(epoch, entry.attempt)

    # Claims

    def send_claim(self, request: ClaimRequest) -> Awaitable[dict[str, Any]]:
        rng = self.rng
        body: dict[str, Any] = {
            "worker": request.worker,
            "claim": request.claim,
            "max": rng.choice((1, 1, 2, 5)),
            "lease_ms": rng.choice((1_000, 30_000)),
            "wait_ms": rng.choice((0, 20_000, 60_000)),
        }
        if rng.random() < 0.4:
            body["effects"] = [{"name": rng.choice((PAY, ONCE)), "backoff_ms": 100}]
        return self.stage.work.claim(body, Token(), request.connection)

    def reset(self, request: ClaimRequest) -> None:
        """The connection of an answer was reset: its leases may end."""
        for task in self._tasks():
            if (task.worker, task.claim) == (request.worker, request.claim):
                task.may_be_over = True

    # Workers

    def _tasks(self) -> list[ReadTask]:
        return [task for tasks in self._read.values() for task in tasks]

    def takes(self, request: ClaimRequest, document: dict[str, Any]) -> None:
        """Check that a worker may have the attempt that it has read."""
        now_ns = self.stage.clock.wall_ns
        task = ReadTask(
            request.worker, request.claim, document["task"], document["effect"],
            document["epoch"], document["lease_until_ns"], has_begun=self.rng.random() < 0.7,
            may_be_over=self.is_in_doubt(request),
        )  # fmt: skip
        for earlier in self._read[task.task]:
            if earlier.is_unused:
                continue
            assert earlier.epoch != task.epoch, "an attempt was given to two workers"
            if task.effect == ONCE:
                assert earlier.is_halted, "a task that may run once was given out twice"
            is_over = earlier.may_be_over or earlier.epoch <= self._ended_early.get(task.task, 0)
            is_over = is_over or earlier.until_ns <= now_ns or task.until_ns <= now_ns
            assert earlier.epoch > task.epoch or is_over, "two leases of a task are valid"
        self._read[task.task].append(task)

    def _some_task(self) -> ReadTask | None:
        tasks = self._tasks()
        return self.rng.choice(tasks[-6:]) if tasks else None

    def _run(self, request: Any) -> None:
        running = asyncio.ensure_future(request)
        self._background.add(running)

    def a_worker_sends_a_result(self) -> None:
        task = self._some_task()
        if task is not None and not task.is_unused:
            task.has_begun = True
            kind = self.rng.choice(("ok", "ok", "busy", "final", "held", "parked"))
            self._run(self._result(task, kind))

    async def _result(self, task: ReadTask, kind: str) -> None:
        payload: dict[str, Any] = {"ref": f"{task.worker} {task.epoch}"}
        status = "ok"
        if kind != "ok":
            status = kind if kind in ("held", "parked") else "error"
            payload = {"code": kind, "message": "on purpose", "retryable": kind == "busy"}
            task.may_be_over = True
            task.is_halted = task.is_halted or kind == "held"
        item = {
            "task": task.task, "epoch": task.epoch, "status": status, "payload": payload,
            "started_ns": 1, "finished_ns": 2,
        }  # fmt: skip
        answers = await _answer(
            self.stage.work.results({"worker": task.worker, "results": [item]}, Token())
        )
        if answers is None:
            return
        [answer] = answers["answers"]
        if answer.get("answer") in ("settled", "duplicate"):
            receipt = self._receipt(task.task)
            assert receipt is not None, "a result was acknowledged that the journal does not have"
            assert receipt.attempt == task.epoch, "a result of another attempt was settled"
            assert isinstance(receipt.payload, bytes)
            assert decode_record(receipt.payload) == payload, "another result was settled"
        if "problem" in answer:
            assert answer["problem"]["status"] in (404, 409, 503), answer

    def _receipt(self, task: str) -> Receipt | None:
        intent = parse_hash(task)
        receipts = [
            record
            for record in self.stage.link.journal
            if isinstance(record, Receipt) and record.intent == intent
        ]
        assert len(receipts) <= 1, "a task was settled twice"
        return receipts[0] if receipts else None

    def a_worker_sends_a_heartbeat(self) -> None:
        task = self._some_task()
        if task is not None and not task.is_unused:
            self._run(self._beat(task))

    async def _beat(self, task: ReadTask) -> None:
        lease = {"task": task.task, "epoch": task.epoch}
        body = {"worker": task.worker, "leases": [lease]}
        answers = await _answer(self.stage.work.heartbeat(body, Token()))
        if answers is None:
            return
        [answer] = answers["answers"]
        if answer["answer"] == "leased":
            task.until_ns = max(task.until_ns, answer["lease_until_ns"])

    def a_worker_releases(self) -> None:
        task = self._some_task()
        if task is not None and not task.is_unused:
            task.may_be_over = True
            task.is_unused = not task.has_begun
            self._run(self._release(task))

    async def _release(self, task: ReadTask) -> None:
        lease = {"task": task.task, "epoch": task.epoch, "began": task.has_begun}
        body = {"worker": task.worker, "leases": [lease]}
        await _answer(self.stage.work.release(body, Token()))

    # Operators

    def an_operator_acts(self) -> None:
        task = self._some_task()
        if task is None:
            return
        if self.rng.random() < 0.5:
            self._run(self._retry({"tasks": [task.task]}))
            return
        self._run(self._reclaim(task))

    async def _retry(self, body: dict[str, Any]) -> None:
        await _answer(self.stage.work.retry(body, Token()), 404, 409, 503)

    async def _reclaim(self, task: ReadTask) -> None:
        entry = self.stage.work.leases.tasks.get(parse_hash(task.task))
        if entry is not None:
            self._end_early(entry)
        await _answer(self.stage.work.reclaim({"tasks": [task.task]}, Token()))

    # Checks

    def check(self) -> None:
        for task in [task for task in self._background if task.done()]:
            self._background.remove(task)
            if not task.cancelled():
                task.result()
        self.check_answers()
        begun: dict[Any, int] = {}
        for record in self.stage.link.journal:
            if isinstance(record, Attempt) and record.phase == "begun":
                earlier = begun.get(record.intent)
                assert earlier is None or record.attempt == earlier + 1, "an attempt is missing"
                begun[record.intent] = record.attempt

    async def end(self) -> None:
        """Everything works again, and every client is gone: each task can be settled."""
        self.close_all()
        await self.stage.settle_down()
        self.check()
        link = self.stage.link
        for round_number in range(40):
            leases = self.stage.work.leases
            if not link.followed.intents:
                break
            self.stage.pass_s(61)
            await self.stage.work.tick()
            await self.stage.settle_down()
            parked = [
                entry for entry in leases.tasks.values() if entry.task_place is TaskPlace.PARKED
            ]
            if parked:
                retrying = asyncio.ensure_future(self._retry({}))
                await self.stage.settle_down()
                await retrying
            if any(entry.halt == "held" for entry in parked):
                intents = [entry.task.intent for entry in parked if entry.halt == "held"]
                retrying = asyncio.ensure_future(
                    self._retry({"tasks": [f"blake3:{intent.hex()}" for intent in intents]})
                )
                await self.stage.settle_down()
                await retrying
            request = ClaimRequest("eve", f"last-{round_number}")
            body = {"worker": "eve", "claim": request.claim, "max": 50}
            request.answering = asyncio.ensure_future(
                self.stage.work.claim(body, Token(), request.connection)
            )
            await self.stage.settle_down()
            self.reads(request)
            for task in [task for task in self._tasks() if task.claim == request.claim]:
                sending = asyncio.ensure_future(self._result(task, "ok"))
                await self.stage.settle_down()
                await sending
        once_parked = [
            entry.task.is_once for entry in self.stage.work.leases.tasks.values() if entry.halt
        ]
        assert len(once_parked) == len(link.followed.intents), "a task was never given out again"
        assert all(once_parked), "a task was never given out again"


async def _answer(request: Awaitable[dict[str, Any]], *statuses: int) -> dict[str, Any] | None:
    """The answer to a request; None if the node cannot carry it out now."""
    try:
        return await request
    except Problem as problem:
        if problem.status not in (statuses or (503,)):
            raise
        return None


def play(seed: int) -> None:
    clock = Clock()

    async def scene(rng: random.Random) -> None:
        await Schedule(rng, clock).play()

    run_scheduled(scene, seed=seed, clock=lambda: clock.steady_ns / SECOND)


def test_no_schedule_gives_an_attempt_to_two_workers() -> None:
    """N-51 to N-61."""
    for seed in range(SEEDS):
        play(seed)
