"""Commands that make a world smaller, and what they leave of its store."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from aos.errors import Unavailable

COMMANDS: Final = {
    "aos gc": ("gc",),
    "aos journal prune": ("journal", "prune", "--before", "newest"),
}

Json = dict[str, Any]


def housekeeping(path: Path, *, timeout_s: float) -> list[Json]:
    """Measure each command of this release, one after the other, on a world that is not running."""
    return [
        _timed(name, [*words, "--world", str(path)], path, timeout_s=timeout_s)
        for name, words in COMMANDS.items()
        if _run([*words, "--help"], timeout_s=timeout_s).returncode == 0
    ]


def _timed(name: str, words: list[str], path: Path, *, timeout_s: float) -> Json:
    store = path / "store" / "data.mdb"
    before = store.stat().st_size
    began = time.perf_counter()
    ran = _run(words, timeout_s=timeout_s)
    seconds = time.perf_counter() - began
    if ran.returncode:
        raise Unavailable(f"`{name}` ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    return {
        "command": name,
        "seconds": seconds,
        "bytes_before": before,
        "bytes_after": store.stat().st_size,
    }


def _run(words: list[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aos_cli.entry", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
