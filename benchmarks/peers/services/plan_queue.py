"""Workflows of five steps on DBOS, through its queue.

python plan_queue.py '{"url": …, "instances": …, "workers": …, "out": FILE}'

With the interpreter of DBOS, one process whose queue has ``workers`` slots. The time begins with
the first ``enqueue``: slots begin their workflows while others are still enqueued.
"""

# mypy: disable-error-code="import-not-found"
# DBOS is installed separately from the product.

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.linear.plan_handlers import STEPS, first_context, handle
from dbos import DBOS

QUEUE = "plans"
QUEUE_POLL_S = 0.005
RESULT_POLL_S = 0.05

Json = dict[str, Any]

durable_step = DBOS.step()(handle)


def carry_out(item: int) -> Json:
    context = first_context(item)
    for step in STEPS:
        context |= durable_step(step, context)
    return context


workflow = DBOS.workflow()(carry_out)


def measure(given: Json) -> Json:
    """The plan steps of a second that the queue's workflows do."""
    instances: int = given["instances"]
    DBOS.register_queue(
        QUEUE, worker_concurrency=given["workers"], polling_interval_sec=QUEUE_POLL_S
    )
    queue = DBOS.retrieve_queue(QUEUE)
    workflow(0)  # warms up
    began_s = time.perf_counter()
    handles = [queue.enqueue(workflow, item) for item in range(instances)]
    for each in handles:
        each.get_result(polling_interval_sec=RESULT_POLL_S)
    return {
        "instances": instances,
        "workers": given["workers"],
        "rate": instances * len(STEPS) / (time.perf_counter() - began_s),
    }


def main() -> None:
    given = json.loads(sys.argv[1])
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": given["url"].replace("postgresql://", "postgresql+psycopg://"),
            "log_level": "ERROR",
            "enable_otlp": False,
        }
    )
    DBOS.launch()
    try:
        found = measure(given)
    finally:
        DBOS.destroy()
    Path(given["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
