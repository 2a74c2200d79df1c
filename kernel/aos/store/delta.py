"""A blob as a delta: the parts that it shares with another blob, its base, and the bytes that are
new (spec/store.md, ST-90).

A workflow's new state mostly has the bytes of the state that it replaces. Stored as a delta, such a
state takes the space of its changes and not of the whole. Numbers are big end first:

    DeltaRow    base hash 32, size u64, chain u8, parts
    part        offset in the base u32, bytes kept from there u32, bytes added u32, the added bytes

The blob is what the parts yield one after the other: first the kept bytes, then the added ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from aos.errors import Damage
from aos.store.packs import PACKED_BYTES
from aos.values.digests import Hash

DELTA_BYTES: Final = 2048
"""A smaller blob is always kept whole: LMDB puts several of them in one page (ST-90)."""

CHAIN_MAX: Final = 31
"""Length of the longest chain of deltas, so that a read rebuilds few blobs (ST-90)."""

_HEAD: Final = struct.Struct(">32sQB")
_PART: Final = struct.Struct(">III")

_ANCHOR_BYTES: Final = 16
"""Bytes that must be equal before the search for common parts takes two places for the same."""

_WINDOW_BYTES: Final = 8192
"""How far ahead in the base the search looks for common parts."""

_PARTS_MAX: Final = 64
_GALLOP_BYTES: Final = 64


def may_be_delta(data: bytes) -> bool:
    """Whether a blob of this size may be kept as a delta (ST-90)."""
    return DELTA_BYTES <= len(data) < PACKED_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRow:
    """How a blob of ``size`` bytes is made from ``base``.

    ``chain`` is greater than the chain of every delta that the base depends on; a whole blob counts
    as 0. It does not change when one of them is written whole, so it is an upper bound.
    """

    base: Hash
    size: int
    chain: int
    parts: bytes

    def to_bytes(self) -> bytes:
        """Return the row's value, as drawn at the top of this file."""
        return _HEAD.pack(self.base, self.size, self.chain) + self.parts

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Raises: Damage."""
        if len(data) < _HEAD.size:
            raise Damage(f"a delta's row: expected {_HEAD.size} bytes or more, found {len(data)}")
        base, size, chain = _HEAD.unpack_from(data)
        if not 1 <= chain <= CHAIN_MAX:
            raise Damage(f"a delta's row: expected a chain of 1 to {CHAIN_MAX}, found {chain}")
        return cls(base=Hash(base), size=size, chain=chain, parts=data[_HEAD.size :])

    def applied(self, base: bytes) -> bytes:
        """Return the blob that this row makes of the bytes of its base. Its hash is not checked.

        Raises:
            Damage: The row ends within a part.
        """
        parts, at = self.parts, 0
        pieces: list[bytes] = []
        while at < len(parts):
            if at + _PART.size > len(parts):
                raise Damage("a delta's row ends within a part")
            offset, copy_size, added = _PART.unpack_from(parts, at)
            at += _PART.size
            pieces += (base[offset : offset + copy_size], parts[at : at + added])
            at += added
        return b"".join(pieces)


def delta_of(data: bytes, base: bytes) -> bytes | None:
    """Return the parts of ``data`` as a delta on ``base``; None if they take half of its size.

    They begin with what both have in front and end with what both have behind. In between, the
    search tries few places, so it takes little time even if nothing is equal.
    """
    shorter = min(len(base), len(data))
    front = _same_in_front(base, 0, data, 0, shorter)
    back = _same_behind(base, len(base), data, len(data), shorter - front)
    between = _Between(base, len(base) - back, data, len(data) - back)
    return between.parts(front, back, bytes_max=len(data) // 2 - _HEAD.size)


@dataclass(frozen=True, slots=True)
class _Between:
    """Two blobs, and where the bytes begin that both have behind."""

    base: bytes
    base_end: int
    data: bytes
    end: int

    def parts(self, front: int, back: int, *, bytes_max: int) -> bytes | None:
        """Return the parts of the whole blob, in at most ``bytes_max`` bytes; else None."""
        pieces: list[bytes] = []
        size = offset = 0
        at, to, copy_size = front, front, front  # up to here, base and data are done
        while to < self.end:
            is_last = len(pieces) >= _PARTS_MAX
            match = None if is_last else self._next_same(at, to, bytes_max - size)
            next_at, next_to = match or (self.base_end, self.end)
            pieces.append(_PART.pack(offset, copy_size, next_to - to) + self.data[to:next_to])
            size += len(pieces[-1])
            if size > bytes_max:
                return None
            offset, copy_size = next_at, self._same_from(next_at, next_to)
            at, to = next_at + copy_size, next_to + copy_size
        if copy_size and offset + copy_size != self.base_end:
            pieces.append(_PART.pack(offset, copy_size, 0))
            offset, copy_size = self.base_end, 0
        elif not copy_size:
            offset = self.base_end
        if copy_size + back:
            pieces.append(_PART.pack(offset, copy_size + back, 0))
        joined = b"".join(pieces)
        return joined if len(joined) <= bytes_max else None

    def _next_same(self, at: int, to: int, distance_max: int) -> tuple[int, int] | None:
        """Find the next place in the data, after ``to``, whose bytes are also in the base, after
        ``at``.

        It looks at distances that double each time, up to ``distance_max``, and then goes back to
        where the equal bytes begin.
        """
        if at == self.base_end:
            return None
        base_end, ahead = min(self.base_end, at + _WINDOW_BYTES), 0
        while ahead <= distance_max and to + ahead + _ANCHOR_BYTES <= self.end:
            anchor_at = to + ahead
            base_at = self.base.find(self.data[anchor_at : anchor_at + _ANCHOR_BYTES], at, base_end)
            if base_at >= 0:
                same_bytes = _same_behind(
                    self.base, base_at, self.data, anchor_at, min(base_at - at, ahead)
                )
                return base_at - same_bytes, anchor_at - same_bytes
            ahead += ahead or 1
        return None

    def _same_from(self, at: int, to: int) -> int:
        limit = min(self.base_end - at, self.end - to)
        return _same_in_front(self.base, at, self.data, to, limit)


def _same_in_front(a: bytes, i: int, b: bytes, j: int, limit: int) -> int:
    """How many bytes of ``a`` from ``i`` and ``b`` from ``j`` are equal, up to ``limit``."""
    return _gallop(limit, lambda start, end: a[i + start : i + end] == b[j + start : j + end])


def _same_behind(a: bytes, i: int, b: bytes, j: int, limit: int) -> int:
    """How many bytes of ``a`` before ``i`` and ``b`` before ``j`` are equal, up to ``limit``."""
    return _gallop(limit, lambda start, end: a[i - end : i - start] == b[j - end : j - start])


def _gallop(limit: int, is_same: Callable[[int, int], bool]) -> int:
    """Return the largest number, up to ``limit``, of bytes that are the same.

    ``is_same`` compares the bytes at the distances from ``start`` to before ``end``. The compared
    pieces double while they are the same, and are halved after the first that is not.
    """
    same_bytes, step = 0, _GALLOP_BYTES
    while same_bytes < limit:
        step = min(step, limit - same_bytes)
        if is_same(same_bytes, same_bytes + step):
            same_bytes += step
            step *= 2
        elif step == 1:
            break
        else:
            limit = same_bytes + step
            step //= 2
    return same_bytes
