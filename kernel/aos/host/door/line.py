"""One connection of an event loop to the socket of a running world (spec/host.md, H-50 to H-54)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Final

from aos.closable import Closable
from aos.errors import Refused, Unavailable
from aos.host.door.protocol import (
    LENGTH_BYTES,
    MESSAGE_BYTES_MAX,
    MIB,
    length,
    pack,
    raise_error,
    short_path,
    unpack,
)
from aos.host.door.remote import ANSWER_S, RECONNECTS_MAX, UNKNOWN, NotSent
from aos.host.door.way import CONNECT_S, PAUSE_S
from aos.host.folder.folder import SOCKET, WorldFolder
from aos.message_fields import Message
from aos.shell_text import shell_word
from aos.values.cbor import Value

_CHUNK_BYTES: Final = 256 * 1024


class Line(Closable):
    """A connection to the process that runs a world, made when it is needed.

    Carries one request at a time. A connection that the world has closed because it was idle is
    made again (H-51b). After any other failure the connection is closed, and the next request makes
    a new one.
    """

    def __init__(self, folder: WorldFolder) -> None:
        self._folder = folder
        self._path = folder.socket
        self._connection: socket.socket | None = None

    async def ask(self, fields: Mapping[str, Value], *, answer_s: float = ANSWER_S) -> Message:
        """Send one request and return its answer.

        Raises:
            AosError: The error that the world answered.
            NotSent: No process runs the world, or it went away before it had the request.
            Unavailable: The connection broke, or no answer came in ``answer_s`` seconds.
            Refused: The request is too large.
        """
        message = _packed(fields)
        for _ in range(RECONNECTS_MAX):
            is_new = self._connection is None
            try:
                return await self._exchange(message, answer_s)
            except NotSent:
                if is_new:
                    raise
        return await self._exchange(message, answer_s)

    async def messages(
        self, fields: Mapping[str, Value], *, silence_s: float
    ) -> AsyncIterator[Message]:
        """Send one request and yield every message that follows, until the world ends them.

        Raises as ``ask``; Unavailable also if no message comes for ``silence_s`` seconds.
        """
        try:
            yield await self._exchange(_packed(fields), silence_s)
            while True:
                try:
                    async with asyncio.timeout(silence_s):
                        message = await self._receive()
                except EOFError:
                    return
                except TimeoutError:
                    raise self._silent(silence_s) from None
                except OSError as error:
                    raise self._broken(error) from error
                raise_error(message)
                yield message
        finally:
            self.close()

    async def _exchange(self, message: bytes, answer_s: float) -> Message:
        connection = await self._connected()
        loop = asyncio.get_running_loop()
        is_whole = False
        try:
            async with asyncio.timeout(answer_s):
                try:
                    await loop.sock_sendall(connection, message)
                except (BrokenPipeError, ConnectionResetError) as error:
                    raise NotSent(
                        f"{self._path}: the world went away: {error.strerror}; the request was "
                        "not accepted"
                    ) from error
                answer = await self._receive()
            is_whole = True
        except TimeoutError:
            raise self._silent(answer_s) from None
        except EOFError as error:
            raise self._broken(ConnectionResetError("the connection was closed")) from error
        except OSError as error:
            raise self._broken(error) from error
        finally:
            if (
                not is_whole
            ):  # also if the caller was canceled: the answer would be taken for another
                self.close()
        raise_error(answer)
        return answer

    async def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection = await _connect(self._folder)
        return self._connection

    async def _receive(self) -> Message:
        size = length(await self._exactly(LENGTH_BYTES))
        return unpack(await self._exactly(size))

    async def _exactly(self, size: int) -> bytes:
        assert self._connection is not None
        loop, data = asyncio.get_running_loop(), bytearray()
        while len(data) < size:
            part = await loop.sock_recv(self._connection, min(size - len(data), _CHUNK_BYTES))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _silent(self, seconds: float) -> Unavailable:
        return Unavailable(f"{self._path}: no answer in {seconds:g} seconds; {UNKNOWN}")

    def _broken(self, error: OSError) -> Unavailable:
        return Unavailable(
            f"{self._path}: the world went away: {error.strerror or error}; {UNKNOWN}"
        )

    def close(self) -> None:
        """Close the connection. The next request makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _packed(fields: Mapping[str, Value]) -> bytes:
    try:
        return pack(fields)
    except OverflowError:
        raise Refused(
            f"the request is too large: expected at most {MESSAGE_BYTES_MAX // MIB} MiB"
        ) from None


async def _connect(folder: WorldFolder) -> socket.socket:
    """Connect to the socket of a world; wait up to ``CONNECT_S`` if too many clients do the same.

    Raises:
        NotSent: No process listens there.
    """
    path, loop = folder.socket, asyncio.get_running_loop()
    deadline_s = loop.time() + CONNECT_S
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            with folder.open_plain() as plain_folder:
                plain_folder.check_socket(SOCKET)
            with short_path(path) as address:
                # A Unix socket connects at once, or its queue is full.
                connection.connect(address)
        except BlockingIOError:
            connection.close()
            if loop.time() >= deadline_s:
                raise NotSent(
                    f"{path}: no connection in {CONNECT_S:.0f} seconds: too many clients wait for "
                    "this world (try again in a moment)"
                ) from None
            await asyncio.sleep(PAUSE_S)
        except OSError as error:
            connection.close()
            raise NotSent(
                "no process runs this world",
                location=str(folder.path),
                actual=error.strerror or str(error),
                hint=f"start one: aos node --world {shell_word(folder.path)}",
            ) from error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
