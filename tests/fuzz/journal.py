"""Stored frames, records, heads and rows (spec/journal.md, spec/store.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from aos.core.journal.frame import Head, read_frame
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.errors import Damage
from aos.store.rows import ErasedRow, IntentRow, SubmissionRow
from aos.values.cbor import encode
from tests.core.record_values import FULL
from tests.prove.journals import Shop, busy_shop, head_of

RUNS: Final = 2_000
TOKENS: Final = (
    b"\x64kind", b"\x63seq", b"\x65stamp", b"\x67entropy", b"\x62ns", b"\x64hash", b"\x64size",
    b"\xa2", b"\x82", b"\x58\x20" + bytes(32), b"\x80", b"\xf6", b"\x18\x17",
)  # fmt: skip


def target(data: bytes) -> None:
    """Stored bytes are Damage, or are read and written again as the same bytes."""
    frame = _read(read_frame, data)
    if frame is not None:
        assert frame.to_bytes() == data
        for record in frame.records:
            _record(record)
    _record(data)
    head = _read(Head.from_bytes, data)
    if head is not None:
        assert head.to_bytes() == data
    row = _read(IntentRow.from_bytes, data)
    if row is not None:
        assert row.to_bytes() == data
    erased = _read(ErasedRow.from_bytes, data)
    if erased is not None:
        assert erased.to_bytes() == data
    submission = _read(lambda given: SubmissionRow.from_bytes(b"name", given), data)
    if submission is not None:
        assert submission.to_bytes() == data


def _record(data: bytes) -> None:
    record = _read(from_bytes, data)
    if record is not None:
        assert to_bytes(record) == data


def _read(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except Damage:
        return None


@cache
def shop() -> Shop:
    return busy_shop()


def seeds() -> Iterator[bytes]:
    for record in FULL:
        yield to_bytes(record)
    for frame in shop().frames[:4]:
        yield frame.to_bytes()
    yield head_of(shop().frames).to_bytes()
    yield IntentRow(opened_seq=7, index=1).to_bytes()
    yield encode({})
