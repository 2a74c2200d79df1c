"""The Merkle root of a transaction's content, split into chunks as Arweave's own client does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

CHUNK_BYTES_MAX: Final = 256 * 1024
CHUNK_BYTES_MIN: Final = 32 * 1024
NOTE_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the tree, and the offset at which its bytes end."""

    id: bytes
    end: int


def data_root(data: bytes) -> bytes:
    """The root over the chunks of ``data`` (AW-14).

    A leaf is ``H(H(H(chunk)) H(end))``, a branch ``H(H(left) H(right) H(left's end))``, where H is
    SHA-256 and an offset has 32 bytes, big-endian. A node without a sibling moves up unchanged.
    """
    layer = [_leaf(data[start:end], end) for start, end in _chunks(len(data))]
    while len(layer) > 1:
        pairs = [layer[at : at + 2] for at in range(0, len(layer), 2)]
        layer = [_branch(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return layer[0].id


def _chunks(size: int) -> Iterator[tuple[int, int]]:
    """Start and end of each chunk: 256 KiB, the last two of equal size where the last would have
    less than 32 KiB. Content whose last chunk is full is followed by an empty one."""
    start = 0
    while size - start >= CHUNK_BYTES_MAX:
        remaining = size - start
        step = CHUNK_BYTES_MAX
        if 0 < remaining - CHUNK_BYTES_MAX < CHUNK_BYTES_MIN:
            step = (remaining + 1) // 2
        yield start, start + step
        start += step
    yield start, size


def _leaf(chunk: bytes, end: int) -> _Node:
    return _Node(_hash(_hash(_hash(chunk)) + _hash(_note(end))), end)


def _branch(left_node: _Node, right_node: _Node) -> _Node:
    return _Node(
        _hash(_hash(left_node.id) + _hash(right_node.id) + _hash(_note(left_node.end))),
        right_node.end,
    )


def _note(offset: int) -> bytes:
    return offset.to_bytes(NOTE_BYTES, "big")


def _hash(data: bytes) -> bytes:
    return sha256(data).digest()
