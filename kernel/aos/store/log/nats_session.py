"""One connection to one NATS server (spec/cluster.md, CL-6 to CL-9). The only file that imports the
client of NATS, which the extra ``cluster`` brings.

The client's own reconnecting is off: a session ends when its connection does, and all that waits
for an answer learns it at once. ``NatsConnection`` opens the next session, to another server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, Self

import nats.errors
from nats.aio.client import Client as NatsClient
from nats.aio.client import RawCredentials
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from aos.errors import AosError, Refused
from aos.store.log.nats_address import NatsAccess
from aos.store.log.nats_durability import RELEASE_MIN
from aos.store.log.nats_errors import Unanswered

TLS_HINT: Final = (
    "see AOS_NATS_CA, and AOS_NATS_CERT with AOS_NATS_KEY if the server asks for a certificate"
)
PERMISSIONS: Final = "permissions violation"
_REFUSALS: Final = ("authorization", "authentication", PERMISSIONS)
END_SECONDS: Final = 0.5
"""How long the end of a connection is waited for; after a failure of TLS, it never comes."""

_END: Final = "the connection has ended"


class NatsMessage(NamedTuple):
    """A message as a session delivers it. ``status`` is that of an answer of the server itself.
    ``subject`` is the one under which it was published, not that of the inbox."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    reply: str

    @property
    def status(self) -> str | None:
        return self.headers.get("Status")


class _Client(NatsClient):
    """The client, which also knows what the server said of itself."""

    @property
    def has_tls(self) -> bool:
        return bool(self._server_info.get("tls_required"))

    @property
    def server_release(self) -> str:
        return str(self._server_info.get("version", "0"))

    @property
    def server_name(self) -> str:
        return str(self._server_info.get("server_name", ""))

    def abort(self) -> None:
        """Close the socket now, whatever is still to be sent."""
        for name in ("_io_writer", "_bare_io_writer"):
            writer = getattr(self._transport, name, None)
            if isinstance(writer, asyncio.StreamWriter):
                writer.transport.abort()


