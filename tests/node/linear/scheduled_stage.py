"""The plan steps of a node over a world in memory. The world and the follower work when a schedule
says so."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from aos.core.journal.frame import Tip
from aos.core.journal.records import Record, Step
from aos.core.state.fold import fold
from aos.core.state.state import State, empty
from aos.errors import Unavailable
from aos.manifest.names import LINEAR
from aos.node.services import Services
from aos.node.steps.step_work import StepWork
from aos.read.views.cell_view import annotation_of
from aos.read.views.linear_view import LinearAnswer
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.linear.stage import Stage
from tests.node.schedules import Job, scheduled_loop, turns


@dataclass
class ReadStore:
    """The part of a store that plan steps need."""

    world: Stage

    def blob(self, hash: Hash) -> bytes:
        return self.world.world._desk.read(hash)


@dataclass
class ReplicaFollower:
    """The state of the front, and the store behind it."""

    state: State
    store: ReadStore


@dataclass
class ReplicaServices:
    """The part of the services of a front that plan steps need."""

    follower: ReplicaFollower


class ScheduledSteps(StepWork):
    """Plan steps whose events reach the world when their jobs are carried out. ``earlier`` are the
    events that dead fronts have sent: the world takes them before those of this one."""

    stage: ScheduledStage
    earlier: Sequence[Job] = ()
    is_killed = False

    async def ask(self, schema: str, value: Any) -> LinearAnswer:
        """As the world answers, once the front has followed its step. A killed front sends no
        more."""
        if self.is_killed:
            never = scheduled_loop().create_future()
            self.stage.of_dead_fronts.append(never)
            await never
        return await self.stage.answer(schema, value, self.earlier)


class ScheduledStage:
    """A front with plan steps; ``kill`` is a ``kill -9`` of it, and a start of the next one."""

    def __init__(self, stage: Stage, rng: Random) -> None:
        self.stage = stage
        self._desk = stage.world._desk
        self._rng = rng
        self._seen = 0
        self.backlog: list[Record] = []
        self.of_dead_fronts: list[Job | asyncio.Future[None]] = []
        """Keeps the tasks that wait for these until the end of the scene, which cancels them."""
        self._arrived: list[tuple[int, asyncio.Future[None]]] = []
        self._serving: asyncio.Task[None] | None = None
        store = ReadStore(stage)
        state = empty(Tip(world=self._desk.world), store.blob)
        self.follower = ReplicaFollower(state, store)
        self.read_journal()
        self.follow(len(self.backlog))
        self.steps = self._front()

    def _front(self, earlier: Sequence[Job] = ()) -> ScheduledSteps:
        services = cast("Services", ReplicaServices(self.follower))
        steps = ScheduledSteps(services, clock=lambda: self.stage.now)
        steps.stage = self
        steps.earlier = earlier
        steps.rebased(self.follower.state)
        self._serving = asyncio.ensure_future(steps.run())
        return steps

    def row(self, instance: str) -> Mapping[str, Any]:
        """The current row of an instance, as the world has it."""
        return self.stage.row(instance=instance)

    async def answer(self, schema: str, value: Any, earlier: Sequence[Job]) -> LinearAnswer:
        """Raises: Unavailable: The world, or its answer, is away."""
        loop = scheduled_loop()
        step: Step = await loop.later(lambda: self._sent(schema, value, earlier))
        if self.follower.state.next_seq <= step.seq:
            followed = loop.create_future()
            self._arrived.append((step.seq, followed))
            await followed
        annotation = annotation_of(step, cast("Any", self.follower.store))
        assert annotation is not None
        return LinearAnswer.of(annotation)

    def _sent(self, schema: str, value: Any, earlier: Sequence[Job]) -> Step:
        for job in earlier:
            if not job.is_carried_out:
                job.carry_out()
        first = len(self._desk.records)
        self.stage.world.send(schema, value)
        self.stage.world.run()
        self.read_journal()
        cell = LINEAR, encode(value["instance"])
        return next(
            record
            for record in self._desk.records[first:]
            if isinstance(record, Step) and record.cell == cell
        )

    def advance(self, seconds: float) -> None:
        """Let time pass in the world and at the front; the timers of leases fire in the world."""
        self.stage.advance(int(seconds * 10**9))
        self.read_journal()

    def read_journal(self) -> None:
        """Let the front follow what is durable, later."""
        self.backlog += self._desk.records[self._seen :]
        self._seen = len(self._desk.records)

    def follow(self, count: int) -> None:
        """Fold the next records; the front hears of each."""
        for record in self.backlog[:count]:
            fold(self.follower.state, record, self.follower.store.blob)
            if hasattr(self, "steps"):
                self.steps.on_record(record, self.follower.state)
        del self.backlog[:count]
        for seq, followed in self._arrived[:]:
            if seq < self.follower.state.next_seq:
                self._arrived.remove((seq, followed))
                if not followed.done():
                    followed.set_result(None)

    def work_on_a_job(self) -> None:
        """Carry out an event of the world, or answer one that is carried out."""
        jobs = scheduled_loop().jobs
        if not jobs:
            return
        job = self._rng.choice(jobs)
        if self._rng.random() < 0.06:
            job.fail(Unavailable("the answer is lost"))
        elif not job.is_carried_out:
            job.carry_out()
            return
        job.answer()
        jobs.remove(job)

    async def settle_down(self) -> None:
        """Carry everything out, and let everything happen that it causes."""
        quiet = 0
        loop = scheduled_loop()
        while quiet < 3:
            await turns(6)
            quiet = 0 if loop.jobs or self.backlog else quiet + 1
            for job in loop.jobs[:]:
                if not job.is_carried_out:
                    job.carry_out()
                job.answer()
                loop.jobs.remove(job)
            self.follow(len(self.backlog))

    async def kill(self, *, others: Collection[asyncio.Future[Any]] = ()) -> None:
        """Kill the front. Events that it has sent may reach the world, now or later, but before
        those of the next front. Answers to ``others`` are on their way to other processes."""
        loop = scheduled_loop()
        self.steps.is_killed = True
        for task in [*self.steps._releasing, *([self._serving] if self._serving else [])]:
            task.cancel()
        await turns(4)
        for job in loop.jobs[:]:
            if self._rng.random() < 0.5 and not job.is_carried_out:
                job.carry_out()
        self.of_dead_fronts += loop.jobs
        loop.jobs[:] = [job for job in loop.jobs if not job.is_carried_out or job._answer in others]
        self.follow(len(self.backlog))
        self.steps = self._front([job for job in loop.jobs if job._answer not in others])
