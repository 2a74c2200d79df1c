"""The systems that run the three steps: each is started for its turn, measured and ended."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from aos.errors import Unavailable
from benchmarks.aims import AOS, AOS_FLOW, AOS_REFERENCE, RESTATE, RESTATE_AS_SHIPPED
from benchmarks.cores import REFERENCE, SECOND, core_environment
from benchmarks.peers import tools
from benchmarks.peers.tools import SERVICES
from benchmarks.processes import Children, run_child, wait_for

Json = dict[str, Any]

TEMPORAL: Final = "Temporal dev server, Python"
READY_S: Final = 60.0
PAUSE_S: Final = 0.1
PARTITIONS: Final = 1
AS_SHIPPED: Final = 24
"""Of Restate. With one, 2 processors were measured to do two to three times as much: more of what
is written at a time is synced at once."""

_RESTATE: Final = """\
node-name = "benchmark"
cluster-name = "benchmark"
base-dir = "{folder}"
bind-ip = "127.0.0.1"
bind-port = {node}
advertised-host = "127.0.0.1"
listen-mode = "tcp"
disable-telemetry = true
log-filter = "warn"
default-num-partitions = {partitions}

[admin]
bind-port = {admin}
disable-web-ui = true

[ingress]
bind-port = {ingress}

[log-server]
rocksdb-disable-wal-fsync = false
"""

_SQLITE: Final = ("journal_mode=WAL", "synchronous=2")
"""Of Temporal's dev server: each transaction is synced."""

_POSTGRES: Final = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """``install`` raises NotInstalled. ``measure(folder, points)`` is one turn, in a new folder."""

    name: str
    install: Callable[[], object]
    measure: Callable[[Path, Sequence[Json]], list[Json]]


# Ours


def _aos(folder: Path, points: Sequence[Json], *, core: str = SECOND) -> list[Json]:
    # In one cell runs may also overlap, which no other system offers.
    own = [*points, *({**each, "cells": "hot"} for each in points if each["cells"] == "line")]
    return _ours("steps", folder, own, core)


def _aos_flow(folder: Path, points: Sequence[Json]) -> list[Json]:
    return _ours("flow", folder, _fresh(points), SECOND)


def _ours(workload: str, folder: Path, own: Sequence[Json], core: str) -> list[Json]:
    world: Json = {"workload": workload, "path": folder / "world"}
    env = core_environment(core)
    # One item, as the other systems get before they are measured: it compiles the module.
    run_child({**world, "do": "make", "size": 1}, folder, timeout_s=READY_S, env=env)
    found: Json = run_child(
        {**world, "do": "measure", "points": own}, folder, timeout_s=_turn_s(own), env=env
    )
    return list(found["points"])


# DBOS


def _dbos_sqlite(folder: Path, points: Sequence[Json]) -> list[Json]:
    return _dbos(folder, points, f"sqlite:///{folder / 'dbos.sqlite'}")


def _dbos_postgres(folder: Path, points: Sequence[Json]) -> list[Json]:
    with postgres_running(folder) as port:
        return _dbos(folder, points, f"postgresql+psycopg://bench@127.0.0.1:{port}/postgres")


@contextmanager
def postgres_running(folder: Path) -> Iterator[int]:
    """Run PostgreSQL with a new database, which syncs each commit, until the block ends; its
    port."""
    found = tools.postgres()
    home, log = folder / "postgres", folder / "postgres.log"
    home.mkdir(mode=0o700)
    if found.user is not None:
        shutil.chown(home, found.user, found.user)
    data, [port] = home / "data", free_ports(1)
    with Children() as children:
        made = children.start(
            [found.initdb, "-D", data, "-U", "bench", "-A", "trust", "--locale=C", "-E", "UTF8"],
            log=log, user=found.user, cwd=home,
        )  # fmt: skip
        if made.wait(READY_S) != 0:
            raise Unavailable(f"initdb failed: {log.read_text()[-500:]}")
        settings = (*_POSTGRES, "listen_addresses=127.0.0.1", f"unix_socket_directories={home}")
        server = children.start(
            [found.postgres, "-D", data, "-p", str(port), *(f"--{each}" for each in settings)],
            log=log, user=found.user, cwd=home, end=signal.SIGINT,
        )  # fmt: skip
        ask = [str(found.is_ready), "-q", "-h", "127.0.0.1", "-p", str(port)]
        until(lambda: _succeeds(ask), server, log)
        yield port


