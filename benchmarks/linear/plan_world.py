"""Worlds with the plan of the benchmark: a node and its workers, and the modules alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.prove.replay.replay_store import replay_store
from benchmarks.node.serving import served
from benchmarks.processes import run_child

WORLDS: Final = Path(__file__).resolve().parents[1] / "worlds"
PLANS: Final = WORLDS / "plans.air.json"
TURN_S: Final = 300.0

Json = dict[str, Any]


def make_world(path: Path, manifest: Path) -> None:
    """Create a world with this manifest."""
    init_world(path)
    with open_writer(path) as writer:
        applied = writer.apply(load_manifest_files(manifest))
        assert isinstance(applied.answer, Admitted), applied.answer


class PlanNode:
    """A world with the plan, which a node serves."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self._first = 0

    def run(self, **load: Any) -> Json:
        """Run a load of ``plan_workers``, with instances of its own."""
        self._first += 1_000_000
        given = {
            "port": self._port, "world": self._folder / "world", "first": self._first,
            "pace": None, **load,
        }  # fmt: skip
        found: Json = run_child(
            given, self._folder, timeout_s=TURN_S, module="benchmarks.linear.plan_workers"
        )
        return found


@contextlib.contextmanager
def plan_node(folder: Path) -> Iterator[PlanNode]:
    """Serve a new world with the plan until the block ends."""
    folder.mkdir()
    world = folder / "world"
    make_world(world, PLANS)
    with served(world, folder / "node.log") as port:
        yield PlanNode(folder, port)


def replayed(folder: Path) -> Json:
    """Replay the world of a node that has ended. Raises Divergence if a record differs."""
    with open_folder(folder / "world").open_store(readonly=True) as store:
        began = time.perf_counter()
        found = replay_store(store)
        seconds = time.perf_counter() - began
    return {"steps": found.steps, "seconds": seconds, "step_us": seconds / found.steps * 1e6}
