"""Which packed cells leave memory with a frame, and which blobs must stay for them (SN-11a).

``Cells`` moves the cells. This object counts their bytes, chooses the ones to spill, and pins their
blobs. The host uses it, too: it turns spilling on, and its collector of unused blobs asks for pins.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from aos.core.journal.records import CellId
from aos.core.limits import Limits
from aos.values.digests import Hash


@dataclass(slots=True, eq=False)
class Pins:
    """Spilled blobs that the world still needs although no snapshot names them yet.

    The collector of unused blobs asks this set before it removes a blob, from its own thread:
    membership tests are safe there. Only the thread of the cells may change the set.
    """

    at: dict[Hash, int] = field(default_factory=dict)
    """The last record that changed a cell with this blob, by content hash."""

    def __contains__(self, hash: object) -> bool:
        return hash in self.at

    def add(self, hash: Hash, changed: int) -> None:
        """Pin a blob of a cell that record ``changed`` changed last."""
        # Another cell may have the same state and need it until a later snapshot.
        self.at[hash] = max(changed, self.at.get(hash, 0))

    def drop(self, last: int) -> None:
        """Drop the blobs of cells that no record after ``last`` changed: a snapshot names those."""
        self.at = {hash: seq for hash, seq in self.at.items() if seq > last}


class Spilling:
    """The packed cells of all workflows whose states and keys are in memory, the oldest first."""

    __slots__ = (
        "_frame_bytes_max",
        "_has_begun",
        "_packed_bytes",
        "_sizes",
        "bytes",
        "bytes_max",
        "is_on",
        "pins",
    )

    def __init__(self, limits: Limits) -> None:
        self.is_on = False
        """Whether the host commits the blobs that ``Cells.spill`` returns. False during a restart
        and in replay: nothing is spilled then, and the deltas grow without a bound."""
        self.pins = Pins()
        """Spilled blobs that only the cells need."""
        self.bytes = 0
        """Bytes of states and keys in the deltas of all workflows; entries do not count."""
        self.bytes_max = limits.delta_bytes
        """Above this, spilling begins; it ends when half of this is left."""
        self._frame_bytes_max = limits.spill_bytes
        """Bytes that one frame may spill, unless it packed more than that."""
        self._packed_bytes = 0
        """Bytes that were packed since the last ``take``."""
        self._sizes: OrderedDict[CellId, int] = OrderedDict()
        """Bytes of each cell, the oldest first."""
        self._has_begun = False
        """Whether the deltas exceeded their bound and are not yet down to half of it."""

    def add(self, id: CellId, size: int) -> None:
        """Count a cell that was packed, with ``size`` bytes of state and keys; 0 is not counted."""
        if size:
            self._sizes[id] = size
            self.bytes += size
            if self.is_on:  # in a restart, no frame waits for the blobs
                self._packed_bytes += size

    def drop(self, id: CellId) -> None:
        """Count a cell no more: it has left its delta, or is only an entry there."""
        self.bytes -= self._sizes.pop(id, 0)

    def take(self) -> list[CellId]:
        """Drop and return the cells that this frame spills, the oldest first. Once per frame."""
        packed_bytes, self._packed_bytes = self._packed_bytes, 0
        spilled_ids: list[CellId] = []
        if not self.is_on:
            return spilled_ids
        if self.bytes > self.bytes_max:
            self._has_begun = True
        spilled_bytes = 0
        while self._has_begun:
            if self.bytes <= self.bytes_max // 2:
                self._has_begun = False
                break
            id, size = next(iter(self._sizes.items()))
            # A cell that is larger than the bound is spilled as the only one of its frame.
            if (
                spilled_bytes
                and spilled_bytes >= packed_bytes
                and spilled_bytes + size > self._frame_bytes_max
            ):
                break
            spilled_bytes += size
            self.drop(id)
            spilled_ids.append(id)
        return spilled_ids
