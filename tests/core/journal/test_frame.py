"""One altered bit in a stored chain is found; one record is proved alone (J-24 to J-39)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha512
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from aos.core.journal.frame import (
    NO_FRAME,
    Frame,
    Head,
    Tip,
    follow,
    leaf,
    log_leaf,
    read_frame,
    record_salt,
    seal,
)
from aos.core.journal.merkle import Tree, proof, root_from
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Event, Stamp
from aos.core.journal.signing import is_signed
from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash, derive, digest

WORLD = content_hash(b"world")
KEY = SigningKey(bytes([1]) * 32)


def record(seq: int, value: bytes = b"\x01") -> bytes:
    return to_bytes(
        Event(
            seq=seq,
            stamp=Stamp(seq, bytes(64)),
            schema="t/A@1",
            value=value,
            submission_id=None,
            to=(),
            overloaded=(),
        )
    )


def salt(n: int) -> bytes:
    return derive("aos test", b"salt %d" % n, 32)


def chain(*sizes: int, world: Hash = WORLD) -> tuple[list[Frame], list[Tip]]:
    """Frames with these numbers of records, and the tip before each and after the last."""
    frames, tips = [], [Tip(world=world)]
    for n, size in enumerate(sizes):
        first = tips[-1].seq + 1
        frame, tip = seal(tips[-1], [record(first + i) for i in range(size)], salt(n))
        frames.append(frame)
        tips.append(tip)
    return frames, tips


FRAMES, TIPS = chain(1, 3, 2)


def naive_salt(drawn: bytes, seq: int) -> bytes:
    return derive("aos/record-salt/1", drawn + seq.to_bytes(8, "big"), 32)


def verify(stored: list[bytes], tip: Tip = TIPS[0]) -> Tip:
    """Check stored frames that follow ``tip`` as a verifier does, except for the head."""
    for data in stored:
        frame = read_frame(data)
        tip = follow(tip, frame)
        for n, each in enumerate(frame.records):
            found = from_bytes(each)
            if found.seq != frame.header.first + n:
                raise Damage("a record calls itself another")
    return tip


def test_a_chain_is_followed_to_its_end() -> None:
    """J-30."""
    assert verify([frame.to_bytes() for frame in FRAMES]) == TIPS[-1]
    for frame, before, after in zip(FRAMES, TIPS[:-1], TIPS[1:], strict=True):
        assert read_frame(frame.to_bytes()) == frame
        assert follow(before, frame) == after
        assert after.frame == frame.hash == frame.header.hash()


def test_a_header_says_what_the_specification_says() -> None:
    """J-24 to J-29, written a second time."""
    first, second, _ = FRAMES
    roots = [
        [
            digest("aos/leaf/1", naive_salt(salt(n), seq), data)
            for seq, data in enumerate(frame.records, frame.header.first)
        ]
        for n, frame in enumerate(FRAMES)
    ]  # fmt: skip
    assert first.header.prev == NO_FRAME == bytes(32)
    assert first.header.root == roots[0][0]
    a, b, c = roots[1]
    assert second.header.root == digest("aos/node/1", digest("aos/node/1", a, b), c)
    logged = [digest("aos/log-leaf/1", frame.header.root) for frame in FRAMES]
    assert first.header.log_root == logged[0]
    assert second.header.log_root == digest("aos/node/1", logged[0], logged[1])
    assert second.hash == digest(
        "aos/frame/1",
        {
            "version": 1,
            "world": WORLD,
            "first": 2,
            "last": 4,
            "prev": first.hash,
            "root": second.header.root,
            "log_root": second.header.log_root,
        },
    )
    stored = decode_record(second.to_bytes())
    assert isinstance(stored, dict)
    assert set(stored) == {"header", "records", "salt"}


def test_every_flipped_bit_of_a_stored_chain_is_found() -> None:
    """J-31."""
    stored = [frame.to_bytes() for frame in FRAMES]
    for n, data in enumerate(stored):
        for offset, bit in product(range(len(data)), range(8)):
            flipped = bytearray(data)
            flipped[offset] ^= 1 << bit
            with pytest.raises(Damage):
                verify([bytes(flipped), *stored[n + 1 :]], TIPS[n])


def test_every_replaced_byte_of_a_header_is_found() -> None:
    """J-31: beyond flipped bits: ``True`` equals 1 in Python, but is invalid in a header."""
    data = FRAMES[0].to_bytes()
    for offset, byte in product(range(data.index(b"records")), b"\0\1\2\x18\x20\xf4\xf5\xf6\xff"):
        if data[offset] != byte:
            with pytest.raises(Damage):
                verify([data[:offset] + bytes([byte]) + data[offset + 1 :]])


def test_every_prefix_is_damage() -> None:
    data = FRAMES[1].to_bytes()
    for size in range(len(data)):
        with pytest.raises(Damage, match="a frame is not canonical CBOR"):
            read_frame(data[:size])


MOVED: dict[str, Callable[[list[Frame]], list[Frame]]] = {
    "a frame is missing": lambda f: [f[0], f[2]],
    "the first frame is missing": lambda f: f[1:],
    "two frames changed places": lambda f: [f[1], f[0], f[2]],
    "a frame occurs twice": lambda f: [f[0], f[0], f[1], f[2]],
}


@pytest.mark.parametrize("what", MOVED)
def test_frames_that_moved_are_found(what: str) -> None:
    """J-31."""
    with pytest.raises(Damage):
        verify([frame.to_bytes() for frame in MOVED[what](FRAMES)])


def forged(frame: Frame, **changes: object) -> Frame:
    """A frame whose header was changed and whose hash is right for it."""
    header = replace(frame.header, **changes)  # type: ignore[arg-type]  # as the test says
    return replace(frame, header=header, hash=header.hash())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"world": content_hash(b"other")}, "frame 2 is another world's: expected world "),
        ({"first": 3}, "frame 2 is missing: the next stored frame begins at record 3"),
        ({"prev": NO_FRAME}, "frame 2 does not follow the frame before it: expected previous hash"),
        ({"root": NO_FRAME}, r"frame 2 \(records 2 to 4\) is altered: expected root 0000"),
        (
            {"log_root": NO_FRAME},
            "frame 2 is altered: its log root is not the tree over the frames",
        ),
    ],
)
def test_a_frame_that_does_not_follow_is_named(changes: dict[str, object], message: str) -> None:
    """J-30."""
    with pytest.raises(Damage, match=message):
        follow(TIPS[1], forged(FRAMES[1], **changes))


@pytest.mark.parametrize("size", range(1, 5))
def test_records_that_were_swapped_dropped_or_doubled_are_found(size: int) -> None:
    """J-31: with the number of records that the header says."""
    (frame,), (before, _) = chain(size)
    whole = frame.records
    others = [whole[::-1], whole[1:] + whole[:1], whole[:-1] + whole[:1], (b"\xa0",) * size]
    for records in others:
        if records != whole:
            with pytest.raises(Damage, match="is altered: expected root"):
                follow(before, replace(frame, records=records))
    for records in (whole[1:], (*whole, whole[0]), ()):
        with pytest.raises(Damage, match=r"expected .* records, found"):
            read_frame(replace(frame, records=records).to_bytes())


def frame_value() -> dict[str | int, Value]:
    value = decode_record(FRAMES[0].to_bytes())
    assert isinstance(value, dict)
    return value


def header_with(**changes: Value) -> dict[str | int, Value]:
    value = frame_value()
    header = value["header"]
    assert isinstance(header, dict)
    header.update(changes)
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "a frame is not {header, records, salt}"),
        ([], "a frame is not {header, records, salt}"),
        ({**frame_value(), "more": 1}, "a frame is not {header, records, salt}"),
        ({**frame_value(), "header": {}}, "a frame is not {header, records, salt}"),
        (header_with(more=1), "a frame is not {header, records, salt}"),
        (header_with(world=None), "a frame is not {header, records, salt}"),
        (header_with(version=True), "not a natural number"),
        (header_with(first=True), "not a natural number"),
        (header_with(last=True), "not a natural number"),
        (header_with(last=-1), "not a natural number"),
        (header_with(first="1"), "not a natural number"),
        (header_with(version=2), "frame version: expected 1, found 2 (a newer release wrote it)"),
        (header_with(version=0), "frame version: expected 1, found 0"),
        (header_with(root=bytes(31)), "a hash that is not 32 bytes"),
        (header_with(first=0, last=0), "frame 0: expected 1 records, found 1"),
        (header_with(last=2**64 - 1), "frame 1: expected 18446744073709551615 records, found 1"),
        ({**frame_value(), "records": []}, "frame 1: expected 1 records, found 0"),
        ({**frame_value(), "records": ["a"]}, "records are not byte strings"),
        ({**frame_value(), "salt": bytes(31)}, "its salt is not 32 bytes"),
    ],
)
def test_bytes_that_are_no_frame_are_refused(value: Value, message: str) -> None:
    """J-24."""
    with pytest.raises(Damage) as caught:
        read_frame(encode(value))
    assert message in str(caught.value)


@given(
    st.lists(st.binary(max_size=60), min_size=1, max_size=5),
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**40),
)
def test_a_frame_survives(records: list[bytes], drawn: bytes, seq: int) -> None:
    tip = Tip(world=WORLD, seq=seq, frame=content_hash(b"before"), log=Tree.of([WORLD] * 3))
    frame, after = seal(tip, records, drawn)
    assert read_frame(frame.to_bytes()) == frame
    assert follow(tip, frame) == after
    assert after.seq == seq + len(records)


# One record alone


def test_a_record_is_proved_without_its_neighbours() -> None:
    """J-27: from the record, its own salt and two paths to the head signed by the world's key."""
    frames, tips = chain(1, 4, 2, 5, 1)
    head = Head.of(tips[-1]).signed(KEY)
    logged = [log_leaf(frame.header.root) for frame in frames]
    for place, frame in enumerate(frames):
        leaves = [
            leaf(frame.salt, seq, data)
            for seq, data in enumerate(frame.records, frame.header.first)
        ]
        for index, data in enumerate(frame.records):
            # This is all that a verifier gets.
            own_salt = record_salt(frame.salt, frame.header.first + index)
            path, log_path = proof(leaves, index), proof(logged, place)
            size = len(frame.records)

            found = root_from(digest("aos/leaf/1", own_salt, data), index, size, path)
            assert found is not None
            assert root_from(log_leaf(found), place, head.frames, log_path) == head.log_root
            assert head.is_signed_by(bytes(KEY.verify_key))
            assert frame.salt not in (own_salt, data)


