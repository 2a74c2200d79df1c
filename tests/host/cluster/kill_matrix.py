"""Three nodes on three servers, whose processes a test kills and suspends while events are sent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from aos.core.decide.answers import Admitted
from aos.errors import AosError
from aos.host.door.writer import open_writer
from aos.host.folder.replica_file import replica_of
from aos.manifest.load import Loaded, load
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_errors import Unanswered
from tests.host import puppet
from tests.host.cluster.node_processes import (
    NodeProcess,
    is_in_journal,
    joined,
    made,
    send,
    waits,
)
from tests.nats_servers import Servers, state_of

ONCE: Final = "host/once@1"
OWNER, STANDBY, LEADER, OWNER_AND_LEADER = "owner", "standby", "leader", "owner and leader"
IDLE, LOAD, SNAPSHOT = "idle", "load", "snapshot"
SENDERS: Final = 4
BATCH: Final = 16
"""Events of a request: with ``SENDERS``, 64 are under way."""

PACE_S: Final = 0.25
"""Between two requests of a sender: else a long pause of a standby gives a very long journal."""

CELLS: Final = 7
DOWN_S: Final = 1.0
"""So long after a kill, the process starts again."""

EFFECTS = """
import os, time
from aos.worker import Executors, effect

def book(name, params, ctx):
    with open(os.environ["BOOKS"], "a") as books:
        books.write(f"{name} {params['word']} {ctx.idempotency_key}\\n")
    time.sleep(0.01)
    return params

@effect("host/echo@1")
def echo(params, ctx):
    return book("host/echo@1", params, ctx)

@effect("host/once@1")
def once(params, ctx):
    return book("host/once@1", params, ctx)

