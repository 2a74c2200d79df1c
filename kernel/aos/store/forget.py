"""Rows that a store removes, a bounded number at a time (spec/state.md, RT-6, RT-24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aos.values.digests import Hash

FORGET_MAX: Final = 512
"""Rows that one transaction removes at most, so that another writer waits a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Rows to remove in one transaction. Rows that are not there are skipped.

    ``blobs`` are no longer needed: their bytes are removed and no row remembers them. ``puts`` are
    the keys of rows.
    """

    blobs: Sequence[Hash] = ()
    intents: Sequence[Hash] = ()
    submissions: Sequence[str] = ()
    erased: Sequence[Hash] = ()
    snapshots: Sequence[int] = ()
    puts: Sequence[bytes] = ()

    def __len__(self) -> int:
        return (
            len(self.blobs) + len(self.intents) + len(self.submissions) + len(self.erased)
            + len(self.snapshots) + len(self.puts)
        )  # fmt: skip
