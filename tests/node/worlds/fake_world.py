"""A process that behaves as ``mounted_world`` does, as a file next to its world says:

    {"start": "ok" | "die" | "refuse", "rest": "end" | "busy", "wake_ns": null, "has_work": false}

Requests below its world: ``echo`` answers what came, ``die`` ends the process, ``parts`` streams a
part and the next one once the file ``go`` is there, ``broken`` ends the process behind one part,
``left`` waits until its client has left, and writes the file ``left``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from typing import Any

import uvicorn

from aos.errors import BadUsage
from aos.node.worlds.mounted_world import REST, MountedSettings

BEHAVIOUR = "behaviour.json"


class FakeFront:
    """An ASGI application."""

    def __init__(self, settings: MountedSettings) -> None:
        self._world = settings.world

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        action = scope["path"].rsplit("/", 1)[-1]
        if action == "die":
            os._exit(9)
        if action == "left":
            (self._world / "asked").touch()
            while (await receive())["type"] != "http.disconnect":
                pass
            (self._world / "left").touch()
            return
        headers = [(b"content-type", b"text/plain"), (b"x-of", b"one"), (b"x-of", b"two")]
        if action in ("parts", "broken"):
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"first ", "more_body": True})
            if action == "broken":
                await asyncio.sleep(0.2)
                os._exit(9)
            while not (self._world / "go").exists():  # noqa: ASYNC110  # other processes do it
                await asyncio.sleep(0.01)
            await send({"type": "http.response.body", "body": b"second"})
            return
        body = b""
        while scope["method"] == "POST":
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        seen = {
            "method": scope["method"],
            "target": scope["raw_path"].decode() + "?" + scope["query_string"].decode(),
            "headers": [[name.decode(), value.decode()] for name, value in scope["headers"]],
            "body": body.decode("latin-1"),
            "pid": os.getpid(),
        }
        data = json.dumps(seen).encode()
        headers.append((b"content-length", str(len(data)).encode()))
        await send({"type": "http.response.start", "status": 418, "headers": headers})
        await send({"type": "http.response.body", "body": data})


async def main() -> int:
    settings = MountedSettings.read(json.loads(sys.stdin.readline()))
    behaviour = json.loads((settings.world / BEHAVIOUR).read_text())
    starts = settings.world / "starts"
    with starts.open("a") as file:
        file.write(f"{os.getpid()}\n")
    if behaviour.get("start") == "die":
        return 17
    if behaviour.get("start") == "refuse":
        return BadUsage.exit_code
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    server = uvicorn.Server(uvicorn.Config(FakeFront(settings), lifespan="off", log_config=None))
    serving = asyncio.ensure_future(server.serve(sockets=[socket.socket(fileno=settings.door)]))
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while not server.started:  # noqa: ASYNC110  # other processes do it
        await asyncio.sleep(0.01)
    _tell({"ready": True})
    while line := await reader.readline():
        behaviour = json.loads((settings.world / BEHAVIOUR).read_text())
        if line == REST and behaviour.get("rest") != "busy":
            break
        _tell({"busy": "it has open work"})
    while not (settings.world / behaviour.get("ends_with", BEHAVIOUR)).exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    has_work = behaviour.get("has_work", False)
    _tell({"ended": {"has_work": has_work, "wake_ns": behaviour.get("wake_ns")}})
    server.force_exit = server.should_exit = True
    await serving
    return 0


def _tell(message: object) -> None:
    sys.stdout.write("not for the node\n")
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
