"""Serve the requests that reach the owner of a world over the bus (spec/cluster.md, CL-120 to
CL-123).

    sender ──put──▶ pieces ──all are there──▶ answer(request) ──reply──▶ pieces ──put, get──▶ sender

Each message of a sender is answered. The last ``put`` of a request waits a moment for the reply, so
a short request with a short reply is one message with its answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aos.errors import AosError, Unavailable
from aos.host.cluster.bus_message import (
    FIELDS_BYTES,
    MORE,
    PIECE_BYTES_MAX,
    UNKNOWN_REQUEST,
    WAIT,
    WHOLE_BYTES_MAX,
    Assembly,
    BusAnswer,
    Full,
    Get,
    Piece,
    Put,
    ReplyPiece,
    pieces_of,
    read_question,
)
from aos.host.cluster.bus_scope import answer_of_clients, answer_of_nodes
from aos.host.door.protocol import MIB, error_fields, pack
from aos.store.log.messaging import Messaging, TakeMessage
from aos.store.log.nats_connection import NatsConnection
from aos.values.digests import Hash

Answer: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Takes what a client would write to a connection, and returns what it would read (CL-122)."""

HOLD_S: Final = 0.5
"""Seconds that the answer to a message waits for the reply."""

FINISH_S: Final = 2.0

_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class BusLimits:
    """Bounds on memory and time. ``requests_max`` and ``bytes_max`` are for requests that have no
    reply yet; ``replies_max`` and ``reply_bytes_max`` for replies, of which the oldest are
    forgotten. A request without a new piece for ``silence_s`` seconds is given up. A reply is kept
    for ``keep_s`` seconds, for askers whose answer was lost. Once nothing new is taken, requests
    under way may take ``finish_s`` seconds."""

    requests_max: int = 256
    bytes_max: int = 256 * MIB
    replies_max: int = 16_384
    reply_bytes_max: int = 64 * MIB
    silence_s: float = 10.0
    keep_s: float = 60.0
    hold_s: float = HOLD_S
    finish_s: float = FINISH_S


@dataclass(slots=True, eq=False)
class _Served:
    """A request: first its pieces, then the task that answers it, then the pieces of its reply,
    of which ``sent`` were told. ``since_s`` is when it last changed."""

    assembly: Assembly
    since_s: float
    cost: int = 0
    task: asyncio.Task[None] | None = None
    reply: list[Piece] | None = None
    sent: set[int] = field(default_factory=set)


