"""A world in memory behind the link of a node: its kernel decides, its records reach the leases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from aos.core.decide.answers import Answer
from aos.core.journal.inputs import AttemptInput, ReceiptInput, StreamInput
from aos.core.journal.records import Attempt, KernelReceipt, Receipt
from aos.errors import AosError
from aos.host.executors.task import WorkItem
from aos.manifest.names import NODE
from aos.node.calls import SILENT, Delivery, DeliveryListener
from aos.node.leases.leases import Moment
from aos.node.leases.table import open_table
from aos.node.leases.work import LeasedWork
from aos.node.node_settings import NodeSettings
from aos.store.rows import IntentRow
from aos.store.store import Store
from aos.values.digests import Hash, content_hash, hash_text
from aos.worker.outcome import Outcome, StreamFrame
from tests.core.desk import ONCE, PAY, desks, tell, wish
from tests.memory_world import WORLD_KEY, MemoryWorld

SECOND = 10**9


@dataclass
class Token:
    """A token whose scopes are the names of effects; none: all."""

    name: str = "shop"
    effects: tuple[str, ...] = ()

    def allows(self, verb: str, name: str | None = None) -> bool:
        return verb == "work" and (not self.effects or name in self.effects)


@dataclass
class Connection:
    """The connection of a claim. ``is_closed``: its client has closed it."""

    is_closed: bool = False
    listeners: list[DeliveryListener] = field(default_factory=list)

    def is_gone(self) -> bool:
        return self.is_closed

    def watch(self, listener: DeliveryListener) -> None:
        self.listeners.append(listener)

    def ends(self, delivery: Delivery) -> None:
        """The connection shows how the answer of the claim was delivered."""
        for listener in self.listeners:
            listener(delivery)


@dataclass
class Clock:
    steady_ns: int = 10**15
    wall_ns: int = 10**18

    def __call__(self) -> Moment:
        return Moment(self.steady_ns, self.wall_ns)

    def pass_s(self, seconds: float) -> None:
        self.steady_ns += int(seconds * SECOND)
        self.wall_ns += int(seconds * SECOND)


@dataclass
class MemoryLink:
    """The link to a world in memory. With a ``problem`` the world takes nothing."""

    world: MemoryWorld
    problem: AosError | None = None
    works: list[LeasedWork] = field(default_factory=list)
    frames: list[StreamFrame] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    seen: int = 0

    def __post_init__(self) -> None:
        self.may_answer.set()

    def publish(self) -> None:
        """Make what the kernel decided durable, and let the followers take it."""
        self.world.run()
        records = self.world.records()[self.seen :]
        self.seen += len(records)
        for record in records:
            for work in self.works:
                work.on_record(record, self.world.state)

    async def _admit(self, input: AttemptInput | ReceiptInput | StreamInput) -> Answer:
        self.is_asked.set()
        await self.may_answer.wait()
        if self.problem is not None:
            raise self.problem
        answer = self.world.kernel.admit(input, self.world.stamp())
        self.publish()
        return answer

    async def retry(self, intents: Sequence[Hash]) -> list[Hash]:  # noqa: ARG002  # it runs none
        """The process of this world runs no effects."""
        return []

    async def answer(self, item: WorkItem) -> Answer:
        match item:
            case Outcome():
                return await self._admit(self._receipt(item))
            case StreamFrame():
                return await self._tell(item)
        return await self._admit(item)

    def _receipt(self, outcome: Outcome) -> ReceiptInput:
        receipt = ReceiptInput(
            intent=outcome.intent,
            effect=outcome.effect,
            attempt=outcome.attempt,
            status=outcome.status,
            payload=outcome.payload,
            started_ns=outcome.started_ns,
            finished_ns=outcome.finished_ns,
            executor=outcome.executor,
            key_id=outcome.key_id or bytes(WORLD_KEY.verify_key),
            signature=outcome.signature or b"",
            cost_cents=outcome.cost_cents,
            batch=outcome.batch,
        )
        if outcome.signature is None:
            assert outcome.executor == NODE
            signed = WORLD_KEY.sign(receipt.message(self.world.state.world)).signature
            receipt = replace(receipt, signature=signed)
        return receipt

    async def _tell(self, frame: StreamFrame) -> Answer:
        self.frames.append(frame)
        stream_input = StreamInput(
            intent=frame.intent,
            effect=frame.effect,
            attempt=frame.attempt,
            frame_seq=frame.frame_seq,
            frame_kind=frame.frame_kind,
            payload=frame.payload,
            payload_ref=None if frame.blob is None else content_hash(frame.blob),
            executor=NODE,
            key_id=bytes(WORLD_KEY.verify_key),
            signature=b"",
        )
        signature = WORLD_KEY.sign(stream_input.signed_message(self.world.state.world)).signature
        return await self._admit(replace(stream_input, signature=signature))

    async def work(self) -> Mapping[str, Any]:
        return {"effects": ["sys/timer.set@1"]}

    # The store

    def blob(self, hash: Hash) -> bytes:
        return self.world.read(hash)

    def intent(self, hash: Hash) -> IntentRow | None:
        for record in self.world.records():
            if isinstance(record, Receipt | KernelReceipt) and record.intent == hash:
                return IntentRow(
                    opened_seq=1, index=0, settled_seq=record.seq, receipt_digest=Hash(hash)
                )
        return None

    def frame_at(self, seq: int) -> Any:
        return next(each for each in self.world.frames if each.header.last >= seq)


@dataclass
class Stage:
    """A node over a world in memory, in ``path``; ``restart`` is a ``kill -9`` of its front."""

    path: Path
    work: LeasedWork
    link: MemoryLink
    clock: Clock
    lines: list[str]
    settings: NodeSettings

    @property
    def world(self) -> MemoryWorld:
        return self.link.world

    def open(self, *refs: str, effect: str = PAY, key: str = "k", n: int = 1) -> None:
        """A step of the desk asks for effects."""
        tell(self.world, key, *(wish(effect, {"n": n}, ref) for ref in refs))
        self.link.publish()

    async def claim(self, worker: str = "ann", claim: str = "c", **more: Any) -> list[Any]:
        token = more.pop("token", Token())
        connection = more.pop("connection", SILENT)
        body = {"worker": worker, "claim": claim, **more}
        answer = await self.work.claim(body, token, connection)
        tasks: list[Any] = answer["tasks"]
        return tasks

    async def result(self, task: Any, worker: str = "ann", **more: Any) -> Any:
        """Send the result of a task: ``ok``, unless ``more`` says otherwise."""
        token = more.pop("token", Token())
        item = {
            "task": task["task"],
            "epoch": task["epoch"],
            "status": "ok",
            "payload": {"ref": "r"},
            "started_ns": 1,
            "finished_ns": 2,
            **more,
        }
        answer = await self.work.results({"worker": worker, "results": [item]}, token)
        [found] = answer["answers"]
        return found

    async def fail(self, task: Any, worker: str = "ann", **more: Any) -> Any:
        error = {"code": "busy", "message": "try later", "retryable": True}
        return await self.result(task, worker, **{"status": "error", "payload": error, **more})

    async def beat(self, task: Any, worker: str = "ann", **more: Any) -> str:
        token = more.pop("token", Token())
        lease = {"task": task["task"], "epoch": task["epoch"]}
        answer = await self.work.heartbeat({"worker": worker, "leases": [lease], **more}, token)
        return str(answer["answers"][0]["answer"])

    async def release(self, task: Any, worker: str = "ann", *, began: bool) -> str:
        lease = {"task": task["task"], "epoch": task["epoch"], "began": began}
        answer = await self.work.release({"worker": worker, "leases": [lease]}, Token())
        return str(answer["answers"][0]["answer"])

    async def pass_s(self, seconds: float) -> None:
        """Let time pass, and everything happen that it causes."""
        self.clock.pass_s(seconds)
        await self.work.tick()
        await self.settle_down()

    async def settle_down(self) -> None:
        while self.work._desk.running:
            await asyncio.gather(*self.work._desk.running, return_exceptions=True)

    async def restart(self, before: Callable[[], None] = lambda: None) -> None:
        """Kill the front, and start another. ``before`` is called in between."""
        for task in self.work._desk.running:
            task.cancel()
        await self.work._desk._syncing.close()
        self.work._desk._table.close()
        before()
        self.work = await begin(self.path, self.link, self.clock, self.lines, self.settings)

    def phases(self) -> list[tuple[str, int]]:
        """The attempts of the journal: (phase, number)."""
        return [
            (each.phase, each.attempt) for each in self.world.records() if isinstance(each, Attempt)
        ]

    def open_intents(self) -> list[str]:
        return [hash_text(each) for each in self.world.state.intents]


async def begin(
    path: Path, link: MemoryLink, clock: Clock, lines: list[str], settings: NodeSettings
) -> LeasedWork:
    table = open_table(path, seq=link.world.state.next_seq - 1, report=lines.append)

    def store() -> Store:
        return cast("Store", link)  # it has the part of a store that work needs

    work = LeasedWork(table, link, settings, store=store, clock=clock, report=lines.append)
    link.works = [work]
    work.rebased(link.world.state)
    await work.start()
    return work


def play(
    path: Path,
    scene: Callable[[Stage], Awaitable[None]],
    settings: NodeSettings | None = None,
    *,
    world: MemoryWorld | None = None,
    **manifest: Any,
) -> Stage:
    """Play a scene on a new world, by default one of ``desks``."""

    async def run() -> Stage:
        link, clock, lines = MemoryLink(world or desks(**manifest)), Clock(), list[str]()
        link.publish()
        node_settings = settings or NodeSettings()
        work = await begin(path, link, clock, lines, node_settings)
        stage = Stage(path, work, link, clock, lines, node_settings)
        async with asyncio.timeout(60):
            await scene(stage)
        await stage.work.close()
        return stage

    return asyncio.run(run())


__all__ = ["ONCE", "PAY", "Clock", "MemoryLink", "Stage", "Token", "begin", "play"]
