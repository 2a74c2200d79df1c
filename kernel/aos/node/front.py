"""The program of the front: it serves one world over HTTP (spec/node-api.md, N-103 to N-109).

    python -m aos.node.front

The kernel process starts it with listening sockets as inherited descriptors and one line of JSON on
stdin. It prints ``ready`` on stdout once it answers, and ends within two seconds after the end of
stdin. It holds no key.

Settings: ``{"world": PATH, "tcp": fd | null, "unix": fd | null, "address": "HOST:PORT",
"tls": {"cert", "key", "client_ca"} | null, "insecure": bool, "operator_key": bool,
"mount": null | {"name", "door": fd, "server": [HOST, PORT], "scheme", "tokens": PATH | null}}``
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import uvloop

from aos.errors import AosError, BadUsage
from aos.host.door.following import LiveFigures
from aos.host.door.link import Link
from aos.host.folder.folder import WorldFolder, is_replicated, open_folder
from aos.host.follower import Follower
from aos.node.application import AccessLog, App
from aos.node.bounded_server import SHUTDOWN_S, BoundedServer, read_certificate
from aos.node.bounds import CONNECTIONS_MAX
from aos.node.child_program import end_of_stdin
from aos.node.duties import Duties, TermListeners
from aos.node.kept_index import SHARE_WITH_KERNEL, KeptIndex
from aos.node.metrics import Counters
from aos.node.mount_door import MountedApp, RoutedApp
from aos.node.mounted import MountPoint
from aos.node.node_settings import NodeSettings, read_settings
from aos.node.readers import Readers
from aos.node.services import Services
from aos.node.sockets import BACKLOG, Tls
from aos.node.staged_manifest import ApplyTrials
from aos.node.supervision import REPLACE
from aos.node.tokens import LiveTokens
from aos.node.tracing.span_poster import SpanPoster, is_configured
from aos.node.waiting import OutcomeWaits
from aos.node.webhooks import WebhookPoster
from aos.private_memory import keep_memory_private
from aos.rare_collections import rare_collections
from aos.read.index.cached_index import OF_NODE

KEEP_ALIVE_S: Final = 60
"""Seconds that a connection may be idle between two requests."""

DRAIN_S: Final = 10.0
"""Seconds for which requests are still answered once the world stops."""

_QUIET_S: Final = 0.3
"""Seconds without a request after which a stopping front has drained."""

_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a front; see the module. Sockets are descriptors."""

    world: Path
    tcp: int | None
    unix: int | None
    tls: Tls | None
    operator_key: bool
    mount: MountPoint | None

    @classmethod
    def read(cls, line: str) -> Self:
        """Read one line of JSON. Raises ValueError, KeyError or TypeError for another."""
        fields = json.loads(line)
        mount, tls = fields["mount"], fields["tls"]
        return cls(
            world=Path(fields["world"]),
            tcp=fields["tcp"],
            unix=fields["unix"],
            tls=None if tls is None else Tls.read(tls),
            operator_key=fields["operator_key"],
            mount=None if mount is None else MountPoint.read(mount),
        )


def has_other_settings(world: Path, in_use: NodeSettings) -> bool:
    """Whether ``node.toml`` has changed. If it cannot be read, the settings in use stay."""
    try:
        return read_settings(world) != in_use
    except BadUsage as problem:
        _report(f"the settings in use stay: {problem}")
        return False


Extend: TypeAlias = Callable[[App, Services], Any]
"""Returns an ASGI application that serves other paths than those of the API, too."""


