"""The async client of a running world's socket, for a process that serves many callers (H-53c).

Calls of one turn of the event loop leave together, as one request; while all connections of their
kind carry a request, further calls wait and are joined too. So many callers share a few commits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from aos.boot_clock import boot_ns
from aos.core.decide.answers import Answer
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import (
    STRICT,
    ControlInput,
    EventInput,
    ManifestInput,
)
from aos.core.journal.records import CellId
from aos.errors import AosError, BadUsage, Unavailable
from aos.host.door.following import LiveFigures, ReplicaPlace
from aos.host.door.governance_messages import governance_fields
from aos.host.door.line import Line
from aos.host.door.protocol import (
    MIB,
    RETRY_ITEMS_MAX,
    SEND_ITEMS_MAX,
    SIGNED_FIELDS,
    control_fields,
    event_fields,
    read_answer,
)
from aos.host.door.remote import APPLY_S, SNAPSHOT_S
from aos.host.door.work_messages import WORK_ITEMS_MAX, attempt_fields, read_told
from aos.host.executors.task import Lost, WorkItem
from aos.host.folder.folder import WorldFolder
from aos.message_fields import Message
from aos.message_fields import field as field_of
from aos.values.cbor import Value
from aos.values.digests import Hash
from aos.worker.outcome import Outcome, StreamFrame, frame_fields, outcome_fields

if TYPE_CHECKING:  # it comes with the engine, which a client of a running world does not need
    from aos.host.world.snapshots import MadeSnapshot

SEND_LINES: Final = 4
"""Connections for events. A request waits for its commit; others are decided meanwhile."""

WORK_LINES: Final = 2
"""Connections for each of outcomes, attempts and stream frames."""

REQUEST_BYTES: Final = 4 * MIB
"""A request with so many bytes takes no further call. One call may be larger."""

RECONNECT_S: Final = 0.1
"""Pause before a stream that broke off is made again, in seconds."""

FRESH_S: Final = 60.0
"""Seconds within which the last record of the world is found out, or the reason why not."""

SILENCE_S: Final = 15.0
"""Seconds without a message after which a stream is made again: the world sends one each second."""

CLUSTER_S: Final = 30.0
"""Seconds within which servers are asked about a cluster, or a world is moved."""

CLOSED: Final = "the connection to the world was closed"

T = TypeVar("T")


class Link:
    """A connection of one event loop to the process that runs a world; made when it is needed.

    Every method raises NotSent if no process runs the world (nothing was sent), Unavailable if the
    connection broke before the answer (the request may have been taken), Busy if the world takes
    nothing now, and otherwise the error that the world answered.
    """

    def __init__(self, folder: WorldFolder) -> None:
        self._folder = folder
        self._events: Joined[Answer] = Joined(
            folder, "send", read_answer, items_max=SEND_ITEMS_MAX, lines=SEND_LINES
        )
        self._outcomes: Joined[Answer] = Joined(
            folder, "settle", read_answer, items_max=WORK_ITEMS_MAX, lines=WORK_LINES
        )
        self._attempts: Joined[Answer] = Joined(
            folder, "attempt", read_answer, items_max=WORK_ITEMS_MAX, lines=WORK_LINES
        )
        self._frames: Joined[Answer | Lost] = Joined(
            folder, "tell", read_told, items_max=WORK_ITEMS_MAX, lines=WORK_LINES
        )
        self.is_following = False
        """Whether ``follow`` has a connection now."""
        self._lease_end_ns: int | None = None
        """Of a replicated world: until when tasks may be handed out, by the boot-time clock."""
        self.place: ReplicaPlace | None = None
        """Of a replicated world: the place of this node, as ``follow`` has heard last."""

    def holds_lease(self) -> bool:
        """Whether tasks may be handed out now, as ``follow`` has heard last (CL-89)."""
        return self._lease_end_ns is None or boot_ns() < self._lease_end_ns

    async def send(self, events: Sequence[EventInput], manifest: Hash | None) -> list[Answer]:
        """Send events that were encoded by the schemas of ``manifest``; return their answers once
        all are durable or refused. At most 1,024.

        Raises:
            ManifestChanged: Another manifest is in force. Nothing was admitted.
        """
        size = sum(len(event.value) + len(event.schema) for event in events)
        extra_fields: dict[str, Value] = {} if manifest is None else {"manifest": manifest}
        return await self._events.ask([event_fields(event) for event in events], size, extra_fields)

    async def answer(self, item: WorkItem, *, term: int | None = None) -> Answer | Lost:
        """Submit an item of an executor; return its answer once it is durable, refused or lost. An
        outcome or a stream frame without a signature is signed as ``node``. With ``term``, the
        process takes it in this term alone (CL-211)."""
        extra_fields: dict[str, Value] = {} if term is None else {"term": term}
        match item:
            case Outcome():
                size = len(item.payload) + sum(map(len, item.blobs.values()))
                [answer] = await self._outcomes.ask([outcome_fields(item)], size, extra_fields)
                return answer
            case StreamFrame():
                [frame_answer] = await self._frames.ask(
                    [frame_fields(item)], item.size, extra_fields
                )
                return frame_answer
        [answer] = await self._attempts.ask(
            [attempt_fields(item)], len(item.problem or ""), extra_fields
        )
        return answer

    async def control(self, control: ControlInput) -> Answer:
        """Submit a signed command of an operator."""
        answer = await self._ask({"op": "control", **control_fields(control)})
        return read_answer(answer.get("answer"))

    async def apply(self, manifest_input: ManifestInput, modules: Mapping[Hash, bytes]) -> Answer:
        """Submit a signed manifest with its new modules. A dry run is the caller's."""
        fields: dict[str, Value] = {
            "document": manifest_input.document,
            "principal": manifest_input.principal,
            "serial": manifest_input.serial,
            "signature": manifest_input.signature,
            "mode": manifest_input.mode,
            "leaves": list(manifest_input.leaves),
            **_proposal(manifest_input.proposal),
        }
        return await self._apply(fields, modules)

    async def _apply(self, fields: Mapping[str, Value], modules: Mapping[Hash, bytes]) -> Answer:
        with Line(self._folder) as line:
            for wasm in modules.values():
                await line.ask({"op": "module", "wasm": wasm})
            answer = await line.ask({"op": "apply", **fields}, answer_s=APPLY_S)
        return read_answer(answer.get("answer"))

    async def operate(
        self,
        action: str,
        *,
        cell: CellId | None = None,
        intent: Hash | None = None,
        value: Hash | None = None,
        status: str | None = None,
        payload: bytes | None = None,
        reason: str | None = None,
        controls: int | None = None,
    ) -> Answer:
        """Submit a command that the process signs with its operator's key (H-59f). With
        ``controls`` it is refused unless the journal has so many control records.

        Raises:
            BadUsage: The process has no such key.
        """
        control = ControlInput(
            action=action, principal="", serial=0, signature=b"", cell=cell, intent=intent,
            value=value, status=status, payload=payload, why=reason,
        )  # fmt: skip
        request = {"op": "control", **_unsigned(control_fields(control))}
        answer = await self._ask(request if controls is None else {**request, "controls": controls})
        return read_answer(answer.get("answer"))

    async def apply_here(
        self,
        document: bytes,
        modules: Mapping[Hash, bytes],
        *,
        mode: str = STRICT,
        leaves: Sequence[str] = (),
        proposal: int | None = None,
    ) -> Answer:
        """Submit a manifest that the process signs with its operator's key. Raises as
        ``operate``."""
        fields: dict[str, Value] = {"document": document, "mode": mode, "leaves": list(leaves)}
        return await self._apply({**fields, **_proposal(proposal)}, modules)

    async def govern(
        self, governance_input: GovernanceInput, modules: Mapping[Hash, bytes]
    ) -> Answer:
        """Submit a signed proposal with its new modules, or a report, vote or withdrawal."""
        return await self._govern(governance_fields(governance_input), modules)

    async def govern_here(
        self, governance_input: GovernanceInput, modules: Mapping[Hash, bytes]
    ) -> Answer:
        """Submit a proposal, report or withdrawal that the process signs with its operator's key;
        principal, serial and signature of ``governance_input`` are not sent. Raises as ``operate``.
        """
        return await self._govern(_unsigned(governance_fields(governance_input)), modules)

    async def _govern(self, fields: Mapping[str, Value], modules: Mapping[Hash, bytes]) -> Answer:
        with Line(self._folder) as line:
            for wasm in modules.values():
                await line.ask({"op": "module", "wasm": wasm})
            answer = await line.ask({"op": "governance", **fields}, answer_s=APPLY_S)
        return read_answer(answer.get("answer"))

    async def snapshot(self) -> MadeSnapshot:
        """Make a snapshot of everything that is durable now."""
        from aos.host.world.snapshots import MadeSnapshot  # noqa: PLC0415  # see above

        return MadeSnapshot.from_message(await self._ask({"op": "snapshot"}, answer_s=SNAPSHOT_S))

    async def fresh(self) -> int:
        """Return the last record that the world had acknowledged when this was called (CL-203). The
        store of this folder may get it later."""
        head: int = field_of(await self._ask({"op": "fresh"}, answer_s=FRESH_S), "head", int)
        return head

    async def ask_owner_front(self, request: bytes, *, is_repeatable: bool) -> bytes:
        """Have the front of the node that owns the world answer an HTTP request, and return its
        whole answer (CL-210). One that ``is_repeatable`` may be sent to two owners."""
        fields: dict[str, Value] = {"op": "http", "request": request, "repeats": is_repeatable}
        reply: bytes = field_of(await self._ask(fields), "reply", bytes)
        return reply

    async def status(self) -> Message:
        """Return the figures of the world, as ``status`` on the socket answers them."""
        return await self._ask({"op": "status"})

    async def cluster(self, op: str, **fields: Value) -> Message:
        """Ask the process of a node of a replicated world about its cluster: one of ``CLUSTER_OPS``
        (CL-320)."""
        return await self._ask({"op": op, **fields}, answer_s=CLUSTER_S)

    async def work(self) -> Message:
        """Return the effects that the process runs, and its tasks, as ``work`` answers them."""
        return await self._ask({"op": "work"})

    async def retry(self, intents: Sequence[Hash]) -> list[Hash]:
        """Run held and parked effects of the process again; return those that run (H-59e)."""
        runs: list[Hash] = []
        for at in range(0, len(intents), RETRY_ITEMS_MAX):
            some: list[Value] = list(intents[at : at + RETRY_ITEMS_MAX])
            answer = await self._ask({"op": "retry", "intents": some})
            runs += field_of(answer, "runs", list)
        return runs

    async def _ask(self, fields: Mapping[str, Value], **options: Any) -> Message:
        with Line(self._folder) as line:
            return await line.ask(fields, **options)

    async def follow(
        self,
        on_head: Callable[[int, LiveFigures], None],
        on_stopping: Callable[[], None] = lambda: None,
        on_place: Callable[[ReplicaPlace], None] = lambda _: None,
    ) -> None:
        """Call ``on_head`` whenever the durable head may have moved, until the caller cancels this.

        While the process is away, a new connection is tried ten times a second. ``on_stopping`` is
        called when the process announces that it ends; heads still follow. ``on_place`` gets the
        place of a node, before anything else that comes with it.
        """
        while True:
            try:
                await self._follow(on_head, on_stopping, on_place)
            except (Unavailable, BadUsage):
                pass  # it went away, or is of another release and is being replaced
            finally:
                self.is_following = False
            await asyncio.sleep(RECONNECT_S)

    async def _follow(
        self,
        on_head: Callable[[int, LiveFigures], None],
        on_stopping: Callable[[], None],
        on_place: Callable[[ReplicaPlace], None],
    ) -> None:
        is_stopping = False
        figures: LiveFigures | None = None
        with Line(self._folder) as line:
            async for message in line.messages({"op": "follow"}, silence_s=SILENCE_S):
                if message.get("world", self._folder.world) != self._folder.world:
                    raise Unavailable(f"{self._folder.socket}: it belongs to another world")
                if "figures" in message or figures is None:
                    figures = LiveFigures.from_message(field_of(message, "figures", dict))
                self.is_following = True
                if "place" in message:
                    self.place = ReplicaPlace.from_message(field_of(message, "place", dict))
                    if self.place.term is None:
                        self._lease_end_ns = 0  # tasks are those of another node
                    on_place(self.place)
                if "lease_end_ns" in message:
                    self._lease_end_ns = field_of(message, "lease_end_ns", int)
                on_head(field_of(message, "head", int), figures)
                if message.get("stopping") is True and not is_stopping:
                    is_stopping = True
                    on_stopping()

    async def close(self) -> None:
        """Close all connections. Calls that wait for an answer raise Unavailable."""
        for joined in (self._events, self._outcomes, self._attempts, self._frames):
            await joined.close()


