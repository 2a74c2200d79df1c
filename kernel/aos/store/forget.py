"""What a store is told to forget, a bounded part at a time (spec/state.md, RT-6, RT-24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aos.values.digests import Hash

FORGET_MAX: Final = 512
"""Rows that one transaction takes away at most: some milliseconds for a writer who waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Rows that go in one transaction. What is not there is passed over.

    ``blobs`` lose their bytes without a trace: nobody needs them. ``puts`` are the keys of rows.
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
