"""Messages with an answer over NATS, as ``Messaging`` (spec/cluster.md, CL-120).

A sender whose server does not answer uses the next server of the address. A listener makes its
subscriptions again on each new connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aos.errors import AosError
from aos.store.log.messaging import NoAnswer, NoListener, TakeMessage
from aos.store.log.nats_connection import NO_RESPONDERS, NatsConnection
from aos.store.log.nats_errors import Unanswered

if TYPE_CHECKING:
    from aos.store.log.nats_session import NatsMessage, NatsSession

HEADER_BYTES: Final = 8192
"""Room that a message leaves for its headers (CL-17)."""

ASK_SECONDS: Final = 2.0
"""How long the answer to a message is waited for. Listeners hold an answer for less."""

LISTEN_AGAIN_SECONDS: Final = 0.25
"""Pause before a listener connects again."""

CALLS_MAX: Final = 4096
"""Messages that are answered at the same time. A listener drops others; their senders repeat
them."""


class NatsMessaging:
    """Messages over ``connection``, which stays with the caller. Runs in the loop of the
    connection: see ``NatsConnection.start``. ``report`` gets a line when the servers refuse a
    listener."""

    def __init__(
        self, connection: NatsConnection, *, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self._connection = connection
        self._report = report
        self._reported: str | None = None

    async def message_bytes_max(self) -> int:
        """As ``Messaging.message_bytes_max``."""
        session = await self._connection.session()
        return session.payload_bytes_max - HEADER_BYTES

    async def ask(self, subject: str, data: bytes) -> bytes:
        """As ``Messaging.ask``."""
        try:
            session = await self._connection.session()
        except Unanswered as problem:
            raise NoListener(str(problem)) from problem
        try:
            answer = await session.send(subject, data)
            message = await asyncio.wait_for(answer, ASK_SECONDS)
        except TimeoutError:
            # The server may be the one that is silent.
            await self._connection.drop(session)
            raise NoAnswer(f"no answer within {ASK_SECONDS:g} s", location=subject) from None
        except Unanswered as problem:
            raise NoAnswer(str(problem), location=subject) from problem
        if message.status == NO_RESPONDERS:
            raise NoListener("no program listens there", location=subject)
        return message.data

    @asynccontextmanager
    async def listen(self, subjects: Mapping[str, TakeMessage]) -> AsyncIterator[None]:
        """As ``Messaging.listen``. The block begins once the subscriptions are there, or the
        servers could not be reached; then they are made later."""
        is_ready = asyncio.Event()
        keeping = asyncio.get_running_loop().create_task(self._keep(subjects, is_ready))
        keeping.add_done_callback(lambda _: is_ready.set())
        try:
            await is_ready.wait()
            yield
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})
            if not keeping.cancelled():
                keeping.result()  # a bug

    async def _keep(self, subjects: Mapping[str, TakeMessage], is_ready: asyncio.Event) -> None:
        """Keep the subscriptions, on one connection after the other."""
        while True:
            try:
                session = await self._connection.session()
                async with _subscribed(session, subjects, self._say):
                    is_ready.set()
                    await session.ended.wait()
            except AosError as problem:
                self._say(str(problem))
                is_ready.set()
            await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    def _say(self, problem: str) -> None:
        if problem != self._reported:
            self._reported = problem
            self._report(problem)


@asynccontextmanager
async def _subscribed(
    session: NatsSession, subjects: Mapping[str, TakeMessage], report: Callable[[str], None]
) -> AsyncIterator[None]:
    """Subscribe on one connection. Answers that are not there at the end are given up."""
    calls: set[asyncio.Task[None]] = set()
    try:
        for subject, take in subjects.items():
            await session.subscribe(subject, _on_message(session, take, calls), report)
        yield
    finally:
        for subject in subjects:
            await session.unsubscribe(subject)
        for call in calls:
            call.cancel()


def _on_message(
    session: NatsSession, take: TakeMessage, calls: set[asyncio.Task[None]]
) -> Callable[[NatsMessage], None]:
    async def answer(message: NatsMessage) -> None:
        reply = await take(message.data)
        if reply is not None:
            with contextlib.suppress(AosError):  # its sender asks again
                await session.publish(message.reply, reply, "")

    def take_message(message: NatsMessage) -> None:
        if message.reply and len(calls) < CALLS_MAX:
            call = asyncio.get_running_loop().create_task(answer(message))
            calls.add(call)
            call.add_done_callback(calls.discard)

    return take_message
