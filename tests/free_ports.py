"""Ports for programs that a test starts later."""

from __future__ import annotations

import os
import random
import socket
from typing import Final

FIRST: Final = 20_000
PER_WORKER: Final = 1_500
WORKERS: Final = 8


def free_port() -> int:
    """A port on which no one listens. Linux gives ports from 32,768 on to connections and to
    listeners without a port of their own, so that none of these takes this one before it is used;
    and each worker of pytest-xdist has a part of those below."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    first = FIRST + worker * PER_WORKER
    while True:
        port = random.SystemRandom().randrange(first, first + PER_WORKER)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def free_ports(count: int) -> list[int]:
    """So many different ports on which no one listens."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return sorted(ports)
