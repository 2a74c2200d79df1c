"""Restate's server on three nodes, replication 2, each of which can be killed."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from aos.errors import Unavailable
from benchmarks.benchmark import tell
from benchmarks.cluster.bench_servers import wait_until
from benchmarks.cluster.probe import Probe
from benchmarks.cluster.processor import processor_s
from benchmarks.cluster.silence import balance
from benchmarks.cluster.takeovers import CALLERS, silence_after
from benchmarks.peers import systems, tools
from benchmarks.plan import Point
from benchmarks.processes import Children

Json = dict[str, Any]

NODES: Final = 3
ANSWER_S: Final = 20.0

_LEADERS: Final = re.compile(r"^restate_num_active_partition_leaders\{[^}]*\} (\d+)", re.MULTILINE)

_SETTINGS: Final = """\
node-name = "{name}"
cluster-name = "benchmark"
base-dir = "{folder}"
bind-ip = "127.0.0.1"
bind-port = {node}
advertised-host = "127.0.0.1"
listen-mode = "tcp"
disable-telemetry = true
log-filter = "warn"
auto-provision = {provisions}
default-num-partitions = {partitions}
default-replication = 2

[metadata-client]
addresses = {addresses}

[admin]
bind-port = {admin}
disable-web-ui = true

[ingress]
bind-port = {ingress}

[log-server]
rocksdb-disable-wal-fsync = false
"""


@dataclass(slots=True, kw_only=True)
class RestateNode:
    """One node and its ports. ``process`` is None before its start."""

    name: str
    node: int
    admin: int
    ingress: int
    settings: Path
    process: subprocess.Popen[bytes] | None = None

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.ingress}{path}"

    @property
    def log(self) -> Path:
        return self.settings.with_suffix(".log")

    @property
    def leads(self) -> bool:
        """Whether it leads the partition, by its own metrics."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.node}/metrics", timeout=5) as answer:
                leaders = _LEADERS.search(answer.read().decode())
        except OSError:
            return False
        return leaders is not None and int(leaders[1]) > 0


class RestateCluster:
    """Three nodes and the process of their service, in ``folder``."""

    def __init__(self, folder: Path, children: Children) -> None:
        self._folder = folder
        self._children = children
        ports = iter(systems.free_ports(3 * NODES + 1))
        self._service_port = next(ports)
        self.nodes = [
            RestateNode(
                name=name, node=next(ports), admin=next(ports), ingress=next(ports),
                settings=folder / f"{name}.toml",
            )
            for name in ("n1", "n2", "n3")
        ]  # fmt: skip
        self._service: subprocess.Popen[bytes] | None = None

    @property
    def pids(self) -> list[int]:
        """All processes: the servers, and that of the service."""
        processes = [self._service, *(node.process for node in self.nodes)]
        return [process.pid for process in processes if process is not None]

    def start(self) -> None:
        """Run everything, and wait until each node answers calls."""
        service = tools.NODE / "restate_service.mjs"
        shutil.copyfile(tools.SERVICES / service.name, service)
        self._service = self._children.start(
            [tools.node(), service, str(self._service_port)], log=self._folder / "service.log",
            env={"NODE_ENV": "production", "RESTATE_LOGGING": "ERROR"},
        )  # fmt: skip
        addresses = json.dumps([f"http://127.0.0.1:{node.node}" for node in self.nodes])
        for node in self.nodes:
            node.settings.write_text(
                _SETTINGS.format(
                    name=node.name, folder=self._folder / node.name, node=node.node,
                    provisions=str(node is self.nodes[0]).lower(), addresses=addresses,
                    partitions=systems.PARTITIONS, admin=node.admin, ingress=node.ingress,
                )
            )  # fmt: skip
            self.start_node(node)
        first = self.nodes[0]
        assert first.process is not None, "started"
        deployment = json.dumps({"uri": f"http://127.0.0.1:{self._service_port}"}).encode()
        url = f"http://127.0.0.1:{first.admin}/deployments"
        systems.until(lambda: systems.answers(url, deployment), first.process, first.log)
        for node in self.nodes:
            self.wait_ready(node)

    def start_node(self, node: RestateNode) -> None:
        """Run the server of a node, with the data that it has."""
        command: Sequence[str | Path] = [
            tools.restate_server(), "--no-logo", "--config-file", node.settings,
        ]  # fmt: skip
        node.process = self._children.start(command, log=node.log)

    def wait_ready(self, node: RestateNode) -> None:
        """Wait until a node answers a call."""
        assert node.process is not None, "started"
        body = b'{"by": 0}'
        url = node.url("/sum/ready/add")
        systems.until(lambda: systems.answers(url, body), node.process, node.log)

    def leader(self) -> RestateNode:
        """Return the node that leads the partition; wait until there is one."""
        leaders: list[RestateNode] = []

        def is_led() -> bool:
            leaders[:] = [node for node in self.nodes if node.leads]
            return len(leaders) == 1

        wait_until(is_led, "Restate has no leader")
        return leaders[0]


