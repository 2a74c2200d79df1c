"""Workers over a wire and over functions that do everything when a schedule says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from aos.errors import Unavailable
from aos.node.bodies import ClientGoneError
from aos.node.calls import Delivery
from aos.node.leases.work import LeasedWork
from aos.node.problems import Problem
from aos.node.worker.node_requests import plain
from aos.worker.calls import Callee, CallEnd, FunctionCall
from aos.worker.failure import EffectFailed
from aos.worker.lease_check import LeaseInDoubt
from tests.node.leases.stage import Connection, Token
from tests.node.schedules import scheduled_loop
from tests.node.worker.wire import BODIES, decoded


@dataclass(eq=False)
class WireRequest:
    """A request that has reached the front."""

    connection: Connection
    answering: asyncio.Task[Any]
    is_read: bool = False


@dataclass
class ScheduledWire(httpx.AsyncBaseTransport):
    """Requests and answers are on their way until the schedule says so; both can be lost."""

    work: Callable[[], LeasedWork]
    rng: Random
    requests: list[WireRequest] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.rpartition("/")[2]
        body = decoded(BODIES[name], json.loads(await request.aread()))
        await self._on_the_way(request)
        sent = self._arrived(name, body)
        if name != "claim" and self.rng.random() < 0.1:
            self._arrived(name, body)  # another device on the way has sent it twice
        try:
            answer = await asyncio.shield(sent.answering)
            await self._on_the_way(request)
        except Problem as problem:
            return httpx.Response(problem.status, json=problem.document())
        except ClientGoneError as problem:
            raise httpx.ReadError("reset", request=request) from problem
        except asyncio.CancelledError as error:
            if sent.answering.cancelled():
                raise httpx.ReadError("the front is gone", request=request) from error
            sent.connection.is_closed = self.rng.random() < 0.7
            raise
        except httpx.ReadError:
            sent.connection.is_closed = self.rng.random() < 0.7
            raise
        sent.is_read = True
        return httpx.Response(200, content=json.dumps(plain(answer)).encode())

    async def _on_the_way(self, request: httpx.Request) -> None:
        try:
            await scheduled_loop().later(lambda: None)
        except Unavailable as problem:
            raise httpx.ReadError("lost", request=request) from problem

    def _arrived(self, name: str, body: Any) -> WireRequest:
        connection = Connection()
        work = self.work()
        answer = (
            work.claim(body, Token(), connection)
            if name == "claim"
            else getattr(work, name)(body, Token())
        )
        sent = WireRequest(connection, asyncio.ensure_future(answer))
        self.requests.append(sent)
        return sent

    def close_arrives(self) -> None:
        """The front reads the end of a connection, or sees how its answer was delivered."""
        closed = [sent for sent in self.requests if sent.connection.is_closed]
        if closed:
            sent = self.rng.choice(closed)
            self.requests.remove(sent)
            if not sent.answering.done():
                sent.answering.cancel()
            else:
                sent.connection.ends(Delivery.READ if sent.is_read else Delivery.UNREAD)

    def cut(self) -> None:
        """The front is killed: no request is answered any more."""
        for sent in self.requests:
            sent.answering.cancel()
        self.requests.clear()


class ScheduledCall(FunctionCall):
    """A call of a plain function: it begins and ends when the schedule says so."""

    def __init__(self, callee: Callee, params: object, ctx: Any) -> None:
        super().__init__()
        self.callee = callee
        self.params = params
        self.ctx = ctx
        self.is_canceled = False

    def cancel(self) -> None:
        self.is_canceled = True

    @property
    def cancel_arrived(self) -> bool:
        return True

    def begin(self) -> bool:
        """Begin the function, if its lease is certain."""
        try:
            self.callee.function(self.params, self.ctx)
        except LeaseInDoubt as doubt:
            self._set(CallEnd(error=doubt))
            return False
        return True

    def end(self, value: object | EffectFailed) -> None:
        if isinstance(value, EffectFailed):
            self._set(CallEnd(error=value))
        else:
            self._set(CallEnd(value))


@dataclass
class ScheduledCallers:
    """The threads of the functions of one worker."""

    waiting: list[ScheduledCall] = field(default_factory=list)
    running: list[ScheduledCall] = field(default_factory=list)

    async def start(self, setup: object) -> None:
        assert setup is None

    def begin(self, callee: Callee, params: object, ctx: object) -> ScheduledCall:
        call = ScheduledCall(callee, params, ctx)
        self.waiting.append(call)
        return call

    async def stop(self, seconds: float) -> None:
        """Nothing runs on a thread."""

    def close(self) -> None:
        """Nothing is open."""
