"""Let Python's cyclic garbage collector run rarely, in a process that keeps many objects (H-86)."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

GC_THRESHOLDS: Final = (50_000, 20, 100)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collect cycles rarely until the end of the block; objects that are frozen in it are collected
    again afterwards.

    The kernel makes no cycles, and with the usual thresholds a tenth of the time went into
    searching a world's many objects for them.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
