"""Answer a request that the front of a standby passes on to that of the owner (spec/cluster.md,
CL-210), in the kernel process of the owner.

    client ──HTTP──▶ front of a standby ──socket──▶ its kernel process
                                                        │ bus
    front of the owner ◀──DIR/node/http.sock── kernel process of the owner

A request and its answer are whole messages of HTTP/1.1, which the kernel processes do not read.
``passing_on.py`` is the other end.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Final

from aos.errors import Unavailable
from aos.host.door.protocol import MESSAGE_BYTES_MAX, MIB, short_path
from aos.host.door.remote import UNKNOWN, NotSent

_REPLY_BYTES_MAX: Final = MESSAGE_BYTES_MAX - MIB
_CHUNK_BYTES: Final = 65_536


async def ask_front(path: Path, request: bytes) -> bytes:
    """Have the front that listens at ``path`` answer a request with ``Connection: close``.

    Raises:
        NotSent: No front listens there.
        Unavailable: The front went away before the end of its answer, or that is too long.
    """
    reader, writer = await _connected(path)
    try:
        writer.write(request)
        await writer.drain()
        reply = bytearray()
        while part := await reader.read(_CHUNK_BYTES):
            reply += part
            if len(reply) > _REPLY_BYTES_MAX:
                raise Unavailable(f"the front answered with more than {_REPLY_BYTES_MAX} bytes")
        return bytes(reply)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unavailable(f"{path}: the front went away: {reason}; {UNKNOWN}") from error
    finally:
        writer.close()


async def _connected(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        with short_path(path) as address:
            connection.connect(address)
        return await asyncio.open_connection(sock=connection)
    except OSError as error:
        connection.close()
        reason = error.strerror or str(error)
        raise NotSent(f"{path}: no front takes the request: {reason}") from error
    except BaseException:
        connection.close()
        raise
