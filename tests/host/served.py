"""A rig's engine behind a real socket, in a folder whose lock is held as by a running world."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aos.core.journal.records import Principal
from aos.host.door.protocol import LENGTH_BYTES, pack, short_path, unpack
from aos.host.door.server import Server
from aos.host.executors.receipts import Receipts
from aos.message_fields import Message
from aos.store.lock import WorldLock
from aos.values.digests import Hash, hash_text
from tests.host.rig import TIMEOUT_S, Rig, running
from tests.memory_world import OPERATOR, OPERATOR_KEY, WORLD_KEY


def make_folder(path: Path, world: Hash) -> Path:
    """Make a folder that ``open_folder`` accepts, with the operator's key of the memory world."""
    (path / "keys").mkdir(parents=True)
    key = path / "keys" / "operator.key"
    key.write_text(bytes(OPERATOR_KEY).hex())
    key.chmod(0o600)
    about = {"format": 1, "world": hash_text(world), "created": "2026-01-01T00:00:00Z"}
    (path / "world.json").write_text(json.dumps(about))
    return path


@dataclass
class Served:
    rig: Rig
    path: Path
    operators: tuple[Principal, ...] = (OPERATOR,)
    settings: dict[str, Any] = field(default_factory=dict)
    stops: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    server: Server = field(init=False)
    loop: asyncio.AbstractEventLoop = field(init=False)
    """The loop of the server."""

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(TIMEOUT_S)
        with short_path(self.path / "aos.sock") as address:
            while True:
                try:
                    connection.connect(address)
                except BlockingIOError:  # more wait to be accepted than the system keeps
                    time.sleep(0.01)
                else:
                    return connection

    def ask(self, connection: socket.socket, **fields: Any) -> Message:
        connection.sendall(pack(fields))
        return receive(connection)

    async def serve(self, up: threading.Event, down: asyncio.Event) -> None:
        server = Server(
            self.rig.engine,
            world=self.rig.world,
            operators=self.operators,
            stop=lambda: self.stops.append("asked"),
            receipts=Receipts(self.rig.engine, world=self.rig.world, key=WORLD_KEY),
            report=self.reports.append,
            **self.settings,
        )
        server.start(self.path / "aos.sock")
        self.server = server
        self.loop = loop = asyncio.get_running_loop()
        with self.rig.on_each_publish(lambda: loop.call_soon_threadsafe(server.followers.notify)):
            up.set()
            await down.wait()
        server.close()
        await server.finish()


def receive(connection: socket.socket) -> Message:
    header = exactly(connection, LENGTH_BYTES)
    return unpack(exactly(connection, int.from_bytes(header, "big")))


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part, f"closed after {len(data)} of {size} bytes"
        data += part
    return data


@contextmanager
def served(
    path: Path,
    rig: Rig | None = None,
    *,
    before: Callable[[], None] = lambda: None,
    **settings: Any,
) -> Iterator[Served]:
    """``before`` is called when the lock is held and the socket is not open yet."""
    with running(rig) as found:
        folder = make_folder(path, found.world)
        world = Served(found, folder, settings=settings)
        up = threading.Event()
        loop = asyncio.new_event_loop()
        down = asyncio.Event()
        thread = threading.Thread(
            target=lambda: loop.run_until_complete(world.serve(up, down)), name="server"
        )
        with WorldLock(folder):
            before()
            thread.start()
            assert up.wait(TIMEOUT_S), "the server never came up"
            try:
                yield world
            finally:
                loop.call_soon_threadsafe(down.set)
                thread.join(TIMEOUT_S)
                loop.close()