def _dbos(folder: Path, points: Sequence[Json], url: str) -> list[Json]:
    out = folder / "found.json"
    given = json.dumps({"url": url, "points": points, "out": str(out)})
    command: list[str | Path] = [tools.python(), SERVICES / "dbos_app.py", given]
    wait_for(command, folder=folder, timeout_s=_turn_s(points), log=folder / "dbos.log")
    found: list[Json] = json.loads(out.read_text())
    return found


# Restate


def _restate_typescript(
    folder: Path, points: Sequence[Json], *, partitions: int = PARTITIONS
) -> list[Json]:
    node, service = tools.node(), tools.NODE / "restate_service.mjs"
    # Next to its packages, where a module looks for them.
    shutil.copyfile(SERVICES / service.name, service)
    env = {"NODE_ENV": "production", "RESTATE_LOGGING": "ERROR"}
    return _restate(folder, points, [node, service], env, partitions)


def _restate_python(folder: Path, points: Sequence[Json]) -> list[Json]:
    command = [tools.python(), SERVICES / "restate_service.py"]
    return _restate(folder, points, command, {}, PARTITIONS)


def _restate(
    folder: Path,
    points: Sequence[Json],
    command: Sequence[Path],
    env: Mapping[str, str],
    partitions: int,
) -> list[Json]:
    paths = [_path(cells) for cells in ("fresh", "line")]
    with restate_running(folder, command, env, partitions, paths) as ingress:
        return [call_service(folder, ingress, point) for point in points]


@contextmanager
def restate_running(
    folder: Path,
    command: Sequence[Path],
    env: Mapping[str, str],
    partitions: int,
    paths: Sequence[str],
) -> Iterator[int]:
    """Run Restate with a service until the block ends; the port of its ingress, which answers at
    these paths."""
    node, admin, ingress, service = free_ports(4)
    config = folder / "restate.toml"
    config.write_text(
        _RESTATE.format(
            folder=folder / "restate", node=node, admin=admin, ingress=ingress,
            partitions=partitions,
        )
    )  # fmt: skip
    log = folder / "restate.log"
    with Children() as children:
        children.start([*command, str(service)], log=folder / "service.log", env=env)
        server = children.start(
            [tools.restate_server(), "--no-logo", "--config-file", config], log=log
        )
        until(lambda: answers(f"http://127.0.0.1:{admin}/health"), server, log)
        deployment = json.dumps({"uri": f"http://127.0.0.1:{service}"}).encode()
        until(lambda: answers(f"http://127.0.0.1:{admin}/deployments", deployment), server, log)
        urls = [f"http://127.0.0.1:{ingress}{each}" for each in paths]
        until(lambda: all(answers(url, b'{"by": 0}') for url in urls), server, log)
        yield ingress


def call_service(folder: Path, port: int, point: Json) -> Json:
    """Run callers of the three steps at an ingress of Restate; return the figures of a point."""
    out = folder / "found.json"
    given = {"port": port, "path": _path(point["cells"]), "point": point, "out": str(out)}
    command = [sys.executable, "-m", "benchmarks.peers.http_load", json.dumps(given)]
    wait_for(command, folder=folder, timeout_s=_turn_s([point]), log=folder / "callers.log")
    found: Json = json.loads(out.read_text())
    return found


def _path(cells: str) -> str:
    return "/line/hot/run" if cells == "line" else "/steps/run"


# Temporal


def _temporal(folder: Path, points: Sequence[Json]) -> list[Json]:
    own, log = _fresh(points), folder / "temporal.log"
    port, http, metrics = free_ports(3)
    with Children() as children:
        server = children.start(
            [
                tools.temporal(), "server", "start-dev", "--headless", "--ip", "127.0.0.1",
                "--port", str(port), "--http-port", str(http), "--metrics-port", str(metrics),
                "--db-filename", folder / "temporal.sqlite", "--log-level", "error",
                *(word for each in _SQLITE for word in ("--sqlite-pragma", each)),
            ],
            log=log, end=signal.SIGINT,
        )  # fmt: skip
        health = [tools.temporal(), "operator", "cluster", "health"]
        ask = [*map(str, health), "--address", f"127.0.0.1:{port}"]
        until(lambda: _succeeds(ask), server, log)
        out = folder / "found.json"
        given = json.dumps({"address": f"127.0.0.1:{port}", "points": own, "out": str(out)})
        command: list[str | Path] = [tools.python(), SERVICES / "temporal_app.py", given]
        wait_for(command, folder=folder, timeout_s=_turn_s(own), log=folder / "worker.log")
    found: list[Json] = json.loads(out.read_text())
    return found


