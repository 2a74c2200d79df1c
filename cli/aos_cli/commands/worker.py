"""``aos worker``: carry out effects of a world on another machine (spec/cli.md, C-90)."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated

from aos.client.node_connection import without_user
from aos.errors import BadUsage
from aos.node.worker import Worker
from aos.node.worker.remote_worker import LEASE_S
from aos.worker.load_executors import load
from aos.worker.redacted_output import flush, protect_output
from aos_cli.options import NodeUrl, argument, node_token, option
from aos_cli.output import note


def worker(
    executors: Annotated[
        list[str],
        argument(
            "M:A...",
            "Functions: package.module:attribute, path/to/file.py:attribute, or a name that "
            "a package registers.",
        ),
    ],
    *,
    node: NodeUrl = None,
    name: Annotated[
        str | None,
        option(
            "NAME",
            "Name of this worker at the node (default: host and process id). Two processes "
            "need two names.",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        option(
            "N",
            "Most tasks of each M:A at a time, in addition to the limits of its effects.",
            min=1,
        ),
    ] = None,
    lease_ms: Annotated[
        int,
        option(
            "N",
            "Time in milliseconds after which the node gives a task to another worker if this "
            "one does not report.",
            min=1_000,
            max=3_600_000,
        ),
    ] = int(LEASE_S * 1000),
    key: Annotated[
        Path | None, option("FILE", "Sign results with this Ed25519 seed, as the name of the M:A.")
    ] = None,
) -> None:
    if node is None:
        raise BadUsage("worker: expected --node URL, or AOS_NODE (a URL, or a world's folder)")
    if sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__:
        # Before functions are loaded, because loggers keep the streams that they find (SL-47).
        protect_output()
    loaded_executors = [load(spec) for spec in executors]
    names = (
        [name] * len(loaded_executors)
        if len(loaded_executors) == 1
        else _names(name, [executor.name for executor in loaded_executors])
    )
    workers = [
        Worker(
            node,
            executor,
            token=node_token(),
            name=worker_name,
            concurrency=concurrency,
            lease_s=lease_ms / 1000,
            key_file=key,
        )
        for executor, worker_name in zip(loaded_executors, names, strict=True)
    ]
    effects = sorted(effect for executor in loaded_executors for effect in executor.effects)
    asyncio.run(
        _run(workers, f"worker for {without_user(node)}: {', '.join(effects)} (Ctrl-C stops it)")
    )


def _names(name: str | None, executors: list[str]) -> list[str | None]:
    """A name for each of several workers of this process."""
    if len(set(executors)) != len(executors):
        raise BadUsage("worker: two of the given executors have the same name")
    return [None if name is None else f"{name}-{executor}" for executor in executors]


async def _run(workers: list[Worker], started: str) -> None:
    """Print ``started`` once a signal ends the worker cleanly, then run until a signal; the second
    one ends the wait for functions that still run."""
    loop = asyncio.get_running_loop()
    running = [asyncio.ensure_future(worker.run()) for worker in workers]
    signals = 0

    def stop() -> None:
        nonlocal signals
        signals += 1
        for worker in workers:
            worker.stop()
        if signals > 1:
            for task in running:
                task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    note(started)
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        for worker in workers:
            worker.stop()
        for ended in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        flush()