@contextmanager
def restate_cluster(folder: Path) -> Iterator[RestateCluster]:
    """Run a new cluster until the block ends."""
    with Children() as children:
        cluster = RestateCluster(folder, children)
        cluster.start()
        yield cluster


def measure_restate(points: Sequence[Point], folder: Path) -> list[Json]:
    """Run the three steps on a new cluster. The callers connect to the leader.

    Raises:
        Unavailable: A process failed, or did not get ready.
    """
    with restate_cluster(folder) as cluster:
        port = cluster.leader().ingress
        figures = []
        for point in points:
            before_s = processor_s(cluster.pids)
            measured = systems.call_service(folder, port, asdict(point))
            used_s = processor_s(cluster.pids) - before_s
            # Items of the warm-up are not counted: at the same rate, they take the same time.
            items = measured["rate"] * (point.seconds + point.warm_s)
            figures.append({**measured, "processor_ms": {"servers": used_s * 1e3 / items}})
        return figures


class RestateSender:
    """Adds 1 to the sum of a key, at one node until that does not answer, then at the next one."""

    def __init__(self, cluster: RestateCluster, number: int) -> None:
        self._nodes = cluster.nodes
        self._next = number

    def __call__(self, key: str, submission_id: str) -> None:
        node = self._nodes[self._next % len(self._nodes)]
        try:
            call_sum(node, key, 1, submission_id)
        except OSError:
            self._next += 1
            raise


def call_sum(node: RestateNode, key: str, by: int, submission_id: str | None = None) -> int:
    """Add to the sum of a key, once for each submission id, and return it.

    Raises:
        OSError: The node does not answer, or answers with an error.
    """
    headers = {"Content-Type": "application/json"}
    if submission_id is not None:
        headers["Idempotency-Key"] = submission_id
    connection = http.client.HTTPConnection("127.0.0.1", node.ingress, timeout=ANSWER_S)
    try:
        connection.request("POST", f"/sum/{key}/add", json.dumps({"by": by}), headers)
        answer = connection.getresponse()
        body = answer.read()
    except http.client.HTTPException as problem:
        raise OSError(f"no answer: {problem!r}") from problem
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(f"status {answer.status}: {body[:200]!r}")
    return int(json.loads(body))


def measure_restate_kills(folder: Path, *, kills: int) -> Json:
    """Kill the leader of a new cluster so many times, and return all times.

    Raises:
        Unavailable: A process failed, or nothing was acknowledged again.
    """
    times: list[float] = []
    with restate_cluster(folder) as cluster:
        senders = [RestateSender(cluster, number) for number in range(CALLERS)]
        with Probe(senders) as probe:
            for _ in range(kills):
                leader = cluster.leader()
                times.append(silence_after(partial(_kill, leader), probe))
                tell(f"  Restate, kills_ms: {times[-1]:,.0f}")
                cluster.start_node(leader)
                cluster.wait_ready(leader)
        sums = {key: call_sum(cluster.leader(), key, 0) for key in probe.counts}
    return {"kills_ms": times, **asdict(balance(probe.counts, sums))}


def _kill(node: RestateNode) -> None:
    if node.process is None:
        raise Unavailable(f"{node.name} does not run")
    node.process.kill()
    node.process.wait()
