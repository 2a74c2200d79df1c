"""The demo on three nodes and three servers: the owner is killed, and the leader of the stream is
stopped (spec/cluster.md, CL-180 to CL-182)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from aos.core.journal.frame import Head
from aos.errors import AosError, Unavailable
from aos.host.door.remote import ask_running
from aos.host.folder.folder import KEYS, open_folder
from aos.host.nats_program import check_release, find_nats_server
from aos.host.nats_servers import START_SECONDS
from aos.store.log.nats_connection import check_client
from aos.store.log.nats_durability import monitor_document
from aos.store.store import head_of
from aos_cli.demo.files import Files
from aos_cli.demo.processes import Children, Command, aos, ask, python, run
from aos_cli.demo.stages import FIRST, LAST_TWO
from aos_cli.demo.story import Story
from aos_cli.output import line, table

NODES: Final = ("a", "b", "c")
NAME: Final = "orders"
"""The name of the world on the servers."""

BATCHES: Final = 10
SENT_BEFORE_THE_KILL: Final = 6
SENT_WITH_THE_KILL: Final = 8
"""Of the batches: so many are acknowledged before the owner is killed, so many while it is
gone."""

TRIES: Final = 5
"""How often a batch is sent, at most."""


def find_servers() -> Path:
    """Return the program nats-server.

    Raises:
        BadUsage: There is none, or the client of NATS is not installed.
        Refused: It is too old.
    """
    check_client("aos demo --cluster")
    program = find_nats_server()
    check_release(program)
    return program


class ClusterStory(Story):
    """As ``Story``, but three nodes run the world on three servers. Events are sent to its address
    in batches, some of them while a process is gone."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        children: Children,
        *,
        orders: int,
        seed: int,
        program: Path,
    ) -> None:
        super().__init__(files, folder, children, orders=orders, seed=seed)
        self._program = program
        self._folders = {node: folder / node for node in NODES}
        self._servers = folder / "servers"
        self._batch_folder = folder / "batches"
        self._batches: list[Path] = []
        self._sent = 0
        self._address = ""
        self._monitors: list[str] = []
        self._server_rows: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.world = self._folders[NODES[0]]

    # The stages

    def _set_up(self) -> None:
        self._title("Three servers, a world on them, and a shop that fails and stalls on purpose")
        up = aos("cluster", "up", self._servers, "--json")
        document = json.loads(self._start_service(up, "its address", ready_s=START_SECONDS))
        self._address = document["url"].replace("/NAME", f"/{NAME}")
        self._server_rows = {row["name"]: row for row in document["servers"]}
        for row in document["servers"]:
            self._monitors += ["--monitor", row["monitor"]]
        line(f"  three servers keep the journal: {self._address}")
        first = self._folders[NODES[0]]
        init = aos("init", first, "--store", self._address, "--node", NODES[0], *self._monitors)
        self._must(init, lines_shown=FIRST)
        self._url = self._start_shop()
        line(f"  the shop serves at {self._url}")

        self._title("Three nodes: one owns the world, the others stand by")
        self._start_node(NODES[0])
        self._wait_for_owner()
        for node in NODES[1:]:
            folder, keys = self._folders[node], first / KEYS
            join = aos(
                "join", self._address, folder, "--keys", keys, "--node", node, *self._monitors
            )
            self._must(join, lines_shown=FIRST)
            self._start_node(node)
            self._wait_for_standby(node)
        self._must(aos("apply", self._files.manifest, "--world", first), lines_shown=LAST_TWO)

    def _send(self) -> None:
        self._title(f"{self._orders:,} orders, sent in batches to the address of the world")
        make = python(
            self._files.make_orders, "--count", self._orders, "--seed", self._seed, into=self._lines
        )
        self._run(make)
        self._batches = self._write_batches()
        while self._sent < SENT_BEFORE_THE_KILL:
            self._finish_sending(self._start_sending())

    def _run_and_kill(self) -> None:
        self._title("Kill the owner half way, while orders are sent: a standby takes over")
        owner = self._wait_for_owner()
        self._reach(self._orders // 2)
        with self._sending_until(SENT_WITH_THE_KILL):
            self._kill(self._nodes.pop(owner))
            killed_s = time.monotonic()
            successor = self._wait_for_owner()
            line(f"  {successor} owns the world {time.monotonic() - killed_s:.1f} s later")
        self._start_node(owner)
        self._wait_for_standby(owner)

    def _resume(self) -> None:
        self._title("Stop the server that leads the stream, while orders are sent; start it again")
        leader = self._leader()
        row = self._server_rows[leader]
        with self._sending_until(BATCHES):
            self._terminate(row["pid"])
        words = [str(self._program), "--config", str(self._servers / f"{leader}.conf")]
        server = self._start(Command(words=words, display_words=words), tail=" &")
        self._wait(server, lambda: _is_healthy(row["monitor"]), "a server that has caught up")
        line(f"  {leader} has everything again")
        self._reach(self._orders)
        node = self._nodes[self._wait_for_owner()]
        self._wait(node, lambda: self._is_idle() or None, "the end of all effects")

        self._title("The same journal on each node")
        self._run(aos("cluster", "status", self._address))
        self._wait(node, lambda: len(set(self._heads())) == 1 or None, "the same head everywhere")
        owner = self._wait_for_owner()
        for name in [*(name for name in NODES if name != owner), owner]:
            self._stop(name)
        heads = self._heads()
        table(
            ["node", "record", "head"],
            [
                [node, f"{head.seq:,}", head.frame.hex()]
                for node, head in zip(NODES, heads, strict=True)
            ],
            right_aligned=("record",),
        )
        self._check("the head is the same on all three nodes", len(set(heads)) == 1)

    def _prove(self) -> None:
        self._title("On each node: replay every step, verify every signature and hash")
        for name in ("replay", "verify"):
            for node, folder in self._folders.items():
                code = run(aos(name, "--world", folder))
                self._check(f"aos {name} ends with 0 on {node}", code == 0, exit_code=code)

    # The nodes

    def _start_node(self, node: str) -> None:
        command = aos(
            "run", "--executors", self._files.executors, "--world", self._folders[node],
            env={"SHOP_URL": self._url},
        )  # fmt: skip
        self._nodes[node] = self._start(command, tail=" &")

    def _stop(self, node: str) -> None:
        """Stop a node in order: an owner releases the world."""
        process = self._nodes.pop(node)
        self._terminate(process.pid)
        if self._end_of(process) != 0:
            raise self._ended_early("it should have stopped cleanly", process)

    def _terminate(self, pid: int) -> None:
        """Ask a process to end."""
        os.kill(pid, signal.SIGTERM)
        line(f"$ kill {pid}", style="cyan")

    def _wait_for_owner(self) -> str:
        """Wait until a node owns the world, and look at its folder from then on."""
        node = next(iter(self._nodes))
        owner = self._wait(self._nodes[node], self._owner, "a node that owns the world")
        self.world = self._folders[owner]
        return owner

    def _wait_for_standby(self, node: str) -> None:
        self._wait(self._nodes[node], lambda: self._follows(node) or None, "a standby")
        line(f"  {node} follows")

    def _owner(self) -> str | None:
        return next(
            (node for node in self._nodes if self._replica(node).get("role") == "owner"), None
        )

    def _follows(self, node: str) -> bool:
        """Whether a node is a standby of a living owner, and has its records."""
        replica = self._replica(node)
        return replica.get("role") == "standby" and bool(replica["owner"]) and replica["lag"] == 0

    def _replica(self, node: str) -> dict[str, Any]:
        """The role of a node; empty while it does not answer."""
        try:
            return dict(ask_running(self._folders[node], "status").get("replica", {}))
        except AosError:
            return {}

    def _reach(self, closed: int) -> None:
        """Wait until so many orders are closed."""
        process = self._nodes[self._wait_for_owner()]
        self._watch(process, until=closed)
        if process.poll() is not None:
            raise self._ended_early("it should have run on", process)

    def _heads(self) -> list[Head]:
        heads = []
        for folder in self._folders.values():
            with open_folder(folder).open_store(readonly=True) as store:
                heads.append(head_of(store))
        return heads

    def _leader(self) -> str:
        """The server that leads the stream of the world."""
        status = aos("cluster", "status", self._address, "--json")
        code, out, problem = ask(status)
        log = json.loads(out)["worlds"][0]["log"] if code == 0 else None
        if log is None or log["leader"] not in self._server_rows:
            raise Unavailable(f"`{status}` names no leader: {problem or out}")
        line(f"  {log['leader']} leads the stream")
        return str(log["leader"])

    # The events

    def _write_batches(self) -> list[Path]:
        """Write the lines of the orders, in their order, into files."""
        lines = self._lines.read_text().splitlines(keepends=True)
        self._batch_folder.mkdir()
        paths = []
        for index in range(BATCHES):
            first, end = (len(lines) * place // BATCHES for place in (index, index + 1))
            path = self._batch_folder / f"{index + 1:02}.jsonl"
            path.write_text("".join(lines[first:end]))
            paths.append(path)
        return paths

    @contextmanager
    def _sending_until(self, batches: int) -> Iterator[None]:
        """Send until so many batches are sent. The first of them is under way during the block."""
        sending = self._start_sending()
        yield
        self._finish_sending(sending)
        while self._sent < batches:
            self._finish_sending(self._start_sending())

    def _start_sending(self) -> subprocess.Popen[bytes]:
        batch = self._batches[self._sent]
        return self._start(aos("send", "--jsonl", batch, "--world", self._address), tail=" &")

    def _finish_sending(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a batch is acknowledged. Without an answer it is sent again, with the same
        submission ids."""
        tries = 1
        while self._end_of(process) != 0:
            if tries == TRIES:
                raise self._ended_early(f"{self._batches[self._sent]} is not acknowledged", process)
            tries += 1
            process = self._start_sending()
        line(f"  {self._batches[self._sent].name} is acknowledged")
        self._sent += 1


def _is_healthy(monitor: str) -> bool:
    """Whether a server answers, and has everything that the others have."""
    try:
        return monitor_document(monitor, "/healthz").get("status") == "ok"
    except Unavailable:
        return False
