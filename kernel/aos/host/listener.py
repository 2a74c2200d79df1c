"""A Unix socket -> messages in, messages out, each connection by itself (H-50 to H-52).

Rule 1: whatever a client sends or fails to send, only its own connection suffers.

Rule 2: everything is bounded: a message, how many are connected, how long a message may take on the
wire.

Rule 3: every accepted connection is closed by its own task's end, however that comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

from aos.errors import BadUsage, Unavailable
from aos.host.address import short_path
from aos.host.errors import Busy
from aos.host.executors.task import Report
from aos.host.protocol import LENGTH_BYTES, error_fields, length, pack

CONNECTIONS_MAX: Final = 64
BACKLOG: Final = 128
IDLE_S: Final = 600.0
MESSAGE_S: Final = 30.0
"""How long one message, and one answer, may take on the wire."""

FINISH_S: Final = 2.0
"""How long answers under way may take once the world has stopped."""

_CHUNK_BYTES: Final = 256 * 1024
_PAUSE_S: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Handler: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Answers one message of one connection with one packed message."""


class Listener:
    """Listens on one path. ``talk`` makes the handler of each new connection.

    Used from one event loop. ``asyncio.Server`` is not used: it forgets to close a connection that
    it accepted just before its own end, and the client waits.
    """

    def __init__(
        self, talk: Callable[[], Handler], *, report: Report, message_s: float = MESSAGE_S
    ) -> None:
        self._talk = talk
        self._report = report
        self._message_s = message_s
        self._path: Path | None = None
        self._socket: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.Handle | None = None
        self._talks: dict[asyncio.Task[None], socket.socket] = {}
        self._busy: set[asyncio.Task[None]] = set()

    def start(self, path: Path) -> None:
        """Listen at ``path``; a socket that a dead process left there is replaced.

        The caller holds the world's lock, so that nobody alive can be listening there.

        Raises:
            Unavailable: The socket cannot be made.
        """
        try:
            self._socket = _listen(path)
        except OSError as error:
            raise Unavailable(f"{path}: the socket cannot be made: {error.strerror}") from error
        self._path = path
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Take no more requests. Those under way go on; idle connections end."""
        if self._socket is None:
            return
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        assert self._path is not None
        with contextlib.suppress(OSError):
            self._path.unlink()
        for task in self._talks.keys() - self._busy:
            task.cancel()

    async def finish(self, wait_s: float = FINISH_S) -> None:
        """After ``close``: wait for the answers under way, then end every connection."""
        if self._talks:
            _, late = await asyncio.wait(self._talks, timeout=wait_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _accept(self) -> None:
        assert self._socket is not None
        for _ in range(BACKLOG):
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._report(f"no more clients can connect for now: {error.strerror}")
                self._loop.remove_reader(self._socket)
                self._again = self._loop.call_later(
                    _PAUSE_S, self._loop.add_reader, self._socket, self._accept
                )
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._serve(connection))
            self._talks[task] = connection
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._talks.pop(task).close()
        self._busy.discard(task)
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            self._report(f"a client's request met a bug: {problem!r}")

    async def _serve(self, connection: socket.socket) -> None:
        # The client went away, or is too slow for us: nobody is left to be told.
        with contextlib.suppress(OSError, TimeoutError, EOFError):
            if len(self._talks) > CONNECTIONS_MAX:
                busy = Busy("too many clients are connected")
                await self._write(connection, pack(error_fields(busy)))
                return
            handler = self._talk()
            task = asyncio.current_task()
            assert task is not None
            while self._socket is not None:
                body = await self._read(connection)
                self._busy.add(task)
                await self._write(connection, await handler(body))
                self._busy.discard(task)

    async def _read(self, connection: socket.socket) -> bytes:
        """The next message's body. ``EOFError`` at the end, and for one that is too long."""
        async with asyncio.timeout(IDLE_S):
            first = await self._exactly(connection, 1)
        async with asyncio.timeout(self._message_s):
            try:
                size = length(first + await self._exactly(connection, LENGTH_BYTES - 1))
            except BadUsage as problem:
                await self._write(connection, pack(error_fields(problem)))
                raise EOFError from problem
            return await self._exactly(connection, size)

    async def _exactly(self, connection: socket.socket, size: int) -> bytes:
        """So many bytes. What a header promises is taken in only as it comes."""
        data = bytearray()
        while len(data) < size:
            part = await self._loop.sock_recv(connection, min(size - len(data), _CHUNK_BYTES))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    async def _write(self, connection: socket.socket, message: bytes) -> None:
        async with asyncio.timeout(self._message_s):
            await self._loop.sock_sendall(connection, message)


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        with short_path(path) as address:
            listener.bind(address)
        # Nobody can connect before it listens, and then only its owner.
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
