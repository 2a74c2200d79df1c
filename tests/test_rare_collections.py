"""A process that keeps many objects searches them rarely for cycles (H-86)."""

from __future__ import annotations

import gc

from aos.rare_collections import GC_THRESHOLDS, rare_collections


def test_collections_are_rare_in_the_block_and_as_before_after_it() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == GC_THRESHOLDS
        gc.freeze()
        assert gc.get_freeze_count()
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()
