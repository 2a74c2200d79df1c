"""``aos page`` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.shell import AOS, environment

WAIT_S = 90.0


@contextmanager
def served(*paths: Path, port: int = 0) -> Iterator[str]:
    """Serve worlds and bundles to everyone on this machine; yield the origin of the page.
    Port 0 is one of the system's choice."""
    words = [*AOS, "page", *map(str, paths), "--listen", f"127.0.0.1:{port}", "--no-token"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rstrip("/")
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
