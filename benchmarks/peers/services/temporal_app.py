"""The three steps on Temporal: a worker and the callers in one process, as asyncio tasks.

python temporal_app.py '{"address": …, "points": […], "out": FILE}'   with Temporal's interpreter

Each step is an activity. A call returns when the server has the result of the workflow.
"""

# mypy: disable-error-code="import-not-found,untyped-decorator,misc"
# The SDK is installed separately from the product.

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.figures import NS_PER_S, Samples, as_fields, measured
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE = "steps"
STEP_TIMEOUT = timedelta(seconds=60)

Json = dict[str, Any]


@activity.defn
async def step(number: int) -> int:
    return number


@workflow.defn
class ThreeSteps:
    """One activity after the other."""

    @workflow.run
    async def run(self) -> int:
        total = 0
        for number in (1, 2, 3):
            total += await workflow.execute_activity(
                step, number, start_to_close_timeout=STEP_TIMEOUT
            )
        return total


async def call(client: Client, item: int) -> None:
    await client.execute_workflow(ThreeSteps.run, id=f"run-{item}", task_queue=QUEUE)


async def measure(client: Client, point: Json, numbers: Iterator[int]) -> Json:
    samples = Samples()
    began_ns = time.perf_counter_ns()
    last_ns = began_ns + int((point["warm_s"] + point["seconds"]) * NS_PER_S)

    async def caller() -> None:
        while (sent_ns := time.perf_counter_ns()) < last_ns:
            item = next(numbers)
            samples.sent[item] = sent_ns
            await call(client, item)
            samples.finished.append((item, time.perf_counter_ns()))

    await asyncio.gather(*(caller() for _ in range(point["in_flight"])))
    found = measured(
        samples,
        start_ns=began_ns,
        warm_s=point["warm_s"],
        seconds=point["seconds"],
        callers=point["in_flight"],
    )
    return {**point, **as_fields(found)}


async def run(given: Json) -> list[Json]:
    client = await Client.connect(given["address"])
    numbers = itertools.count()
    # Without its check of the code, which imports every module again for each workflow.
    runner = UnsandboxedWorkflowRunner()
    worker = Worker(
        client, task_queue=QUEUE, workflows=[ThreeSteps], activities=[step],
        workflow_runner=runner,
    )  # fmt: skip
    async with worker:
        await call(client, next(numbers))
        return [await measure(client, point, numbers) for point in given["points"]]


def main() -> None:
    given = json.loads(sys.argv[1])
    Path(given["out"]).write_text(json.dumps(asyncio.run(run(given))))
    # Threads of the SDK may still call the interpreter while it ends, which aborts the process.
    os._exit(0)


if __name__ == "__main__":
    main()
