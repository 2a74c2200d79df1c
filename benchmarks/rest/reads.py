"""Read random cells while another process runs the world.

python -m benchmarks.rest.reads '{"path": …, "cells": …, "count": …, "out": FILE}'
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from aos.errors import Unavailable
from aos.host.folder.reader import open_reader
from aos.read.views import cell_view
from aos.read.views.view import View
from benchmarks.figures import NS_PER_S, Spread, percentile
from benchmarks.memory import peaks, rss_anon_mib
from benchmarks.processes import run_child
from benchmarks.workloads import cell_name

WORKFLOW: Final = "bench/keeper@1"
SEED: Final = 2
READS_S: Final = 120.0

Json = dict[str, Any]


def beside(path: Path, *, cells: int, count: int) -> Json:
    """Reads by one reader that is open, in another process."""
    given = {"path": path, "cells": cells, "count": count}
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        found: Json = run_child(
            given, Path(folder), timeout_s=READS_S, module="benchmarks.rest.reads"
        )
    return found


def read(path: Path, *, cells: int, count: int) -> Json:
    """Read ``count`` random cells as ``aos inspect cell`` does, one after the other."""
    chance = random.Random(SEED)
    began_ns = time.perf_counter_ns()
    with open_reader(path) as reader:
        view = View(reader.state, reader.store)
        opened_ns = time.perf_counter_ns()
        took: list[int] = []
        for _ in range(count):
            key = cell_name(chance.randrange(cells))
            at_ns = time.perf_counter_ns()
            found = cell_view.cell(view, WORKFLOW, key)
            took.append(time.perf_counter_ns() - at_ns)
            assert found["key"] == key, found
        spread = Spread.of_ns(took)
    assert spread is not None
    return {
        "count": count,
        "open_s": (opened_ns - began_ns) / NS_PER_S,
        "ms": asdict(spread),
        "rss_anon_mib": rss_anon_mib(),
    }


def commands(path: Path, *, cells: int, count: int) -> Json:
    """``aos inspect cell``, so many times: from its start to its end."""
    chance = random.Random(SEED)
    took = []
    with peaks() as peak:
        for _ in range(count):
            key = cell_name(chance.randrange(cells))
            began_ns = time.perf_counter_ns()
            _command(path, key)
            took.append((time.perf_counter_ns() - began_ns) / NS_PER_S)
    return {"count": count, "seconds": percentile(took, 0.5), "rss_anon_mib": peak.child}


def _command(path: Path, key: str) -> None:
    words = ["inspect", "cell", WORKFLOW, key, "--world", str(path), "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "aos_cli.entry", *words], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise Unavailable(f"`aos inspect cell` ended with {ran.returncode}: {ran.stderr.strip()}")
    assert json.loads(ran.stdout)["key"] == key, ran.stdout


def main() -> None:
    given = json.loads(sys.argv[1])
    found = read(Path(given["path"]), cells=given["cells"], count=given["count"])
    Path(given["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