class NatsInbox:
    """Where a session puts the messages for ``PREFIX.TOKEN``, with any token, in order."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._messages: asyncio.Queue[NatsMessage | None] = asyncio.Queue()

    async def next(self, seconds: float) -> NatsMessage:
        """Return the next message.

        Raises:
            TimeoutError: There was none for so long.
            Unanswered: The connection has ended.
        """
        if self._messages.empty():
            message = await asyncio.wait_for(self._messages.get(), seconds)
        else:
            message = self._messages.get_nowait()
        if message is None:
            self._messages.put_nowait(None)
            raise Unanswered(_END)
        return message

    def put(self, message: NatsMessage | None) -> None:
        """Add a message; None for the end of the connection."""
        self._messages.put_nowait(message)


class NatsSession:
    """One connection. Use ``open``; all methods run in the loop in which it was opened."""

    def __init__(self, client: _Client, server: str, seconds: float) -> None:
        self.server = server
        self._client = client
        self._answers: dict[str, asyncio.Future[NatsMessage]] = {}
        self._inboxes: dict[NatsInbox, Subscription] = {}
        self._prefix = client.new_inbox()
        self._requests = 0
        self._seconds = seconds
        self._is_open = True
        self._listening: dict[str, Subscription] = {}
        self._on_denied: list[Callable[[str], None]] = []
        self.ended = asyncio.Event()
        """Set when the connection has ended."""

    @classmethod
    async def open(cls, server: str, *, is_tls: bool, access: NatsAccess, seconds: float) -> Self:
        """Connect to ``host:port``, within so many seconds.

        Raises:
            Unanswered: The server cannot be reached.
            Refused: It refuses the credentials; its certificate is not trusted; it has no TLS and
                ``is_tls``; or its release is too old (CL-7).
        """
        client = _Client()
        problems: list[Exception] = []

        async def on_error(problem: Exception) -> None:
            problems.append(problem)
            if session is not None and PERMISSIONS in str(problem).lower():
                session._deny(str(problem).removeprefix("nats: "))

        async def on_end() -> None:
            if session is not None:
                session._end()

        session: Self | None = None
        token, seed = _credentials(access)
        try:
            await _within(
                client.connect(
                    servers=[f"{'tls' if is_tls else 'nats'}://{server}"], name="aos",
                    error_cb=on_error, closed_cb=on_end, allow_reconnect=False,
                    max_reconnect_attempts=1, reconnect_time_wait=0, ping_interval=10,
                    tls=access.tls_context(), user_credentials=token, nkeys_seed_str=seed,
                ),
                seconds,
            )  # fmt: skip
            if not client.is_connected:
                raise Unanswered("the server closed the connection")
        except (OSError, TimeoutError, nats.errors.Error, ValueError, Unanswered) as problem:
            await _end(client)
            raise _open_problem(server, [*problems, problem], has_tls=client.has_tls) from problem
        session = cls(client, server, seconds)
        try:
            _check(client, server, is_tls=is_tls)
            await client.subscribe(f"{session._prefix}.*", cb=session._take)
        except BaseException:
            await session.close()
            raise
        return session

    @property
    def is_open(self) -> bool:
        """Whether the connection is there."""
        return self._is_open and self._client.is_connected

    @property
    def server_name(self) -> str:
        """The name that the server has for itself, which is that of its replicas."""
        return self._client.server_name

    @property
    def release(self) -> str:
        """The release of the server."""
        return self._client.server_release

    @property
    def payload_bytes_max(self) -> int:
        """The longest message that the server takes, with its headers."""
        return self._client.max_payload

    async def send(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None = None
    ) -> asyncio.Future[NatsMessage]:
        """Send a message; the future gets its answer, or Unanswered, or Refused if the server does
        not permit it. Messages reach the server in the order of the calls.

        Raises:
            Unanswered: The connection has ended.
            Refused: The message is too long for the server.
        """
        self._requests += 1
        token = str(self._requests)
        answer: asyncio.Future[NatsMessage] = asyncio.get_running_loop().create_future()
        self._answers[token] = answer
        answer.add_done_callback(lambda _: self._answers.pop(token, None))
        try:
            await self.publish(subject, data, f"{self._prefix}.{token}", headers)
        except AosError:
            answer.cancel()
            raise
        return answer

    async def publish(
        self, subject: str, data: bytes, reply: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a message whose answers, if there are any, go to ``reply``. Raises as ``send``."""
        try:
            # The client has room for 2 MiB, and waits without end for a server that reads nothing.
            await _within(
                self._client.publish(
                    subject, data, reply, None if headers is None else dict(headers)
                ),
                self._seconds,
            )
        except nats.errors.MaxPayloadError:
            raise Refused(
                "a message is too long for the server",
                location=self.server,
                expected=f"at most {self.payload_bytes_max} bytes (its max_payload)",
                actual=f"{len(data)} bytes and headers",
                hint="let all servers have the same max_payload, 1 MiB or more",
            ) from None
        except TimeoutError as problem:
            self._is_open = False
            raise Unanswered(str(problem), location=self.server) from problem
        except (nats.errors.Error, OSError) as problem:
            raise Unanswered(str(problem), location=self.server) from problem

    async def inbox(self) -> NatsInbox:
        """Make an inbox, which lasts as long as the session. Raises Unanswered."""
        inbox = NatsInbox(self._client.new_inbox())

        async def take(message: Msg) -> None:
            inbox.put(_message(message))

        try:
            subscription = await self._client.subscribe(f"{inbox.prefix}.*", cb=take)
        except (nats.errors.Error, OSError) as problem:
            raise Unanswered(str(problem)) from problem
        self._inboxes[inbox] = subscription
        return inbox

    async def subscribe(
        self,
        subject: str,
        on_message: Callable[[NatsMessage], None],
        on_denied: Callable[[str], None],
    ) -> None:
        """Call ``on_message`` with each message for a subject, as long as the session lasts, and
        ``on_denied`` when the server does not permit a request. Raises Unanswered."""

        async def take(message: Msg) -> None:
            on_message(_message(message))

        try:
            self._listening[subject] = await self._client.subscribe(subject, cb=take)
        except (nats.errors.Error, OSError) as problem:
            raise Unanswered(str(problem)) from problem
        self._on_denied.append(on_denied)

    async def unsubscribe(self, subject: str) -> None:
        """Take no more messages for a subject."""
        subscription = self._listening.pop(subject, None)
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error, OSError):
                await subscription.unsubscribe()

    async def close_inbox(self, inbox: NatsInbox) -> None:
        """Take no more messages for an inbox. Raises Unanswered."""
        subscription = self._inboxes.pop(inbox, None)
        if subscription is not None:
            try:
                await subscription.unsubscribe()
            except (nats.errors.Error, OSError) as problem:
                raise Unanswered(str(problem)) from problem

    async def close(self) -> None:
        """End the connection."""
        await _end(self._client)
        self._end()

    async def _take(self, message: Msg) -> None:
        answer = self._answers.get(message.subject.rpartition(".")[2])
        if answer is not None and not answer.done():
            answer.set_result(_message(message))

    def _deny(self, text: str) -> None:
        """Fail all requests that wait: the server answers none that it does not permit, and its
        message does not say which one it was."""
        for on_denied in self._on_denied:
            on_denied(f"{self.server} does not permit a request: {text}")
        for answer in list(self._answers.values()):
            if not answer.done():
                answer.set_exception(
                    Refused(
                        f"the server does not permit a request: {text}",
                        location=self.server,
                        hint="give the user the permissions of rule CL-10",
                    )
                )
                answer.exception()  # its sender may have stopped waiting for it

    def _end(self) -> None:
        for answer in list(self._answers.values()):
            if not answer.done():
                answer.set_exception(Unanswered(_END))
                answer.exception()  # its sender may have stopped waiting for it
        for inbox in self._inboxes:
            inbox.put(None)
        self.ended.set()