class BusServer:
    """Joins the pieces of requests, and gives the pieces of their replies. Used in one event loop.

    ``piece_bytes`` is how long a piece of a reply may be. ``answer`` raises AosError at most; any
    other exception is reported, and its request gets ``Unavailable``.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        piece_bytes: Callable[[], Awaitable[int]],
        limits: BusLimits = BusLimits(),
        report: Callable[[str], None] = lambda _: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._answer = answer
        self._piece_bytes = piece_bytes
        self._limits = limits
        self._report = report
        self._now_s = now_s
        self._open: dict[bytes, _Served] = {}
        """Requests without a reply, the one that came first before the others."""
        self._replied: dict[bytes, _Served] = {}
        """Requests with a reply, the oldest first."""
        self._open_cost = self._reply_cost = 0
        self._calls = 0
        self._is_closed = False

    async def take(self, data: bytes) -> bytes | None:
        """Answer one message of an asker; None if it makes no sense."""
        question = read_question(data)
        self._calls += 1
        try:
            match question:
                case Put():
                    return (await self._put(question)).to_bytes()
                case Get(request=request, index=index):
                    served = self._open.get(request) or self._replied.get(request)
                    answer = UNKNOWN_REQUEST if served is None else await self._told(served, index)
                    return answer.to_bytes()
            return None
        finally:
            self._calls -= 1

    async def finish(self) -> None:
        """Take no new request. Wait until those under way are answered and their replies sent, but
        no longer than ``finish_s``."""
        self._is_closed = True
        since_s = self._now_s()
        while self._now_s() < since_s + self._limits.finish_s and self._is_busy(since_s):  # noqa: ASYNC110  # many things end it
            await asyncio.sleep(_LOOK_S)
        for served in (*self._open.values(), *self._replied.values()):
            if served.task is not None:
                served.task.cancel()

    def _is_busy(self, since_s: float) -> bool:
        return (
            self._calls > 0
            or any(served.task is not None for served in self._open.values())
            or any(
                served.reply is not None and len(served.sent) < len(served.reply)
                for served in self._replied.values()
                if served.since_s >= since_s - HOLD_S
            )
        )

    async def _put(self, put: Put) -> BusAnswer:
        piece = put.piece
        served = self._open.get(put.request) or self._replied.get(put.request)
        if served is None:
            if self._is_closed:
                return UNKNOWN_REQUEST
            self._give_up_silent()
            if len(self._open) >= self._limits.requests_max:
                return _full(f"{len(self._open)} requests are under way")
            served = _Served(Assembly(piece.shape), self._now_s())
        if served.assembly.shape != piece.shape:
            return UNKNOWN_REQUEST  # a piece of another request
        if served.task is None and served.reply is None and served.assembly.lacks(piece.index):
            if self._open_cost + piece.cost > self._limits.bytes_max:
                return _full("the requests under way take too much memory")
            self._open[put.request] = served
            self._add(served, piece)
            if not served.assembly.is_complete:
                return MORE
            message = served.assembly.whole()
            if message is None:
                self._drop(put.request)
                return UNKNOWN_REQUEST
            served.assembly = Assembly(piece.shape)
            served.task = asyncio.get_running_loop().create_task(self._run(put.request, message))
        return await self._told(served, 0)

    def _add(self, served: _Served, piece: Piece) -> None:
        served.assembly.add(piece)
        served.since_s = self._now_s()
        served.cost += piece.cost
        self._open_cost += piece.cost

    async def _told(self, served: _Served, index: int) -> BusAnswer:
        """The answer about a request: its reply, if that is there soon."""
        if served.task is None and served.reply is None:
            return MORE
        if served.reply is None and served.task is not None:
            await asyncio.wait({served.task}, timeout=self._limits.hold_s)
        if served.reply is None:
            return WAIT
        if index >= len(served.reply):
            return UNKNOWN_REQUEST
        served.sent.add(index)
        return ReplyPiece(served.reply[index])

    async def _run(self, request: bytes, message: bytes) -> None:
        """Answer a request, and keep its reply."""
        served = self._open[request]
        try:
            reply = await self._answer(message)
        except AosError as problem:
            reply = pack(error_fields(problem))
        except Exception as problem:  # noqa: BLE001  # any bug: the asker must not wait for it
            self._report(f"a request over the bus met a bug: {problem!r}")
            reply = pack(error_fields(Unavailable("the owner met a bug: see its log")))
        if len(reply) > WHOLE_BYTES_MAX:
            reply = pack(error_fields(Unavailable("the answer is too large for the bus")))
        served.reply = pieces_of(reply, await self._piece_bytes())
        self._drop(request)
        served.cost, served.since_s = sum(piece.cost for piece in served.reply), self._now_s()
        self._replied[request] = served
        self._reply_cost += served.cost
        self._forget_old(request)

    def _drop(self, request: bytes) -> None:
        self._open_cost -= self._open.pop(request).cost

    def _give_up_silent(self) -> None:
        """Give up requests whose pieces do not come any more."""
        since_s = self._now_s() - self._limits.silence_s
        silent = [
            request
            for request, served in self._open.items()
            if served.task is None and served.since_s < since_s
        ]
        for request in silent:
            self._drop(request)

    def _forget_old(self, newest: bytes) -> None:
        """Forget the oldest replies that are over a limit, but not the newest one."""
        limits, since_s = self._limits, self._now_s() - self._limits.keep_s
        for request, served in list(self._replied.items()):
            is_over = (
                len(self._replied) > limits.replies_max or self._reply_cost > limits.reply_bytes_max
            )
            if request == newest or not (is_over or served.since_s < since_s):
                return
            self._reply_cost -= self._replied.pop(request).cost


def _full(reason: str) -> Full:
    return Full(f"the owner takes no further request now: {reason} (try again in a moment)")


def inbox_of(world: Hash, instance: bytes) -> str:
    """The subject at which a process of a node takes requests while it owns the world (CL-70)."""
    return f"aos.inbox.{world.hex()[:16]}.{instance.hex()}"


def node_subject(inbox: str) -> str:
    """Where nodes of the world ask."""
    return f"{inbox}.node"


def client_subject(inbox: str) -> str:
    """Where others ask."""
    return f"{inbox}.client"


async def piece_bytes(messaging: Messaging) -> int:
    """How long a piece may be for the server in use. Raises Unavailable."""
    return max(1, min(PIECE_BYTES_MAX, await messaging.message_bytes_max() - FIELDS_BYTES))


@asynccontextmanager
async def listening(
    messaging: Messaging,
    inbox: str,
    answer: Answer,
    *,
    limits: BusLimits = BusLimits(),
    report: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[None]:
    """Serve ``inbox`` inside the block, in the loop of ``messaging``. At its end, requests under
    way are answered first."""
    cut_at = PIECE_BYTES_MAX

    async def reply_piece_bytes() -> int:
        """That of the server in use, or, while none can be reached, the last one."""
        nonlocal cut_at
        try:
            cut_at = await piece_bytes(messaging)
        except AosError as problem:
            report(str(problem))
        return cut_at

    servers: dict[str, BusServer] = {
        subject: BusServer(
            scoped_answer, piece_bytes=reply_piece_bytes, limits=limits, report=report
        )
        for subject, scoped_answer in (
            (node_subject(inbox), answer_of_nodes(answer)),
            (client_subject(inbox), answer_of_clients(answer)),
        )
    }
    takes: dict[str, TakeMessage] = {subject: server.take for subject, server in servers.items()}
    async with messaging.listen(takes):
        try:
            yield
        finally:
            await asyncio.gather(*(server.finish() for server in servers.values()))


@asynccontextmanager
async def serve_bus(
    connection: NatsConnection,
    inbox: str,
    answer: Answer,
    *,
    limits: BusLimits = BusLimits(),
    report: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[None]:
    """Serve ``inbox`` over NATS inside the block. ``answer`` runs in the loop of the caller.

    ``connection`` stays with the caller, and is best one of its own: a message of its own
    without an answer would end it. ``report`` is called in the thread of the connection.
    """
    from aos.store.log.nats_messaging import NatsMessaging  # noqa: PLC0415  # see its connection

    here = asyncio.get_running_loop()

    async def answer_here(request: bytes) -> bytes:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_called(request), here))

    async def _called(request: bytes) -> bytes:
        return await answer(request)

    async def run(ready: asyncio.Future[None], over: asyncio.Event) -> None:
        messaging = NatsMessaging(connection, report=report)
        async with listening(messaging, inbox, answer_here, limits=limits, report=report):
            here.call_soon_threadsafe(ready.set_result, None)
            await over.wait()

    ready: asyncio.Future[None] = here.create_future()
    over = asyncio.Event()
    serving = asyncio.wrap_future(connection.start(run(ready, over)))
    await asyncio.wait({ready, serving}, return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        serving.result()
    try:
        yield
    finally:
        connection.start(_set(over))
        await asyncio.wait({serving})
        if not serving.cancelled():
            serving.result()  # a bug


async def _set(event: asyncio.Event) -> None:
    event.set()
