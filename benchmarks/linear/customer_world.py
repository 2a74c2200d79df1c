"""A world of customers, in processes of its own.

    python -m benchmarks.linear.customer_world '{"do": "make", "path": …, "cells": …, "out": FILE}'

``do``: make (the world, with so many cells at rest in a snapshot), list (pages of random customers,
over HTTP). It writes the results to ``out`` as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx

from aos.core.journal.inputs import EventInput
from aos.host.door.writer import Item, open_writer
from aos.host.world.snapshots import Every
from aos.values.cbor import Value, encode
from benchmarks.figures import NS_PER_S, Spread
from benchmarks.linear.customers import PAGE, CustomerRow, customer_name, customers, row
from benchmarks.linear.plan_world import WORLDS, make_world
from benchmarks.rest.feed import feed
from benchmarks.workloads import Load
from benchmarks.world import World

CUSTOMER_WORLD: Final = "benchmarks.linear.customer_world"
"""This program."""

CUSTOMERS: Final = WORLDS / "customers.air.json"
WORKFLOW: Final = "bench/customer@1"
SETTINGS: Final = f"""
[search."{WORKFLOW}"]
customer = "customer"
city = "city"
total = "total"
"""
"""Three attributes in ``node.toml``."""

EVERY: Final = 50_000
SEED: Final = 3
READY_S: Final = 1_200.0
POLL_S: Final = 0.5

Json = dict[str, Any]


def change(found: CustomerRow) -> EventInput:
    """The event that gives a cell its state."""
    state: Value = {name: value for name, value in asdict(found).items() if name != "key"}
    output: Value = {"state": encode(state), "status": "running"}
    done: Value = {"key": found.key, "do": {"$tag": "out", "$value": encode(output)}}
    return EventInput(schema="bench/Do@1", value=encode(done))


def item_of(event: EventInput) -> Item:
    """The same event for the socket of a world."""
    return Item(schema=event.schema, value=event.value)


LOAD: Final = Load(
    manifest=CUSTOMERS,
    event=lambda item, _cell, _cells: change(row(item, 1)),
    first=lambda item, _cell: change(row(item, 1)),
    finished=lambda _call, _output: None,
    executors=lambda _read, _world: (),
)


async def make(path: Path, cells: int) -> Json:
    """Make the world; its last record is in a snapshot."""
    make_world(path, CUSTOMERS)
    async with World(path, LOAD, every=Every(records=EVERY)) as world:
        began_s = time.perf_counter()
        await feed(world, (change(row(item, cells)) for item in range(cells)))
        seconds = time.perf_counter() - began_s
        await asyncio.to_thread(_snapshot, path)
        return {"cells": cells, "seconds": seconds, "store_bytes": world.store_bytes()}


def _snapshot(path: Path) -> None:
    with open_writer(path) as writer:
        writer.snapshot()


def list_pages(port: int, cells: int, pages: int) -> Json:
    """Wait until the index is built, then read the first page of so many customers.

    Raises:
        AssertionError: A page does not have the rows of its customer.
    """
    began_ns = time.perf_counter_ns()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
        while _page(client, customer_name(0)) is None:
            assert time.perf_counter_ns() - began_ns < READY_S * NS_PER_S, "the index is not built"
            time.sleep(POLL_S)
        built_s = (time.perf_counter_ns() - began_ns) / NS_PER_S
        chance, took = random.Random(SEED), []
        for _ in range(pages):
            name = customer_name(chance.randrange(customers(cells)))
            at_ns = time.perf_counter_ns()
            found = _page(client, name)
            took.append(time.perf_counter_ns() - at_ns)
            assert found is not None
            rows = found["cells"]
            assert len(rows) == min(PAGE, found["total"]) > 0, found["total"]
            assert {each["state"]["customer"] for each in rows} == {name}, name
    spread = Spread.of_ns(took)
    assert spread is not None
    return {"pages": pages, "rows": len(rows), "built_s": built_s, "ms": asdict(spread)}


def _page(client: httpx.Client, customer: str) -> Json | None:
    """The first page; None while the index is built."""
    where = {
        "workflow": WORKFLOW, "where": f"customer = {customer}", "limit": PAGE, "state": "1",
    }  # fmt: skip
    answer = client.get(f"/v1/cells?{urlencode(where)}")
    if answer.status_code == 503:
        return None
    answer.raise_for_status()
    found: Json = answer.json()
    return found


def main() -> None:
    given = json.loads(sys.argv[1])
    if given["do"] == "make":
        found = asyncio.run(make(Path(given["path"]), given["cells"]))
    else:
        found = list_pages(given["port"], given["cells"], given["pages"])
    Path(given["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
