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
    """``blobs`` are the beginnings of the hashes that stay, in order; ``snapshots`` the rows that
    stay; ``puts`` the beginnings of the hashes of the keys of rows that may go."""

    blobs: array[int]
    snapshots: frozenset[int]
    puts: frozenset[int]

    def may_go(self, claimed: Forget) -> Forget:
        """Of what somebody says may go, what may."""
        return Forget(
            blobs=[each for each in claimed.blobs if not _holds(self.blobs, word(each))],
            snapshots=[each for each in claimed.snapshots if each not in self.snapshots],
            puts=[each for each in claimed.puts if word(content_hash(each)) in self.puts],
        )


def word(hash: bytes) -> int:
    return int.from_bytes(hash[:WORD_BYTES], "big")


def _holds(words: array[int], word: int) -> bool:
    at = bisect_left(words, word)
    return at < len(words) and words[at] == word
