"""``sys/world.send@1``: deliver events to the neighbours of a world (spec/world-send.md, WS-30 to
WS-37).

    task ──▶ queue of its target ──▶ lane of its cell ──▶ request ──▶ answer ──▶ outcome
                                           ▲                 │
                                           └── again later ──┘

One request to a target is on its way at a time, with the first delivery of each lane. A delivery is
sent until the target answers it: its submission id stays the same, so the target admits it once.

A delivery to a group waits first in the queue of the group, until the journal has the shard for
which it is (WS-40 to WS-43), and then in the queue of that shard.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.errors import AosError, BadUsage
from aos.host.delivery_queue import DeliveryQueue, Pauses, Sending
from aos.host.door.deliveries import DeliverySender, WorldDelivery
from aos.host.door.delivery_targets import (
    DeliveryTargets,
    DeliveryWay,
    NeighbourTargets,
    TargetGroup,
    TargetWorld,
)
from aos.host.door.protocol import read_answer
from aos.host.errors import Busy
from aos.host.executors.outbox import JournalOutbox
from aos.host.executors.task import (
    ExecutorStats,
    Report,
    Task,
    TaskNow,
    WorkJournal,
    report_to_stderr,
)
from aos.host.folder.folder import WorldFolder
from aos.host.folder.group import shard_name
from aos.host.stamps import now_ns
from aos.manifest.effective import Effective
from aos.manifest.names import WORLD_SEND
from aos.manifest.placement import SHARDS
from aos.manifest.shards import EVERY, ShardOfEvent, shard_of_event, without_shard
from aos.message_fields import field as field_of
from aos.prove.proofs.sources import Source
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, hash_text
from aos.worker.failure import CANCELED, AttemptFailure
from aos.worker.outcome import Outcome

DRAIN_S: Final = 2.0
PAUSES: Final = Pauses()

WORLD_UNKNOWN: Final = "world_unknown"
EVENT_REFUSED: Final = "event_refused"
TOO_OLD: Final = "delivery_too_old"

SHARD_ATTEMPT: Final = 2
"""The attempt of a delivery to shard 0 of a group; that to shard 1 is the next one, and so on."""

EACH_ATTEMPT: Final = SHARD_ATTEMPT + SHARDS.high
"""The attempt of a delivery to each shard of a group."""

_NO_JUDGEMENT: Final = frozenset({Rule.WORLD_IS_BUSY, Rule.DELIVERY_IS_TOO_OLD})
"""Refusals that say nothing about the event."""


@dataclass(slots=True, eq=False)
class _Course:
    """The way to one target: its queue, the task that sends, and the connection."""

    to: str
    shard: int | None
    queue: DeliveryQueue
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    run: asyncio.Task[None] | None = None
    way: DeliveryWay | None = None
    end: tuple[Hash, str] | None = None

    def connection(self, target: TargetWorld) -> DeliveryWay:
        """The connection to the target, which may be another world than before, or elsewhere."""
        end = (target.world, target.place)
        if self.way is None or self.end != end:
            self.close()
            self.way, self.end = target.connect(), end
        return self.way

    def close(self) -> None:
        """Close the connection."""
        if self.way is not None:
            self.way.close()


class WorldSendExecutor:
    """The ``TaskExecutor`` of ``sys/world.send@1`` in the world ``folder``.

    ``targets`` finds its neighbours; by default, those in the same folder. ``clock`` is wall time
    in ns, ``pauses`` come before an event is sent again.
    """

    name: Final = "neighbours"
    effects: Final = frozenset({WORLD_SEND})
    signer: Final = None

    def __init__(
        self,
        folder: WorldFolder,
        *,
        targets: DeliveryTargets | None = None,
        clock: Callable[[], int] = now_ns,
        report: Report = report_to_stderr,
        pauses: Pauses = PAUSES,
    ) -> None:
        self._folder = folder
        self._targets = targets or NeighbourTargets(folder)
        self._clock = clock
        self._report = report
        self._pauses = pauses
        self._sender: DeliverySender | None = None
        self._outbox: JournalOutbox | None = None
        self._sendings: dict[Hash, Sending] = {}
        self._courses: dict[tuple[str, int | None], _Course] = {}
        self._is_stopping = False

    # The executor

    async def start(self, journal: WorkJournal) -> None:
        """Raises: AosError: The world's key, or the record that began it, cannot be read; or as
        ``DeliveryTargets.begin``."""
        sender = await asyncio.to_thread(sender_of, self._folder)
        self._sender = replace(sender, name=self._targets.own_name)
        await self._targets.begin()
        self._outbox = JournalOutbox(self.name, journal, self._report)

    def use(self, effective: Effective) -> None:
        pass

    def publish(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.intent not in self._sendings and not self._is_stopping:
                self._add(_sending_of(task))

    def cancel(self, intents: Sequence[Hash]) -> None:
        """Settle tasks as canceled. The answer to a request that is on its way counts; it may have
        been lost for one that waits to be sent again."""
        for intent in intents:
            sending = self._sendings.get(intent)
            if sending is not None:
                sending.is_canceled = True
                self._cancel(sending)

    async def stop(self) -> None:
        """Send no more, and wait for answers and outcomes on their way."""
        self._is_stopping = True
        for course in self._courses.values():
            course.changed.set()
        runs = [course.run for course in self._courses.values() if course.run is not None]
        if runs:
            await asyncio.wait(runs, timeout=DRAIN_S)
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        for course in self._courses.values():
            course.close()
        if self._outbox is not None:
            await self._outbox.drain(DRAIN_S)
        await self._targets.close()

    def stats(self) -> ExecutorStats:
        on_way = sum(sending.is_on_way or sending.is_over for sending in self._sendings.values())
        settled = 0 if self._outbox is None else self._outbox.settled
        return ExecutorStats(running=on_way, queued=len(self._sendings) - on_way, settled=settled)

    def now(self) -> Iterator[TaskNow]:
        """Its tasks without an outcome, in the order in which they were published."""
        for sending in self._sendings.values():
            if sending.is_over:
                continue
            task, queue = sending.task, self._courses[_key(sending)].queue
            phase, since_ns, problem = "queued", task.opened_ns, sending.problem or queue.problem
            if sending.is_on_way:
                phase, since_ns = "running", sending.since_ns
            elif problem is not None:
                phase, since_ns = "backoff", max(sending.since_ns, queue.until_ns)
            yield TaskNow(
                task=task, phase=phase, attempt=sending.attempt, since_ns=since_ns, problem=problem
            )

    # Courses

    def _add(self, sending: Sending) -> None:
        self._sendings[sending.task.intent] = sending
        self._join(sending)

    def _join(self, sending: Sending) -> None:
        """Put a delivery into the queue of its target."""
        key = _key(sending)
        course = self._courses.get(key)
        if course is None:
            to, shard = key
            name = to if shard is None else f"{to}/{shard_name(shard)}"
            course = self._courses[key] = _Course(to, shard, DeliveryQueue(name))
        if course.queue.add(sending):
            self._plan(course, sending)

    def _plan(self, course: _Course, sending: Sending, *, after_s: float = 0.0) -> None:
        """Let the first delivery of a lane be sent, after a pause."""
        loop = asyncio.get_running_loop()
        course.queue.plan(sending, loop.time() + after_s)
        course.changed.set()
        if course.run is None and not self._is_stopping:
            course.run = loop.create_task(self._run(course))

    async def _run(self, course: _Course) -> None:
        """Send what is due, until nothing is left."""
        loop, queue = asyncio.get_running_loop(), course.queue
        try:
            while queue and not self._is_stopping:
                course.changed.clear()
                sendings = queue.take(loop.time())
                if sendings:
                    await self._send(course, sendings)
                elif queue:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout_at(queue.next_s()):
                            await course.changed.wait()
        except Exception as defect:  # noqa: BLE001  # no one waits for this task
            message = f"the deliveries to {queue.to} have ended"
            loop.call_exception_handler({"message": message, "exception": defect})
        finally:
            course.run = None
            if not queue:
                course.close()
                del self._courses[course.to, course.shard]

    # Requests and answers

    async def _send(self, course: _Course, sendings: Sequence[Sending]) -> None:
        """Send one request, and settle what it answers. Other deliveries are sent again later."""
        at_ns = self._clock()
        for sending in sendings:
            sending.is_on_way, sending.since_ns = True, at_ns
            sending.started_ns = sending.started_ns or at_ns
        try:
            target = await self._targets.find(course.to)
        except BadUsage as problem:
            for sending in sendings:
                self._fail(course, sending, WORLD_UNKNOWN, str(problem))
            return
        except (AosError, OSError) as problem:
            self._pause(course, sendings, problem)
            return
        try:
            if isinstance(target, TargetGroup):
                await self._send_to_group(course, target, sendings)
            else:
                answers = await self._answers(course, target, sendings)
                for sending, answer in zip(sendings, answers, strict=True):
                    self._take_answer(course, sending, target.world, answer)
        except (AosError, OSError) as problem:
            self._pause(course, [sending for sending in sendings if sending.is_on_way], problem)
        else:
            course.queue.tries, course.queue.problem = 0, None

    async def _answers(
        self, course: _Course, target: TargetWorld, sendings: Sequence[Sending]
    ) -> list[Answer]:
        """Raises: AosError: The target does not run or answer, or takes none of the deliveries."""
        assert self._sender is not None, "published before start"
        sender = self._sender
        request: dict[str, Value] = {
            "op": "deliver",
            **sender.fields(target.world),
            "items": [sender.item(sending.delivery, target.world) for sending in sendings],
        }
        message = await course.connection(target).ask(request)
        answers = [read_answer(answer) for answer in field_of(message, "answers", list)]
        if len(answers) != len(sendings):
            raise BadUsage(f"answers: expected {len(sendings)}, found {len(answers)}")
        return answers

    def _take_answer(self, course: _Course, sending: Sending, target: Hash, answer: Answer) -> None:
        match answer:
            case Admitted() | Duplicate():
                self._settle(course, sending, "ok", sending.payload or _receipt(target, answer))
            case Refusal(rule=Rule.WORLD_IS_BUSY, message=message):
                self._later(course, sending, message)
            case Refusal(rule=Rule.DELIVERY_IS_TOO_OLD, message=message):
                self._fail(course, sending, TOO_OLD, message)
            case Refusal(rule=rule, message=message):
                self._fail(course, sending, EVENT_REFUSED, f"{rule.value}: {message}")

    # Groups

    async def _send_to_group(
        self, course: _Course, group: TargetGroup, sendings: Sequence[Sending]
    ) -> None:
        """Let the journal have the shards of deliveries, or send those that it has. Raises:
        AosError: No shard answers that is needed."""
        shard = course.shard
        if shard is None:
            await self._choose(course, group, sendings)
            return
        if shard >= len(group.shards):
            text = f"{course.to} has {len(group.shards)} shards now, and the event was for {shard}"
            for sending in sendings:
                self._fail(course, sending, WORLD_UNKNOWN, text)
            return
        target = group.shards[shard]
        answers = await self._answers(course, target, sendings)
        are_refused = any(
            isinstance(answer, Refusal) and answer.rule not in _NO_JUDGEMENT for answer in answers
        )
        in_force = await self._in_force(group, target) if are_refused else None
        for sending, answer in zip(sendings, answers, strict=True):
            is_last = not sending.is_for_each or shard == len(group.shards) - 1
            match answer:
                case Refusal(rule=rule) if rule not in _NO_JUDGEMENT:
                    self._judge(course, sending, answer, in_force)
                case Admitted() | Duplicate() if not is_last:
                    sending.payload = sending.payload or _receipt(target.world, answer)
                    self._move(course, sending, shard + 1)
                case _:
                    self._take_answer(course, sending, target.world, answer)

    def _judge(
        self, course: _Course, sending: Sending, refusal: Refusal, in_force: bytes | None
    ) -> None:
        """A refusal of a shard counts if it had the manifest of the group before and after it
        (WS-43); otherwise the event is sent again."""
        if in_force is None:
            text = f"the manifests of the group's shards differ ({refusal.message})"
            self._later(course, sending, text)
        elif sending.judged_by != in_force:
            sending.judged_by, sending.is_on_way = in_force, False
            self._plan(course, sending)
        else:
            text = f"{refusal.rule.value}: {refusal.message}"
            self._fail(course, sending, EVENT_REFUSED, text)

    async def _choose(
        self, course: _Course, group: TargetGroup, sendings: Sequence[Sending]
    ) -> None:
        """Choose the shards of deliveries by the manifest of shard 0, and journal them before any
        of them is sent (WS-41)."""
        manifest = await _manifest_of(group.shards[0])
        count = len(group.shards)
        await asyncio.gather(*(self._fix(course, sending, manifest, count) for sending in sendings))

    async def _fix(
        self, course: _Course, sending: Sending, manifest: Effective | None, count: int
    ) -> None:
        assert self._outbox is not None, "published before start"
        delivery = sending.delivery
        shard: ShardOfEvent = 0
        if manifest is not None:
            shard = shard_of_event(manifest, delivery.schema, delivery.value, count)
        attempt = EACH_ATTEMPT if shard == EVERY else SHARD_ATTEMPT + shard
        fixed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def answered(is_fixed: bool) -> None:
            if not fixed.done():  # the process stops
                fixed.set_result(is_fixed)

        self._outbox.begin(sending.task, attempt, None, answered)
        if not await fixed:
            # It was canceled, or settled by someone else: this outcome is refused, too.
            sending.is_canceled = True
        if sending.is_canceled:
            sending.is_on_way = False
            self._cancel(sending)
            return
        sending.attempt, sending.is_for_each = attempt, shard == EVERY
        self._move(course, sending, 0 if shard == EVERY else shard)

    def _move(self, course: _Course, sending: Sending, shard: int) -> None:
        """Put a delivery into the queue of a shard."""
        first = course.queue.remove(sending)
        if first is not None:
            self._plan(course, first)
        course.changed.set()
        sending.is_on_way, sending.tries, sending.judged_by = False, 0, None
        sending.shard = shard
        self._join(sending)
        if sending.is_canceled:
            self._cancel(sending)

    async def _in_force(self, group: TargetGroup, target: TargetWorld) -> bytes | None:
        """The hash of the manifest that a shard and shard 0 have; None if they differ. Raises:
        AosError: One of them does not answer."""
        manifests = [await _manifest_of(group.shards[0]), await _manifest_of(target)]
        hashes = {
            b"" if manifest is None else bytes(without_shard(manifest).hash)
            for manifest in manifests
        }
        return hashes.pop() if len(hashes) == 1 else None

    def _pause(self, course: _Course, sendings: Sequence[Sending], problem: Exception) -> None:
        """Send nothing to a target for some time, because a request had no answers."""
        queue, text = course.queue, str(problem)
        if queue.tries == 0 and not isinstance(problem, Busy):
            self._report(f"{WORLD_SEND} to {queue.to} waits: {text}")
        pause_s = self._pauses.after(queue.tries)
        queue.tries += 1
        queue.problem, queue.until_ns = text, self._clock() + int(pause_s * 1e9)
        queue.open_s = asyncio.get_running_loop().time() + pause_s
        for sending in sendings:
            sending.is_on_way = False
            if sending.is_canceled:
                self._cancel(sending)
            else:
                self._plan(course, sending)

    def _later(self, course: _Course, sending: Sending, problem: str) -> None:
        """Send one delivery again after a pause."""
        pause_s = self._pauses.after(sending.tries)
        sending.tries += 1
        sending.problem, sending.is_on_way = problem, False
        sending.since_ns = self._clock() + int(pause_s * 1e9)
        if sending.is_canceled:
            self._cancel(sending)
        else:
            self._plan(course, sending, after_s=pause_s)

    # Outcomes

    def _cancel(self, sending: Sending) -> None:
        if not (sending.is_on_way or sending.is_over):
            text = "canceled before the target answered"
            self._fail(self._courses[_key(sending)], sending, CANCELED, text)

    def _fail(self, course: _Course, sending: Sending, code: str, message: str) -> None:
        failure = AttemptFailure(code=code, message=message, retryable=False)
        status = CANCELED if code == CANCELED else "error"
        self._settle(course, sending, status, failure.payload())

    def _settle(self, course: _Course, sending: Sending, status: str, payload: bytes) -> None:
        """Report the end of a task, and let the next of its lane be sent."""
        assert self._outbox is not None, "published before start"
        sending.is_on_way, sending.is_over = False, True
        first = course.queue.remove(sending)
        if first is not None:
            self._plan(course, first)
        course.changed.set()
        at_ns = self._clock()
        started_ns = sending.started_ns or at_ns
        outcome = Outcome(
            intent=sending.task.intent,
            effect=sending.task.effect.name,
            attempt=sending.attempt,
            status=status,
            payload=payload,
            started_ns=started_ns,
            finished_ns=max(started_ns, at_ns),
        )
        self._outbox.settle(outcome, self._ended)

    def _ended(self, outcome: Outcome, answer: Answer | None) -> None:
        sending = self._sendings.pop(outcome.intent)
        if answer is not None and not sending.is_canceled and self._outbox is not None:
            self._outbox.tell_answer(outcome, answer)


def _sending_of(task: Task) -> Sending:
    params: Any = decode_record(task.params)
    delivery = WorldDelivery(
        idempotency_key=task.idempotency_key,
        opened_ns=task.opened_ns,
        schema=params["schema"],
        value=params["value"],
    )
    sending = Sending(task, params["to"], delivery, task.attempt)
    if task.attempt >= SHARD_ATTEMPT:
        sending.is_for_each = task.attempt == EACH_ATTEMPT
        sending.shard = 0 if sending.is_for_each else task.attempt - SHARD_ATTEMPT
    return sending


def _key(sending: Sending) -> tuple[str, int | None]:
    return sending.to, sending.shard


def _receipt(target: Hash, answer: Admitted | Duplicate) -> bytes:
    is_duplicate = isinstance(answer, Duplicate)
    return encode({"world": hash_text(target), "seq": answer.seq, "duplicate": is_duplicate})


async def _manifest_of(target: TargetWorld) -> Effective | None:
    """Ask a world for its manifest in force. Raises: AosError: It does not answer."""
    way = target.connect()
    try:
        document = (await way.ask({"op": "manifest"})).get("document")
    finally:
        way.close()
    return None if document is None else Effective.from_document(document)


def sender_of(folder: WorldFolder) -> DeliverySender:
    """The world in ``folder`` as a source of deliveries.

    Raises:
        AosError: Its key, or the record that began it, cannot be read.
    """
    store = folder.open_store(readonly=True)
    try:
        world_key = Source(store).key_of(folder.world)
    finally:
        store.close()
    return DeliverySender(world=folder.world, nonce=world_key.nonce, key=folder.world_key())
