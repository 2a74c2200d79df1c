"""The network between one node and its servers, which a test tears and mends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, Self

HOST: Final = "127.0.0.1"
CHUNK: Final = 64 * 1024
WAIT_S: Final = 120.0


class Cut(StrEnum):
    """How a network is torn, until it is mended."""

    DROP = "drop"
    """All connections end, and new ones end at once."""
    HOLD = "hold"
    """Connections stay, and carry nothing; what is under way arrives afterwards."""
    HALVE = "halve"
    """A connection ends in the middle of what it carries next, and new ones end at once."""


class NodeNetwork:
    """A port for each of ``ports``, which are those of servers. ``servers`` are its addresses."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._cut: Cut | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._flows = self._run(_made_event())
        self._listeners = [self._run(self._listen(port)) for port in ports]
        self.servers: tuple[str, ...] = tuple(
            f"{HOST}:{listener.sockets[0].getsockname()[1]}" for listener in self._listeners
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def tear(self, cut: Cut) -> None:
        self._run(self._tear(cut))

    def mend(self) -> None:
        self._run(self._tear(None))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT_S)

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(partial(self._serve, port), HOST, 0)

    async def _tear(self, cut: Cut | None) -> None:
        self._cut = cut
        if cut is Cut.HOLD:
            self._flows.clear()
        else:
            self._flows.set()
        if cut is Cut.DROP:
            self._end_all()

    def _end_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._cut = Cut.DROP
        self._flows.set()
        self._end_all()
        while len(tasks := asyncio.all_tasks()) > 1:
            await asyncio.wait(tasks - {asyncio.current_task()})

    async def _serve(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.add(writer)
        try:
            if self._cut in (None, Cut.HOLD):
                with contextlib.suppress(OSError):
                    await self._carry(reader, writer, *await asyncio.open_connection(HOST, port))
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        """Carry bytes in both directions until one side ends."""
        self._writers.add(server_writer)
        try:
            ways = [
                asyncio.ensure_future(self._copy(reader, server_writer)),
                asyncio.ensure_future(self._copy(server_reader, writer)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            server_writer.transport.abort()
            writer.transport.abort()
            await asyncio.wait(ways)
        finally:
            self._writers.discard(server_writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._flows.wait()
                if self._cut is Cut.HALVE:
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                    return
                writer.write(data)
                await writer.drain()


async def _made_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
