"""Clients of a node, or of Restate's ingress, in a process of their own.

    python -m benchmarks.node.callers '{"do": …, "port": …, "out": FILE, …}'

``do``: events (of an AOS node), calls (of a keyed handler of Restate), batches (of 100 events),
tasks (workers that settle what is open), claims (from sending to a waiting worker's claim).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import NS_PER_MS, NS_PER_S, Samples, as_fields, measured, percentile
from benchmarks.node.http import Connection
from benchmarks.workloads import cell_name

Json = dict[str, Any]

BATCH: Final = 100
HOT: Final = "hot"
LEASE_MS: Final = 60_000
POLL_MS: Final = 2_000

Request = Callable[[int], tuple[str, Any]]
"""The path and the body of an item's request."""


def add(item: int, cells: str) -> Json:
    key = HOT if cells == "hot" else cell_name(item)
    return {"schema": "bench/Add@1", "value": {"key": key, "by": 1, "item": item}}


def begin(item: int) -> Json:
    value = {"key": cell_name(item), "run": item, "steps": 1}
    return {"schema": "bench/Begin@1", "value": value}


def event_request(wait: str, cells: str) -> Request:
    return lambda item: (f"/v1/events?wait={wait}", add(item, cells))


def call_request(cells: str) -> Request:
    def request(item: int) -> tuple[str, Any]:
        key = HOT if cells == "hot" else cell_name(item)
        return f"/sum/{key}/add", {"by": 1}

    return request


def batch_request(wait: str) -> Request:
    def request(item: int) -> tuple[str, Any]:
        events = [add(item * BATCH + number, "fresh") for number in range(BATCH)]
        return f"/v1/events?wait={wait}", {"items": events}

    return request


async def load(port: int, request: Request, point: Json, *, first: int, items: int = 1) -> Json:
    """Send from so many callers until the point is over. An answer ends ``items`` items."""
    samples, numbers = Samples(), itertools.count(first)
    began_ns = time.perf_counter_ns()
    last_ns = began_ns + int((point["warm_s"] + point["seconds"]) * NS_PER_S)

    async def caller() -> None:
        async with Connection(port) as connection:
            while (sent_ns := time.perf_counter_ns()) < last_ns:
                item = next(numbers)
                samples.sent[item] = sent_ns
                await connection.post(*request(item))
                samples.finished.append((item, time.perf_counter_ns()))

    await asyncio.gather(*(caller() for _ in range(point["in_flight"])))
    found = as_fields(
        measured(
            samples,
            start_ns=began_ns,
            warm_s=point["warm_s"],
            seconds=point["seconds"],
            callers=point["in_flight"],
        )
    )
    return {**point, **found, "rate": found["rate"] * items}


async def settle(port: int, *, count: int, workers: int, most: int) -> Json:
    """Open ``count`` tasks, then claim and settle them all: ``most`` a claim, so many workers."""
    async with Connection(port) as connection:
        for start in range(0, count, BATCH):
            items = [begin(item) for item in range(start, min(count, start + BATCH))]
            await connection.post("/v1/events?wait=ran", {"items": items})
    settled, claims = 0, itertools.count()
    began_ns = time.perf_counter_ns()

    async def worker(name: str) -> None:
        nonlocal settled
        async with Connection(port) as connection:
            while settled < count:
                claim = {
                    "worker": name, "claim": f"{name}-{next(claims)}", "max": most,
                    "lease_ms": LEASE_MS, "wait_ms": 200,
                }  # fmt: skip
                tasks = (await connection.post("/v1/work/claim", claim))["tasks"]
                if not tasks:
                    continue
                now_ns = time.time_ns()
                results = [
                    {
                        "task": each["task"], "epoch": each["epoch"], "status": "ok",
                        "payload": {"step": each["params"]["step"]},
                        "started_ns": now_ns, "finished_ns": now_ns,
                    }
                    for each in tasks
                ]  # fmt: skip
                body = {"worker": name, "results": results}
                answers = (await connection.post("/v1/work/results", body))["answers"]
                assert all(each["answer"] == "settled" for each in answers), answers
                settled += len(answers)

    await asyncio.gather(*(worker(f"w{number}") for number in range(workers)))
    seconds = (time.perf_counter_ns() - began_ns) / NS_PER_S
    return {"tasks": count, "workers": workers, "most": most, "rate": count / seconds}


async def claimed(port: int, *, count: int, first: int) -> Json:
    """The times from sending an event to the claim of its task by a worker that waits for it, and
    to the answer that it is durable."""
    to_claim, to_durable = [], []
    async with Connection(port) as sender, Connection(port) as worker:
        for item in range(first, first + count):
            claim = {
                "worker": "one", "claim": f"c-{item}", "max": 1, "lease_ms": LEASE_MS,
                "wait_ms": POLL_MS,
            }  # fmt: skip
            waiting = asyncio.ensure_future(worker.post("/v1/work/claim", claim))
            await asyncio.sleep(0.01)  # until it waits
            sent_ns = time.perf_counter_ns()
            await sender.post("/v1/events?wait=durable", begin(item))
            to_durable.append((time.perf_counter_ns() - sent_ns) / NS_PER_MS)
            [task] = (await waiting)["tasks"]
            to_claim.append((time.perf_counter_ns() - sent_ns) / NS_PER_MS)
            now_ns = time.time_ns()
            result = {
                "task": task["task"], "epoch": task["epoch"], "status": "ok",
                "payload": {"step": task["params"]["step"]},
                "started_ns": now_ns, "finished_ns": now_ns,
            }  # fmt: skip
            await worker.post("/v1/work/results", {"worker": "one", "results": [result]})
    return {
        "durable_ms": percentile(to_durable, 0.5),
        "claimed_ms": percentile(to_claim, 0.5),
        "count": count,
    }


async def run(given: Json) -> Json:
    port: int = given["port"]
    point: Json = given.get("point", {})
    match given["do"]:
        case "events":
            request = event_request(given["wait"], point["cells"])
            return {**await load(port, request, point, first=given["first"]), "wait": given["wait"]}
        case "calls":
            return await load(port, call_request(point["cells"]), point, first=given["first"])
        case "batches":
            request = batch_request(given["wait"])
            return await load(port, request, point, first=given["first"], items=BATCH)
        case "tasks":
            return await settle(
                port, count=given["count"], workers=given["workers"], most=given["most"]
            )
        case "claims":
            return await claimed(port, count=given["count"], first=given["first"])
    raise ValueError(f"there is no {given['do']!r}")


def main() -> None:
    given = json.loads(sys.argv[1])
    Path(given["out"]).write_text(json.dumps(asyncio.run(run(given))))


if __name__ == "__main__":
    main()
