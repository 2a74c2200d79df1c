"""Workers that carry out plans over HTTP, in a process of their own.

    python -m benchmarks.linear.plan_workers '{"port": …, "world": …, "instances": …, "out": FILE}'

With a ``pace``, so many instances start each second while the workers wait for them; without one
(null), all of them have started before.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from aos.core.journal.records import slot_bytes
from aos.host.door.remote import ask_running
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.manifest.names import LINEAR
from aos.read.views.view import View
from aos.values.cbor import decode_record, encode
from benchmarks.figures import NS_PER_S, Spread
from benchmarks.linear.plan_handlers import LEASE_S, PLAN, STEPS, first_context, handle
from benchmarks.node.http import Connection

STARTERS: Final = 16
WAIT_MS: Final = 2_000

Json = dict[str, Any]
Place = tuple[str, int]
"""An instance and the number of its plan step."""


@dataclass(slots=True, kw_only=True)
class Load:
    """``workers`` claim up to ``most`` plan steps with each request, until ``instances`` have
    ended."""

    port: int
    instances: int
    workers: int
    most: int
    first: int
    pace: float | None
    settled: int = 0
    ended_ns: int = 0
    claimed_ns: dict[Place, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.instances * len(STEPS)

    async def start_all(self) -> None:
        """Start all instances, several at a time."""
        items = iter(range(self.first, self.first + self.instances))

        async def starter() -> None:
            async with Connection(self.port) as connection:
                for item in items:
                    await _start(connection, item)

        await asyncio.gather(*(starter() for _ in range(STARTERS)))

    async def start_paced(self, pace: float) -> None:
        """Start ``pace`` instances a second by the clock."""
        async with Connection(self.port) as connection:
            began_s = time.monotonic()
            for number in range(self.instances):
                await asyncio.sleep(began_s + number / pace - time.monotonic())
                await _start(connection, self.first + number)

    async def run(self) -> float:
        """Carry out all plan steps; return the seconds."""
        began_ns = time.time_ns()
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._worker(f"w{number}"))
            if self.pace is not None:
                group.create_task(self.start_paced(self.pace))
        return (self.ended_ns - began_ns) / NS_PER_S

    async def _worker(self, name: str) -> None:
        claims = 0
        async with Connection(self.port) as connection:
            while self.settled < self.total:
                claims += 1
                body = {
                    "worker": name, "claim": f"{name}-{self.first}-{claims}", "max": self.most,
                    "steps": [{"name": f"{PLAN}/*"}], "lease_ms": LEASE_S * 1000,
                    "wait_ms": WAIT_MS,
                }  # fmt: skip
                tasks = (await connection.post("/v1/work/claim", body))["tasks"]
                if tasks:
                    await self._settle(connection, name, tasks)

    async def _settle(self, connection: Connection, name: str, tasks: list[Json]) -> None:
        now_ns = time.time_ns()
        for each in tasks:
            self.claimed_ns[each["instance"], each["step_seq"]] = now_ns
        results = [
            {
                "task": each["task"], "epoch": each["epoch"],
                "outcome": {"status": "completed", "patch": handle(each["step"], each["context"])},
            }
            for each in tasks
        ]  # fmt: skip
        body = {"worker": name, "results": results}
        answers = (await connection.post("/v1/work/results", body))["answers"]
        assert all(each["answer"] == "settled" for each in answers), answers
        self.settled += len(answers)
        self.ended_ns = time.time_ns()


async def _start(connection: Connection, item: int) -> None:
    body = {"instance": f"i-{item}", "plan": PLAN, "context": first_context(item)}
    await connection.post("/v1/linear/start", body)


async def measure(load: Load, world: Path) -> Json:
    """Run the load, and read from the journal when each plan step was READY.

    Raises:
        AssertionError: A result was not accepted, or a plan step was not carried out once.
    """
    if load.pace is None:
        await load.start_all()
    before, size = ask_running(world, "status")["seq"], _store_bytes(world)
    seconds = await load.run()
    ready_ns = await asyncio.to_thread(_ready_ns, world, load)
    assert ready_ns.keys() == load.claimed_ns.keys(), "a plan step was not carried out"
    spread = Spread.of_ns([at - ready_ns[place] for place, at in load.claimed_ns.items()])
    assert spread is not None
    with open_folder(world).open_store(readonly=True) as store:
        journal = sum(len(each.to_bytes()) for each in store.frames(before + 1))
    return {
        "instances": load.instances,
        "workers": load.workers,
        "most": load.most,
        "pace": load.pace,
        "rate": load.total / seconds,
        "ready_to_claimed_ms": asdict(spread),
        "journal_bytes": journal / load.total,
        "store_bytes": (_store_bytes(world) - size) / load.total,
    }


def _ready_ns(world: Path, load: Load) -> Mapping[Place, int]:
    """When each plan step of the load was READY, by the journal's clock."""
    found: dict[Place, int] = {}
    with open_reader(world) as reader:
        view = View(reader.state, reader.store)
        for item in range(load.first, load.first + load.instances):
            cell = reader.state.cells[LINEAR, encode(f"i-{item}")]
            assert cell.declared == "completed", cell
            assert cell.state is not None
            state: Any = decode_record(slot_bytes(cell.state, view.journal.blob))
            for seq, row in enumerate(state["steps"]):
                found[state["instance"], seq] = row["next_run_at"]
    return found


def _store_bytes(world: Path) -> int:
    with open_folder(world).open_store(readonly=True) as store:
        return store.size_bytes()


def main() -> None:
    given = json.loads(sys.argv[1])
    out, world = Path(given.pop("out")), Path(given.pop("world"))
    out.write_text(json.dumps(asyncio.run(measure(Load(**given), world))))


if __name__ == "__main__":
    main()
