"""Processor time of processes, as Linux counts it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def processor_s(processes: Iterable[int]) -> float:
    """Return the processor time so far of processes and of those that they have started, in
    seconds. One that has ended counts 0."""
    return sum(_of_one(process) for process in processes)


def _of_one(process: int) -> float:
    folder = Path(f"/proc/{process}")
    try:
        # The name of the program, which may have spaces, ends with the last parenthesis.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        children = {
            int(child)
            for task in (folder / "task").iterdir()
            for child in (task / "children").read_text().split()
        }
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS + processor_s(children)
