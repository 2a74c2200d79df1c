"""A node with many worlds in this process, whose worlds are fake processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from aos.node.sockets import ListenAddress
from aos.node.worlds.hosting import HostingOptions, host_worlds
from aos.node.worlds.worlds_folder import WorldsFolder
from aos.page.hosted_page import HostedPage
from tests.node.worlds.fake_world import BEHAVIOUR

T = TypeVar("T")
WAIT_S = 60.0


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(4 * WAIT_S):
            return await coroutine

    return asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # other processes do it
            await asyncio.sleep(0.02)


@dataclass
class Host:
    """``path`` is the folder of the worlds; ``own`` and ``http`` are clients of its two doors."""

    path: Path
    url: str = ""
    own_socket: Path = Path()
    reports: list[str] = field(default_factory=list)

    def behave(self, name: str, **behaviour: Any) -> None:
        """How the process of a world behaves from now on."""
        (self.path / name / BEHAVIOUR).write_text(json.dumps(behaviour))

    def starts(self, name: str) -> list[int]:
        """The pids of all processes of a world."""
        file = self.path / name / "starts"
        return list(map(int, file.read_text().split())) if file.exists() else []

    @contextlib.asynccontextmanager
    async def hosting(self, **options: Any) -> AsyncIterator[None]:
        opened = asyncio.Event()

        def on_open(url: str, own_socket: Path) -> None:
            self.url, self.own_socket = url, own_socket
            opened.set()

        hosting = HostingOptions(
            **{
                "listen": ListenAddress(host="127.0.0.1", port=0),
                "command": (sys.executable, "-m", "tests.node.worlds.fake_world"),
                "options": {},
                "page": HostedPage(),
                "report": self.reports.append,
                "on_open": on_open,
                "handle_signals": False,
                **options,
            }
        )
        task = asyncio.create_task(host_worlds(self.path, hosting))
        opening = asyncio.create_task(opened.wait())
        await asyncio.wait({task, opening}, return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        try:
            if task.done():
                task.result()
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def http(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=WAIT_S, trust_env=False, **options)

    def own(self) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(uds=str(self.own_socket))
        return httpx.AsyncClient(transport=transport, base_url="http://node", timeout=WAIT_S)

    async def phase(self, name: str) -> str:
        async with self.own() as client:
            rows = (await client.get("/v1/worlds")).json()["worlds"]
        phase: str = next(row["phase"] for row in rows if row["name"] == name)
        return phase

    async def wake_ns(self, name: str) -> int | None:
        async with self.own() as client:
            rows = (await client.get("/v1/worlds")).json()["worlds"]
        time_ns: int | None = next(row["wake_ns"] for row in rows if row["name"] == name)
        return time_ns

    async def until_phase(self, name: str, phase: str) -> None:
        async with asyncio.timeout(WAIT_S):
            while await self.phase(name) != phase:  # noqa: ASYNC110  # other processes do it
                await asyncio.sleep(0.05)


def host(tmp_path: Path, *names: str) -> Host:
    """A folder with worlds, whose processes behave well."""
    path = tmp_path / "worlds"
    path.mkdir()
    made = Host(path)
    for name in names:
        WorldsFolder(path).create(name)
        made.behave(name)
        fall_asleep(path, name)
    return made


def fall_asleep(path: Path, name: str, wake_ns: int | None = None) -> None:
    """Mark a world as one that has nothing to do."""
    from aos.node.worlds.worlds_folder import Asleep, Hosted

    folder = WorldsFolder(path)
    mark = folder.mark(name)
    assert mark is not None
    folder.keep(name, Hosted(asleep=Asleep(mark=mark, wake_ns=wake_ns)))
