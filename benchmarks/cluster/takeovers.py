"""A world with many cells whose owner is killed or stopped, or which is moved, or whose stream
leader is killed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted, Duplicate
from aos.errors import Unavailable
from aos.host.cluster.bus_way import open_bus_writer
from aos.host.door.writer import Item, Writer
from aos.store.log.nats_address import NatsAccess, NatsAddress
from benchmarks.benchmark import tell
from benchmarks.cluster.bench_nodes import (
    AOS,
    NAME,
    NodeRun,
    adopt_world,
    join_world,
    make_world,
    move_world,
    running_servers,
)
from benchmarks.cluster.bench_servers import BenchServers
from benchmarks.cluster.probe import Probe
from benchmarks.cluster.silence import balance, longest_silence_ms
from benchmarks.figures import NS_PER_MS
from benchmarks.processes import Children

CALLERS: Final = 4
WORKFLOW: Final = "bench/counter@1"
POLL_S: Final = 0.02
ELECTION_S: Final = 60.0

Json = dict[str, Any]


class BusSender:
    """Adds 1 to the cell of a key, by a client that knows the address of the world alone."""

    def __init__(self, address: str) -> None:
        self._address = NatsAddress.parse(address)
        self._writer: Writer | None = None

    def __call__(self, key: str, submission_id: str) -> None:
        if self._writer is None:
            self._writer = open_bus_writer(self._address, NatsAccess())
        item = int(submission_id.rpartition("-")[2])
        value = {"key": key, "by": 1, "item": item}
        [answer] = self._writer.send(
            [Item(schema="bench/Add@1", value=value, submission_id=submission_id)]
        )
        if not isinstance(answer, Admitted | Duplicate):
            raise Unavailable(f"the event was refused: {answer}")

    def close(self) -> None:
        """End the connection."""
        if self._writer is not None:
            self._writer.close()


def measure_takeovers(
    folder: Path, *, cells: int, kills: int, handovers: int, moves: int, elections: int
) -> Json:
    """Make a world with two nodes on three servers, and return all times.

    Raises:
        Unavailable: A process failed, or nothing was acknowledged again.
    """
    first, second = folder / "a", folder / "b"
    began_s = time.monotonic()
    tell(f"a world of {cells:,} cells")
    make_world(first, "counter", cells)
    with running_servers(folder / "nats", count=3) as servers, Children() as children:
        tell("its rows to the servers, and a second node")
        stream = adopt_world(first, servers)
        join_world(second, servers, keys=first / "keys")
        made_s = time.monotonic() - began_s
        owner, standby = NodeRun(first, children), NodeRun(second, children)
        owner.start()
        owner.wait_owning()
        standby.start()
        standby.wait_following()
        senders = [BusSender(f"{servers.address}/{NAME}") for _ in range(CALLERS)]
        figures: Json = {"cells": cells, "made_s": made_s}
        with Probe(senders) as probe:
            probe.wait_for_answer(time.perf_counter_ns())
            for name, number, end in (
                ("kills_ms", kills, NodeRun.kill), ("handovers_ms", handovers, NodeRun.stop),
            ):  # fmt: skip
                figures[name] = []
                for _ in range(number):
                    figures[name].append(silence_after(partial(end, owner), probe))
                    tell(f"  {name}: {figures[name][-1]:,.0f}")
                    owner.start()
                    owner.wait_following()
                    standby.wait_owning()
                    owner, standby = standby, owner
            figures["moves_ms"] = []
            for _ in range(moves):
                figures["moves_ms"].append(
                    silence_after(partial(move_world, owner, standby), probe)
                )
                tell(f"  moves_ms: {figures['moves_ms'][-1]:,.0f}")
                owner.wait_following()
                owner, standby = standby, owner
            figures["elections"] = [
                _leader_killed(servers, stream, owner, probe) for _ in range(elections)
            ]
        for sender in senders:
            sender.close()
        # The standby first: it would take over, and stop before it has the whole log.
        standby.stop()
        owner.stop()
    sums = {key: _sum(owner.path, key) for key in probe.counts}
    return figures | asdict(balance(probe.counts, sums))


def silence_after(act: Callable[[], object], probe: Probe) -> float:
    """Return the longest time without an acknowledgement from ``act`` on, until a request is
    acknowledged that was sent after it; in ms."""
    start_ns = time.perf_counter_ns()
    act()
    until_ns = probe.wait_for_answer(time.perf_counter_ns())
    return longest_silence_ms(probe.acknowledged_ns, start_ns, until_ns)


def _leader_killed(servers: BenchServers, stream: str, owner: NodeRun, probe: Probe) -> Json:
    """Kill the leader of the stream. Return the time until the servers have another one, that until
    the owner acknowledges again, and whether it is the same process of the same owner."""
    leader = servers.leader_of(stream)
    if leader is None:
        raise Unavailable("the stream has no leader")
    elected_ms = 0.0

    def kill() -> None:
        nonlocal elected_ms
        start_ns = time.perf_counter_ns()
        servers.kill(leader)
        while servers.leader_of(stream, but=leader) is None:
            if time.perf_counter_ns() - start_ns > ELECTION_S * 1e9:
                raise Unavailable(f"the servers have no leader in {ELECTION_S:g} s")
            time.sleep(POLL_S)
        elected_ms = (time.perf_counter_ns() - start_ns) / NS_PER_MS

    silence_ms = silence_after(kill, probe)
    figures = {
        "elected_ms": elected_ms,
        "silence_ms": silence_ms,
        "is_same_owner": owner.replica.get("role") == "owner",
    }
    tell(f"  stream leader killed: {figures}")
    servers.restart(leader, stream)
    return figures


def _sum(world: Path, key: str) -> int:
    """The state of a cell, as ``aos inspect cell`` shows it."""
    words = [*AOS, "inspect", "cell", WORKFLOW, key, "--json", "--world", str(world)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Unavailable(f"aos inspect cell {key}: {ran.stderr.strip()[-300:]}")
    return int(json.loads(ran.stdout)["state"])