async def _within(job: Coroutine[Any, Any, None], seconds: float) -> None:
    """Run a job of the client. ``wait_for`` would wait for one that ignores its cancellation, and
    the client has such jobs. Raises TimeoutError."""
    task = asyncio.ensure_future(job)
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        task.cancel()
        raise TimeoutError(f"no answer within {seconds:g} s")
    task.result()


async def _end(client: _Client) -> None:
    """End a connection, in order if the server reads on. Nothing uses it any more."""
    with contextlib.suppress(Exception):
        await _within(client.close(), END_SECONDS)
    client.abort()
    await asyncio.sleep(0)  # the loop closes sockets in its next round


def _message(message: Msg) -> NatsMessage:
    return NatsMessage(message.subject, message.data, message.headers or {}, message.reply)


def _credentials(access: NatsAccess) -> tuple[RawCredentials | None, str | None]:
    """A token with its seed, or a seed alone, or neither."""
    text = access.credentials
    if text is None:
        return None, None
    return (RawCredentials(text), None) if "BEGIN" in text else (None, text)


def _open_problem(server: str, problems: list[Exception], *, has_tls: bool) -> AosError:
    """Why a server cannot be used: refused, which another try does not change, or unreachable."""
    for problem in problems:
        text = str(problem)
        if isinstance(problem, ssl.SSLError):
            return Refused(f"TLS with {server} failed: {text}", hint=TLS_HINT)
        if any(word in text.lower() for word in _REFUSALS):
            return Refused(
                f"{server} refuses the credentials: {text.removeprefix('nats: ')}",
                hint="name a file of credentials in AOS_NATS_CREDS",
            )
    text = str(problems[0]) or type(problems[0]).__name__
    if has_tls and not isinstance(problems[0], TimeoutError):
        # A server that misses a certificate ends the connection, and does not always say why.
        return Unanswered(f"{server} ended the connection after TLS began: {text}", hint=TLS_HINT)
    return Unanswered(f"{server} cannot be reached: {text}")


def _check(client: _Client, server: str, *, is_tls: bool) -> None:
    if is_tls and not client.has_tls:
        raise Refused(
            "the server has no TLS",
            location=server,
            expected="TLS, as the address begins with tls://",
            hint="add a block tls to the configuration of the server",
        )
    version = client.connected_server_version
    if (version.major, version.minor) < RELEASE_MIN:
        raise Refused(
            "this release of nats-server is too old",
            location=server,
            expected=f"{RELEASE_MIN[0]}.{RELEASE_MIN[1]} or newer",
            actual=client.server_release,
            hint="earlier releases can lose what they have acknowledged: update every server",
        )