class TermLink:
    """The way of one term's work to the process that runs the world. The process refuses it after
    the term: another node may have given out the same tasks by then (CL-211). ``term`` is None for
    an embedded world."""

    def __init__(self, link: Link, term: int | None) -> None:
        self._link = link
        self._term = term

    async def answer(self, item: WorkItem) -> Answer | Lost:
        """As ``Link.answer``."""
        return await self._link.answer(item, term=self._term)

    async def work(self) -> Message:
        """As ``Link.work``."""
        return await self._link.work()

    async def retry(self, intents: Sequence[Hash]) -> list[Hash]:
        """As ``Link.retry``."""
        return await self._link.retry(intents)


def _unsigned(fields: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in fields.items() if name not in SIGNED_FIELDS}


@dataclass(slots=True, eq=False)
class _Call(Generic[T]):
    """Items of one caller. ``extra_fields`` are fields of the request, equal for all its calls."""

    items: list[Value]
    size: int
    extra_fields: Mapping[str, Value]
    answers: asyncio.Future[list[T]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


def _fail(calls: Iterable[_Call[T]], problem: BaseException) -> None:
    for call in calls:
        if not call.answers.done():
            call.answers.set_exception(problem)


class Joined(Generic[T]):
    """Joins calls of one operation into requests over a few connections.

    A request has whole calls in the order in which they were made, up to ``items_max`` items. The
    answer of the world has ``answers``, one for each item, which ``read`` decodes.
    """

    def __init__(
        self,
        folder: WorldFolder,
        op: str,
        read: Callable[[object], T],
        *,
        items_max: int,
        lines: int,
    ) -> None:
        self._op = op
        self._read = read
        self._items_max = items_max
        self._calls: deque[_Call[T]] = deque()
        self._idle = [Line(folder) for _ in range(lines)]
        self._requests: set[asyncio.Task[None]] = set()
        self._is_planned = False

    async def ask(
        self, items: Sequence[Value], size: int, extra_fields: Mapping[str, Value] | None = None
    ) -> list[T]:
        """Return the answers to ``items``, which take about ``size`` bytes. Raises as ``Line``.

        A caller that is canceled takes nothing back: its items may be on their way.
        """
        if not items:
            return []
        assert len(items) <= self._items_max, "more items than a request may have"
        call = _Call[T](list(items), size, extra_fields or {})
        self._calls.append(call)
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._flush)
        return await call.answers

    def _flush(self) -> None:
        self._is_planned = False
        while self._calls and self._idle:
            line, calls = self._idle.pop(), self._next()
            task = asyncio.get_running_loop().create_task(self._request(line, calls))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    def _next(self) -> list[_Call[T]]:
        """Take the calls of the next request."""
        calls = [self._calls.popleft()]
        count, size = len(calls[0].items), calls[0].size
        while self._calls:
            call = self._calls[0]
            count, size = count + len(call.items), size + call.size
            if (
                count > self._items_max
                or size > REQUEST_BYTES
                or call.extra_fields != calls[0].extra_fields
            ):
                break
            calls.append(self._calls.popleft())
        return calls

    async def _request(self, line: Line, calls: Sequence[_Call[T]]) -> None:
        items = [item for call in calls for item in call.items]
        try:
            answer = await line.ask({"op": self._op, "items": items, **calls[0].extra_fields})
            answers = [self._read(encoded) for encoded in field_of(answer, "answers", list)]
            if len(answers) != len(items):
                raise BadUsage(f"answers: expected {len(items)}, found {len(answers)}")
        except BaseException as problem:
            is_told = isinstance(problem, AosError)
            _fail(calls, problem if is_told else Unavailable(CLOSED))
            if not is_told:
                raise
        else:
            remaining = iter(answers)
            for call in calls:
                call_answers = [next(remaining) for _ in call.items]
                if not call.answers.done():
                    call.answers.set_result(call_answers)
        finally:
            self._idle.append(line)
            self._flush()

    async def close(self) -> None:
        """Close the connections. Calls without an answer raise Unavailable."""
        waiting, self._calls = self._calls, deque()
        _fail(waiting, Unavailable(CLOSED))
        for task in tuple(self._requests):
            task.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        for line in self._idle:
            line.close()


def _proposal(proposal: int | None) -> dict[str, Value]:
    return {} if proposal is None else {"proposal": proposal}