def test_salts_differ_by_record_and_by_frame() -> None:
    """J-26: two equal records have unequal leaves, so hashing a guess does not confirm it."""
    drawn = salt(0)
    salts = {record_salt(drawn, seq) for seq in range(100)} | {record_salt(salt(1), 0)}
    assert len(salts) == 101
    assert all(len(each) == 32 for each in salts)
    assert leaf(drawn, 1, b"same") != leaf(drawn, 2, b"same") != leaf(salt(1), 2, b"same")


# The head


HEAD = Head.of(TIPS[-1]).signed(KEY)


def test_a_head_survives() -> None:
    """J-33."""
    assert Head.from_bytes(HEAD.to_bytes()) == HEAD
    assert (HEAD.seq, HEAD.frames, HEAD.frame) == (6, 3, FRAMES[-1].hash)
    assert HEAD.log_root == FRAMES[-1].header.log_root
    assert HEAD.is_signed_by(bytes(KEY.verify_key))
    assert not HEAD.is_signed_by(bytes(SigningKey(bytes(32)).verify_key))


def test_every_flipped_bit_of_a_head_is_found() -> None:
    """J-33."""
    data = HEAD.to_bytes()
    for offset, bit in product(range(len(data)), range(8)):
        flipped = bytearray(data)
        flipped[offset] ^= 1 << bit
        try:
            found = Head.from_bytes(bytes(flipped))
        except Damage:
            continue
        assert found != HEAD
        assert not found.is_signed_by(bytes(KEY.verify_key))


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, bytes(31)), (1, True), (1, -1), (1, "6"), (2, None), (3, b""), (4, True), (5, bytes(63))],
)
def test_bytes_that_are_no_head_are_damage(place: int, value: Value) -> None:
    """J-33."""
    parts = decode_record(HEAD.to_bytes())
    assert isinstance(parts, list)
    parts[place] = value
    with pytest.raises(Damage, match="the head is not"):
        Head.from_bytes(encode(parts))
    others: list[Value] = [[], [*parts, 0], None, {}]
    for wrong in others:
        with pytest.raises(Damage, match="the head is not"):
            Head.from_bytes(encode(wrong))


