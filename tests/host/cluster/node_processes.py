"""Nodes of a replicated world as processes of ``aos run``, on servers of the test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aos.core.decide.answers import Admitted, Answer, Duplicate
from aos.core.journal.inputs import STRICT
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Record
from aos.errors import AosError
from aos.host.door.remote import ask_running
from aos.host.door.way import WaitPatience
from aos.host.door.writer import Item, open_writer
from aos.host.folder.folder import KEYS, STORE, WORLD_FILE, open_folder
from aos.host.folder.reader import open_reader
from aos.host.folder.replica_file import replica_of
from aos.manifest.load import Loaded
from aos.store.log.logged_store import LoggedStore
from tests.cli.shell import Result, here, start
from tests.nats_servers import Servers

WAIT_S = 90.0
POLL_S = 0.1
"""Seconds between two looks at a process: each costs both of them processor time."""
LEASE_S = 2


def made(servers: Servers, folder: Path, *words: str, node: str = "a", replicas: int = 3) -> Result:
    """Make a replicated world whose name is that of the folder above."""
    monitors = [word for server in servers.servers for word in ("--monitor", server.monitor)]
    return here(
        "init", folder, "--store", f"{servers.address}/{folder.parent.name}", "--node", node,
        "--replicas", str(replicas), *monitors, *words,
    )  # fmt: skip


def joined(first: Path, folder: Path, node: str) -> Path:
    """Make the folder of another node: it follows the log from its beginning."""
    folder.mkdir(mode=0o700)
    shutil.copytree(first / KEYS, folder / KEYS)
    shutil.copy2(first / WORLD_FILE, folder / WORLD_FILE)
    replica = replica_of(first)
    with LoggedStore.create(folder / STORE) as store:
        store.begin(replica.stream)
    with open_folder(folder).open_plain() as plain:
        replace(replica, node=node).write(plain)
    return folder


def are_level(nodes: Sequence[NodeProcess]) -> bool:
    """Whether all nodes answer, and have the same position in the log."""
    positions = {node.position for node in nodes}
    return len(positions) == 1 and 0 not in positions


def waits(condition: Callable[[], object], reason: Callable[[], str] = lambda: "") -> float:
    """Wait until a condition is true; return how long that took, in seconds."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() < began_s + WAIT_S, f"it takes too long: {reason()}"
        time.sleep(POLL_S)
    return time.monotonic() - began_s


@dataclass
class NodeProcess:
    """A process of ``aos run`` in ``folder``."""

    folder: Path
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        """The lines that it has printed."""
        return self.log.read_text()

    def status(self) -> dict[str, Any]:
        """Its answer to ``status``; empty while it does not answer."""
        try:
            return dict(ask_running(self.folder, "status"))
        except AosError:
            return {}

    @property
    def replica(self) -> dict[str, Any]:
        """Its place in the log and its role."""
        return dict(self.status().get("replica", {}))

    @property
    def position(self) -> int:
        """Its position in the log; 0 while it does not answer, as between two roles."""
        return int(self.replica.get("position", 0))

    @property
    def seq(self) -> int:
        """The number of its last record; 0 while it does not answer."""
        return int(self.status().get("seq", 0))

    @property
    def has_all(self) -> bool:
        """Whether it has everything that the owner's last beat has."""
        return self.replica.get("lag") == 0

    @property
    def owns(self) -> bool:
        return self.replica.get("role") == "owner"

    @property
    def follows(self) -> bool:
        """Whether it follows an owner."""
        replica = self.replica
        return replica.get("role") == "standby" and replica.get("owner") is not None

    def wait(self, condition: Callable[[], object]) -> float:
        """Wait for something that this process does."""
        return waits(condition, lambda: f"{self.output} {self.status()}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Stop it as Ctrl-C does; return its exit code."""
        self.signal(signal.SIGINT)
        return self.process.wait(WAIT_S)


@contextmanager
def node_processes() -> Iterator[Callable[..., NodeProcess]]:
    """Start nodes in the block; they are killed after it."""
    processes: list[NodeProcess] = []

    def begin(folder: Path, *words: str, command: str = "run", **environment: str) -> NodeProcess:
        log = folder.with_suffix(".log")
        with log.open("ab") as output:
            process = start(
                command, "--world", folder, "--lease", str(LEASE_S), *words,
                stdout=output, stderr=output, env=environment, begin=("nice", "-n", "5"),
            )  # fmt: skip
        processes.append(NodeProcess(folder, process, log))
        return processes[-1]

    try:
        yield begin
    finally:
        for node in processes:
            if node.process.poll() is None:
                os.kill(node.process.pid, signal.SIGCONT)
                node.process.kill()
                node.process.wait()


def send(folder: Path, items: Sequence[Item], *, busy_s: float = 60.0) -> list[Answer]:
    """Send events to the process of a folder."""
    patience = WaitPatience(busy_s)
    with open_writer(folder, connect_s=5.0, patience=patience) as writer:
        return list(writer.send(items))


def is_applied(folder: Path, loaded: Loaded, mode: str = STRICT) -> bool:
    """Whether the manifest was applied by this request. It may be in force without an answer, if
    the owner changes meanwhile."""
    try:
        with open_writer(folder, connect_s=WAIT_S) as writer:
            return isinstance(writer.apply(loaded, mode=mode).answer, Admitted)
    except AosError:
        return False


def is_in_journal(answer: Answer) -> bool:
    return isinstance(answer, Admitted | Duplicate)


def journal(folder: Path) -> list[Record]:
    """The records of a node's journal."""
    with open_reader(folder) as reader:
        return [from_bytes(data) for frame in reader.store.frames() for data in frame.records]
