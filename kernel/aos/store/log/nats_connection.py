"""A connection to a group of NATS servers, for code without an event loop, and the requests of
JetStream (spec/cluster.md, CL-6 to CL-10).

    caller's thread ──run──▶ thread with an event loop ──session──▶ one server of the list
                                                          │ no answer
                                                          └──▶ the next server

A request that is not answered within a second is given up, and the next one asks another server.
Whether the first one was carried out is not known.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aos.closable import Closable
from aos.errors import BadUsage, Refused
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_errors import (
    NO_JETSTREAM,
    JetStreamError,
    NoResponder,
    Unanswered,
    read_answer,
)

if TYPE_CHECKING:
    from aos.store.log.nats_session import NatsMessage, NatsSession

API: Final = "$JS.API"

END_SECONDS: Final = 0.5
"""How long the tasks of a connection have to end."""

ANSWER_SECONDS: Final = 1.0
"""How long an answer is waited for."""

NO_RESPONDERS: Final = "503"
"""The status of a request that no program answers."""

_Value = TypeVar("_Value")


def check_client(location: str) -> None:
    """Check that the client of NATS is installed (CL-4).

    Raises:
        BadUsage: It is not; ``location`` is what needs it.
    """
    try:
        # Half a second, and a package of an extra: only replicated worlds need it.
        import aos.store.log.nats_session  # noqa: F401, PLC0415
    except ImportError as problem:
        raise BadUsage(
            f"the client of NATS is not installed: {problem}",
            location=location,
            hint="pip install 'aos-kernel[cluster]'",
        ) from None


class NatsConnection(Closable):
    """Requests to the servers of an address. Methods may be called from any thread.

    ``answer_seconds`` is how long an answer is waited for.
    """

    def __init__(
        self,
        address: NatsAddress,
        access: NatsAccess | None = None,
        *,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Start the thread; nothing is connected yet.

        Raises:
            BadUsage: The client of NATS is not installed.
        """
        check_client(address.text)
        self.address = address
        self.answer_seconds = answer_seconds
        self._access = access or NatsAccess()
        self._session: NatsSession | None = None
        self._next = 0
        self._has_jetstream = False
        self._opening: asyncio.Lock | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._thread.start()

    def run(self, job: Coroutine[Any, Any, _Value]) -> _Value:
        """Run a coroutine in the loop of this connection, and return its result.

        Raises whatever the coroutine raises.
        """
        future = asyncio.run_coroutine_threadsafe(job, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, job: Coroutine[Any, Any, _Value]) -> Future[_Value]:
        """Start a coroutine in the loop of this connection. Its end cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(job, self._loop)

    def close(self) -> None:
        """End the connection and its thread."""
        if self._loop.is_closed():
            return
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def session(self) -> NatsSession:
        """Return the session, or open one with the next server that can be reached.

        Raises:
            Unanswered: None of them can.
            Refused: A server refuses this client, or must not be used (CL-7); or no server has
                JetStream.
        """
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._session is not None and not self._session.is_open:
                await self.drop(self._session)
            if self._session is None:
                self._session = await self._next_session()
            if not self._has_jetstream:
                await self._check_jetstream(self._session)
            return self._session

    async def api(self, name: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask JetStream, and return its answer.

        Args:
            name: The request, such as ``STREAM.INFO.NAME``.
            document: Its arguments.

        Raises:
            Unanswered: No answer came. The next request asks another server.
            JetStreamError: JetStream refuses.
            Refused: As ``session``.
        """
        session = await self.session()
        return await self._request(session, f"{API}.{name}", document)

    async def answered(
        self, session: NatsSession, answer: asyncio.Future[NatsMessage]
    ) -> NatsMessage:
        """Wait for the answer to a message that ``session`` sent. Raises Unanswered."""
        try:
            message = await asyncio.wait_for(answer, self.answer_seconds)
        except TimeoutError:
            await self.drop(session)
            raise Unanswered(
                f"no answer within {self.answer_seconds:g} s", location=session.server
            ) from None
        if message.status == NO_RESPONDERS:
            await self.drop(session)
            raise NoResponder("nothing answers such requests now", location=session.server)
        return message

    async def drop(self, session: NatsSession) -> None:
        """End a session that does not answer; the next one is with another server."""
        if self._session is session:
            self._session = None
            self._next += 1
        await session.close()

    async def _next_session(self) -> NatsSession:
        from aos.store.log.nats_session import NatsSession  # noqa: PLC0415

        servers = self.address.servers
        reasons = []
        for index in range(self._next, self._next + len(servers)):
            server = servers[index % len(servers)]
            self._next = index
            try:
                return await NatsSession.open(
                    server,
                    is_tls=self.address.is_tls,
                    access=self._access,
                    seconds=self.answer_seconds,
                )
            except Unanswered as problem:
                reasons.append(str(problem))
        raise Unanswered(f"no server can be reached: {'; '.join(reasons)}")

    async def _check_jetstream(self, session: NatsSession) -> None:
        try:
            await self._request(session, f"{API}.INFO", None)
        except (JetStreamError, NoResponder) as problem:
            if isinstance(problem, JetStreamError) and problem.code not in NO_JETSTREAM:
                raise Unanswered(str(problem), location=session.server) from None
            raise Refused(
                "JetStream is not enabled",
                location=session.server,
                hint="add a block jetstream to the configuration of each server, and enable it for "
                "the account (rule CL-10)",
            ) from None
        self._has_jetstream = True

    async def _request(
        self, session: NatsSession, subject: str, document: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        data = b"" if document is None else json.dumps(document).encode()
        answer = await session.send(subject, data)
        return read_answer((await self.answered(session, answer)).data)

    async def _end(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            # A task of the client may ignore its cancellation.
            await asyncio.wait(tasks, timeout=END_SECONDS)
