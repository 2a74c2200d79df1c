"""A load on one world: embedded, and with its log on servers."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aos.errors import Unavailable
from aos.host.folder.folder import STORE
from aos.store.log.logged_store import LoggedStore
from benchmarks.cluster.bench_nodes import (
    NodeRun,
    adopt_world,
    cache_environment,
    join_world,
    make_world,
    node_status,
    running_servers,
)
from benchmarks.cluster.bench_servers import wait_until
from benchmarks.cluster.silence import Ends, lags_ms
from benchmarks.cluster.tables import ALONE, EMBEDDED, R1, R3, UNSAFE
from benchmarks.figures import percentile
from benchmarks.plan import Point
from benchmarks.processes import ROOT, Children

LOOK_S: Final = 0.005
"""Between two looks at the stores of owner and standby."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A way to run the world. Without ``servers`` it is embedded."""

    name: str
    servers: int = 0
    syncs: bool = True
    has_standby: bool = True


SETUPS: Final = (
    Setup(name=EMBEDDED, has_standby=False),
    Setup(name=R1, servers=1),
    Setup(name=R3, servers=3),
    Setup(name=ALONE, servers=3, has_standby=False),
    Setup(name=UNSAFE, servers=3, syncs=False),
)


def measure_setup(setup: Setup, points: Sequence[Point], folder: Path) -> Json:
    """Run the points on a new world; return them and the lag of the standby, if it has one.

    Raises:
        Unavailable: A process failed, or did not get ready.
    """
    world, standby = folder / "a", folder / "b"
    make_world(world, "steps", 1)
    with contextlib.ExitStack() as stack:
        pids: dict[str, list[int]] = {}
        if setup.servers:
            servers = stack.enter_context(
                running_servers(folder / "nats", count=setup.servers, syncs=setup.syncs)
            )
            adopt_world(world, servers)
            pids["servers"] = servers.pids
            if setup.has_standby:
                join_world(standby, servers, keys=world / "keys")
        children = stack.enter_context(Children())
        owner = OwnerRun(folder, world, points, children)
        owner.wait_owning(is_replicated=setup.servers > 0)
        ends: list[Ends] = []
        if setup.has_standby:
            node = NodeRun(standby, children)
            node.start()
            node.wait_following()
            pids["standby"] = [node.pid]
            stack.enter_context(_watched_ends(world, standby, ends))
        figures = owner.result(pids)
    lags = [
        lag for point in figures[-1:] for lag in lags_ms(ends, point["from_ns"], point["to_ns"])
    ]
    if setup.has_standby and not lags:
        raise Unavailable(f"{setup.name}: the stores of owner and standby could not be read")
    lag_ms = {"p50": percentile(lags, 0.5), "p99": percentile(lags, 0.99)} if lags else None
    return {"setup": setup.name, "points": figures, "lag_ms": lag_ms}


class OwnerRun:
    """The process of ``benchmarks.cluster.owner``."""

    def __init__(
        self, folder: Path, world: Path, points: Sequence[Point], children: Children
    ) -> None:
        self._world = world
        self._processes, self._out = folder / "processes.json", folder / "owner.json"
        self._log = folder / "owner.log"
        spec = {
            "path": str(world), "points": [asdict(point) for point in points],
            "processes": str(self._processes), "out": str(self._out),
        }  # fmt: skip
        self._limit_s = 120 + sum(4 * (point.seconds + point.warm_s) for point in points)
        self._process = children.start(
            [sys.executable, "-m", "benchmarks.cluster.owner", json.dumps(spec)],
            log=self._log, cwd=ROOT, env=cache_environment(folder),
        )  # fmt: skip

    def wait_owning(self, *, is_replicated: bool) -> None:
        """Wait until it runs the world."""

        def owns() -> bool:
            self._check(self._process.poll())
            status = node_status(self._world)
            role = status.get("replica", {}).get("role")
            return role == "owner" if is_replicated else bool(status)

        wait_until(owns, "the owner does not get ready")

    def result(self, pids: dict[str, list[int]]) -> list[Json]:
        """Let it run its points, and return their figures."""
        unfinished = self._processes.with_suffix(".new")
        unfinished.write_text(json.dumps(pids))
        unfinished.rename(self._processes)
        self._check(self._process.wait(self._limit_s))
        figures: list[Json] = json.loads(self._out.read_text())
        return figures

    def _check(self, code: int | None) -> None:
        """Raises: Unavailable: It has failed."""
        if code:
            raise Unavailable(
                f"the owner ended with {code}: {self._log.read_text(errors='replace')[-800:]}"
            )


@contextmanager
def _watched_ends(owner: Path, standby: Path, ends: list[Ends]) -> Iterator[None]:
    """Add the ends of both stores to ``ends``, each 5 ms while the block runs."""
    is_over = threading.Event()

    def watch() -> None:
        with (
            LoggedStore.open(owner / STORE, readonly=True) as of_owner,
            LoggedStore.open(standby / STORE, readonly=True) as of_standby,
        ):
            while not is_over.wait(LOOK_S):
                # The standby first, so that it is never ahead of the time.
                behind, head = of_standby.head(), of_owner.head()
                if behind is not None and head is not None:
                    ends.append(Ends(time.perf_counter_ns(), head.seq, behind.seq))

    thread = threading.Thread(target=watch, name="ends", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
