"""Keeps the rows that a world needs when a client asks to remove them (spec/state.md, RT-20a)."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from aos.store.forget import Forget
from aos.values.digests import content_hash

WORD_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class StillNeeded:
    """Rows that must stay, and put rows that may be removed.

    ``blobs`` has the first 8 bytes of the hashes of needed blobs, sorted; ``snapshots`` the needed
    rows; ``puts`` the first 8 bytes of the hashes of the keys of rows that may be removed.
    """

    blobs: array[int]
    snapshots: frozenset[int]
    puts: frozenset[int]

    def may_go(self, claimed: Forget) -> Forget:
        """Reduce the rows that a client wants to remove to those that may be removed."""
        return Forget(
            blobs=[blob for blob in claimed.blobs if not _holds(self.blobs, word(blob))],
            snapshots=[
                snapshot for snapshot in claimed.snapshots if snapshot not in self.snapshots
            ],
            puts=[put for put in claimed.puts if word(content_hash(put)) in self.puts],
        )


def word(hash: bytes) -> int:
    """The first 8 bytes of a hash, as a number."""
    return int.from_bytes(hash[:WORD_BYTES], "big")


def _holds(words: array[int], word: int) -> bool:
    at = bisect_left(words, word)
    return at < len(words) and words[at] == word
