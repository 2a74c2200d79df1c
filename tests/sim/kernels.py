"""The kernels of a simulated world: both in lockstep, or another one in each process.

``TALLY`` counts what both did alike, so that a test can see that they did something.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from aos.core.kernel_protocol import KernelProtocol
from tests.fastcore.paired_kernel import LedKernel, opening, opens_in_turn, paired

TALLY: Final[Counter[str]] = Counter()


@contextlib.contextmanager
def in_lockstep() -> Iterator[None]:
    """Give each process both kernels: every call goes to both, and must have one result."""
    with paired() as pairs:
        yield
    TALLY["kernels in lockstep"] += len(pairs)
    TALLY["calls"] += sum(pair.calls for pair in pairs)
    TALLY["frames"] += sum(pair.frames for pair in pairs)


@contextlib.contextmanager
def in_turn(seed: int) -> Iterator[None]:
    """Give each process the reference or the second kernel alone, by chance."""
    opens = opens_in_turn(Random(f"kernels {seed}"))

    def opened(**arguments: Any) -> KernelProtocol:
        kernel = opens(**arguments)
        TALLY["second" if isinstance(kernel, LedKernel) else "reference"] += 1
        return kernel

    with opening(opened):
        yield
