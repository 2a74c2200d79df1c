"""``make sim-cluster``: clusters from seeds, in two processes.

python -m tests.sim.cluster_run 1000     seeds 0 to 999
python -m tests.sim.cluster_run 5..9     seeds 5 to 9
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from tests.sim.__main__ import seeds_of
from tests.sim.cluster import simulate
from tests.sim.failure import SimFailure
from tests.sim.trace import say

WORKERS: Final = 2
FAILURES_MAX: Final = 5
CHUNK: Final = 10


def outcome(seed: int) -> tuple[int, dict[str, int] | str]:
    """The figures of a seed, or what it broke."""
    try:
        return seed, simulate(seed)
    except SimFailure as failure:
        return seed, str(failure)
    except Exception as problem:  # noqa: BLE001  # an assertion of our own code: shown with its seed
        return seed, f"{type(problem).__name__}: {problem}"


def main(arguments: Sequence[str]) -> int:
    first, last = seeds_of(arguments[0])
    began_s, figures, failures, done = time.monotonic(), Counter[str](), 0, 0
    with ProcessPoolExecutor(WORKERS) as pool:
        for seed, result in pool.map(outcome, range(first, last + 1), chunksize=CHUNK):
            done += 1
            if isinstance(result, str):
                failures += 1
                say(f"seed {seed}: {result}")
                if failures == FAILURES_MAX:
                    pool.shutdown(cancel_futures=True)
                    break
            else:
                figures.update(result)
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(figures.items()))
    say(f"{done:,} seeds in {time.monotonic() - began_s:.0f} s: {told}; {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
