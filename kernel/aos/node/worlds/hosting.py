"""Host all worlds of a folder behind one address: ``aos node --worlds DIR``
(spec/worlds.md, WD-10 to WD-18).

    this process   listens, routes, keeps the worlds' processes running; it holds no key of a world
    a world        a process of its own, with its own front (mounted_world)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from aos.host.executors.task import Report
from aos.host.folder.group import find_group
from aos.node.application import AccessLog
from aos.node.bounded_server import SHUTDOWN_S, BoundedServer, read_certificate
from aos.node.front import KEEP_ALIVE_S
from aos.node.sockets import (
    BACKLOG,
    HTTP_SOCKET,
    ListenAddress,
    Tls,
    actual,
    check_access,
    own_socket,
    tcp_socket,
)
from aos.node.tokens import NODE, TOKENS, LiveTokens
from aos.node.worlds.group_front import GroupFront
from aos.node.worlds.hosted_world import Hosting
from aos.node.worlds.hosted_worlds import HostedWorlds
from aos.node.worlds.mounted_world import MountedSettings
from aos.node.worlds.router import ListPage, Router
from aos.node.worlds.worlds_folder import WorldsFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingOptions:
    """How the worlds of a folder are hosted. ``command`` runs ``mounted_world`` with the options
    ``options``; ``idle_s`` is that of ``HostedWorlds``. ``on_open`` is called with the URL, empty
    without one, and the path of the node's own socket."""

    listen: ListenAddress | None
    command: Sequence[str]
    options: Mapping[str, Any]
    page: ListPage
    report: Report
    on_open: Callable[[str, Path], None]
    tls: Tls | None = None
    is_insecure: bool = False
    idle_s: float | None = None
    handle_signals: bool = True


async def host_worlds(path: Path, hosting: HostingOptions) -> None:
    """Host the worlds in ``path`` until SIGINT or SIGTERM. Then requests under way are cut, and
    each world ends in order.

    Raises:
        BadUsage: There is no such folder, or it is a world's; there is no such host or file.
        Refused: The node may not listen at this address.
        Unavailable: The port is taken, another node hosts these worlds, or a shard of the group is
            missing.
        Damage: A shard's folder holds another world than the group's.
    """
    folder = WorldsFolder(path)
    folder.check()
    group = find_group(path)
    if group is not None:
        group.folders()
    if hosting.tls is not None:
        hosting.tls.check()
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(folder.locked())
        folder.sweep()
        tcp = None
        if hosting.listen is not None:
            tcp = stack.enter_context(tcp_socket(hosting.listen))
            check_access(
                folder,
                actual(tcp),
                has_tls=hosting.tls is not None,
                is_insecure=hosting.is_insecure,
                lack="there is no token for all worlds",
                option="--worlds",
            )
        unix_socket = stack.enter_context(own_socket(folder))
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aos-")))
        worlds = HostedWorlds(
            Hosting(
                folder=folder,
                command=hosting.command,
                line=partial(_line, folder, tcp, hosting),
                sockets=sockets,
                report=hosting.report,
            ),
            hosting.idle_s,
        )
        stack.push_async_callback(worlds.close)
        tokens = LiveTokens(folder, time.monotonic, hosting.report)
        router = Router(
            worlds,
            tokens,
            AccessLog(sys.stderr),
            hosting.page,
            None if group is None else GroupFront(worlds, group),
        )
        over = asyncio.Event()
        servers = await stack.enter_async_context(_serving(router, tcp, unix_socket, hosting.tls))

        def reload() -> None:
            worlds.reload()
            if hosting.tls is not None:
                read_certificate(servers, hosting.tls, hosting.report)

        if hosting.handle_signals:
            stack.enter_context(_signals(over, reload))
        tending = asyncio.create_task(worlds.run())
        ending = asyncio.create_task(over.wait())
        scheme = "http" if hosting.tls is None else "https"
        url = "" if tcp is None else f"{scheme}://{actual(tcp).text}"
        hosting.on_open(url, folder.path / NODE / HTTP_SOCKET)
        try:
            await asyncio.wait({tending, ending}, return_when=asyncio.FIRST_COMPLETED)
            if tending.done():
                tending.result()
        finally:
            for task in (tending, ending):
                task.cancel()
            await asyncio.gather(tending, ending, return_exceptions=True)


def _line(
    folder: WorldsFolder, tcp: socket.socket | None, hosting: HostingOptions, name: str, door: int
) -> dict[str, Any]:
    """The settings of a world's process."""
    address = ListenAddress(host="localhost", port=0) if tcp is None else actual(tcp)
    return MountedSettings(
        world=folder.path.absolute() / name,
        name=name,
        door=door,
        server=(address.host, address.port),
        scheme="http" if hosting.tls is None else "https",
        tokens=folder.path.absolute() / NODE / TOKENS,
        options=hosting.options,
    ).document()


@contextlib.asynccontextmanager
async def _serving(
    router: Router, tcp: socket.socket | None, unix_socket: socket.socket, tls: Tls | None
) -> AsyncIterator[list[BoundedServer]]:
    """Serve HTTP inside the block."""
    doors = [(unix_socket, None), *([] if tcp is None else [(tcp, tls)])]
    servers = [
        (
            BoundedServer(router, tls=door_tls, backlog=BACKLOG, timeout_keep_alive=KEEP_ALIVE_S),
            door,
        )
        for door, door_tls in doors
    ]
    serving = [asyncio.ensure_future(server.serve(sockets=[door])) for server, door in servers]
    try:
        yield [server for server, _ in servers]
    finally:
        for server, _ in servers:
            server.should_exit = True
        await asyncio.wait(serving, timeout=SHUTDOWN_S + 0.5)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


@contextlib.contextmanager
def _signals(over: asyncio.Event, reload: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGINT: over.set, signal.SIGTERM: over.set, signal.SIGHUP: reload}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
