"""Accept connections on a Unix socket and pass on their messages (H-50 to H-52).

Rule 1: whatever a client sends or fails to send, only its own connection suffers.

Rule 2: everything is bounded: a message, the large messages of all connections together, how many
are connected, how long a message may take on the wire.

Rule 3: every accepted connection is closed when its own task ends, for whatever reason.

Rule 4: a new connection is never refused. When all places are taken, the connection that has been
idle longest makes room; while none is idle, new ones wait in the system's queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from aos.errors import BadUsage, Unavailable
from aos.host.door.protocol import LENGTH_BYTES, error_fields, length, pack, short_path
from aos.host.executors.task import Report
from aos.store.plain_files import PlainFolder

CONNECTIONS_MAX: Final = 64
LARGE_BYTES: Final = 1024 * 1024
LARGE_MAX: Final = 8
"""Maximum number of messages of more than ``LARGE_BYTES`` in memory at the same time."""

BACKLOG: Final = 128
IDLE_S: Final = 600.0
"""Seconds that a connection may be idle, unless its handler keeps something for it."""

MESSAGE_S: Final = 30.0
"""Seconds that one message, and one answer, may take on the wire."""

FINISH_S: Final = 2.0
"""Seconds that pending answers may take once the world has stopped."""

_CHUNK_BYTES: Final = 256 * 1024
_PAUSE_S: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


Reply: TypeAlias = bytes | AsyncGenerator[bytes, None]
"""A packed message, or all further messages of a connection that takes no more requests."""


@dataclass(frozen=True, slots=True)
class Handler:
    """Answers one connection. ``answer`` takes a message and returns the reply. ``idle_s`` is how
    long it may be idle now: less while it keeps something that others may wait for."""

    answer: Callable[[bytes], Awaitable[Reply]]
    idle_s: Callable[[], float] = lambda: IDLE_S


Talk: TypeAlias = AbstractContextManager[Handler]
"""One connection; the end of the block releases everything that its handler holds."""


class Listener:
    """Listens on one path. ``talk`` is called for each new connection.

    Used from one event loop. ``asyncio.Server`` is not used: it does not close a connection
    that it accepted just before its own end, so the client would wait.
    """

    def __init__(
        self,
        talk: Callable[[], Talk],
        *,
        report: Report,
        message_s: float = MESSAGE_S,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self._talk = talk
        self._report = report
        self._message_s = message_s
        self._connections_max = connections_max
        self._large = asyncio.Semaphore(LARGE_MAX)
        self._path: Path | None = None
        self._socket: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        self._resume_timer: asyncio.Handle | None = None
        self._is_full = False
        self._talks: dict[asyncio.Task[None], socket.socket] = {}
        self._busy: set[asyncio.Task[None]] = set()
        self._idle: dict[asyncio.Task[None], socket.socket] = {}
        """Connections that wait for a message, the one that has waited longest first."""

    def start(self, path: Path) -> None:
        """Listen at ``path``, and replace a socket that a dead process left there (H-50).

        The caller holds the world's lock, so no living process listens there.

        Raises:
            Unavailable: The socket cannot be made.
            Damage: Something other than a socket has that name (ST-80).
        """
        try:
            self._socket = listen_at(path)
        except OSError as error:
            raise Unavailable(f"{path}: the socket cannot be made: {error.strerror}") from error
        self._path = path
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Take no more requests. Requests in progress are answered; idle connections end."""
        if self._socket is None:
            return
        if self._resume_timer is not None:
            self._resume_timer.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        assert self._path is not None
        with contextlib.suppress(OSError), PlainFolder.at_user_path(self._path.parent) as folder:
            folder.remove(self._path.name)
        for task in self._talks.keys() - self._busy:
            task.cancel()

    @property
    def has_connections(self) -> bool:
        """Whether a connection is open, after ``close`` only for the answer to its request."""
        return bool(self._talks)

    async def finish(self, wait_s: float = FINISH_S) -> None:
        """After ``close``: wait for the answers under way, then end every connection (H-59)."""
        if self._talks:
            _, late = await asyncio.wait(self._talks, timeout=wait_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _accept(self) -> None:
        assert self._socket is not None
        if len(self._talks) >= self._connections_max:
            # Those that wait to be accepted are left where they are until there is room.
            self._is_full = True
            self._loop.remove_reader(self._socket)
            self._make_room()
        while len(self._talks) < self._connections_max:
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._report(f"no more clients can connect for now: {error.strerror}")
                self._make_room()
                self._loop.remove_reader(self._socket)
                self._resume_timer = self._loop.call_later(
                    _PAUSE_S, self._loop.add_reader, self._socket, self._accept
                )
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._serve(connection))
            self._talks[task] = connection
            task.add_done_callback(self._ended)

    def _make_room(self) -> None:
        """Take no further message from the connection that has been idle longest.

        Only the direction towards us is closed. A request that has arrived by now is still
        answered; one that is sent later fails at the sender, which knows that we never saw it.
        """
        for task, connection in self._idle.items():
            del self._idle[task]
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
            return

    def _look_for_room(self) -> None:
        """Accept again: a connection has ended, or has become idle."""
        if self._is_full and self._socket is not None:
            self._is_full = False
            self._loop.add_reader(self._socket, self._accept)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._talks.pop(task).close()
        self._busy.discard(task)
        self._idle.pop(task, None)
        self._look_for_room()
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            self._report(f"a client's request met a bug: {problem!r}")

    async def _serve(self, connection: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        # The client went away, or is too slow: there is no one left to answer.
        with contextlib.suppress(OSError, TimeoutError, EOFError), self._talk() as handler:
            while self._socket is not None:
                first = await self._begin(task, connection, handler.idle_s())
                size = await self._size(connection, first)
                async with self._large if size > LARGE_BYTES else contextlib.nullcontext():
                    async with asyncio.timeout(self._message_s):
                        body = await self._exactly(connection, size)
                    self._busy.add(task)
                    reply = await handler.answer(body)
                    del body
                if not isinstance(reply, bytes):
                    await self._stream(connection, reply)
                    return
                await self._write(connection, reply)
                self._busy.discard(task)

    async def _stream(
        self, connection: socket.socket, messages: AsyncGenerator[bytes, None]
    ) -> None:
        """Write messages until they end, or until the client sends something or goes away."""
        ends = (
            self._loop.create_task(self._write_each(connection, messages)),
            self._loop.create_task(self._loop.sock_recv(connection, 1)),
        )
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            results = await asyncio.gather(*ends, return_exceptions=True)
            await messages.aclose()
        problem = results[0]
        if isinstance(problem, Exception):
            raise problem

    async def _write_each(
        self, connection: socket.socket, messages: AsyncGenerator[bytes, None]
    ) -> None:
        async for message in messages:
            await self._write(connection, message)

    async def _begin(
        self, task: asyncio.Task[None], connection: socket.socket, idle_s: float
    ) -> bytes:
        """The first byte of the next message. Until it comes, the connection is idle."""
        self._idle[task] = connection
        self._look_for_room()
        try:
            async with asyncio.timeout(idle_s):
                return await self._exactly(connection, 1)
        finally:
            self._idle.pop(task, None)

    async def _size(self, connection: socket.socket, first: bytes) -> int:
        """Read the length of the body. Raises EOFError if the body is too long."""
        async with asyncio.timeout(self._message_s):
            header = first + await self._exactly(connection, LENGTH_BYTES - 1)
            try:
                return length(header)
            except BadUsage as problem:
                await self._write(connection, pack(error_fields(problem)))
                raise EOFError from problem

    async def _exactly(self, connection: socket.socket, size: int) -> bytes:
        """Read ``size`` bytes. Memory is used only for bytes that have arrived."""
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


def listen_at(path: Path, *, backlog: int = BACKLOG) -> socket.socket:
    """Listen on a Unix socket that only its owner can connect to, and replace one that a dead
    process left. The caller holds the world's lock.

    Raises:
        OSError: The socket cannot be made.
        Damage: Something other than a socket has that name (ST-80).
    """
    with PlainFolder.at_user_path(path.parent) as folder:
        folder.check_socket(path.name)
        folder.remove(path.name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        with short_path(path) as address:
            listener.bind(address)
        # No client can connect before it listens, and then only its owner can.
        path.chmod(0o600)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener
