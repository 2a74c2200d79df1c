"""A node over a world in memory, whose disk, link and follower work when a schedule says so."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from aos.core.decide.answers import Answer
from aos.core.journal.frame import Tip
from aos.core.journal.inputs import AttemptInput, ReceiptInput, StreamInput
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Record
from aos.core.state.fold import fold
from aos.core.state.state import State, empty
from aos.errors import Unavailable
from aos.node.leases.row import Row
from aos.node.leases.table import Table
from aos.node.leases.work import LeasedWork
from aos.node.node_settings import NodeSettings
from aos.store.errors import NoRoom
from aos.store.store import Store
from aos.values.digests import Hash
from tests.core.desk import ARMS, DESK, PAY, desk, nodes
from tests.memory_world import MemoryWorld, air, route
from tests.node.leases.stage import Clock, MemoryLink
from tests.node.schedules import Job, ScheduledLoop, scheduled_loop, turns


@dataclass
class MemoryTable:
    """The table of leases of one front; ``disk`` is left when the front is killed."""

    disk: dict[Hash, bytes]
    since: int
    world: Path = Path("world")

    @property
    def rows(self) -> dict[Hash, Row]:
        return {intent: Row.from_bytes(data) for intent, data in self.disk.items()}

    def write(self, changes: Mapping[Hash, Row | None]) -> None:
        for intent, row in changes.items():
            if row is None:
                self.disk.pop(intent, None)
            else:
                self.disk[intent] = row.to_bytes()

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class ScheduledLink(MemoryLink):
    """The link of one front. The world takes an input when its job is carried out, and the follower
    folds the ``backlog`` record by record."""

    backlog: list[Record] = field(default_factory=list)
    journal: list[Record] = field(default_factory=list)
    frames_seen: int = 0
    replica: State | None = None
    is_cut: bool = False
    """The front is dead: it sends no more."""

    def publish(self) -> None:
        self.world.run()
        for sealed in self.world.sealed[self.frames_seen :]:
            records = [from_bytes(data) for data in sealed.frame.records]
            self.journal += records
            self.backlog += records
        self.frames_seen = len(self.world.sealed)

    @property
    def followed(self) -> State:
        if self.replica is None:
            self.replica = empty(Tip(world=self.world.state.world), self.world.read)
        return self.replica

    def follow(self, count: int) -> None:
        """Fold the next records; the front hears of each."""
        for record in self.backlog[:count]:
            fold(self.followed, record, self.world.read)
            for work in self.works:
                work.on_record(record, self.followed)
        del self.backlog[:count]

    async def _admit(self, input: AttemptInput | ReceiptInput | StreamInput) -> Answer:
        if self.is_cut:
            await scheduled_loop().create_future()
        answer: Answer = await scheduled_loop().later(lambda: self._admitted(input))
        return answer

    def _admitted(self, input: AttemptInput | ReceiptInput | StreamInput) -> Answer:
        answer = self.world.kernel.admit(input, self.world.stamp())
        self.publish()
        return answer


def world_with_lanes(lane: list[str]) -> MemoryWorld:
    """The world of the desk, in which payments have a lane."""
    definitions = nodes(ARMS)
    if lane:
        for node in definitions:
            if node.get("name") == PAY:
                node["lane"] = lane
    return MemoryWorld(air(definitions, [route("t/Tell@1", DESK, "key")]), {DESK: desk})


class ScheduledStage:
    """A node; ``kill`` is a ``kill -9`` of its front, and a start of the next one."""

    def __init__(
        self, world: MemoryWorld, clock: Clock, settings: NodeSettings, rng: random.Random
    ) -> None:
        self.clock = clock
        self.lines: list[str] = []
        self.link = ScheduledLink(world)
        self._rng = rng
        self._settings = settings
        self._disk: dict[Hash, bytes] = {}
        self._since = 0
        self.link.publish()
        self.link.follow(len(self.link.backlog))
        self._since = world.state.next_seq - 1
        self.work = self._front()

    def _front(self) -> LeasedWork:
        table = cast("Table", MemoryTable(self._disk, self._since))
        link = self.link

        def store() -> Store:
            return cast("Store", link)  # it has the part of a store that work needs

        work = LeasedWork(
            table, link, self._settings, store=store, clock=self.clock, report=self.lines.append
        )
        self.link.works = [work]
        work.rebased(self.link.followed)
        return work

    @property
    def loop(self) -> ScheduledLoop:
        return scheduled_loop()

    def work_on_a_job(self, *, may_fail: bool) -> None:
        """Carry out the call of a thread or of the world, or answer one that is carried out."""
        jobs = self.loop.jobs
        if not jobs:
            return
        job = self._rng.choice(jobs)
        if may_fail and job.may_fail and self._rng.random() < 0.06:
            self._fail(job)
        elif not job.is_carried_out:
            job.carry_out()
            return
        job.answer()
        jobs.remove(job)

    def _fail(self, job: Job) -> None:
        if self._rng.random() < 0.5:
            job.fail(NoRoom("no room", needed_bytes=512, free=0))
        else:
            job.fail(Unavailable("the answer is lost"))

    async def settle_down(self) -> None:
        """Carry everything out, and let everything happen that it causes."""
        quiet = 0
        while quiet < 3:
            await turns(6)
            quiet += 1
            if self.loop.jobs or self.link.backlog:
                quiet = 0
            for job in self.loop.jobs[:]:
                if not job.is_carried_out:
                    job.carry_out()
                job.answer()
                self.loop.jobs.remove(job)
            self.link.follow(len(self.link.backlog))

    async def kill(self, *, clears_table: bool, before: Callable[[], None]) -> None:
        """Kill the front at any moment of its calls; ``before`` ends what its clients had."""
        for job in self.loop.jobs:
            if not job.is_remote and not job.is_carried_out and self._rng.random() < 0.5:
                job.carry_out()
        self.link.works = []
        self.link.is_cut = True
        desk = self.work._desk
        # A killed process writes and journals nothing more.
        self._disk = dict(self._disk)
        before()
        for task in [*desk.running]:
            task.cancel()
        if desk._syncing._running is not None:
            desk._syncing._running.cancel()
        await turns(4)
        before()  # also what reached the dead front meanwhile
        await turns(4)
        self.loop.jobs[:] = [job for job in self.loop.jobs if job.is_remote]
        self.link.is_cut = False
        self.link.follow(len(self.link.backlog))
        if clears_table:
            self._disk.clear()
            self._since = self.link.world.state.next_seq - 1
        self.work = self._front()
        await self.work.start()

    def pass_s(self, seconds: float) -> None:
        self.clock.pass_s(seconds)
