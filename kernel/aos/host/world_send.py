"""``sys/world.send@1``: deliver events to the neighbours of a world (spec/world-send.md, WS-30 to
WS-37).

    task ──▶ queue of its target ──▶ lane of its cell ──▶ request ──▶ answer ──▶ outcome
                                           ▲                 │
                                           └── again later ──┘

One request to a target is on its way at a time, with the first delivery of each lane. A delivery is
sent until the target answers it: its submission id stays the same, so the target admits it once.
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
from aos.host.stamps import now_ns
from aos.manifest.effective import Effective
from aos.manifest.names import WORLD_SEND
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


@dataclass(slots=True, eq=False)
class _Course:
    """The way to one target: its queue, the task that sends, and the connection."""

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
        self._courses: dict[str, _Course] = {}
        self._is_stopping = False

    # The executor

    async def start(self, journal: WorkJournal) -> None:
        """Raises: AosError: The world's key, or the record that began it, cannot be read; or as
        ``DeliveryTargets.open``."""
        sender = await asyncio.to_thread(sender_of, self._folder)
        self._sender = replace(sender, name=self._targets.own_name)
        await self._targets.open()
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
            task, queue = sending.task, self._courses[sending.to].queue
            phase, since_ns, problem = "queued", task.opened_ns, sending.problem or queue.problem
            if sending.is_on_way:
                phase, since_ns = "running", sending.since_ns
            elif problem is not None:
                phase, since_ns = "backoff", max(sending.since_ns, queue.until_ns)
            yield TaskNow(
                task=task, phase=phase, attempt=task.attempt, since_ns=since_ns, problem=problem
            )

    # Courses

    def _add(self, sending: Sending) -> None:
        self._sendings[sending.task.intent] = sending
        course = self._courses.get(sending.to)
        if course is None:
            course = self._courses[sending.to] = _Course(DeliveryQueue(sending.to))
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
                del self._courses[queue.to]

    # Requests and answers

    async def _send(self, course: _Course, sendings: Sequence[Sending]) -> None:
        """Send one request, and settle what it answers. Other deliveries are sent again later."""
        at_ns = self._clock()
        for sending in sendings:
            sending.is_on_way, sending.since_ns = True, at_ns
            sending.started_ns = sending.started_ns or at_ns
        try:
            target = await self._targets.find(course.queue.to)
        except BadUsage as problem:
            for sending in sendings:
                self._fail(course, sending, WORLD_UNKNOWN, str(problem))
            return
        except (AosError, OSError) as problem:
            self._pause(course, sendings, problem)
            return
        try:
            answers = await self._answers(course, target, sendings)
        except (AosError, OSError) as problem:
            self._pause(course, sendings, problem)
            return
        course.queue.tries, course.queue.problem = 0, None
        for sending, answer in zip(sendings, answers, strict=True):
            self._take_answer(course, sending, target.world, answer)

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
            case Admitted(seq=seq) | Duplicate(seq=seq):
                is_duplicate = isinstance(answer, Duplicate)
                receipt = encode(
                    {"world": hash_text(target), "seq": seq, "duplicate": is_duplicate}
                )
                self._settle(course, sending, "ok", receipt)
            case Refusal(rule=Rule.WORLD_IS_BUSY, message=message):
                self._later(course, sending, message)
            case Refusal(rule=Rule.DELIVERY_IS_TOO_OLD, message=message):
                self._fail(course, sending, TOO_OLD, message)
            case Refusal(rule=rule, message=message):
                self._fail(course, sending, EVENT_REFUSED, f"{rule.value}: {message}")

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
            self._fail(self._courses[sending.to], sending, CANCELED, text)

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
            attempt=sending.task.attempt,
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
    return Sending(task, params["to"], delivery)


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
