"""Run a world with its front: the kernel process of ``aos node`` (spec/node.md, N-1 to N-8).

It also keeps the local workers running: it starts them, restarts them, or gives up (N-9). A worker
is a process of its own, ``python -m aos.node.worker.local_worker``, and a client of the node as any
other. It ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from nacl.signing import SigningKey

from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import BadUsage, Refused, Unavailable
from aos.fastcore.core_kind import CoreKind
from aos.host.executors.pool import Coverage
from aos.host.executors.python import path_flags
from aos.host.executors.supervisor import (
    BACKOFF_S,
    BACKOFF_S_MAX,
    QUICK_DEATHS_MAX,
    QUICK_S,
)
from aos.host.executors.task import Report, report_to_stderr
from aos.host.folder.folder import WorldFolder, is_replicated, open_folder
from aos.host.folder.restore import Progress
from aos.host.process import (
    NO_REPLICA_OPTIONS,
    Ended,
    Executors,
    ReplicaOptions,
    RunningWorld,
    RunSettings,
    Started,
    Status,
    run_world,
)
from aos.host.world.snapshots import Every
from aos.manifest.effective import Effective
from aos.node.front_relay import ask_front
from aos.node.leases.table import begin_table, clear_table, leased
from aos.node.mounted import Mounted
from aos.node.node_settings import read_settings
from aos.node.sockets import (
    HTTP_SOCKET,
    ListenAddress,
    Tls,
    actual,
    check_access,
    own_socket,
    tcp_socket,
)
from aos.node.supervision import COMMAND, Supervision
from aos.node.tokens import NODE, load
from aos.read.index.indexed_workflows import check_search
from aos.store.store import Store
from aos.values.digests import Hash

LISTEN: Final = ListenAddress(host="127.0.0.1", port=7460)

MODULE: Final = "aos.node.worker.local_worker"

DRAIN_S: Final = 10.0
"""Seconds that the workers may take to end what runs once the node stops; the node takes results
for as long (N-8). Then they are killed, and their tasks are offered again after the next start."""

_DELIBERATE: Final = (Refused.exit_code, BadUsage.exit_code)
"""Exit codes of a worker that was started wrongly: it would end in the same way again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddresses:
    """A node that answers: its address and the paths that it serves. ``is_open`` is whether clients
    on this machine need no token."""

    url: str
    own_socket: Path
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """How a node runs. ``listen`` None: only on DIR/node/http.sock. ``operator_key`` signs the
    commands of clients whose token may operate. ``workers`` name functions (M:A), each for a local
    worker. ``mount`` is set if a router serves the world. The others are those of ``run_world``."""

    listen: ListenAddress | None = LISTEN
    tls: Tls | None = None
    is_insecure: bool = False
    mount: Mounted | None = None
    operator_key: SigningKey | None = None
    executors: Executors = lambda _blob, _world: ()
    workers: Sequence[str] = ()
    has_neighbours: bool = False
    snapshot_every: Every | None = None
    cells_kept: int | None = None
    core: CoreKind | None = None
    replica: ReplicaOptions = NO_REPLICA_OPTIONS
    handle_signals: bool = True
    report: Report = report_to_stderr
    on_fold: Progress | None = None
    on_started: Callable[[Started], None] | None = None
    on_open: Callable[[NodeAddresses], None] = lambda _: None
    on_running: Callable[[RunningWorld], None] = lambda _: None
    on_status: Callable[[Status], None] | None = None
    on_coverage: Callable[[Coverage, Effective], None] | None = None
    front: Sequence[str] = field(default=COMMAND)
    """The command of the front's process."""


async def run_node(path: Path, options: NodeOptions) -> Ended:
    """Run the world at ``path`` and serve it over HTTP until a signal or a client's ``stop``.

    At the end the front answers its last requests for up to ten seconds, or until a second signal;
    then the world stops as ``run_world`` does.

    Raises:
        Refused: The node may not listen at this address, or a key may be read by others.
        BadUsage: There is no such world, host or file, or ``node.toml`` is invalid.
        Unavailable: The port is taken, another process runs the world, or the front died too often.
        Damage: As ``run_world``.
    """
    folder = open_folder(path)
    if options.tls is not None:
        options.tls.check()
    with contextlib.ExitStack() as stack:
        tcp = None
        if options.listen is not None:
            tcp = stack.enter_context(tcp_socket(options.listen))
            check_access(
                folder,
                actual(tcp),
                has_tls=options.tls is not None,
                is_insecure=options.is_insecure,
            )
        return await run_world(
            path,
            RunSettings(
                executors=options.executors,
                handle_signals=options.handle_signals,
                report=options.report,
                snapshot_every=options.snapshot_every,
                cells_kept=options.cells_kept,
                core=options.core,
                replica=options.replica,
                on_fold=options.on_fold,
                on_started=partial(_started, options),
                on_status=options.on_status,
                on_coverage=options.on_coverage,
                elsewhere=True,
                has_neighbours=options.has_neighbours,
                operator_key=options.operator_key,
                leases=partial(_leases, path),
                around=partial(_with_front, options, tcp),
                front=partial(ask_front, folder.path / NODE / HTTP_SOCKET),
            ),
        )


def _started(options: NodeOptions, started: Started) -> None:
    """Check what depends on the manifest in force (SE-21), then call the node's own ``on_started``.

    Raises:
        BadUsage: ``node.toml`` names a path that states do not have.
    """
    check_search(read_settings(started.folder.path).search, started.manifest)
    if options.on_started is not None:
        options.on_started(started)