both = Executors("both", [echo, once])
"""


class Fault(NamedTuple):
    """``pause_s`` is how long the processes are suspended; None: they are killed."""

    target: str
    pause_s: float | None
    moment: str


def careful_manifest() -> Loaded:
    """Two effects of the puppet: one is at least once, the other at most once."""
    files = puppet.files(effects=(puppet.ECHO, ONCE))
    nodes = json.loads(files["m.air.json"])
    for node in nodes:
        if node.get("name") == ONCE:
            node["delivery"] = "at_most_once"
    return load({**files, "m.air.json": json.dumps(nodes).encode()})


class Load:
    """Sends batches in a block, each again to the next node until it is admitted."""

    def __init__(self, folders: list[Path], name: str) -> None:
        self.acknowledged: list[str] = []
        self._folders = folders
        self._name = name
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._send_all, args=(sender,)) for sender in range(SENDERS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self) -> None:
        """Wait until two further batches are acknowledged."""
        count = len(self.acknowledged)
        waits(
            lambda: len(self.acknowledged) >= count + 2 * BATCH, lambda: "nothing is acknowledged"
        )

    def _send_all(self, sender: int) -> None:
        number = 0
        while not self._over.is_set():
            names = [f"{self._name}-{sender}-{number}-{index}" for index in range(BATCH)]
            number += 1
            self._send(names, first=sender)
            self._over.wait(PACE_S)

    def _send(self, names: list[str], first: int) -> None:
        """A batch is sent until it is admitted, also after the end of the block."""
        items = [
            puppet.do(
                f"cell-{index % CELLS}",
                puppet.asks(name, effect=ONCE if index % 3 == 0 else puppet.ECHO),
                submission_id=name,
            )
            for index, name in enumerate(names)
        ]
        place = first
        while True:
            place += 1
            try:
                answers = send(self._folders[place % len(self._folders)], items, busy_s=0.5)
            except AosError:
                time.sleep(0.05)
                continue
            assert all(map(is_in_journal, answers)), answers
            self.acknowledged += names
            return


@dataclass(frozen=True)
class Victim:
    """A process, and how it starts again after a kill."""

    process: subprocess.Popen[bytes]
    start_again: Callable[[], object]


class MatrixCluster:
    """The servers of ``servers`` and the nodes a, b and c, which ``begin`` starts."""

    def __init__(self, servers: Servers, top: Path, begin: Callable[..., NodeProcess]) -> None:
        self.books = top / "books.txt"
        self.books.touch()
        self.acknowledged: list[str] = []
        self._servers = servers
        self._begin = begin
        self._effects = top / "effects.py"
        self._effects.write_text(EFFECTS)
        self._rounds = 0
        first = top / "a"
        made_world = made(servers, first)
        assert made_world.code == 0, made_world.err
        self._stream = replica_of(first).stream
        self.folders = [first, *(joined(first, top / name, name) for name in ("b", "c"))]
        self.nodes: dict[Path, NodeProcess] = {}
        for folder in self.folders:
            self._start(folder)
        self.wait_for_roles()
        with open_writer(first) as writer:
            assert isinstance(writer.apply(careful_manifest()).answer, Admitted)

    def _start(self, folder: Path) -> None:
        self.nodes[folder] = self._begin(
            folder, "--executors", f"{self._effects}:both", BOOKS=str(self.books)
        )

    def wait_for_roles(self) -> None:
        """Wait until one node owns the world and the others follow it."""
        waits(
            lambda: (
                sorted(node.replica.get("role", "") for node in self.nodes.values())
                == ["owner", "standby", "standby"]
                and sum(node.follows for node in self.nodes.values()) == 2
            ),
            lambda: "\n".join(f"{node.replica}: {node.output}" for node in self.nodes.values()),
        )

    @property
    def owner(self) -> NodeProcess:
        self.wait_for_roles()
        return next(node for node in self.nodes.values() if node.owns)

    def strike(self, fault: Fault) -> None:
        """Let a fault happen at its moment, and wait until the world works as before."""
        self._rounds += 1
        victims = list(self._victims(fault.target))
        with Load(self.folders, f"r{self._rounds}") as load:
            if fault.moment != IDLE:
                load.wait_for_more()
                with self._snapshots() if fault.moment == SNAPSHOT else _nothing():
                    self._hit(victims, fault.pause_s)
                load.wait_for_more()
        if fault.moment == IDLE:
            self.wait_until_idle()
            self._hit(victims, fault.pause_s)
        self.acknowledged += load.acknowledged
        self.wait_for_roles()

    def _victims(self, target: str) -> Iterator[Victim]:
        owner = self.owner
        if target in (OWNER, OWNER_AND_LEADER):
            yield self._node_victim(owner)
        if target == STANDBY:
            yield self._node_victim(next(node for node in self.nodes.values() if node is not owner))
        if target in (LEADER, OWNER_AND_LEADER):
            server = self._servers.named(self._leader())
            assert server.process is not None
            yield Victim(server.process, lambda: self._servers.restart(server))

    def _node_victim(self, node: NodeProcess) -> Victim:
        return Victim(node.process, lambda: self._start(node.folder))

    def _leader(self) -> str:
        """The server that leads the stream."""
        connection: NatsConnection = self._servers.connected()
        try:
            while True:
                try:
                    return state_of(connection, self._stream).leader
                except Unanswered:
                    continue
        finally:
            connection.close()

    @staticmethod
    def _hit(victims: list[Victim], pause_s: float | None) -> None:
        number = signal.SIGKILL if pause_s is None else signal.SIGSTOP
        for victim in victims:
            os.kill(victim.process.pid, number)
        time.sleep(DOWN_S if pause_s is None else pause_s)
        for victim in victims:
            if pause_s is None:
                victim.process.wait()
                victim.start_again()
            else:
                os.kill(victim.process.pid, signal.SIGCONT)

    @contextmanager
    def _snapshots(self) -> Iterator[None]:
        """Take one snapshot after the other during the block."""
        over, has_begun = threading.Event(), threading.Event()

        def take_all() -> None:
            while not over.is_set():
                for folder in self.folders:
                    has_begun.set()
                    try:
                        with open_writer(folder, connect_s=1.0) as writer:
                            writer.snapshot()
                    except AosError:
                        time.sleep(0.05)

        thread = threading.Thread(target=take_all)
        thread.start()
        has_begun.wait()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def wait_until_idle(self) -> None:
        """Wait until no effect is open, and every node has the whole journal."""

        def is_idle() -> bool:
            statuses = [node.status() for node in self.nodes.values()]
            positions = {status.get("replica", {}).get("position") for status in statuses}
            return len(positions) == 1 and not any(
                status.get("open_intents", 1) or status.get("ready_cells", 1) for status in statuses
            )

        waits(is_idle, lambda: str([node.status() for node in self.nodes.values()]))

    def stop(self) -> None:
        """Stop the nodes, the owner last, once they have nothing left to do."""
        self.wait_for_roles()
        self.wait_until_idle()
        owner = self.owner
        for node in [*(node for node in self.nodes.values() if node is not owner), owner]:
            assert node.stop() == 0, node.output


@contextmanager
def _nothing() -> Iterator[None]:
    yield
