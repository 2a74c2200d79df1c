"""Where a proof is anchored: a checkpoint, or the signed head (spec/proofs.md, PF-30 to PF-33)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aos.core.journal.frame import Frame, Head, log_leaf
from aos.core.journal.merkle import Tree, node
from aos.errors import Damage, Pruned, Refused
from aos.prove.headerlog.checkpoint import Checkpoint
from aos.prove.headerlog.header_tree import (
    header_bytes,
    inclusion,
    leaf_hash,
    read_header,
    root_from,
)
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.proofs.proof_file import CheckpointAnchor, HeadAnchor, ShownFrame
from aos.prove.proofs.sources import Source
from aos.values.digests import Hash


class Anchoring(Protocol):
    """Gives the anchor of a proof, and the place of each of its frames."""

    @property
    def anchor(self) -> CheckpointAnchor | HeadAnchor: ...

    @property
    def last(self) -> int:
        """The last record that it covers."""

    def frames(self, frames: Sequence[Frame]) -> list[ShownFrame]:
        """The places of these frames.

        Raises:
            Damage: One is not in the tree that was signed.
        """


class ByCheckpoint:
    """By a checkpoint of ``log``, which may have grown since."""

    def __init__(self, log: TiledLog, checkpoint: Checkpoint, anchor: CheckpointAnchor) -> None:
        self._log = log
        self._checkpoint = checkpoint
        self.anchor = anchor

    @property
    def last(self) -> int:
        return read_header(self._log.header(self._checkpoint.size - 1)).last

    def frames(self, frames: Sequence[Frame]) -> list[ShownFrame]:
        return [self._frame(frame) for frame in frames]

    def _frame(self, frame: Frame) -> ShownFrame:
        size = self._checkpoint.size
        header = header_bytes(frame.header)
        index = self._index(frame.header.first)
        if index >= size or self._log.header(index) != header:
            raise Damage(
                "the journal has another frame than its header log",
                location=f"frame {frame.header.first}",
                hint="aos verify --checkpoint DIR/log/checkpoint --log DIR/log names the first",
            )
        path = inclusion(index, size, self._log.node)
        if root_from(leaf_hash(header), index, size, path) != self._checkpoint.root:
            raise Damage(
                "the tiles of the header log do not give the root of its checkpoint "
                "(aos checkpoint --rebuild writes them again from the journal)"
            )
        return ShownFrame(index=index, header=header, path=tuple(path))

    def _index(self, first: int) -> int:
        """The frame that begins with record ``first``, or the next one: headers ascend."""
        low, high = 0, self._checkpoint.size
        while low < high:
            middle = (low + high) // 2
            if read_header(self._log.header(middle)).first < first:
                low = middle + 1
            else:
                high = middle
        return low


class ByHead:
    """By the head, which needs a pass over all frames (J-27)."""

    def __init__(self, source: Source, head: Head) -> None:
        self._source = source
        self._head = head
        self.anchor = HeadAnchor(head.to_bytes())

    @property
    def last(self) -> int:
        return self._head.seq

    def frames(self, frames: Sequence[Frame]) -> list[ShownFrame]:
        begins, tree = self._source.begins()
        firsts = {target.header.first for target in frames}
        if any(first <= begins for first in firsts):
            raise Pruned(
                "the head alone cannot prove a record that was pruned",
                expected=f"records after {begins}",
                actual=f"record {min(firsts)}",
                hint="name the archives with --archive, or use a header log: aos checkpoint",
            )
        leaves = bytearray()
        index_by_first: dict[int, int] = {}
        size = tree.size
        for frame in self._source.frames(begins + 1, self._head.seq):
            if frame.header.first in firsts:
                index_by_first[frame.header.first] = size
            leaves += log_leaf(frame.header.root)
            size += 1
        log = _Log(tree, leaves)
        if size != self._head.frames or log.range(0, size) != self._head.log_root:
            raise Damage("the journal does not end as its head says (aos verify)")
        return [
            ShownFrame(index=index, header=None, path=tuple(log.path(index, size)))
            for index in (index_by_first[target.header.first] for target in frames)
        ]


class _Log:
    """The tree over the roots of frames: of the first ones only the peaks are known (J-22)."""

    def __init__(self, tree: Tree, leaves: bytearray) -> None:
        self._begins = tree.size
        self._leaves = leaves
        self._peaks: dict[tuple[int, int], Hash] = {}
        at = 0
        heights = [n for n in reversed(range(tree.size.bit_length())) if tree.size >> n & 1]
        for height, peak in zip(heights, tree.peaks, strict=True):
            self._peaks[at, at + (1 << height)] = peak
            at += 1 << height

    def range(self, begin: int, end: int) -> Hash:
        """The root over these leaves, of which the tree has a subtree."""
        peak = self._peaks.get((begin, end))
        if peak is not None:
            return peak
        if end - begin == 1:
            at = (begin - self._begins) * 32
            return Hash(bytes(self._leaves[at : at + 32]))
        middle = begin + (1 << (end - begin - 1).bit_length() - 1)
        return node(self.range(begin, middle), self.range(middle, end))

    def path(self, index: int, size: int) -> list[Hash]:
        """The sibling hashes of a leaf, lowest first (J-23)."""
        path: list[Hash] = []
        begin, end = 0, size
        while end - begin > 1:
            middle = begin + (1 << (end - begin - 1).bit_length() - 1)
            if index < middle:
                path.append(self.range(middle, end))
                end = middle
            else:
                path.append(self.range(begin, middle))
                begin = middle
        return path[::-1]


def uncovered(last: int, seq: int) -> Refused:
    """The error for a record after the end of the chosen checkpoint."""
    return Refused(
        "the checkpoint does not cover this record",
        expected=f"a record up to {last}",
        actual=f"record {seq}",
        hint="make a newer one: aos checkpoint",
    )
