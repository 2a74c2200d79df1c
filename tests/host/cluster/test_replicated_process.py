"""The socket of a node while it follows, owns the world, and follows again (spec/cluster.md, CL-110
and CL-115). The node is played by the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from aos.host import replicated_process
from aos.host.cluster.loop import OwnerTerm
from aos.host.door.line import Line
from aos.host.door.protocol import pack
from aos.host.folder.folder import open_folder
from aos.host.replicated_process import ReplicatedProcess
from aos.host.run_end import RunEnd
from tests.host.cluster.test_standby import REPLICA


class PlayedTerm:
    def ended(self, problem: object = None) -> None:
        """The node is told."""


class PlayedNode:
    """Takes over and ends when the test says so."""

    def __init__(
        self, *_: object, begin: Callable[[OwnerTerm], None], on_end: Callable[[], None], **__: Any
    ) -> None:
        self.problem = None
        self._begin = begin
        self._on_end = on_end

    def takes_over(self) -> None:
        self._begin(cast(OwnerTerm, PlayedTerm()))

    def start(self) -> None:
        """Nothing happens by itself."""

    def stop(self) -> None:
        self._on_end()

    def between_entries(self, _: object) -> None:
        """Nothing is removed."""


@contextlib.asynccontextmanager
async def running(process: ReplicatedProcess, end: RunEnd) -> AsyncIterator[None]:
    task = asyncio.create_task(process.run())
    try:
        yield
    finally:
        end.stop()
        await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.001)


def test_a_request_that_is_passed_on_outlives_the_roles_of_its_node(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CL-115: the owner that it waits for may be this node, and its term may end before."""
    monkeypatch.setattr(replicated_process, "ReplicaNode", PlayedNode)
    folder = open_folder(world)

    async def story() -> None:
        end = RunEnd(print)
        is_asked, is_owned, is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def pass_on(_: bytes) -> bytes:
            is_asked.set()
            await is_over.wait()
            return pack({"number": 7})

        async def own(_: OwnerTerm) -> None:
            process.standby.close()
            is_owned.set()

        process = ReplicatedProcess(
            folder, REPLICA, cast(Any, None), end, own,
            report=print, still_needed=cast(Any, None), pass_on=pass_on,
        )  # fmt: skip
        async with running(process, end):
            await until(folder.socket.exists)
            with Line(folder) as line, Line(folder) as later:
                asking = asyncio.create_task(line.ask({"op": "send", "items": []}))
                await is_asked.wait()
                cast(PlayedNode, process.node).takes_over()
                await is_owned.wait()
                await until(folder.socket.exists)
                assert (await later.ask({"op": "status"}))["replica"]["role"] == "standby"
                assert not asking.done()
                is_over.set()
                assert (await asking)["number"] == 7

    asyncio.run(story())