async def serve(
    settings: Settings, until_over: asyncio.Event, *, log: AccessLog, extend: Extend | None = None
) -> int:
    """Serve until ``until_over`` is set, or until a stopping world is drained.

    ``extend`` adds other paths.

    Returns the exit code: REPLACE if another front shall continue, with other settings.

    Raises:
        AosError: The world cannot be read.
    """
    node = read_settings(settings.world)
    listeners = TermListeners()
    index, services = _services(settings, node, listeners)
    folder, follower, link = services.folder, services.follower, services.link
    await follower.start()
    gc.freeze()
    duties = Duties(services, node, listeners, _report)
    if not services.is_replica:
        await duties.open(None)
    app = App(services, log)
    is_replaced = asyncio.Event()

    def replace() -> None:
        is_replaced.set()
        services.sessions.stop()

    def on_hangup() -> None:
        if has_other_settings(folder.path, node):
            _report("the settings have changed: another front continues with them")
            replace()
        if settings.tls is not None:
            read_certificate([server for server, _ in servers], settings.tls, _report)

    def on_head(seq: int, figures: LiveFigures) -> None:
        services.counters.note_figures(figures)
        follower.head_arrived()
        if services.is_replica and seq > follower.head_seq() and not is_replaced.is_set():
            _report("this node has another store: another front continues with it")
            replace()

    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(link.close)
        stack.callback(follower.close)
        stack.push_async_callback(index.close)
        stack.push_async_callback(services.readers.close)
        index.start()
        stack.push_async_callback(duties.close)
        if (spans := services.spans) is not None:
            stack.callback(spans.close)
        servers = _servers(settings, app if extend is None else extend(app, services), app)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_hangup)
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(follower.run()),
            asyncio.ensure_future(link.follow(on_head, services.sessions.stop, duties.take)),
            asyncio.ensure_future(duties.run()),
            asyncio.ensure_future(services.sessions.watch(services.tokens, time.time_ns)),
            *(
                asyncio.ensure_future(http_server.serve(sockets=[sock]))
                for http_server, sock in servers
            ),
        ]
        over: asyncio.Future[Any] = asyncio.ensure_future(until_over.wait())
        drained: asyncio.Future[Any] = asyncio.ensure_future(_drained(app, is_replaced))
        await stack.enter_async_context(_ended([server for server, _ in servers], tasks))
        for server, _ in servers:
            await server.is_up.wait()
        _say_ready()
        finished, _ = await asyncio.wait(
            {over, drained, *tasks}, return_when=asyncio.FIRST_COMPLETED
        )
        for future in (over, drained):
            future.cancel()
        services.sessions.close()
        for future in finished & set(tasks):
            future.result()
    return REPLACE if is_replaced.is_set() else 0


def _services(
    settings: Settings, node: NodeSettings, listeners: TermListeners
) -> tuple[KeptIndex, Services]:
    """The services of a front whose follower has not started, and their index. ``listeners`` follow
    the records, too."""
    folder = open_folder(settings.world)
    waiting, counters = OutcomeWaits(), Counters()
    follower = Follower(folder.path, [waiting, counters, *listeners.all])
    index = KeptIndex(
        folder.path,
        follower.head_seq,
        _report,
        index_folder=folder.path / OF_NODE,
        share=SHARE_WITH_KERNEL,
        settings=node.search,
    )
    services = Services(
        folder=folder,
        link=Link(folder),
        follower=follower,
        tokens=LiveTokens(
            folder,
            time.monotonic,
            _report,
            shared=None if settings.mount is None else settings.mount.tokens,
        ),
        waiting=waiting,
        counters=counters,
        readers=Readers(folder.path, index=lambda: index.folder),
        trials=ApplyTrials(folder.path),
        index=index,
        is_replica=is_replicated(folder.path),
        has_operator_key=settings.operator_key,
        webhooks=[WebhookPoster(webhook, folder, follower, _report) for webhook in node.webhooks],
        spans=_spans(folder, follower),
        mount=settings.mount,
    )
    return index, services


