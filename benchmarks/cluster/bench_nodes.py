"""Nodes of a replicated world: folders that the commands make, and processes of ``aos run``."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from aos.errors import AosError, Unavailable
from aos.host.door.remote import ask_running
from aos.host.folder.replica_file import replica_of
from benchmarks.cluster.bench_servers import BenchServers, wait_until
from benchmarks.plan import Workload
from benchmarks.processes import Children, run_child, wait_for

AOS: Final = (sys.executable, "-m", "aos_cli.entry")
COMMAND_S: Final = 900.0
NAME: Final = "shop"
LAG_MAX: Final = 20
"""Messages that a standby may be behind while events are sent."""


def cache_environment(folder: Path) -> dict[str, str]:
    """Environment in which compiled modules are kept next to ``folder``, for all turns of a run."""
    return {"AOS_CACHE_DIR": str(folder.parent / "cache")}


def make_world(path: Path, workload: Workload, cells: int) -> None:
    """Make an embedded world with so many cells and a snapshot of them."""
    world = {"workload": workload, "path": path}
    for spec in ({"do": "make", "size": cells}, {"do": "snapshot"}):
        run_child(
            {**world, **spec}, path.parent, timeout_s=COMMAND_S, env=cache_environment(path.parent)
        )


def adopt_world(path: Path, servers: BenchServers) -> str:
    """Make an embedded world replicated: its folder becomes node ``a``. Return its stream."""
    run_aos(
        path.parent, "adopt", "--world", path, "--store", f"{servers.address}/{NAME}",
        "--replicas", str(len(servers.servers)), "--node", "a", *servers.durability_words,
    )  # fmt: skip
    return replica_of(path).stream


def join_world(path: Path, servers: BenchServers, *, keys: Path) -> None:
    """Make the folder of node ``b``."""
    run_aos(
        path.parent, "join", f"{servers.address}/{NAME}", path, "--keys", keys, "--node", "b",
        *servers.durability_words,
    )  # fmt: skip


def run_aos(folder: Path, *words: str | Path) -> None:
    """Run a command of ``aos``. Raises: Unavailable: It failed."""
    log = folder / "commands.log"
    wait_for(
        [*AOS, *words], folder=folder, timeout_s=COMMAND_S, log=log, env=cache_environment(folder)
    )


def node_status(path: Path) -> dict[str, Any]:
    """The answer of a running world to ``status``; empty while it does not answer."""
    try:
        return dict(ask_running(path, "status"))
    except AosError:
        return {}


class NodeRun:
    """``aos run`` in the folder of a node, again and again."""

    def __init__(self, path: Path, children: Children) -> None:
        self.path = path
        self._children = children
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "started"
        return self._process.pid

    @property
    def replica(self) -> dict[str, Any]:
        return dict(node_status(self.path).get("replica", {}))

    def start(self) -> None:
        self._process = self._children.start(
            [*AOS, "run", "--world", self.path], log=self.path.with_suffix(".log"),
            env=cache_environment(self.path.parent), end=signal.SIGINT,
        )  # fmt: skip

    def wait_owning(self) -> None:
        """Wait until it owns the world."""
        self._wait(lambda replica: replica.get("role") == "owner")

    def wait_following(self) -> None:
        """Wait until it follows an owner and has nearly all of the log."""
        self._wait(
            lambda replica: (
                replica.get("role") == "standby"
                and replica.get("owner") is not None
                and (replica.get("lag") or 0) <= LAG_MAX
            )
        )

    def kill(self) -> None:
        """End it as ``kill -9`` does, and return when it is gone."""
        assert self._process is not None, "started"
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it as Ctrl-C does: it releases the world. Return when it is gone."""
        assert self._process is not None, "started"
        self._process.send_signal(signal.SIGINT)
        self._process.wait(COMMAND_S)

    def _wait(self, is_so: Any) -> None:
        def is_done() -> bool:
            assert self._process is not None, "started"
            if self._process.poll() is not None:
                raise Unavailable(
                    f"aos run --world {self.path} ended with {self._process.returncode}: "
                    f"{self.path.with_suffix('.log').read_text()[-500:]}"
                )
            return bool(is_so(self.replica))

        wait_until(is_done, f"the node of {self.path} does not get ready")


def move_world(owner: NodeRun, standby: NodeRun) -> None:
    """Hand the world over to its other node, as ``aos cluster move`` does."""
    run_aos(
        owner.path.parent, "cluster", "move", NAME, "--to", standby.path.name,
        "--world", owner.path,
    )  # fmt: skip


@contextmanager
def running_servers(folder: Path, *, count: int, syncs: bool = True) -> Iterator[BenchServers]:
    """Run servers with new data until the block ends."""
    with BenchServers(folder, count=count, syncs=syncs) as servers:
        servers.start()
        yield servers
