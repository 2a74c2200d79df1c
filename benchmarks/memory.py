"""Anonymous memory of processes, as Linux counts it: mapped files do not count."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LOOK_S: Final = 0.05

_OWN: Final = "self"


def rss_anon_mib(process: int | str = _OWN) -> float:
    """Anonymous memory of a process. Raises: OSError: It has ended, or there is no ``/proc``."""
    status = Path(f"/proc/{process}/status")
    for line in status.read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"{status}: expected a line RssAnon")


class Peaks:
    """The highest that was seen, in MiB: of this process, and of any one that it started."""

    def __init__(self) -> None:
        self.own = 0.0
        self.child = 0.0

    def look(self) -> None:
        self.own = max(self.own, rss_anon_mib())
        for process in _children():
            with contextlib.suppress(OSError):
                self.child = max(self.child, rss_anon_mib(process))


@contextlib.contextmanager
def peaks() -> Iterator[Peaks]:
    """Look every 50 ms, and at the end."""
    found, is_over = Peaks(), threading.Event()

    def watch() -> None:
        while not is_over.wait(LOOK_S):
            found.look()

    thread = threading.Thread(target=watch, name="peaks", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()
        found.look()


def _children() -> list[int]:
    """The processes that a thread of this one has started."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += (task / "children").read_text().split()
    return list(map(int, found))