@contextlib.asynccontextmanager
async def _ended(
    servers: Sequence[BoundedServer], tasks: Sequence[asyncio.Future[Any]]
) -> AsyncIterator[None]:
    """End the servers and the tasks after the block."""
    try:
        yield
    finally:
        for server in servers:
            server.should_exit = True
        serving = tasks[-len(servers) :] if servers else ()
        if serving:
            await asyncio.wait(serving, timeout=SHUTDOWN_S + 0.5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _drained(app: App, is_replaced: asyncio.Event) -> None:
    """Return when the world stops and the requests under way are answered, or after DRAIN_S. A
    front that ``is_replaced`` leaves the leases to the next one."""
    services = app.state
    await services.sessions.stopping.wait()
    if services.work is not None and not is_replaced.is_set():
        await services.work.drain()
    if services.steps is not None:
        services.steps.stop()
    until_s = time.monotonic() + DRAIN_S
    quiet_since_s = time.monotonic()
    while (now_s := time.monotonic()) < until_s:
        leased = 0
        if services.work is not None and not is_replaced.is_set():
            leased = services.work.figures().leased
        if app.requests or leased:
            quiet_since_s = now_s
        if now_s - quiet_since_s >= _QUIET_S:
            return
        await asyncio.sleep(_LOOK_S)


def _spans(folder: WorldFolder, follower: Follower) -> SpanPoster | None:
    """The poster of spans, if the environment has an endpoint for them (N-80)."""
    if not is_configured():
        return None
    try:
        # Half a second, and packages of an extra: only a node that exports spans needs them.
        from aos.node.tracing.otlp import OtlpExporter  # noqa: PLC0415
    except ImportError as error:
        _report(
            f"spans are not exported, because a package is missing: {error} (install the extra: "
            "pip install 'aos-kernel[otel]', or remove OTEL_EXPORTER_OTLP_ENDPOINT)"
        )
        return None
    return SpanPoster(folder, follower, OtlpExporter(), _report)


def _servers(
    settings: Settings, served: Any, api: App
) -> list[tuple[BoundedServer, socket.socket]]:
    """The server of each listening socket. That of a router has no certificate, and needs none."""
    mount = settings.mount
    if mount is None:
        return [_server(served, fd, tls) for fd, tls in _doors(settings)]
    at_name = MountedApp(served, api, mount)
    own = [_server(at_name, fd, tls) for fd, tls in _doors(settings)]
    return [*own, _server(RoutedApp(at_name, mount), mount.door, None)]


def _doors(settings: Settings) -> list[tuple[int, Tls | None]]:
    """Each listening descriptor, with its certificate. The node's own socket has none."""
    doors = [] if settings.tcp is None else [(settings.tcp, settings.tls)]
    return doors if settings.unix is None else [*doors, (settings.unix, None)]


def _server(app: Any, fd: int, tls: Tls | None) -> tuple[BoundedServer, socket.socket]:
    sock = socket.socket(fileno=fd)
    sock.setblocking(False)
    server = BoundedServer(app, tls=tls, backlog=BACKLOG, timeout_keep_alive=KEEP_ALIVE_S)
    return server, sock


def _report(text: str) -> None:
    sys.stderr.write(f"aos node: {text}\n")
    sys.stderr.flush()


def _say_ready() -> None:
    # If the kernel process is gone, the end of stdin ends this one too.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, b"ready\n")


def _more_descriptors() -> None:
    """Each connection is a descriptor, and many systems allow 1,024 by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors_min = 2 * CONNECTIONS_MAX + 512
    if soft < descriptors_min:
        high = descriptors_min if hard == resource.RLIM_INFINITY else min(descriptors_min, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (high, hard))


async def _main(settings: Settings, extend: Extend | None) -> int:
    with rare_collections():
        return await serve(settings, end_of_stdin(), log=AccessLog(sys.stderr), extend=extend)


def main(extend: Extend | None = None) -> int:
    """Run the front, with other paths that ``extend`` adds; return its exit code."""
    # Ctrl-C reaches the whole group of a terminal; the kernel process stops the front in order.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    line = sys.stdin.readline()
    if not line:
        return 0  # the kernel process was killed before it wrote them
    settings = Settings.read(line)
    _more_descriptors()
    try:
        return uvloop.run(_main(settings, extend))
    except AosError as error:
        _report(str(error))
        return error.exit_code


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main())
