"""Handlers of plan steps, a node and an instance that meet in any order (L-43, L-44, W-2 to W-4).

Each seed is one schedule, as in ``tests/node/leases/test_random_schedules.py``. Time that passes at
once is a process, or a machine, that was suspended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aos.errors import Unavailable
from aos.node.leases.work import LeasedWork
from aos.node.problems import Problem
from aos.node.worker import Worker, step_tasks
from aos.worker import EffectFailed, Executors, StepContext, lease_check, step
from aos.worker.calls import Callers
from tests.linear.stage import SECOND, Stage, plan_step
from tests.node.leases.stage import Connection, Token
from tests.node.linear.scheduled_stage import ScheduledStage
from tests.node.schedules import run_scheduled, turns
from tests.node.worker.scheduled_workers import ScheduledCall, ScheduledCallers, ScheduledWire
from tests.tools import long_form

SEEDS = 2_000 if long_form() else 30
STEPS = 150
LEASE_S = 6.0


@step("*/A", concurrency=2, timeout_s=80_000)
def first(_context: Any, ctx: StepContext) -> None:
    """The schedule ends the call."""


@step("*/B", concurrency=2, timeout_s=3)
def second(_context: Any, ctx: StepContext) -> None:
    """The schedule ends the call."""


class StepRequests:
    """The requests of a node that has plan steps only."""

    def __init__(self, stage: ScheduledStage) -> None:
        self._stage = stage

    async def claim(self, body: Any, token: Token, connection: Connection) -> Any:
        return await _answered(self._stage.steps.claim(body, token, connection))

    async def heartbeat(self, body: Any, token: Token) -> Any:
        return await _answers(self._stage.steps.heartbeat(body["leases"], body, token))

    async def release(self, body: Any, token: Token) -> Any:
        return await _answers(self._stage.steps.release(body["leases"], body, token))

    async def results(self, body: Any, token: Token) -> Any:
        return await _answers(self._stage.steps.results(body["results"], body, token))


async def _answers(request: Awaitable[Any]) -> dict[str, Any]:
    return {"answers": await _answered(request)}


async def _answered(request: Awaitable[Any]) -> Any:
    """The answer of a front, for which a world that is away is a problem of its own."""
    try:
        return await request
    except Unavailable as problem:
        raise Problem(503, "world_is_away", str(problem), retry_after_s=1) from problem


class Schedule:
    """Draws and carries out one action after the other, and checks each handler that begins."""

    def __init__(self, rng: Random, stage: Stage) -> None:
        self.rng = rng
        self.stage = ScheduledStage(stage, rng)
        requests = cast("LeasedWork", StepRequests(self.stage))
        self._wire = ScheduledWire(lambda: requests, rng)
        self._callers: dict[str, ScheduledCallers] = {}
        self._workers: list[Worker] = []
        self._running: list[asyncio.Task[None]] = []
        self._begun: set[tuple[str, int, int]] = set()
        self._instances = 0
        self._actions: dict[Callable[[], Any], float] = {
            self.an_instance_starts: 3,
            self.a_job_advances: 50,
            self.a_record_is_followed: 15,
            self.a_close_arrives: 5,
            self.a_handler_begins: 12,
            self.a_handler_ends: 8,
            self.time_passes: 12,
            self.the_front_is_killed: 0.5,
        }

    def employ(self, name: str) -> None:
        lines: list[str] = []
        worker = Worker(
            "http://node", Executors("shop", [first, second]), name=name, lease_s=LEASE_S,
            transport=self._wire, report=lines.append,
        )  # fmt: skip
        worker._callers._loop.close()
        self._callers[name] = ScheduledCallers()
        worker._callers = worker._steps._callers = cast("Callers", self._callers[name])
        take = worker._steps._take

        def take_all(answer: Any, began_s: float) -> None:
            take(answer, began_s)
            for task in answer["tasks"]:
                taken = worker._steps._steps.get(task["task"])
                is_taken = taken is not None and taken.epoch == task["epoch"]
                assert is_taken or task["lease_ms"] <= 0, "a lease is left unused"

        worker._steps._take = take_all  # type: ignore[method-assign]  # it sees every answer
        self._workers.append(worker)
        self._running.append(asyncio.ensure_future(worker.run()))

    async def play(self) -> None:
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

    def an_instance_starts(self) -> None:
        self._instances += 1
        steps = [plan_step(type, max_attempts=1_000) for type in ("A", "B")]
        self.stage.stage.begin(*steps, instance=f"i-{self._instances}")
        self.stage.read_journal()

    def a_job_advances(self) -> None:
        self.stage.work_on_a_job()

    def a_record_is_followed(self) -> None:
        self.stage.follow(self.rng.randint(1, 3))

    def a_close_arrives(self) -> None:
        self._wire.close_arrives()

    def time_passes(self) -> None:
        self.stage.advance(self.rng.choices((0.03, 0.5, 2, 7, 40), (6, 4, 4, 1, 1))[0])

    async def the_front_is_killed(self) -> None:
        self._wire.cut()
        await self.stage.kill(others=self._wire.on_the_way)
        self._wire.cut()  # also what reached the dead front meanwhile

    def a_handler_begins(self) -> None:
        name = self.rng.choice(list(self._callers))
        waiting = self._callers[name].waiting
        if waiting:
            self._begin(name, waiting.pop(self.rng.randrange(len(waiting))))

    def _begin(self, name: str, call: ScheduledCall) -> None:
        if call.begin():
            self._check_begun(name, call)
            self._callers[name].running.append(call)

    def _check_begun(self, name: str, call: ScheduledCall) -> None:
        """A handler may begin: its lease is the last one, and no other one runs in this worker, or
        one that is past its timeout (L-42)."""
        ctx = call.ctx
        begun = ctx.instance, ctx.seq, ctx.attempt
        assert begun not in self._begun, "an attempt has begun twice"
        self._begun.add(begun)
        for other in self._callers[name].running:
            is_same = (other.ctx.instance, other.ctx.seq) == begun[:2] and ctx.step == "A"
            assert not is_same, "two handlers of a plan step run in one worker"
        state = self.stage.stage.state(ctx.instance)
        row = self.stage.row(ctx.instance)
        assert state["current_step_seq"] == ctx.seq, "a handler begins after the end of its step"
        assert row["attempts"] + 1 == ctx.attempt, "a handler begins with a lease that was lost"
        assert row["locked_by"].partition("@")[0] == name, "another worker has the lease"
        assert row["locked_until"] > self.stage.stage.now, "a handler begins after its lease"

    def a_handler_ends(self) -> None:
        name = self.rng.choice(list(self._callers))
        running = self._callers[name].running
        if running:
            self._end(running.pop(self.rng.randrange(len(running))), may_fail=True)

    def _end(self, call: ScheduledCall, *, may_fail: bool) -> None:
        if may_fail and self.rng.random() < 0.3:
            call.end(EffectFailed("busy", "try later", retryable=True))
        else:
            call.end(None)

    def check(self) -> None:
        for running in self._running:
            if running.done():
                running.result()

    async def end(self) -> None:
        """Nothing fails any more: every instance is completed, and the workers stop."""
        instances = [f"i-{number + 1}" for number in range(self._instances)]
        for _ in range(150):
            await self._settle_down()
            states = {self.stage.stage.state(instance)["status"] for instance in instances}
            if states <= {"COMPLETED"}:
                break
            self.stage.advance(1.5)
        assert states <= {"COMPLETED"}, "a plan step is never completed"
        for worker in self._workers:
            worker.stop()
        for _ in range(40):
            await self._settle_down()
            self.stage.advance(1)
        for running in self._running:
            assert running.done(), "a worker does not stop"
            running.result()

    async def _settle_down(self) -> None:
        for _ in range(6):
            await self.stage.settle_down()
            self._wire.close_arrives()
            for name, callers in self._callers.items():
                while callers.waiting:
                    self._begin(name, callers.waiting.pop())
                while callers.running:
                    self._end(callers.running.pop(), may_fail=False)
            self.check()


def play(seed: int) -> None:
    stage = Stage(timers=seed % 2 == 0)

    async def scene(rng: Random) -> None:
        await Schedule(rng, stage).play()

    def now_s() -> float:
        return stage.now / SECOND

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_tasks, "boot_s", now_s)
        patch.setattr(step_tasks, "time", SimpleNamespace(monotonic=now_s))
        patch.setattr(lease_check, "boot_s", now_s)
        run_scheduled(scene, seed=seed, clock=now_s)


def test_no_schedule_begins_a_handler_without_its_lease_or_loses_a_result() -> None:
    """L-43, L-44."""
    for seed in range(SEEDS):
        play(seed)
