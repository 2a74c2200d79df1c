"""A world that a node serves, or that ``aos run`` runs, and the rate at which it runs events."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from aos.errors import AosError
from aos.host.door.remote import ask_running
from aos.host.door.writer import Item, open_writer
from benchmarks.peers import systems
from benchmarks.processes import Children

POLL_S = 0.01


@contextlib.contextmanager
def served(world: Path, log: Path, *, http: bool = True) -> Iterator[int]:
    """Serve a world by ``aos node``, or run it by ``aos run``, until the block ends.

    Returns:
        The port of the node; nothing listens there without ``http``.

    Raises:
        Unavailable: The process was not ready within a minute.
    """
    [port] = systems.free_ports(1)
    words = ["node", "--listen", f"127.0.0.1:{port}"] if http else ["run"]
    with Children() as children:
        process = children.start(
            [sys.executable, "-m", "aos_cli.entry", *words, "--world", world], log=log
        )
        if http:
            systems.until(lambda: systems.answers(f"http://127.0.0.1:{port}/readyz"), process, log)
        else:
            systems.until(lambda: _runs(world), process, log)
        yield port


def _runs(world: Path) -> bool:
    try:
        ask_running(world, "status")
    except AosError:
        return False
    return True


def core_rate(world: Path, items: Iterable[Item], steps: int) -> float:
    """Send events through the socket of a running world, and wait until it has run ``steps`` more
    steps. Return steps per second."""
    before: int = ask_running(world, "status")["steps"]
    began = time.perf_counter()
    with open_writer(world) as writer:
        for _ in writer.send(items):
            pass
        while ask_running(world, "status")["steps"] < before + steps:
            time.sleep(POLL_S)
    return steps / (time.perf_counter() - began)
