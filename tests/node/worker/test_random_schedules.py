"""Workers and a node whose requests, answers and functions meet in any order (W-2 to W-4).

Each seed is one schedule, as in ``tests/node/leases/test_random_schedules.py``. Time that passes at
once is a process, or a machine, that was suspended.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, cast

import pytest

from aos.core.journal.records import Receipt
from aos.node.leases.leases import TaskPlace
from aos.node.node_settings import NodeSettings
from aos.node.worker import Worker, remote_worker
from aos.values.cbor import decode_record
from aos.values.digests import Hash, hash_text, parse_hash
from aos.worker import EffectContext, EffectFailed, Executors, effect, lease_check
from aos.worker.calls import Callers
from tests.core.desk import ONCE, PAY, tell, wish
from tests.node.leases.scheduled_stage import ScheduledStage, world_with_lanes
from tests.node.leases.stage import SECOND, Clock, Token
from tests.node.schedules import run_scheduled, scheduled_loop, turns
from tests.node.worker.scheduled_workers import ScheduledCall, ScheduledCallers, ScheduledWire
from tests.tools import long_form

SEEDS = 2_000 if long_form() else 15
STEPS = 150
LEASE_S = 6.0


@effect(PAY, concurrency=2, attempts=50, backoff_ms=10, timeout_s=80_000)
def pay(params: Any, ctx: EffectContext) -> None:
    """The schedule ends the call."""


@effect(ONCE, concurrency=2, timeout_s=80_000)
def once(params: Any, ctx: EffectContext) -> None:
    """The schedule ends the call."""


class Schedule:
    """Draws and carries out one action after the other, and checks each function that begins."""

    def __init__(self, rng: Random, clock: Clock) -> None:
        self.rng = rng
        self.stage = ScheduledStage(world_with_lanes([]), clock, NodeSettings(), rng)
        self._wire = ScheduledWire(lambda: self.stage.work, rng)
        self._callers: dict[str, ScheduledCallers] = {}
        self._workers: list[Worker] = []
        self._running: list[asyncio.Task[None]] = []
        self._begun: dict[str, list[tuple[str, int]]] = {}
        self._actions = {
            self.a_step_opens_tasks: 3,
            self.a_job_advances: 50,
            self.a_record_is_followed: 10,
            self.a_close_arrives: 5,
            self.a_function_begins: 12,
            self.a_function_ends: 8,
            self.time_passes: 12,
            self.the_front_is_killed: 0.5,
            self.an_operator_reclaims: 0.5,
        }

    def employ(self, name: str) -> None:
        lines: list[str] = []
        worker = Worker(
            "http://node", Executors("shop", [pay, once]), name=name, lease_s=LEASE_S,
            transport=self._wire, report=lines.append,
        )  # fmt: skip
        worker._callers._loop.close()
        self._callers[name] = ScheduledCallers()
        worker._callers = worker._steps._callers = cast("Callers", self._callers[name])
        self._workers.append(worker)
        self._running.append(asyncio.ensure_future(worker.run()))

    async def play(self) -> None:
        await self.stage.work.start()
        for name in ("ann", "bob"):
            self.employ(name)
        actions, weights = list(self._actions), list(self._actions.values())
        for _ in range(STEPS):
            [action] = self.rng.choices(actions, weights)
            result = action()
            if result is not None:
                await result
            await turns(self.rng.choice((1, 5, 20)))
            self.check()
        await self.end()

    def a_step_opens_tasks(self) -> None:
        name = self.rng.choice((PAY, PAY, ONCE))
        tell(self.stage.link.world, self.rng.choice("kl"), wish(name, {"n": 1}, "r"))
        self.stage.link.publish()

    def a_job_advances(self) -> None:
        self.stage.work_on_a_job(may_fail=True)

    def a_record_is_followed(self) -> None:
        self.stage.link.follow(self.rng.randint(1, 3))

    def a_close_arrives(self) -> None:
        self._wire.close_arrives()

    async def time_passes(self) -> None:
        seconds = self.rng.choices((0.03, 0.5, 2, 7, 40), (6, 4, 4, 1, 1))[0]
        self.stage.pass_s(seconds)
        if self.rng.random() < 0.7:
            await self.stage.work.tick()

    async def the_front_is_killed(self) -> None:
        await self.stage.kill(clears_table=False, before=self._wire.cut)

    async def an_operator_reclaims(self) -> None:
        if self._begun:
            intent = parse_hash(self.rng.choice(list(self._begun)))
            self.stage.work.leases.reclaim(intent, "an operator ended the lease")
            await self.stage.work.tick()

    def a_function_begins(self) -> None:
        name = self.rng.choice(list(self._callers))
        callers = self._callers[name]
        if callers.waiting:
            call = callers.waiting.pop(self.rng.randrange(len(callers.waiting)))
            if not call.ended.done() and call.begin():
                callers.running.append(call)
                self._begins(name, call)

    def _begins(self, worker: str, call: ScheduledCall) -> None:
        """Check that a function may begin."""
        ctx = call.ctx
        begun = self._begun.setdefault(ctx.intent, [])
        assert all(attempt != ctx.attempt for _, attempt in begun), "an attempt has begun twice"
        assert ctx.effect != ONCE or not begun, "a task that may run once has begun twice"
        begun.append((worker, ctx.attempt))

    def a_function_ends(self) -> None:
        name = self.rng.choice(list(self._callers))
        callers = self._callers[name]
        if callers.running:
            self._ends(name, callers.running.pop(self.rng.randrange(len(callers.running))))

    def _ends(self, worker: str, call: ScheduledCall, *, may_fail: bool = True) -> None:
        if may_fail and self.rng.random() < 0.3:
            call.end(EffectFailed("busy", "try later", retryable=True))
        else:
            call.end({"ref": f"{worker} {call.ctx.attempt}"})

    def check(self) -> None:
        for running in self._running:
            if running.done():
                running.result()
        settled: set[Hash] = set()
        for record in self.stage.link.journal:
            if isinstance(record, Receipt):
                assert record.intent not in settled, "a task was settled twice"
                settled.add(record.intent)
                assert isinstance(record.payload, bytes)
                if record.status == "ok":
                    payload: Any = decode_record(record.payload)
                    worker, attempt = payload["ref"].split()
                    assert int(attempt) == record.attempt, "a result of another attempt is settled"
                    assert (worker, record.attempt) in self._begun[hash_text(record.intent)]

    async def end(self) -> None:
        """Nothing fails any more: everything is settled, and the workers stop."""
        for _ in range(150):
            await self._settle_down()
            if not self.stage.link.followed.intents:
                break
            self.stage.pass_s(1.5)
            await self.stage.work.tick()
            parked = [
                hash_text(intent)
                for intent, entry in self.stage.work.leases.tasks.items()
                if entry.task_place is TaskPlace.PARKED
            ]
            if parked:
                retrying = asyncio.ensure_future(self.stage.work.retry({"tasks": parked}, Token()))
                await self._settle_down()
                await retrying
        assert not self.stage.link.followed.intents, "a task is never settled"
        for worker in self._workers:
            worker.stop()
        for _ in range(40):
            await self._settle_down()
            self.stage.pass_s(1)
        for running in self._running:
            assert running.done(), "a worker does not stop"
            running.result()

    async def _settle_down(self) -> None:
        for _ in range(6):
            await self.stage.settle_down()
            self._wire.close_arrives()
            for name, callers in self._callers.items():
                while callers.waiting:
                    call = callers.waiting.pop()
                    if not call.ended.done() and call.begin():
                        callers.running.append(call)
                        self._begins(name, call)
                while callers.running:
                    self._ends(name, callers.running.pop(), may_fail=False)
            self.check()


def play(seed: int) -> None:
    clock = Clock()

    async def scene(rng: Random) -> None:
        assert not scheduled_loop().jobs
        await Schedule(rng, clock).play()

    def now_s() -> float:
        return clock.steady_ns / SECOND

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_worker, "boot_s", now_s)
        patch.setattr(lease_check, "boot_s", now_s)
        run_scheduled(scene, seed=seed, clock=now_s)


def test_no_schedule_begins_an_attempt_twice_or_loses_a_result() -> None:
    """W-2 to W-4."""
    for seed in range(SEEDS):
        play(seed)
