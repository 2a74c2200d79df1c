"""Both kernels run random worlds that migrate and fork: in lockstep, then each process with one."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

import pytest

from aos.core.kernel import open_kernel
from tests.fastcore.paired_kernel import opening, opens_in_turn, paired
from tests.fastcore.random_cases import RandomCases
from tests.run_seed import in_turns, seeds
from tests.tools import long_form

SEEDS: Final = 400 if long_form() else 16
PARTS: Final = 4


@pytest.mark.long
@pytest.mark.parametrize("part", in_turns(2, range(PARTS)))
def test_kernels_that_change_at_each_start_make_the_frames_of_both(part: int) -> None:
    """CR-16: answers, calls, frames, rows, snapshots and reads of both are compared on the way."""
    counts: Counter[str] = Counter()
    for seed in seeds(SEEDS)[part::PARTS]:
        with paired() as pairs:
            cases = RandomCases(seed)
            world = cases.play()
        with opening(opens_in_turn(Random(seed))):
            again = RandomCases(seed).play()
        with opening(open_kernel):
            alone = RandomCases(seed).play()

        assert [frame.to_bytes() for frame in again.frames] == [
            frame.to_bytes() for frame in world.frames
        ], seed
        # A pair reads more cells, and these stay in memory longer (SN-11a).
        assert again.blobs.keys() == alone.blobs.keys(), seed
        assert all(pair.is_pair for pair in pairs)
        counts += cases.counts
    assert min(counts[name] for name in ("migrate", "migrate refused", "fork", "rebase")) > 0
