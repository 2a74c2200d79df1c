"""The circumstances of a measurement: machine, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lmdb

from benchmarks.scratch import file_system, sync_ms

ROOT = Path(__file__).resolve().parent.parent


def machine(folder: Path) -> dict[str, Any]:
    """``folder`` is where the worlds are. The load is that of the last minute, before anything was
    measured: others may work on the machine."""
    return {
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "file_system": file_system(folder),
        "sync_ms": round(sync_ms(folder), 3),
        "load_before": round(os.getloadavg()[0], 2),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "wasmtime": version("wasmtime"),
        "lmdb": ".".join(map(str, lmdb.version())),
        "commit": _commit(),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    """The commit that was measured; with a plus where files differ from it."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return f"{head}+" if _git("status", "--porcelain", "--", "kernel", "modules") else head


def _git(*arguments: str) -> str:
    try:
        ran = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""
