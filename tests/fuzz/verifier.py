"""A journal one of whose frames, or whose head, was written over (spec/audit.md, A-20 to A-29)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from aos.core.journal.frame import Frame, Head, read_frame
from aos.prove.verify.findings import FindingKind
from aos.prove.verify.verify import verify_store
from aos.store.memory_store import MemoryStore
from tests.prove.journals import Shop, busy_shop, store_of

RUNS: Final = 25
SEARCH_S: Final = 0.2
"""Time to search one input for its flipped bit, in seconds; it does not change the report."""

TOKENS: Final = (b"\x64kind", b"\x63seq", b"\x18\x17", b"\xf6", b"\x80", b"\x58\x20" + bytes(32))


def target(data: bytes) -> None:
    """Any other bytes in place of a frame or the head are a finding of verify, not an exception."""
    whole = _stored()
    place, written = data[:1], data[1:]
    number = place[0] % (len(_frames()) + 1) if place else 0
    true = _frames()[number] if number < len(_frames()) else _head()
    report = verify_store(Damaged(whole, number, written), search_seconds=SEARCH_S)
    assert report.is_sound == (written == true)
    assert all(finding.message for finding in report.findings)
    if report.is_sound:
        return
    if number == len(_frames()):
        assert report.findings[0].kind is FindingKind.HEAD_WRONG
    else:
        # If a frame was moved, the finding names the frame in its place.
        named = {each.frame for each in report.findings}
        assert _first(number) in named or report.findings[0].kind is FindingKind.FRAME_MISSING


class Damaged(MemoryStore):
    """A store one of whose frames, or whose head (the last number), is other bytes on disk."""

    def __init__(self, whole: MemoryStore, number: int, data: bytes) -> None:
        super().__init__()
        self.__dict__.update(whole.__dict__)
        self._number = number
        self._data = data

    def frame_at(self, seq: int) -> Frame | None:
        frame = super().frame_at(seq)
        if frame is None or self._number >= len(_frames()):
            return frame
        return read_frame(self._data) if frame.header.first == _first(self._number) else frame

    def head(self) -> Head | None:
        if self._number < len(_frames()):
            return super().head()
        return Head.from_bytes(self._data)


def _first(number: int) -> int:
    return _shop().frames[number].header.first


@cache
def _shop() -> Shop:
    return busy_shop()


@cache
def _stored() -> MemoryStore:
    return store_of(_shop())


@cache
def _frames() -> tuple[bytes, ...]:
    return tuple(frame.to_bytes() for frame in _shop().frames)


@cache
def _head() -> bytes:
    head = _stored().head()
    assert head is not None
    return head.to_bytes()


def seeds() -> Iterator[bytes]:
    for number, data in enumerate((*_frames(), _head())):
        yield bytes([number]) + data
    yield bytes([2]) + _frames()[3]
    yield bytes([2])
