"""Merkle trees over hashes, in the shape of RFC 6962 (spec/journal.md, J-20 to J-23).

``n`` leaves split at the largest power of two below ``n``, so that a tree that grows at its end
keeps every complete subtree: an append costs O(log n) and one leaf is proved with O(log n) hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aos.values.digests import Hash, digest


def node(left_hash: Hash, right_hash: Hash) -> Hash:
    return digest("aos/node/1", left_hash, right_hash)


EMPTY: Final = digest("aos/empty/1")


def root(leaves: Sequence[Hash]) -> Hash:
    """The root over ``leaves``; ``EMPTY`` for none, the leaf itself for one."""
    level = list(leaves) or [EMPTY]
    while len(level) > 1:
        # Pairs from the left; an odd last one moves to the next level unchanged.
        above = [node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = [*above, level[-1]] if len(level) & 1 else above
    return level[0]


def proof(leaves: Sequence[Hash], index: int) -> list[Hash]:
    """The sibling hashes on the path from leaf ``index`` to the root, lowest first."""
    if not 0 <= index < len(leaves):
        raise IndexError(index)
    if len(leaves) == 1:
        return []
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if index < split:
        return [*proof(leaves[:split], index), root(leaves[split:])]
    return [*proof(leaves[split:], index - split), root(leaves[:split])]


def root_from(leaf: Hash, index: int, size: int, path: Sequence[Hash]) -> Hash | None:
    """The root that ``path`` proves for ``leaf`` at ``index`` of ``size``.

    None if a path for this leaf must have another length.
    """
    if not 0 <= index < size:
        return None
    if size == 1:
        return leaf if not path else None
    if not path:
        return None
    split = 1 << (size - 1).bit_length() - 1
    if index < split:
        below = root_from(leaf, index, split, path[:-1])
        return None if below is None else node(below, path[-1])
    below = root_from(leaf, index - split, size - split, path[:-1])
    return None if below is None else node(path[-1], below)


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree that only grows: its size, and the roots of its complete subtrees, largest first."""

    size: int = 0
    peaks: tuple[Hash, ...] = ()

    @classmethod
    def of(cls, leaves: Sequence[Hash]) -> Tree:
        tree = cls()
        for leaf in leaves:
            tree = tree.append(leaf)
        return tree

    def append(self, leaf: Hash) -> Tree:
        peaks = list(self.peaks)
        size = self.size
        while size & 1:
            leaf = node(peaks.pop(), leaf)
            size >>= 1
        return Tree(self.size + 1, (*peaks, leaf))

    def root(self) -> Hash:
        if not self.peaks:
            return EMPTY
        result = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            result = node(peak, result)
        return result
