"""Find the one flipped bit in an altered frame (spec/audit.md, A-23).

A frame's root commits to all of its records together, so it does not show which one was altered. If
one bit was flipped, as by failing memory or a failing disk, trying each bit finds it: hashing a
leaf and its path to the root takes a few short hashes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from blake3 import blake3

from aos.core.journal.frame import Frame, leaf, record_salt
from aos.core.journal.merkle import root as merkle_root
from aos.values.cbor import encode
from aos.values.digests import Hash

SEARCH_SECONDS: Final = 20.0
"""Maximum search time for one frame, in seconds. A frame of 256 KiB, the largest that a host
makes, takes less."""

_NODE: Final = encode(["aos/node/1", bytes(32), bytes(32)])
_LEFT: Final = _NODE[:-66]
_RIGHT: Final = _NODE[-34:-32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One flipped bit: in the record at ``index`` of the frame, or in its salt (None)."""

    index: int | None
    byte: int
    bit: int


def flipped(data: bytes, flip: Flip) -> bytes:
    """Return ``data`` with the bit inverted."""
    changed = bytearray(data)
    changed[flip.byte] ^= 1 << flip.bit
    return bytes(changed)


def find_flip(frame: Frame, *, seconds: float = SEARCH_SECONDS) -> Flip | None:
    """Return the bit whose flipping makes ``frame`` fit the root in its header; None if none was
    found."""
    deadline = time.monotonic() + seconds
    return _in_salt(frame, deadline) or _in_records(frame, deadline)


def _leaves(frame: Frame) -> list[Hash]:
    first = frame.header.first
    return [leaf(frame.salt, first + i, record) for i, record in enumerate(frame.records)]


def _in_salt(frame: Frame, deadline: float) -> Flip | None:
    for byte in range(len(frame.salt)):
        if time.monotonic() > deadline:
            return None
        for bit in range(8):
            salt = bytearray(frame.salt)
            salt[byte] ^= 1 << bit
            if merkle_root(_leaves(replace(frame, salt=bytes(salt)))) == frame.header.root:
                return Flip(index=None, byte=byte, bit=bit)
    return None


def _in_records(frame: Frame, deadline: float) -> Flip | None:
    leaves = _leaves(frame)
    for index, record in enumerate(frame.records):
        salt = record_salt(frame.salt, frame.header.first + index)
        buffer = bytearray(encode(["aos/leaf/1", salt, record]))
        way = list(_way(leaves, index))
        for at in range(len(buffer) - len(record), len(buffer)):
            if time.monotonic() > deadline:
                return None
            for bit in range(8):
                buffer[at] ^= 1 << bit
                if _root_over(blake3(buffer).digest(), way) == frame.header.root:
                    return Flip(index=index, byte=at - len(buffer) + len(record), bit=bit)
                buffer[at] ^= 1 << bit
    return None


def _way(leaves: Sequence[Hash], index: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield, from a leaf up to the root, the bytes before and after the child's hash in each
    node's preimage."""
    if len(leaves) == 1:
        return
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if index < split:
        yield from _way(leaves[:split], index)
        yield _LEFT, _RIGHT + merkle_root(leaves[split:])
    else:
        yield from _way(leaves[split:], index - split)
        yield _LEFT + merkle_root(leaves[:split]) + _RIGHT, b""


def _root_over(leaf_hash: bytes, way: list[tuple[bytes, bytes]]) -> bytes:
    for prefix, suffix in way:
        leaf_hash = blake3(prefix + leaf_hash + suffix).digest()
    return leaf_hash
