"""Whether a process runs that is no child of the test."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether the process runs. One that has ended is still in the table of processes until its
    parent collects it, which the first process of a container may do late or never."""
    if sys.platform != "linux":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