# Signatures (J-34)

ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19
MESSAGE = b"message"
SIGNATURE = KEY.sign(MESSAGE).signature
PUBLIC = bytes(KEY.verify_key)

SMALL_ORDER = [
    bytes.fromhex(text)
    for text in (
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    )
]
"""The eight points whose order divides eight: under them, some signatures fit any message."""


def test_a_signature_is_of_one_key_over_one_message() -> None:
    assert is_signed(MESSAGE, SIGNATURE, PUBLIC)
    assert not is_signed(MESSAGE + b" ", SIGNATURE, PUBLIC)
    assert not is_signed(MESSAGE, SIGNATURE, bytes(SigningKey(bytes(32)).verify_key))
    assert not is_signed(MESSAGE, bytes(64), PUBLIC)


def test_every_flipped_bit_of_a_signature_or_key_is_found() -> None:
    for offset, bit in product(range(64), range(8)):
        flipped = bytearray(SIGNATURE)
        flipped[offset] ^= 1 << bit
        assert not is_signed(MESSAGE, bytes(flipped), PUBLIC)
    for offset, bit in product(range(32), range(8)):
        flipped = bytearray(PUBLIC)
        flipped[offset] ^= 1 << bit
        assert not is_signed(MESSAGE, SIGNATURE, bytes(flipped))


