"""``aos node``: run a world and serve it over HTTP (spec/cli.md, C-110)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Final

from aos.core.state.cells import RESTING_MAX
from aos.errors import BadUsage
from aos.host.errors import NoRoomLeft, Stopping
from aos.host.folder.folder import read_key
from aos.host.folder.secrets import Secrets
from aos.host.process import Ended
from aos.host.world.snapshots import EVERY_RECORDS, Every
from aos.node.node_settings import read_settings
from aos.node.running import LISTEN, NodeAddresses, NodeOptions, run_node
from aos.node.sockets import ListenAddress, Tls
from aos.worker.host_root import host_environment, with_machine
from aos_cli.core_option import Core, chosen_core
from aos_cli.options import (
    DEFAULT_WORLD,
    AllowHttp,
    CellCacheSize,
    ExecutorSpecs,
    HostRoot,
    Json,
    SecretsFile,
    SnapshotRecords,
    World,
    flag,
    option,
)
from aos_cli.output import line, note, print_json
from aos_cli.run_process import (
    RunStart,
    figures_document,
    figures_text,
    run_screen,
    standard_executors,
)

FRONT: Final = (sys.executable, "-m", "aos.page.node_page")
"""The front with the page. It is a process of its own: the kernel process imports none of it."""

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
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    kind = chosen_core(core)
    values = Secrets(secrets)
    specs = with_machine(executors or [], host_root)
    environment = host_environment(host_root, world)
    start = RunStart(needs_executors=False)
    tls = _tls(tls_cert, tls_key, tls_client_ca)
    limits = read_settings(world).limits
    try:
        with run_screen() as screen:
            ended = asyncio.run(
                run_node(
                    world,
                    NodeOptions(
                        listen=ListenAddress.read(listen),
                        tls=tls,
                        is_insecure=insecure_http,
                        operator_key=None if operator_key is None else read_key(operator_key),
                        executors=lambda read, world: standard_executors(
                            read,
                            world,
                            specs,
                            allow_http or [],
                            values,
                            limits=limits,
                            environment=environment,
                        ),
                        workers=worker or (),
                        front=FRONT,
                        snapshot_every=Every(records=snapshot_records),
                        cells_kept=cell_cache_size,
                        core=kind,
                        report=note,
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
