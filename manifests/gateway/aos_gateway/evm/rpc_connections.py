"""The nodes of ``AOS_EVM_RPC``, one for each chain, their URLs kept out of every message (EV-1,
EV-3), and connections to one of them, each asked for its chain id before it is used (EV-4).

A connection carries one request at a time and never reconnects by itself, so a load balancer cannot
put another node behind a connection that was checked.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

import httpcore
import httpx

from aos.errors import BadUsage
from aos.manifest.hosts import as_address
from aos.worker import EffectFailed
from aos.worker.redaction import Redactor
from aos.worker.url_secrets import url_secrets
from aos.worker.worker_secrets import SecretValue
from aos_gateway.evm.evm_errors import wrong_chain
from aos_gateway.evm.hex_values import U64_MAX, BadHex, quantity
from aos_gateway.evm.json_rpc import (
    NoAnswer,
    RpcCall,
    RpcError,
    batch_bytes,
    read_answer,
    read_answers,
    request_bytes,
)

T = TypeVar("T")

VARIABLE: Final = "AOS_EVM_RPC"
WORDS_MAX: Final = 300
"""Longest excerpt of a node's own words in a message, in characters."""

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
REQUEST_S: Final = 10.0
"""Maximum time of one request, in seconds, its connection included."""

IDLE_S: Final = 20.0
CONNECTIONS_MAX: Final = 64

SINGLE_S: Final = 60.0
"""For so long after a batch without an answer, in seconds, a node gets single requests only."""

_FORM: Final = "CHAIN_ID=URL, such as 31337=http://127.0.0.1:8545"
_PORTS: Final = {"http": 80, "https": 443}
_PORT_MAX: Final = 65_535
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)

_FAILURES: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcNode:
    """The node of one chain. ``host_port`` is its host and port, which messages may show."""

    chain: int
    host_port: str
    scheme: str
    host: str
    port: int
    target: str = field(repr=False)
    """Path and query: they often contain a token."""
    authorization: str | None = field(repr=False)
    secrets: tuple[SecretValue, ...] = field(repr=False)
    """Parts of the URL that no message may contain."""
    redactor: Redactor = field(repr=False, compare=False)

    def redacted_line(self, words: str | bytes) -> str:
        """The words of the node as one bounded line, without secrets of the URL (EV-3)."""
        return self.redactor.line(words, characters_max=WORDS_MAX)


def parse_nodes(text: str) -> dict[int, RpcNode]:
    """The nodes that ``AOS_EVM_RPC`` names, by chain id; none for an empty text.

    Raises:
        BadUsage: An entry is malformed, or a chain has two. The entry is named by its place,
            because it may contain a token.
    """
    nodes: dict[int, RpcNode] = {}
    for position, entry in enumerate(text.split(), 1):
        chain, equals, url = entry.partition("=")
        if not equals or not re.fullmatch(r"[1-9][0-9]{0,19}", chain, re.ASCII):
            raise BadUsage(f"{VARIABLE}: entry {position} is not valid: expected {_FORM}")
        if int(chain) > U64_MAX:
            raise BadUsage(f"{VARIABLE}: entry {position}: expected a chain id below 2^64")
        if int(chain) in nodes:
            raise BadUsage(
                f"{VARIABLE}: entry {position} is the second one of chain {chain}: expected one "
                "node for each chain"
            )
        nodes[int(chain)] = _parsed_node(position, int(chain), url)
    return nodes


def _parsed_node(position: int, chain: int, text: str) -> RpcNode:
    try:
        url = httpx.URL(text)
        # Both as it is written, and as it is sent.
        secrets = (*url_secrets(text, VARIABLE), *url_secrets(str(url), VARIABLE))
    except (httpx.InvalidURL, ValueError, BadUsage):
        url, secrets = None, ()
    if url is None or not _names_server(url):
        # Without the cause: the words of httpx contain the URL.
        raise BadUsage(
            f"{VARIABLE}: entry {position}, of chain {chain}, has no valid URL: expected {_FORM}"
        )
    host = url.raw_host.decode("ascii")
    host_text = f"[{host}]" if ":" in host else host
    port = url.port or _PORTS[url.scheme]
    target = url.raw_path.decode("ascii")
    userinfo = url.userinfo.decode("ascii")
    return RpcNode(
        chain=chain,
        host_port=host_text if url.port is None else f"{host_text}:{url.port}",
        scheme=url.scheme,
        host=host,
        port=port,
        target=target,
        authorization=_basic_authorization(userinfo) if userinfo else None,
        secrets=secrets,
        redactor=Redactor(secrets),
    )


def _names_server(url: httpx.URL) -> bool:
    """Whether the URL names a server: httpx also takes hosts and ports that cannot be."""
    host = url.raw_host.decode("ascii", "replace")
    is_host = _HOST_NAME.fullmatch(host) is not None or as_address(host) is not None
    return url.scheme in _PORTS and is_host and (url.port or 1) <= _PORT_MAX


def _basic_authorization(userinfo: str) -> str:
    return "Basic " + base64.b64encode(unquote(userinfo).encode()).decode("ascii")


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
                return await _read_body(response)
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


async def _read_body(response: httpcore.Response) -> bytes:
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
