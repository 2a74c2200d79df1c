"""Claims of plan steps, connections and front restarts in any order (L-30 to L-36, N-52).

Each seed is one schedule, as in ``tests/node/leases/test_random_schedules.py``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable
from dataclasses import dataclass
from random import Random
from typing import Any

from aos.errors import Unavailable
from aos.node.problems import Problem
from tests.linear.stage import SECOND, Stage, plan_step
from tests.node.claim_clients import ClaimClients, ClaimRequest
from tests.node.leases.stage import Token
from tests.node.linear.scheduled_stage import ScheduledStage
from tests.node.schedules import run_scheduled, turns
from tests.tools import long_form

SEEDS = 4_000 if long_form() else 30
STEPS = 120


@dataclass(eq=False)
class ReadStep:
    """A plan step that a worker has read; it believes in its lease until ``until_ns``."""

    worker: str
    claim: str
    task: str
    instance: str
    epoch: int
    until_ns: int
    may_be_over: bool = False


class Schedule(ClaimClients):
    """Draws and carries out one action after the other, and checks what workers read."""

    def __init__(self, rng: Random, stage: Stage) -> None:
        super().__init__(rng)
        self.stage = ScheduledStage(stage, rng)
        self._background: set[asyncio.Task[Any]] = set()
        self._read: defaultdict[tuple[str, int], list[ReadStep]] = defaultdict(list)
        self._instances = 0
        self._actions = {
            self.an_instance_starts: 3,
            self.a_worker_claims: 6,
            self.a_worker_repeats_its_claim: 8,
            self.a_client_closes: 3,
            self.a_close_arrives: 6,
            self.a_client_reads: 8,
            self.a_delivery_is_known: 5,
            self.a_job_advances: 30,
            self.a_record_is_followed: 15,
            self.a_worker_sends_a_result: 3,
            self.a_worker_sends_a_heartbeat: 5,
            self.a_worker_releases: 1,
            self.time_passes: 3,
            self.the_front_is_killed: 0.5,
        }

    async def play(self) -> None:
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

    def an_instance_starts(self) -> None:
        self._instances += 1
        steps = [plan_step(type, max_attempts=1_000) for type in ("A", "B")]
        self.stage.stage.begin(*steps, instance=f"i-{self._instances}")
        self.stage.read_journal()

    def a_job_advances(self) -> None:
        self.stage.work_on_a_job()

    def a_record_is_followed(self) -> None:
        self.stage.follow(self.rng.randint(1, 3))

    def time_passes(self) -> None:
        self.stage.advance(self.rng.choice((0.01, 0.5, 2, 16, 40)))

    async def the_front_is_killed(self) -> None:
        self.lose_connections()
        for task in self._background:
            task.cancel()
        await self.stage.kill()

    # Workers

    def send_claim(self, request: ClaimRequest) -> Awaitable[dict[str, Any]]:
        rng = self.rng
        body: dict[str, Any] = {
            "worker": request.worker,
            "claim": request.claim,
            "max": rng.choice((1, 1, 2, 5)),
            "steps": [{"name": rng.choice(("*/*", "*/*", "*/A"))}],
            "wait_ms": rng.choice((0, 20_000, 60_000)),
        }
        if rng.random() < 0.4:
            body["lease_ms"] = 1_000
        return self.stage.steps.claim(body, Token(), request.connection)

    def reset(self, request: ClaimRequest) -> None:
        for step in self._steps():
            if (step.worker, step.claim) == (request.worker, request.claim):
                step.may_be_over = True

    def _steps(self) -> list[ReadStep]:
        return [step for steps in self._read.values() for step in steps]

    def takes(self, request: ClaimRequest, document: dict[str, Any]) -> None:
        """Check that a worker may have the plan step that it has read."""
        step = ReadStep(
            request.worker, request.claim, document["task"], document["instance"],
            document["epoch"], document["lease_until_ns"], may_be_over=self.is_in_doubt(request),
        )  # fmt: skip
        now_ns = self.stage.stage.now
        earlier_steps = self._read[step.instance, document["step_seq"]]
        for earlier in earlier_steps:
            assert earlier.epoch != step.epoch, "an epoch was given out twice"
            is_over = earlier.may_be_over or earlier.until_ns <= now_ns or step.until_ns <= now_ns
            assert earlier.epoch > step.epoch or is_over, "two leases of a plan step are valid"
        earlier_steps.append(step)
        self._check_lease(step)

    def _check_lease(self, step: ReadStep) -> None:
        """A lease lasts as long as its worker may believe."""
        if step.may_be_over or step.until_ns <= self.stage.stage.now:
            return
        row = self.stage.row(step.instance)
        assert (row["epoch"], row["claim"]) == (step.epoch, step.claim), "a valid lease was ended"
        assert row["locked_until"] >= step.until_ns, "a valid lease was ended"

    def _some_step(self) -> ReadStep | None:
        steps = self._steps()
        return self.rng.choice(steps[-6:]) if steps else None

    def _run(self, request: Any) -> None:
        self._background.add(asyncio.ensure_future(request))

    def a_worker_sends_a_result(self) -> None:
        step = self._some_step()
        if step is not None:
            step.may_be_over = True
            outcome = self.rng.choice(
                ({"status": "completed"}, {"status": "retry", "error": "busy", "backoff_ms": 10})
            )
            self._run(self._result(step, outcome))

    async def _result(self, step: ReadStep, outcome: dict[str, Any]) -> None:
        item = {"task": step.task, "epoch": step.epoch, "outcome": outcome}
        answers = await _answer(self.stage.steps.results([item], {"worker": step.worker}, Token()))
        if answers is not None and "problem" in answers[0]:
            assert answers[0]["problem"]["status"] == 409, answers

    def a_worker_sends_a_heartbeat(self) -> None:
        step = self._some_step()
        if step is not None:
            self._run(self._beat(step))

    async def _beat(self, step: ReadStep) -> None:
        item = {"task": step.task, "epoch": step.epoch}
        answers = await _answer(
            self.stage.steps.heartbeat([item], {"worker": step.worker}, Token())
        )
        if answers is not None and answers[0]["answer"] == "leased":
            step.until_ns = max(step.until_ns, answers[0].get("lease_until_ns", 0))

    def a_worker_releases(self) -> None:
        step = self._some_step()
        if step is not None:
            step.may_be_over = True
            item = {"task": step.task, "epoch": step.epoch, "began": True}
            self._run(_answer(self.stage.steps.release([item], {"worker": step.worker}, Token())))

    # Checks

    def check(self) -> None:
        for task in [task for task in self._background if task.done()]:
            self._background.remove(task)
            if not task.cancelled():
                task.result()
        self.check_answers()
        for step in self._steps()[-6:]:
            self._check_lease(step)

    async def end(self) -> None:
        """Everything works again, and every client is gone: each instance can be completed."""
        self.close_all()
        await self.stage.settle_down()
        self.check()
        instances = [f"i-{number + 1}" for number in range(self._instances)]
        for round_number in range(20):
            states = [self.stage.stage.state(instance)["status"] for instance in instances]
            if set(states) <= {"COMPLETED"}:
                return
            self.stage.advance(61)
            await self.stage.settle_down()
            request = ClaimRequest("eve", f"last-{round_number}")
            body = {
                "worker": "eve", "claim": request.claim, "max": 50, "steps": [{"name": "*/*"}],
            }  # fmt: skip
            request.answering = asyncio.ensure_future(
                self.stage.steps.claim(body, Token(), request.connection)
            )
            await self.stage.settle_down()
            self.reads(request)
            for step in [step for step in self._steps() if step.claim == request.claim]:
                step.may_be_over = True
                sending = asyncio.ensure_future(self._result(step, {"status": "completed"}))
                await self.stage.settle_down()
                await sending
        raise AssertionError("a plan step was never given out again")


async def _answer(request: Awaitable[Any]) -> Any:
    """The answer to a request; None if the node cannot carry it out now."""
    try:
        return await request
    except Unavailable:
        return None
    except Problem as problem:
        if problem.status != 503:
            raise
        return None


def play(seed: int) -> None:
    stage = Stage(timers=seed % 2 == 0)

    async def scene(rng: Random) -> None:
        await Schedule(rng, stage).play()

    run_scheduled(scene, seed=seed, clock=lambda: stage.now / SECOND)


def test_no_schedule_gives_a_plan_step_to_two_workers() -> None:
    """N-52, L-32, L-36."""
    for seed in range(SEEDS):
        play(seed)
