"""Entries and their parts: bytes, shapes, limits (spec/log.md, LG-1 to LG-8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.core.journal.frame import Tip
from aos.errors import Damage
from aos.store.log.entry import EntryPart, FramesEntry, parts_of, read_entry
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import content_hash
from tests.store.log.nodes import KEY, OTHER_KEY, WORLD, blobs_after, frames_after

TIP = Tip(world=WORLD)
FRAMES = frames_after(TIP, b"one", b"two")
BLOBS = blobs_after(TIP, b"a", b"b")


def test_an_entry_has_one_form() -> None:  # LG-1
    noted = FramesEntry(frames=FRAMES.frames, head=FRAMES.head, notes={2: "words", 1: "é"})
    for entry in (FRAMES, BLOBS, noted):
        assert read_entry(entry.to_bytes()) == entry
        assert read_entry(entry.to_bytes()).to_bytes() == entry.to_bytes()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((0,), "aos/log/2"), ((1,), "other"), ((1,), 3), ((2,), []), ((2,), [b"no frame"]),
        ((2,), [3]), ((3,), b"no head"), ((3,), 7), ((4,), [3]), ((4,), None), ((5,), {"x": "y"}),
        ((5,), {1: b"bytes"}), ((5,), []),
    ],
)  # fmt: skip
def test_another_shape_of_frames_is_no_entry(place: tuple[int], value: Value) -> None:  # LG-2
    fields = decode_record(FRAMES.to_bytes())
    assert isinstance(fields, list)
    fields[place[0]] = value
    with pytest.raises(Damage):
        read_entry(encode(fields))
    with pytest.raises(Damage):
        read_entry(encode([*fields, 1]))


@pytest.mark.parametrize(
    ("place", "value"),
    [((2,), b"short"), ((2,), "text"), ((3,), []), ((3,), [1]), ((4,), b"short"), ((4,), None)],
)
def test_another_shape_of_blobs_is_no_entry(place: tuple[int], value: Value) -> None:  # LG-2
    fields = decode_record(BLOBS.to_bytes())
    assert isinstance(fields, list)
    fields[place[0]] = value
    with pytest.raises(Damage):
        read_entry(encode(fields))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 40, encode([]), encode("aos/log/1")])
def test_other_bytes_are_no_entry(data: bytes) -> None:  # LG-2
    with pytest.raises(Damage):
        read_entry(data)


def test_blobs_are_signed_for_one_world_and_one_place() -> None:  # LG-4
    public = KEY.verify_key.encode()
    assert BLOBS.is_signed_by(WORLD, public)
    assert not BLOBS.is_signed_by(content_hash(b"another world"), public)
    assert not BLOBS.is_signed_by(WORLD, OTHER_KEY.verify_key.encode())
    moved = type(BLOBS)(after=content_hash(b"x"), blobs=BLOBS.blobs, signature=BLOBS.signature)
    assert not moved.is_signed_by(WORLD, public)
    more = type(BLOBS)(after=BLOBS.after, blobs=(*BLOBS.blobs, b"c"), signature=BLOBS.signature)
    assert not more.is_signed_by(WORLD, public)


@given(st.binary(max_size=300), st.integers(1, 64))
def test_parts_join_to_the_entry(data: bytes, size: int) -> None:  # LG-5
    parts = parts_of(data, size)
    assert b"".join(part.data for part in parts) == data
    assert all(len(part.data) <= size for part in parts)
    assert [(part.number, part.total) for part in parts] == [
        (number, len(parts)) for number in range(1, len(parts) + 1)
    ]
    for part in parts:
        assert EntryPart.read(part.entry.hex(), part.header, part.data) == part


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ("", "1/1"), ("ab" * 31, "1/1"), ("AB" * 32, "1/1"), ("zz" * 32, "1/1"), ("ab" * 32, ""),
        ("ab" * 32, "0/1"), ("ab" * 32, "2/1"), ("ab" * 32, "1"), ("ab" * 32, "1/1/1"),
        ("ab" * 32, "01/1"), ("ab" * 32, "+1/1"), ("ab" * 32, "1/99999999"),
        ("ab" * 32, "\u0661/1"),
    ],
)  # fmt: skip
def test_other_headers_are_no_part(entry: str, part: str) -> None:  # LG-6
    assert EntryPart.read(entry, part, b"data") is None
