"""``aos node``: run a world, or all worlds of a folder, and serve them over HTTP (spec/cli.md,
C-110, C-111)."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from aos.core.state.cells import RESTING_MAX
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import BadUsage
from aos.host.errors import NoRoomLeft, Stopping
from aos.host.folder.folder import is_group
from aos.host.folder.group import find_group
from aos.host.process import NO_REPLICA_OPTIONS, Ended, ReplicaOptions
from aos.host.world.snapshots import EVERY_RECORDS
from aos.node.running import LISTEN, NodeAddresses, run_node
from aos.node.sockets import ListenAddress, Tls
from aos.worker.host_root import check_host_root
from aos_cli.core_option import Core, chosen_core
from aos_cli.node_run import NodeRun
from aos_cli.options import (
    DEFAULT_WORLD,
    AllowHttp,
    CellCacheSize,
    Credentials,
    ExecutorSpecs,
    HasNeighbours,
    HostRoot,
    Json,
    Lease,
    NoReference,
    SecretsFile,
    SnapshotRecords,
    World,
    flag,
    option,
    span,
)
from aos_cli.output import line, note, print_json
from aos_cli.run_process import (
    RunStart,
    check_neighbours,
    figures_document,
    figures_text,
    replica_options,
    run_screen,
)

MOUNTED: Final = (sys.executable, *QUICK_PROGRAM, "aos_cli.mounted_node")
"""The program that runs one of many worlds."""

Listen = Annotated[
    str,
    option(
        "HOST:PORT",
        "Address of the HTTP API. Other machines can reach an address that is not a "
        "loopback address, so that one needs a token (aos token create) and TLS.",
    ),
]
TlsCert = Annotated[Path | None, option("FILE", "Certificate and its chain, in PEM format.")]
TlsKey = Annotated[Path | None, option("FILE", "Key of the certificate, in PEM format, mode 0600.")]
TlsClientCa = Annotated[
    Path | None,
    option(
        "FILE",
        "Certificates of authorities, in PEM format. Only clients whose certificate one of them "
        "has signed may connect.",
    ),
]
InsecureHttp = Annotated[
    bool,
    flag(
        "--insecure-http",
        "Serve other machines without TLS. Tokens cross the network unencrypted, unless "
        "a proxy in front of the node encrypts them.",
    ),
]
OperatorKey = Annotated[
    Path | None,
    option(
        "FILE",
        "Key of an operator, which signs the commands of clients whose token may operate "
        "(default: clients sign themselves).",
    ),
]
Workers = Annotated[
    list[str] | None,
    option(
        "M:A",
        "Run Python effects in a local worker: package.module:attribute or "
        "path/to/file.py:attribute. It claims tasks as a worker on another machine does. May be "
        "given several times.",
    ),
]


WorldsOption = Annotated[
    Path | None,
    option(
        "DIR",
        "Serve all worlds of this folder, each at /w/NAME/ (aos world create). A world is started "
        "when it is used or has something to do.",
        "--worlds",
    ),
]
Idle = Annotated[
    int | None,
    option(
        "D",
        "With --worlds: end the process of a world that has nothing to do and had no request for "
        "this time, such as 10m (default: never). It is started again at its time, or when it is "
        "used.",
        parser=span,
    ),
]


def node(
    *,
    listen: Listen = LISTEN.text,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    insecure_http: InsecureHttp = False,
    operator_key: OperatorKey = None,
    executors: ExecutorSpecs = None,
    worker: Workers = None,
    allow_http: AllowHttp = None,
    secrets: SecretsFile = None,
    host_root: HostRoot = None,
    snapshot_records: SnapshotRecords = EVERY_RECORDS,
    cell_cache_size: CellCacheSize = RESTING_MAX,
    core: Core = None,
    neighbours: HasNeighbours = False,
    worlds: WorldsOption = None,
    idle: Idle = None,
    lease: Lease = None,
    creds: Credentials = None,
    no_reference: NoReference = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    run = NodeRun(
        operator_key=operator_key,
        executors=tuple(executors or ()),
        workers=tuple(worker or ()),
        allow_http=tuple(allow_http or ()),
        secrets=secrets,
        host_root=host_root,
        snapshot_records=snapshot_records,
        cell_cache_size=cell_cache_size,
        core=chosen_core(core),
        has_neighbours=neighbours,
        replica=replica_options(lease, creds, no_reference=no_reference),
    )
    tls = _tls(tls_cert, tls_key, tls_client_ca)
    address = ListenAddress.read(listen)
    if neighbours:
        check_neighbours(world if worlds is None else worlds)
    if worlds is None and is_group(world):
        worlds = world
    if worlds is not None:
        _check_worlds(worlds, run.replica, has_idle=idle is not None)
        check_host_root(host_root, worlds)
        _host(worlds, run, address, tls, is_insecure=insecure_http, idle_ns=idle)
        return 0
    if idle is not None:
        raise BadUsage("--idle: expected --worlds DIR with it")
    start = RunStart(needs_executors=False)
    options = run.options(world)
    try:
        with run_screen() as screen:
            ended = asyncio.run(
                run_node(
                    world,
                    replace(
                        options,
                        listen=address,
                        tls=tls,
                        is_insecure=insecure_http,
                        on_fold=screen.fold,
                        on_started=start.started,
                        on_open=_announce,
                        on_status=screen.status,
                        on_coverage=start.covered,
                    ),
                )
            )
    except NoRoomLeft:
        raise
    except (KeyboardInterrupt, Stopping):
        # The signal came while the journal was read, or while the runner did not handle signals.
        note("stopped; everything acknowledged is durable")
        return 0
    _summary(ended, as_json=json)
    return 0


def _check_worlds(folder: Path, replica: ReplicaOptions, *, has_idle: bool) -> None:
    """Check the options for several worlds by their kind.

    Raises:
        BadUsage: An option is for a node of a replicated world, and these are embedded; or it is
            for embedded ones.
        Unavailable: Only some of the shards of a group are replicated.
    """
    group = find_group(folder)
    is_replicated = group is not None and group.are_replicated()
    if not is_replicated and replica != NO_REPLICA_OPTIONS:
        raise BadUsage(
            "--lease, --creds, --no-reference: expected one world, or a group of replicated worlds"
        )
    if is_replicated and has_idle:
        raise BadUsage(
            "--idle: the nodes of a group of replicated worlds never end by themselves, so that "
            "they can take over"
        )


def _host(
    folder: Path,
    run: NodeRun,
    address: ListenAddress,
    tls: Tls | None,
    *,
    is_insecure: bool,
    idle_ns: int | None,
) -> None:
    """Host all worlds of a folder until a signal."""
    # Few nodes have many worlds.
    import uvloop  # noqa: PLC0415

    from aos.node.worlds.hosting import HostingOptions, host_worlds  # noqa: PLC0415
    from aos.page.hosted_page import HostedPage  # noqa: PLC0415

    hosting = HostingOptions(
        listen=address,
        tls=tls,
        is_insecure=is_insecure,
        command=MOUNTED,
        options=run.document(),
        page=HostedPage(),
        report=note,
        idle_s=None if idle_ns is None else idle_ns / 1e9,
        on_open=partial(_announce_worlds, folder),
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(host_worlds(folder, hosting))
    note("stopped; everything acknowledged is durable")


def _announce_worlds(folder: Path, url: str, own_socket: Path) -> None:
    if is_group(folder):
        note(f"serving the group {folder} at {url}/v1/ (each shard at {url}/w/NAME/)")
    else:
        note(f"serving the worlds in {folder} at {url}/ (each at {url}/w/NAME/)")
    note(f"  without a token, for those who may read the folder: {own_socket}")


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None) -> Tls | None:
    if cert is None or key is None:
        if not (cert is None and key is None and client_ca is None):
            raise BadUsage("--tls-cert, --tls-key: expected both of them, found only one")
        return None
    return Tls(cert=cert, key=key, client_ca=client_ca)


def _announce(listener: NodeAddresses) -> None:
    """Print where the node answers, and who may use it."""
    note(f"serving {listener.url} (its API: {listener.url}/v1/openapi.json)")
    if listener.is_open:
        note(
            "  every program on this machine may send, read and work; no token exists (aos token "
            "create)"
        )
    else:
        note("  clients need a token (aos token create, list, revoke)")
    note(f"  without a token, for those who may read the folder: {listener.own_socket}")


def _summary(ended: Ended, *, as_json: bool) -> None:
    if as_json:
        print_json(figures_document(ended.stats.figures))
    else:
        line(f"stopped at {figures_text(ended.stats.figures)}")
