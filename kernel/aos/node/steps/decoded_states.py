"""The states of cells that were read last, each decoded once: requests about one plan step read the
same state up to five times."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Ref, Slot, slot_bytes
from aos.values.cbor import decode_record

BYTES_MAX: Final = 4 << 20
"""Bytes of the states that are kept. Decoded, they take about ten times as much memory."""


class DecodedStates:
    """Keeps at most ``bytes_max`` bytes of states, the last of each cell. A value belongs to these
    bytes, so no one has to report that a cell has changed."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._decoded: OrderedDict[CellId, tuple[Slot, Any]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._decoded)

    def value(self, id: CellId, state: Slot, read: BlobReader) -> Any:
        """Return the value of a state, which must not be changed. Raises as ``read``."""
        decoded = self._decoded.pop(id, None)
        if decoded is not None:
            self._bytes -= _size(decoded[0])
        if decoded is None or decoded[0] != state:
            decoded = state, decode_record(slot_bytes(state, read))
        self._keep(id, decoded)
        return decoded[1]

    def _keep(self, id: CellId, decoded: tuple[Slot, Any]) -> None:
        self._decoded[id] = decoded
        self._bytes += _size(decoded[0])
        while self._bytes > self._bytes_max:
            _, (state, _) = self._decoded.popitem(last=False)
            self._bytes -= _size(state)


def _size(state: Slot) -> int:
    return state.size if isinstance(state, Ref) else len(state)
