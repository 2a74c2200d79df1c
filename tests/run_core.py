"""The kernel of a test run: the one that its worlds use if a test names none.

A run of all tests takes the reference or the second kernel, by the seed of the run, so that both
have their turns; a run of single files takes the reference. pytest prints the kernel at the start
of a run and after a failure; ``AOS_CORE`` names it instead, to repeat a run. ``.ci/run`` chooses it
by the commit.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from hashlib import blake2b

from aos.fastcore.core_kind import CORE_VARIABLE, CoreKind, core_of_environment


def settle_core(environment: MutableMapping[str, str], *, seed: int, is_whole: bool) -> CoreKind:
    """Return the kernel of this run, and write it into the environment for every process of it.

    ``is_whole`` if the run is one of all tests, in their usual form or in their long one.

    Raises:
        BadUsage: ``AOS_CORE`` names no kernel.
    """
    named = core_of_environment(environment)
    core = named or (core_of_seed(seed) if is_whole else CoreKind.PYTHON)
    environment[CORE_VARIABLE] = core.value
    return core


def core_of_seed(seed: int) -> CoreKind:
    """The kernel of a run of all tests with this seed.

    Two days in a row, an even and an odd seed, have both kernels. Which one is first follows from
    a hash, because the remainder of the seed chooses what else differs from day to day
    (``tests/run_seed.py``): so each such choice meets both kernels.
    """
    [number] = blake2b(str(seed // 2).encode(), digest_size=1).digest()
    return CoreKind.FAST if (number + seed) % 2 else CoreKind.PYTHON


def run_core() -> CoreKind:
    """Return the kernel of this run, which ``settle_core`` has written into the environment."""
    return CoreKind(os.environ[CORE_VARIABLE])


def other_core(core: CoreKind) -> CoreKind:
    """The kernel with which replay checks what this one wrote."""
    return CoreKind.PYTHON if core is CoreKind.FAST else CoreKind.FAST
