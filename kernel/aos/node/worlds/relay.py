"""Pass requests on to the front of a world, and its answers back (spec/worlds.md, WD-20 to WD-23).

    client ──HTTP──▶ router ──HTTP over a Unix socket──▶ front of the world

A body and an answer pass in parts, as they come. When one side goes away, the other side's
connection is closed: a front notices that a claim's client is gone, a client that an answer is
incomplete.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpcore

from aos.node.application import Receive, Send
from aos.node.problems import Problem
from aos.node.sockets import BACKLOG

PEER: Final = b"aos-peer"
"""The header in which a front learns the client's address. A client's own is removed."""

CLIENT_LEFT: Final = 499
"""The status in the access log of a request whose client went away before the answer."""

CONNECT_S: Final = 10.0
CONNECTIONS_MAX: Final = 1_024
KEPT_MAX: Final = 64
"""Idle connections to a front."""

LOST: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)
"""Raised when a front goes away."""


_HOP_BY_HOP: Final = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", PEER,
    }
)  # fmt: skip


class Relay:
    """The way to one world's front. Its socket stays while the world's process is started again, so
    that connections which the last process has not taken wait for the next one."""

    def __init__(self, path: Path) -> None:
        """Listen at ``path``, in a folder that only this process's owner may enter. Raises
        OSError."""
        self._path = path
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.door.bind(os.fspath(path))
        self.door.listen(BACKLOG)
        self.door.setblocking(False)
        self._pool = self._new_pool()

    def _new_pool(self) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            uds=os.fspath(self._path),
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=KEPT_MAX,
        )

    async def forget(self) -> None:
        """Close the connections, also those that wait in the socket: no process will take them."""
        pool, self._pool = self._pool, self._new_pool()
        with contextlib.suppress(*LOST, OSError):
            await pool.aclose()

    async def close(self) -> None:
        """Close everything."""
        with contextlib.suppress(*LOST, OSError):
            await self._pool.aclose()
        self.door.close()

    async def pass_on(
        self, scope: MutableMapping[str, Any], target: bytes, receive: Receive, send: Send
    ) -> int:
        """Pass a request on, with the path and query ``target``, and its answer back. Return the
        status of the answer; 499 if the client went away before it.

        An answer that breaks off is left incomplete, so that the client's connection is closed.

        Raises:
            Problem: The front went away before it answered (503).
        """
        exchange = _Exchange(self._pool, scope, target, receive, send)
        answering = asyncio.create_task(exchange.answer())
        leaving = asyncio.create_task(exchange.client_left())
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        except LOST as error:
            if not exchange.has_left and exchange.status == CLIENT_LEFT:
                raise _lost(error) from error
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
        return exchange.status

    async def ask(
        self,
        scope: MutableMapping[str, Any],
        target: bytes,
        data: bytes | None,
        more: Iterable[tuple[bytes, bytes]] = (),
    ) -> RelayedAnswer:
        """Send a request of one's own in the name of a client, whose headers it has, and return the
        answer in JSON. ``data`` is the body, if it has one; ``more`` are further headers.

        Raises:
            Problem: The front went away before it answered (503).
        """
        names = {name for name, _ in more} | {
            b"accept", b"accept-encoding", b"content-length", b"if-none-match"
        }  # fmt: skip
        fields = [(name, value) for name, value in _passed(scope["headers"]) if name not in names]
        fields += [*more, (b"accept", b"application/json"), (PEER, _peer_of(scope))]
        if data is not None:
            fields.append((b"content-length", str(len(data)).encode()))
        request = httpcore.Request(
            "GET" if data is None else "POST",
            httpcore.URL(scheme=b"http", host=b"world", target=target),
            headers=fields,
            content=data,
            extensions={"timeout": {"connect": CONNECT_S}},
        )
        try:
            answer = await self._pool.handle_async_request(request)
            try:
                headers = tuple((name.lower(), value) for name, value in answer.headers)
                return RelayedAnswer(answer.status, await answer.aread(), headers)
            finally:
                await answer.aclose()
        except LOST as error:
            raise _lost(error) from error


@dataclass(frozen=True, slots=True)
class RelayedAnswer:
    """A whole answer of a front, with its headers in lower case."""

    status: int
    data: bytes
    headers: tuple[tuple[bytes, bytes], ...]


class _Exchange:
    """One request and its answer. ``status`` is ``CLIENT_LEFT`` until the answer begins."""

    def __init__(
        self,
        pool: httpcore.AsyncConnectionPool,
        scope: MutableMapping[str, Any],
        target: bytes,
        receive: Receive,
        send: Send,
    ) -> None:
        self.status = CLIENT_LEFT
        self.has_left = False
        self._pool = pool
        self._receive = receive
        self._send = send
        self._is_read = asyncio.Event()
        fields: list[tuple[bytes, bytes]] = list(_passed(scope["headers"]))
        names = {name for name, _ in scope["headers"]}
        if b"host" not in names:
            fields.append((b"host", b""))
        fields.append((PEER, _peer_of(scope)))
        has_body = bool(names & {b"content-length", b"transfer-encoding"})
        if not has_body:
            self._is_read.set()
        elif b"content-length" not in names:
            fields.append((b"transfer-encoding", b"chunked"))
        self._request = httpcore.Request(
            scope["method"],
            httpcore.URL(scheme=b"http", host=b"world", target=target),
            headers=fields,
            content=self._body() if has_body else None,
            # An answer may take as long as the client waits for it.
            extensions={"timeout": {"connect": CONNECT_S}},
        )

    async def answer(self) -> None:
        """Send the request, and pass the answer on. Raises one of ``LOST``: The front is
        gone."""
        answer = await self._pool.handle_async_request(self._request)
        try:
            self.status = answer.status
            await self._send(
                {
                    "type": "http.response.start",
                    "status": answer.status,
                    "headers": [
                        (name.lower(), value)
                        for name, value in _passed(answer.headers)
                        if name.lower() != b"date"  # the server adds its own
                    ],
                }
            )
            async for part in answer.aiter_stream():
                await self._send({"type": "http.response.body", "body": part, "more_body": True})
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await answer.aclose()

    async def _body(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises: httpcore.ReadError: The client has left."""
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                self.has_left = True
                self._is_read.set()
                raise httpcore.ReadError("the client went away")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                break
        self._is_read.set()

    async def client_left(self) -> None:
        """Wait until the client has closed its connection."""
        await self._is_read.wait()
        while not self.has_left:
            self.has_left = (await self._receive())["type"] == "http.disconnect"


def _peer_of(scope: MutableMapping[str, Any]) -> bytes:
    peer: str = (scope.get("client") or ("", 0))[0]
    return peer.encode()


def _lost(error: Exception) -> Problem:
    return Problem(
        503, "answer_was_lost",
        f"the process of the world ended before it answered ({type(error).__name__}); the request "
        "may have been accepted (send it again with the same submission id)", retry_after_s=1,
    )  # fmt: skip


def _passed(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    """The headers that concern both ends, and not one connection."""
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
