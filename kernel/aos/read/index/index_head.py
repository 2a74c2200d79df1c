"""The row of the index that says of which records it is (spec/index.md, IX-2, IX-3)."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from aos.core.journal.frame import NO_FRAME
from aos.values.digests import Hash

FORMAT: Final = 4
_ROW: Final = struct.Struct(">H32sQQ32sQQ?")
_CHECKSUM: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHead:
    """The records and the journal of an index.

    ``base`` is the last pruned record, or 0; the rows are of the records from ``base + 1`` to
    ``at``, which ends the frame with the hash ``tip``. ``clock_ns`` is the journal clock there.
    ``is_begun`` is false while the cells and intents of the pruned part are read. ``sum`` is the
    checksum of all rows.
    """

    world: Hash
    base: int = 0
    at: int = 0
    tip: Hash = NO_FRAME
    clock_ns: int = 0
    sum: int = 0
    is_begun: bool = True

    def to_bytes(self) -> bytes:
        """The bytes of the row, with a checksum of their own."""
        data = _ROW.pack(
            FORMAT, self.world, self.base, self.at, self.tip, self.clock_ns, self.sum, self.is_begun
        )
        return data + _CHECKSUM.pack(zlib.crc32(data))

    @classmethod
    def from_bytes(cls, data: bytes) -> IndexHead | None:
        """The opposite of ``to_bytes``; None for the row of another format, or a damaged one."""
        if len(data) != _ROW.size + _CHECKSUM.size:
            return None
        if data[_ROW.size :] != _CHECKSUM.pack(zlib.crc32(data[: _ROW.size])):
            return None
        number, world, base, at, tip, clock_ns, sum_, is_begun = _ROW.unpack(data[: _ROW.size])
        if number != FORMAT:
            return None
        return cls(
            world=Hash(world), base=base, at=at, tip=Hash(tip), clock_ns=clock_ns, sum=sum_,
            is_begun=is_begun,
        )  # fmt: skip
