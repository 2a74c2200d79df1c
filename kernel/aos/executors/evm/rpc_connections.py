"""Connections to the node of one chain, each asked for its chain id before it is used (EV-4).

A connection carries one request at a time and never reconnects by itself, so a load balancer cannot
put another node behind a connection that was checked.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import httpcore
import httpx

from aos.executors.evm.evm_errors import wrong_chain
from aos.executors.evm.hex_values import BadHex, quantity
from aos.executors.evm.json_rpc import (
    NoAnswer,
    RpcCall,
    RpcError,
    batch_bytes,
    read_answer,
    read_answers,
    request_bytes,
)
from aos.executors.evm.rpc_nodes import RpcNode
from aos.worker import EffectFailed

T = TypeVar("T")

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
REQUEST_S: Final = 10.0
"""Maximum time of one request, in seconds, its connection included."""

IDLE_S: Final = 20.0
CONNECTIONS_MAX: Final = 64

SINGLE_S: Final = 60.0
"""For so long after a batch without an answer, in seconds, a node gets single requests only."""

_FAILURES: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)


class NeverSent(Exception):
    """The request did not leave this process. Its text completes "the node …"."""


class AnswerLost(Exception):
    """The request may have arrived, but its answer is missing or unusable. Its text completes
    "the node …". ``is_limit``: the node asks for fewer requests (429)."""

    def __init__(self, message: str, *, is_limit: bool = False) -> None:
        super().__init__(message)
        self.is_limit = is_limit


class _Line(NamedTuple):
    """A connection, and the generation in which it was opened."""

    connection: httpcore.AsyncHTTPConnection
    generation: int

    def is_ready(self) -> bool:
        """Whether it can carry another request: the node has not closed it."""
        return self.connection.is_available() and not self.connection.has_expired()


class RpcConnections:
    """The connections to one node. ``ask`` may run many times concurrently."""

    def __init__(
        self,
        node: RpcNode,
        ssl_context: ssl.SSLContext | None = None,
        *,
        request_s: float = REQUEST_S,
    ) -> None:
        self.node = node
        self._ssl_context = ssl_context
        self._request_s = request_s
        self._origin = httpcore.Origin(node.scheme.encode(), node.host.encode(), node.port)
        self._numbers: Iterator[int] = itertools.count(1)
        self._idle: list[_Line] = []
        self._generation = 0
        self._single_until = 0.0
        self._slots = asyncio.Semaphore(CONNECTIONS_MAX)
        self._headers = [
            (b"Host", node.host_port.encode()),
            (b"Content-Type", b"application/json"),
            (b"Accept", b"application/json"),
            (b"Accept-Encoding", b"identity"),  # the limit of the body counts what arrives
            (b"User-Agent", b"aos-evm"),
        ]
        if node.authorization is not None:
            self._headers.append((b"Authorization", node.authorization.encode("ascii")))

    async def ask(self, method: str, params: list[Any]) -> Any | RpcError:
        """Send one request on a checked connection and return its result, or the node's error.

        Raises:
            NeverSent: No connection, or the node did not answer the question for its chain id.
            AnswerLost: The request was sent, or may have been.
            EffectFailed: ``wrong_chain``: the node is on another chain, and nothing was sent.
        """
        number = next(self._numbers)
        content = request_bytes(number, method, params)
        return await self._request(content, lambda body: read_answer(body, number))

    @property
    def takes_batches(self) -> bool:
        """Whether no batch has failed in the last minute. Not all nodes take batches (EV-14)."""
        return asyncio.get_running_loop().time() >= self._single_until

    async def ask_all(self, calls: Sequence[RpcCall]) -> list[Any | RpcError]:
        """Send several requests as one batch; return the result of each, or the node's error.

        Raises:
            NeverSent, AnswerLost, EffectFailed: As ``ask``, for all of them. After ``AnswerLost``,
                ``takes_batches`` is False for a minute.
        """
        numbered = {next(self._numbers): call for call in calls}
        try:
            answers = await self._request(
                batch_bytes(numbered), lambda body: read_answers(body, numbered)
            )
        except AnswerLost:
            self._single_until = asyncio.get_running_loop().time() + SINGLE_S
            raise
        return [answers[number] for number in numbered]

    async def _request(self, content: bytes, read: Callable[[bytes], T]) -> T:
        async with self._slots:
            try:
                line = await self._checked()
                answer = await self._exchange(line, content, read)
            except (NeverSent, AnswerLost, EffectFailed):
                await self._forget()
                raise
            await self._keep(line)
            return answer

    async def _checked(self) -> _Line:
        """An idle connection, or a new one that was asked for the chain id (EV-4)."""
        while self._idle:
            line = self._idle.pop()
            if line.is_ready():
                return line
            await line.connection.aclose()
        line = self._new()
        is_kept = False
        try:
            number = next(self._numbers)
            content = request_bytes(number, "eth_chainId", [])
            answer = await self._exchange(line, content, lambda body: read_answer(body, number))
            self._check_chain(answer)
            is_kept = line.is_ready()
        except AnswerLost as error:
            raise NeverSent(str(error)) from None
        finally:
            if not is_kept:
                await line.connection.aclose()
        # A node that closes each connection after one answer is checked a moment before its use.
        return line if is_kept else self._new()

    def _new(self) -> _Line:
        connection = httpcore.AsyncHTTPConnection(
            self._origin, self._ssl_context, keepalive_expiry=IDLE_S
        )
        return _Line(connection, self._generation)

    def _check_chain(self, answer: Any | RpcError) -> None:
        if isinstance(answer, RpcError):
            words = self.node.redacted_line(answer.message)
            raise NeverSent(f"did not answer the question for its chain id: {words}")
        try:
            chain = quantity(answer)
        except BadHex as error:
            words = self.node.redacted_line(str(error))
            raise NeverSent(f"did not answer the question for its chain id: {words}") from None
        if chain != self.node.chain:
            raise wrong_chain(
                f"the node at {self.node.host_port} is on chain {chain}: expected chain "
                f"{self.node.chain}; nothing was sent to it"
            )

    async def _exchange(self, line: _Line, content: bytes, read: Callable[[bytes], T]) -> T:
        """One request and its answer. The connection is closed if there is none."""
        has_answer = False
        try:
            async with asyncio.timeout(self._request_s):
                body = await self._post(line.connection, content)
            answer = read(body)
            has_answer = True
        except TimeoutError:
            raise AnswerLost(f"did not answer within {self._request_s:g} s") from None
        except NoAnswer as error:
            raise AnswerLost(self.node.redacted_line(str(error))) from None
        finally:
            if not has_answer:
                await line.connection.aclose()
        return answer

    async def _post(self, connection: httpcore.AsyncHTTPConnection, content: bytes) -> bytes:
        request = httpcore.Request(
            b"POST",
            httpcore.URL(
                scheme=self._origin.scheme,
                host=self._origin.host,
                port=self._origin.port,
                target=self.node.target.encode("ascii"),
            ),
            headers=[*self._headers, (b"Content-Length", b"%d" % len(content))],
            content=content,
        )
        try:
            response = await connection.handle_async_request(request)
            try:
                return await _body(response)
            finally:
                await response.aclose()
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            raise NeverSent("could not be reached") from None
        except _FAILURES as error:
            raise AnswerLost(f"broke the connection off ({type(error).__name__})") from None

    async def _keep(self, line: _Line) -> None:
        if line.generation != self._generation or not line.is_ready():
            await line.connection.aclose()
            return
        self._idle.append(line)

    async def _forget(self) -> None:
        """Close every connection before its next use: after a failure, another node may be behind
        the same address (EV-5)."""
        self._generation += 1
        await self.aclose()

    async def aclose(self) -> None:
        """Close the idle connections."""
        while self._idle:
            await self._idle.pop().connection.aclose()


async def _body(response: httpcore.Response) -> bytes:
    """The body of a 200, read up to its limit."""
    if response.status != httpx.codes.OK:
        raise AnswerLost(f"answered HTTP {response.status}", is_limit=response.status == 429)
    headers = {name.lower(): value for name, value in response.headers}
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise AnswerLost("compressed its answer, which was not asked for")
    body = bytearray()
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise AnswerLost(f"answered with more than {BODY_BYTES_MAX} bytes")
    return bytes(body)
