"""Start a world that sleeps, through the socket of the node that serves its folder
(spec/world-send.md, WS-34)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

from aos.errors import Unavailable
from aos.host.door.protocol import short_path
from aos.host.door.remote import NotSent
from aos.host.folder.folder import WorldFolder
from aos.node.sockets import HTTP_SOCKET
from aos.node.tokens import NODE
from aos.node.worlds.hosted_world import READY_S


async def wake(folder: WorldFolder) -> None:
    """Have the node start the world in ``folder``, and wait until the world answers. On this socket
    of the node that needs no token (WD-31).

    Raises:
        NotSent: No node serves the folder of the world.
        Unavailable: The world does not run: it was stopped, or failed, or is still starting.
    """
    socket_path = folder.path.absolute().parent / NODE / HTTP_SOCKET
    body = json.dumps({"name": folder.path.name})
    request = (
        "POST /v1/worlds/wake HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
    )
    try:
        async with asyncio.timeout(READY_S):
            answer = await _exchange(socket_path, request.encode())
    except TimeoutError:
        raise Unavailable(f"{folder.path}: the node does not start this world in time") from None
    except OSError as error:
        raise NotSent(
            "no process runs this world, and no node serves its folder",
            location=str(folder.path),
            actual=error.strerror or str(error),
        ) from error
    status, problem = _read(answer)
    if status != 200:
        raise Unavailable(problem)


async def _exchange(path: Path, request: bytes) -> bytes:
    """Send one request and return everything that is answered. Raises OSError."""
    with short_path(path) as address:
        reader, writer = await asyncio.open_unix_connection(address)
    try:
        writer.write(request)
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _read(answer: bytes) -> tuple[int, str]:
    """The status of an answer, and the sentence of a problem."""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return status, str(json.loads(body)["detail"])
    return status, f"the node answered with status {status}"