@pytest.mark.parametrize("size", [0, 1, 63, 65, 128])
def test_another_length_is_no_signature(size: int) -> None:
    assert not is_signed(MESSAGE, (SIGNATURE * 2)[:size], PUBLIC)
    assert not is_signed(MESSAGE, SIGNATURE, (PUBLIC * 4)[: min(size, 31)])
    assert not is_signed(MESSAGE, SIGNATURE, PUBLIC + b"\0")


@pytest.mark.parametrize("point", SMALL_ORDER, ids=lambda point: point.hex()[:8])
def test_a_key_of_small_order_signs_nothing(point: bytes) -> None:
    """With R = A = a point of small order and S = 0 a lax verifier takes any message."""
    for r in SMALL_ORDER:
        for message in (b"", MESSAGE, b"another"):
            assert not is_signed(message, r + bytes(32), point)


@pytest.mark.parametrize("point", SMALL_ORDER, ids=lambda point: point.hex()[:8])
def test_a_signature_whose_r_has_small_order_is_none(point: bytes) -> None:
    """J-34. With S = k·a the equation of RFC 8032 holds up to that point, so many libraries accept
    the signature. It gives the secret key away: a = S / k."""
    seed = sha512(bytes([3]) * 32).digest()
    scalar = int.from_bytes(seed[:32], "little") & (1 << 254) - 8 | 1 << 254
    public = bytes(SigningKey(bytes([3]) * 32).verify_key)
    k = int.from_bytes(sha512(point + public + MESSAGE).digest(), "little")
    s = (k * scalar % ORDER).to_bytes(32, "little")

    assert not is_signed(MESSAGE, point + s, public)


def test_a_second_form_of_a_signature_is_none() -> None:
    """S + order fits the same equation; taken, one receipt would have two identities."""
    s = int.from_bytes(SIGNATURE[32:], "little")
    twin = SIGNATURE[:32] + (s + ORDER).to_bytes(32, "little")
    assert not is_signed(MESSAGE, twin, PUBLIC)


def test_a_second_form_of_a_key_is_none() -> None:
    """y + prime is the same point in another spelling, where it fits in 255 bits."""
    for y in range(19):
        spelled = (y + PRIME).to_bytes(32, "little")
        assert not is_signed(MESSAGE, SIGNATURE, spelled)
        assert not is_signed(MESSAGE, spelled + bytes(32), spelled)