def _leases(path: Path, store: Store) -> Mapping[Hash, int]:
    if is_replicated(path):
        clear_table(path)  # another node may have given out tasks since (CL-112)
    begin_table(path, store)
    return leased(path)


@contextlib.asynccontextmanager
async def _with_front(
    options: NodeOptions, tcp: socket.socket | None, running: RunningWorld
) -> AsyncIterator[None]:
    """Serve the world while the block runs (H-82a)."""
    loop = asyncio.get_running_loop()
    with own_socket(running.folder) as unix_socket:
        doors = [unix_socket] if tcp is None else [tcp, unix_socket]
        if options.mount is not None:
            doors.append(options.mount.door)
        front = Supervision(
            settings(options, running.folder, tcp=tcp, unix_socket=unix_socket),
            [door.fileno() for door in doors],
            report=running.report,
            failed=running.fail,
            command=options.front,
        )
        workers = LocalWorkers(
            running.folder.path.resolve(),
            options.workers,
            report=running.report,
            failed=running.fail,
        )
        options.on_running(running)
        try:
            if options.handle_signals:
                loop.add_signal_handler(signal.SIGHUP, front.reload)
            if await front.start(running.hurry):
                workers.start()
                options.on_open(_addresses_of(options, running.folder, tcp))
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            running.announce_stop()
            # The front answers while a worker has a task.
            await asyncio.gather(workers.stop(running.hurry), front.stop(running.hurry))


def settings(
    options: NodeOptions,
    folder: WorldFolder,
    *,
    tcp: socket.socket | None,
    unix_socket: socket.socket,
) -> dict[str, Any]:
    """The front's settings: its first line on stdin."""
    return {
        "world": str(folder.path.absolute()),
        "tcp": None if tcp is None else tcp.fileno(),
        "unix": unix_socket.fileno(),
        "address": None if tcp is None else actual(tcp).text,
        "tls": None if options.tls is None else options.tls.document(),
        "insecure": options.is_insecure,
        "operator_key": options.operator_key is not None,
        "mount": None if options.mount is None else options.mount.settings(),
    }


def _addresses_of(
    options: NodeOptions, folder: WorldFolder, tcp: socket.socket | None
) -> NodeAddresses:
    scheme = "http" if options.tls is None else "https"
    return NodeAddresses(
        url="" if tcp is None else f"{scheme}://{actual(tcp).text}",
        own_socket=folder.path / NODE / HTTP_SOCKET,
        is_open=tcp is not None and not len(load(folder)),
    )


class LocalWorkers:
    """One worker for each of ``specs`` (M:A), over all their lives. Used from one event loop.

    ``failed`` is called, with the reason, when a worker is not started any more.
    """

    def __init__(
        self,
        world: Path,
        specs: Sequence[str],
        *,
        report: Report,
        failed: Callable[[Exception], None],
    ) -> None:
        self._world = world
        self._specs = specs
        self._report = report
        self._failed = failed
        self._stopping = asyncio.Event()
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers. They wait for the node if it does not answer yet."""
        self._tasks = [asyncio.create_task(self._supervise(spec)) for spec in self._specs]

    async def _supervise(self, spec: str) -> None:
        """Run one worker after another, until that is pointless or the node stops."""
        clock_s = asyncio.get_running_loop().time
        quick = 0
        while not self._stopping.is_set():
            begun_s = clock_s()
            try:
                code = await self._live(spec)
            except OSError as error:
                self._failed(Unavailable(f"the worker {spec} cannot be started: {error}"))
                return
            if self._stopping.is_set():
                return
            if code in _DELIBERATE:
                self._failed(BadUsage(f"the worker {spec} cannot be started; its message is above"))
                return
            quick = quick + 1 if clock_s() - begun_s < QUICK_S else 1
            ending = f"signal {-code}" if code < 0 else f"exit code {code}"
            if quick >= QUICK_DEATHS_MAX:
                self._failed(
                    Unavailable(
                        f"the worker {spec} died {quick} times in a row, each time within "
                        f"{QUICK_S:.0f} s of its start ({ending}; see its output above); the world "
                        "was stopped, and everything acknowledged is durable"
                    )
                )
                return
            self._report(f"the worker {spec} died ({ending}); it is started again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(BACKOFF_S * 2.0 ** (quick - 1), BACKOFF_S_MAX)):
                    await self._stopping.wait()

    async def _live(self, spec: str) -> int:
        """Run one worker from its start to its end; return its exit code. Raises OSError."""
        paths = os.pathsep.join(path for path in sys.path if path)
        process = self._processes[spec] = await asyncio.create_subprocess_exec(
            sys.executable, *path_flags(spec), *QUICK_PROGRAM, MODULE, str(self._world), spec,
            stdin=subprocess.PIPE,
            # Ctrl-C is for the kernel process, which lets the workers end what runs.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        try:
            return await process.wait()
        finally:
            del self._processes[spec]
            if process.returncode is None:
                process.kill()
                await asyncio.shield(process.wait())

    async def stop(self, hurry: asyncio.Event) -> None:
        """Let the workers end what runs, at most ``DRAIN_S`` seconds or until ``hurry``; then kill
        them, and start no other."""
        self._stopping.set()
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        if not self._tasks:
            return
        ended = asyncio.ensure_future(asyncio.gather(*self._tasks, return_exceptions=True))
        hurried = asyncio.create_task(hurry.wait())
        try:
            ends: set[asyncio.Future[Any]] = {ended, hurried}
            await asyncio.wait(ends, timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(ended, hurried, return_exceptions=True)
