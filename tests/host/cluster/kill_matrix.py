"""Three nodes on three servers. A test kills and suspends their processes, and tears their
networks, while events are sent."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from aos.core.decide.answers import Admitted
from aos.errors import AosError
from aos.host.door.writer import Item, open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.replica_file import replica_of
from aos.host.nats_servers import LocalServer
from aos.manifest.load import Loaded, load
from aos.store.log.nats_connection import ANSWER_SECONDS, NatsConnection
from aos.store.log.nats_errors import Unanswered
from aos.values.cbor import encode
from tests.host import puppet
from tests.host.cluster.node_processes import (
    NodeProcess,
    is_in_journal,
    joined,
    made,
    send,
    waits,
)
from tests.host.cluster.torn_network import Cut, NodeNetwork
from tests.nats_servers import Servers, state_of

ONCE: Final = "host/once@1"
OWNER, STANDBY, LEADER, OWNER_AND_LEADER = "owner", "standby", "leader", "owner and leader"
TWO_SERVERS = "two servers"
OWNER_NETWORK, STANDBY_NETWORK = "network of the owner", "network of a standby"
IDLE, LOAD, SNAPSHOT, LARGE_VALUES = "idle", "load", "snapshot", "large values"
LARGE_BYTES: Final = 12 * 1024 * 1024
"""Of a value of ``LARGE_VALUES``: an entry of the log, and a request, in many parts."""

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
    """``pause_s`` is how long processes are suspended, or a network is torn in the way ``cut``;
    None: processes are killed."""

    target: str
    pause_s: float | None
    moment: str
    cut: Cut = Cut.DROP


def careful_manifest() -> Loaded:
    """Two effects of the puppet: one is at least once, the other at most once. Events may be
    large."""
    limits = {"world": {"event_bytes": 16 * 1024 * 1024}}
    files = puppet.files(effects=(puppet.ECHO, ONCE), limits=limits)
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


class Victim(Protocol):
    """A fault happens to it, and is over again."""

    def hit(self) -> None: ...

    def heal(self) -> None: ...


@dataclass(frozen=True)
class ProcessVictim:
    """A process, and how it starts again after a kill. If it ``is_spared``, it is suspended."""

    process: subprocess.Popen[bytes]
    start_again: Callable[[], object]
    is_spared: bool

    def hit(self) -> None:
        self.process.send_signal(signal.SIGSTOP if self.is_spared else signal.SIGKILL)

    def heal(self) -> None:
        if self.is_spared:
            self.process.send_signal(signal.SIGCONT)
        else:
            self.process.wait()
            self.start_again()


@dataclass(frozen=True)
class NetworkVictim:
    """The network of a node."""

    network: NodeNetwork
    cut: Cut

    def hit(self) -> None:
        self.network.tear(self.cut)

    def heal(self) -> None:
        self.network.mend()


class MatrixCluster:
    """The servers of ``servers`` and the nodes a, b and c, which ``begin`` starts. Each node
    reaches the servers by a network of its own, which ends with ``stack``."""

    def __init__(
        self, servers: Servers, top: Path, begin: Callable[..., NodeProcess], stack: ExitStack
    ) -> None:
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
        ports = [server.ports.client for server in servers.servers]
        self._networks = {
            folder: stack.enter_context(NodeNetwork(ports)) for folder in self.folders
        }
        self.nodes: dict[Path, NodeProcess] = {}
        for folder, network in self._networks.items():
            replica = replica_of(folder)
            address = replace(replica.address, servers=network.servers)
            with open_folder(folder).open_plain() as plain:
                replace(replica, address=address).write(plain)
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
        victims = list(self._victims(fault))
        with Load(self.folders, f"r{self._rounds}") as load:
            if fault.moment != IDLE:
                load.wait_for_more()
                with self._moments(fault.moment):
                    self._hit(victims, fault)
                load.wait_for_more()
        if fault.moment == IDLE:
            self.wait_until_idle()
            self._hit(victims, fault)
        self.acknowledged += load.acknowledged
        self.wait_for_roles()

    def _victims(self, fault: Fault) -> Iterator[Victim]:
        target, is_spared = fault.target, fault.pause_s is not None
        owner = self.owner
        if target in (OWNER, OWNER_AND_LEADER):
            yield self._node_victim(owner, is_spared)
        if target == STANDBY:
            standby = next(node for node in self.nodes.values() if node is not owner)
            yield self._node_victim(standby, is_spared)
        if target in (OWNER_NETWORK, STANDBY_NETWORK):
            is_of_owner = target == OWNER_NETWORK
            node = next(node for node in self.nodes.values() if (node is owner) is is_of_owner)
            yield NetworkVictim(self._networks[node.folder], fault.cut)
        if target in (LEADER, OWNER_AND_LEADER, TWO_SERVERS):
            leader = self._servers.named(self._leader())
            yield self._server_victim(leader, is_spared)
        if target == TWO_SERVERS:
            other = next(server for server in self._servers.servers if server is not leader)
            yield self._server_victim(other, is_spared)

    def _node_victim(self, node: NodeProcess, is_spared: bool) -> Victim:
        return ProcessVictim(node.process, lambda: self._start(node.folder), is_spared)

    def _server_victim(self, server: LocalServer, is_spared: bool) -> Victim:
        assert server.process is not None
        return ProcessVictim(server.process, lambda: self._servers.restart(server), is_spared)

    def _leader(self) -> str:
        """The server that leads the stream."""
        connection: NatsConnection = self._servers.connected(answer_seconds=ANSWER_SECONDS)
        try:
            while True:
                try:
                    return state_of(connection, self._stream).leader
                except Unanswered:
                    continue
        finally:
            connection.close()

    @staticmethod
    def _hit(victims: list[Victim], fault: Fault) -> None:
        for victim in victims:
            victim.hit()
        time.sleep(DOWN_S if fault.pause_s is None else fault.pause_s)
        for victim in victims:
            victim.heal()

    @contextmanager
    def _moments(self, moment: str) -> Iterator[None]:
        """Do one thing after the other during the block: take snapshots, or send large values."""
        action = {SNAPSHOT: self._take_snapshot, LARGE_VALUES: self._send_large}.get(moment)
        if action is None:
            yield
            return
        over, has_begun = threading.Event(), threading.Event()

        def repeat() -> None:
            for number in itertools.count():
                for folder in self.folders:
                    has_begun.set()
                    try:
                        action(folder, f"large-{self._rounds}-{number}")
                    except AosError:
                        time.sleep(0.05)
                    if over.is_set():
                        return

        thread = threading.Thread(target=repeat)
        thread.start()
        has_begun.wait()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @staticmethod
    def _take_snapshot(folder: Path, _: str) -> None:
        with open_writer(folder, connect_s=1.0) as writer:
            writer.snapshot()

    def _send_large(self, folder: Path, name: str) -> None:
        """Send a large event to an instance of its own. The step ignores the value."""
        item = Item(
            schema=puppet.DO,
            value=encode({"key": name, "out": bytes(LARGE_BYTES), "trap": True}),
            submission_id=name,
        )
        [answer] = send(folder, [item], busy_s=0.5)
        assert is_in_journal(answer), answer
        self.acknowledged.append(name)

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
