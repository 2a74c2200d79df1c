"""Search the bytes of records for names, and decode only the matches (spec/audit.md, A-44).

Records are canonical, so the bytes of a name (a taken entry, an intent, a cell) appear unchanged in
every record that has it. A byte search costs a fraction of decoding. Each match is decoded and
checked again, because a value may contain the same bytes by chance.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from aos.audit.lens.ports import Journal, first_kept
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, EntryId, Record
from aos.values.cbor import encode
from aos.values.digests import HASH_BYTES, Hash

_ENTRY: Final = encode("entry") + b"\x82"
_INTENT: Final = encode("intent") + encode(bytes(HASH_BYTES))[:2]


def records_naming(
    journal: Journal, cell: CellId, *, first: int = 1, last: int
) -> Iterator[Record]:
    """Yield the records from ``first`` to ``last`` whose bytes contain a cell's identity. Pruned
    records are skipped."""
    needle = encode([*cell])
    first = max(first, first_kept(journal))
    for frame in journal.frames(first, last):
        for seq, data in enumerate(frame.records, frame.header.first):
            if needle in data and first <= seq <= last:
                yield from_bytes(data)


def records_after(
    journal: Journal,
    first: int,
    last: int,
    entries: Container[EntryId],
    intents: Container[Hash],
) -> Iterator[Record]:
    """Yield the records from ``first`` to ``last`` that take one of ``entries`` or are about one
    of ``intents``, and perhaps a few others. Both containers may change meanwhile. Pruned
    records are skipped."""
    first = max(first, first_kept(journal))
    for frame in journal.frames(first, last):
        for seq, data in enumerate(frame.records, frame.header.first):
            if first <= seq <= last and (_takes(data, entries) or _names(data, intents)):
                yield from_bytes(data)


def _takes(data: bytes, entries: Container[EntryId]) -> bool:
    at = data.find(_ENTRY)
    while at >= 0:
        seq, end = _nat(data, at + len(_ENTRY))
        index, _ = _nat(data, end)
        if (seq, index) in entries:
            return True
        at = data.find(_ENTRY, at + 1)
    return False


def _nat(data: bytes, at: int) -> tuple[int, int]:
    """Return the natural number at ``at`` and the place where it ends; (-1, at) for anything
    else."""
    if at >= len(data):
        return -1, at
    initial = data[at]
    if initial < 24:
        return initial, at + 1
    if initial > 27:
        return -1, at
    end = at + 1 + (1 << initial - 24)
    return int.from_bytes(data[at + 1 : end], "big"), end


def _names(data: bytes, intents: Container[Hash]) -> bool:
    at = data.find(_INTENT)
    while at >= 0:
        start = at + len(_INTENT)
        if Hash(data[start : start + HASH_BYTES]) in intents:
            return True
        at = data.find(_INTENT, at + 1)
    return False