# Shared by all systems


def _fresh(points: Sequence[Json]) -> list[Json]:
    """The points of a system whose runs do not wait in line for a key."""
    return [each for each in points if each["cells"] != "line"]


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _turn_s(points: Sequence[Json]) -> float:
    loads_s: float = sum(4 * (each["seconds"] + each["warm_s"]) + 10 for each in points)
    return READY_S + loads_s


def free_ports(count: int) -> list[int]:
    """Different ports on which no process listens at present."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def until(is_so: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not is_so():
        if process.poll() is not None or time.monotonic() > deadline:
            words = log.read_text(errors="replace")[-1_000:] if log.exists() else ""
            raise Unavailable(f"{process.args!r} did not get ready:\n{words}")
        time.sleep(PAUSE_S)


def answers(url: str, body: bytes | None = None) -> bool:
    """Whether a GET, or a POST of ``body``, is answered with 2xx. Proxies are for other hosts."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Content-Type": "application/json"}
    try:
        with opener.open(urllib.request.Request(url, body, headers), timeout=10) as answer:
            status: int = answer.status
            return 200 <= status < 300
    except OSError:
        return False


def _both(*installs: Callable[[], object]) -> Callable[[], object]:
    return lambda: [each() for each in installs]


SYSTEMS: Final = (
    System(name=AOS, install=lambda: None, measure=_aos),
    System(name=AOS_REFERENCE, install=lambda: None, measure=partial(_aos, core=REFERENCE)),
    System(name=AOS_FLOW, install=lambda: None, measure=_aos_flow),
    System(name="DBOS, SQLite", install=tools.python, measure=_dbos_sqlite),
    System(
        name="DBOS, PostgreSQL", install=_both(tools.python, tools.postgres), measure=_dbos_postgres
    ),
    System(name=RESTATE, install=tools.restate_server, measure=_restate_typescript),
    System(
        name=RESTATE_AS_SHIPPED,
        install=tools.restate_server,
        measure=partial(_restate_typescript, partitions=AS_SHIPPED),
    ),
    System(
        name="Restate, Python",
        install=_both(tools.python, tools.restate_server),
        measure=_restate_python,
    ),
    System(name=TEMPORAL, install=_both(tools.python, tools.temporal), measure=_temporal),
)


def versions(installed: Sequence[System]) -> dict[str, str]:
    """Of what the installed systems are made of."""
    names = {each.name for each in installed}
    found: dict[str, str] = {}
    if names - {AOS, AOS_REFERENCE, AOS_FLOW, RESTATE, RESTATE_AS_SHIPPED}:
        packages = ("dbos", "restate-sdk", "temporalio")
        found |= tools.package_versions(tools.python(), packages)
    if "DBOS, SQLite" in names:
        code = "import sqlite3; print(sqlite3.sqlite_version)"
        found["SQLite"] = tools.version_of(tools.python(), "-c", code)
    if "DBOS, PostgreSQL" in names:
        found["PostgreSQL"] = tools.version_of(tools.postgres().postgres, "--version")
    if names & {RESTATE, RESTATE_AS_SHIPPED, "Restate, Python"}:
        found["restate-server"] = tools.version_of(tools.restate_server(), "--version")
        package = tools.NODE / "node_modules" / "@restatedev" / "restate-sdk" / "package.json"
        found["@restatedev/restate-sdk"] = json.loads(package.read_text())["version"]
        found["Node"] = tools.version_of(tools.node(), "--version")
    if TEMPORAL in names:
        found["Temporal CLI"] = tools.TEMPORAL.read_text().strip().rpartition("@v")[2]
        found["its server"] = tools.version_of(tools.temporal(), "--version", after="Server ")
    return found
