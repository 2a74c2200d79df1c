"""The three steps on DBOS, and the callers in the same process.

python dbos_app.py '{"url": …, "points": […], "out": FILE}'     with the interpreter of DBOS

Callers are threads that call the workflow directly: of DBOS's ways the fastest. A call returns once
the workflow's result is committed.
"""

# mypy: disable-error-code="import-not-found"
# DBOS is installed separately from the product.

from __future__ import annotations

import itertools
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import NS_PER_S, Samples, as_fields, measured
from dbos import DBOS

QUEUE = "line"
QUEUE_POLL_S = 0.005
RESULT_POLL_S = 0.2
"""In a queue a caller asks the database whether it is done. More often costs more than it shows."""

Json = dict[str, Any]


def step(number: int) -> int:
    return number


def three_steps(_: int) -> int:
    return sum(durable_step(number) for number in (1, 2, 3))


durable_step = DBOS.step()(step)
workflow = DBOS.workflow()(three_steps)


def in_line(item: int) -> None:
    handle = DBOS.retrieve_queue(QUEUE).enqueue(workflow, item)
    handle.get_result(polling_interval_sec=RESULT_POLL_S)


def measure(point: Json, numbers: itertools.count[int]) -> Json:
    call: Callable[[int], object] = in_line if point["cells"] == "line" else workflow
    samples = Samples()
    began_ns = time.perf_counter_ns()
    last_ns = began_ns + int((point["warm_s"] + point["seconds"]) * NS_PER_S)

    def caller() -> None:
        while (sent_ns := time.perf_counter_ns()) < last_ns:
            item = next(numbers)
            samples.sent[item] = sent_ns
            call(item)
            samples.finished.append((item, time.perf_counter_ns()))

    threads = [threading.Thread(target=caller) for _ in range(point["in_flight"])]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = measured(
        samples,
        start_ns=began_ns,
        warm_s=point["warm_s"],
        seconds=point["seconds"],
        callers=point["in_flight"],
    )
    return {**point, **as_fields(found)}


def main() -> None:
    given = json.loads(sys.argv[1])
    url: str = given["url"]
    if url.startswith("sqlite"):
        # Made before DBOS opens it: a write-ahead log doubles its rate, and is synced as often.
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute("PRAGMA journal_mode=WAL")
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        connection.close()
        assert synchronous == 2, f"expected synchronous=FULL (2), found {synchronous}"
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": url,
            "log_level": "ERROR",
            "enable_otlp": False,
        }
    )
    DBOS.launch()
    try:
        DBOS.register_queue(QUEUE, global_concurrency=1, polling_interval_sec=QUEUE_POLL_S)
        workflow(0)
        numbers = itertools.count(1)
        points = [measure(point, numbers) for point in given["points"]]
    finally:
        DBOS.destroy()
    Path(given["out"]).write_text(json.dumps(points))


if __name__ == "__main__":
    main()
