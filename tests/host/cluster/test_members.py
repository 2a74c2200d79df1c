"""Members and moves with real processes on real servers (spec/cluster.md, CL-225 to CL-241)."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aos.errors import AosError
from aos.host.cluster.placement import MemberView, place
from aos.host.cluster.registration import find_registration
from aos.host.cluster.world_nodes import read_nodes
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_stream import bucket_stream, stream_state
from aos.store.log.patience import patiently
from aos.values.digests import parse_hash
from tests.cli.shell import here, start
from tests.host import puppet
from tests.host.cluster.node_processes import (
    NodeProcess,
    is_applied,
    is_in_journal,
    joined,
    made,
    send,
)
from tests.nats_servers import Servers

Run = Callable[..., NodeProcess]

LONG_S = 150.0
"""A world that moves needs a chain of processes: a join, a run, a takeover."""


def waits(condition: Callable[[], object], reason: Callable[[], str] = lambda: "") -> None:
    """Wait until a condition is true."""
    until_s = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < until_s, f"it takes too long: {reason()}"
        time.sleep(0.5)


class MemberProcess:
    """A process of ``aos cluster serve``, and its worlds."""

    def __init__(self, servers: Servers, folder: Path, name: str, keys: Path) -> None:
        self.folder, self.name = folder / name, name
        self.log = folder / f"{name}.log"
        monitors = [word for server in servers.servers for word in ("--monitor", server.monitor)]
        with self.log.open("ab") as output:
            self.process: subprocess.Popen[bytes] = start(
                "cluster", "serve", self.folder, "--store", servers.address, "--name", name,
                "--keys", keys, "--move-every", "1s", *monitors, "--", "--lease", "2",
                stdout=output, stderr=output, begin=("nice", "-n", "5"),
            )  # fmt: skip

    @property
    def output(self) -> str:
        return self.log.read_text()

    def says(self, text: str) -> None:
        """Wait for a line."""
        waits(lambda: text in self.output, lambda: self.output)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(120)


@contextmanager
def members(servers: Servers, folder: Path, keys: Path) -> Iterator[Callable[[str], MemberProcess]]:
    """Start members in the block; they are killed after it, and their worlds with them."""
    begun: list[MemberProcess] = []

    def begin(name: str) -> MemberProcess:
        begun.append(MemberProcess(servers, folder, name, keys))
        return begun[-1]

    try:
        yield begin
    finally:
        for member in begun:
            if member.process.poll() is None:
                member.kill()


def document(servers: Servers, name: str) -> dict[str, Any]:
    """The status of a world."""
    result = here("cluster", "status", f"{servers.address}/{name}", "--json")
    status = dict(json.loads(result.out))
    return {"members": status["members"], **status["worlds"][0]}


@contextmanager
def owners(servers: Servers, names: Sequence[str]) -> Iterator[Callable[[], list[str | None]]]:
    """A function that returns the owner of each world; None if it has none, or a silent one."""
    with servers.connected() as connection:
        worlds = NatsBucket(connection, WORLDS, replicas=None)
        beats = NatsBucket(connection, BEATS, replicas=None)
        rows = [find_registration(worlds, name) for name in names]
        entries = [row.registration for row in rows if row is not None]
        assert len(entries) == len(names)

        def read() -> list[str | None]:
            now_ns = connection.run(stream_state(connection, bucket_stream(BEATS))).server_ns
            return [
                read_nodes(beats, entry.stream, entry.world, None, now_ns).owner_name
                for entry in entries
            ]

        def answered() -> list[str | None]:
            return patiently(read)

        yield answered


def test_worlds_go_where_members_are_and_come_back(  # CL-230, CL-233, CL-235 to CL-238, CL-240
    three: Servers, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    names = [f"{tmp_path.name}-{letter}" for letter in "ab"]
    for name in names:
        folder = tmp_path / name / "first"
        folder.parent.mkdir()
        assert made(three, folder).code == 0
        shutil.copytree(folder / "keys", keys / name)
        shutil.rmtree(folder)
    worlds = {name: parse_hash(document(three, name)["world"]) for name in names}
    every = frozenset(worlds.values())
    views = [MemberView(name=name, worlds=every) for name in ("m1", "m2")]
    home = {name: place(world, views).owner for name, world in worlds.items()}

    with owners(three, names) as owned, members(three, tmp_path, keys) as begin:
        begun = {name: begin(name) for name in ("m1", "m2")}

        def lines() -> str:
            return "\n".join(member.output for member in begun.values())

        waits(lambda: owned() == [home[name] for name in names], lines)

        [gone] = {home[names[0]]}
        assert gone is not None
        [left] = {"m1", "m2"} - {gone}
        begun[gone].kill()
        waits(lambda: owned() == [left] * len(names), lines)
        begun[left].says(f"members: {left}\n")

        again = begin(gone)
        waits(lambda: owned() == [home[name] for name in names], lines)
        again.says(f"world {names[0]}: moved here from node {left}")

        assert here("cluster", "drain", gone, "--store", three.address).code == 0
        waits(lambda: owned() == [left] * len(names), lines)
        again.says(f"world {names[0]}: stops here, and node {left} owns it")
        draining = {row["name"]: row["draining"] for row in document(three, names[0])["members"]}
        assert draining == {gone: True, left: False}
        here("cluster", "drain", gone, "--undo", "--store", three.address)
        waits(lambda: owned()[0] == gone)

        moved = here("cluster", "move", names[0], "--to", left, "--store", three.address)
        assert moved.code == 0, moved.err
        assert document(three, names[0])["kept_at"] == left
        for member in (again, begun[left]):
            assert member.stop() == 0
            assert f"member {member.name} stops" in member.output
        assert document(three, names[0])["members"] == []


def test_a_world_is_moved_by_hand_while_events_are_sent(  # CL-225 to CL-228
    three: Servers, tmp_path: Path, run: Run
) -> None:
    first = tmp_path / "a"
    assert made(three, first).code == 0
    name, store = tmp_path.name, ("--store", three.address)
    second = joined(first, tmp_path / "b", "b")
    nodes = {"a": run(first), "b": run(second)}
    waits(lambda: nodes["a"].owns or nodes["b"].owns)
    waits(lambda: is_applied(first, puppet.manifest()))
    waits(lambda: all(node.owns or node.follows for node in nodes.values()))

    for wrong, code, text in (
        ((name, "--to", "zz"), 2, "no node of the world has this name: expected a or b, found zz"),
        (("nix", "--to", "a"), 2, "no world is registered under this name: found nix"),
        ((name,), 2, "expected one of --to NODE and --undo"),
        ((name, "--undo"), 0, ""),
    ):
        result = here("cluster", "move", *wrong, *store)
        assert (result.code, text in result.err) == (code, True), result.err

    for number in range(2):
        to = next(node for node, process in nodes.items() if not process.owns)
        move = start("cluster", "move", name, "--to", to, *store)
        if number == 1:
            time.sleep(1.5)
            move.kill()  # half way, or before it began
        while not nodes[to].owns:
            item = puppet.do("cell", submission_id=f"{number}-{time.monotonic_ns()}")
            with contextlib.suppress(AosError):  # whether the event was admitted is not known
                send(first, [item], busy_s=0.2)
            time.sleep(0.05)
            if move.poll() is not None:
                here("cluster", "move", name, "--to", to, *store)
        move.wait()
        [answer] = send(first, [puppet.do("cell", submission_id=f"{number}")])
        assert is_in_journal(answer)
        again = here("cluster", "move", name, "--to", to, *store)
        assert (again.code, again.out) == (0, f"node {to} owns {name} already\n")
    nodes[to].kill()
    waits(lambda: here("cluster", "move", name, "--to", to, *store).code in (1, 4))
