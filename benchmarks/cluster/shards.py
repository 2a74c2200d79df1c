"""A keyed counter in one replicated world, and in groups of them, on the same three servers."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.cluster.bench_nodes import (
    AOS,
    cache_environment,
    node_status,
    run_aos,
    running_servers,
)
from benchmarks.cluster.bench_servers import BenchServers, wait_until
from benchmarks.groups.__main__ import MANIFEST, cost_of, write_events
from benchmarks.processes import Children

SHARDS: Final = (1, 2, 4)
FEW: Final = 500
"""Events of the first two sends. The first one starts the modules; the time of the second one is
taken off, so that the start of the command does not count."""

Json = dict[str, Any]


def measure_shards(folder: Path, *, events: int) -> list[Json]:
    """Return, for each number of shards, how many events a second one ``aos send`` has
    acknowledged, and the processor time of that command for an event, in ms.

    Raises:
        Unavailable: A process failed, or did not get ready.
        CalledProcessError: ``aos send`` failed.
    """
    with running_servers(folder / "nats", count=3) as servers:
        return [_measured(folder, servers, shards, events) for shards in SHARDS]


def _measured(folder: Path, servers: BenchServers, shards: int, events: int) -> Json:
    world = folder / f"shards-{shards}"
    words = ["--shards", str(shards)] if shards > 1 else []
    run_aos(
        folder, "init", world, "--store", f"{servers.address}/{world.name}", *words,
        *servers.durability_words,
    )  # fmt: skip
    parts = [world / f"{number:03}" for number in range(shards)] if shards > 1 else [world]
    with Children() as children:
        children.start(
            [*AOS, "run", "--world", world], log=world.with_suffix(".log"),
            env=cache_environment(folder), end=signal.SIGINT,
        )  # fmt: skip
        for part in parts:
            wait_until(partial(_owns, part), f"the node of {part} does not get ready")
        run_aos(folder, "apply", MANIFEST, "--world", world)
        lines = folder / "events.jsonl"
        _, few, many = (
            cost_of("send", "--jsonl", write_events(lines, count), "--world", world)
            for count in (FEW, FEW, FEW + events)
        )
        cost = many.less(few)
    return {
        "shards": shards, "events": events, "rate": events / cost.wall_s,
        "sender_ms": cost.cpu_s / events * 1e3,
    }  # fmt: skip


def _owns(path: Path) -> bool:
    return bool(node_status(path).get("replica", {}).get("role") == "owner")
