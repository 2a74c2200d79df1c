"""A record is read back as it was written, or not at all (J-10 to J-19)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given

from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import (
    INLINE_BYTES,
    Record,
    Ref,
    Start,
    Step,
    slot,
    slot_bytes,
    slot_hash,
)
from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash
from tests.core.record_values import EMPTY, FULL, STAMP, records

EACH = pytest.mark.parametrize("record", FULL + EMPTY, ids=lambda record: record.KIND)
EACH_FULL = pytest.mark.parametrize("record", FULL, ids=lambda record: record.KIND)

# A second writing of the formats: kind -> (required fields, options).
FORMATS = {
    "genesis": ("seq stamp nonce world_key operators semantics signature", ""),
    "start": ("seq stamp host", ""),
    "manifest": ("seq stamp document principal serial signature", "mode leaves migrated proposal"),
    "event": ("seq stamp schema value", "submission_id to overloaded kept"),
    "step": (
        "seq cell entry root depth status fuel pages output",
        "state events intents abandoned ann under fits",
    ),
    "fault": ("seq cell entry root depth fault fuel pages", "output under"),
    "receipt": (
        """seq stamp intent cell effect attempt status payload started_ns finished_ns executor
        key_id signature outcome""",
        "payload_schema cost_cents problem abandoned batch",
    ),
    "kernel_receipt": (
        "seq intent cell effect status payload root depth outcome",
        "payload_schema by problem abandoned",
    ),
    "stream": (
        """seq stamp intent cell effect attempt frame_seq frame_kind payload executor key_id
        signature""",
        "payload_ref",
    ),
    "attempt": ("seq stamp intent cell attempt phase", "problem code"),
    "snapshot": ("seq stamp at frame document", ""),
    "fork": (
        "seq stamp parent at frame nonce world_key operators open_work signature",
        "erased cut",
    ),
    "control": (
        "seq stamp action principal serial signature",
        "cell intent value status payload why restamp dropped abandoned",
    ),
    "governance": (
        "seq stamp action principal signature",
        "proposal serial base document patch mode leaves report seen note",
    ),
}


def tree(record: Record) -> dict[Any, Any]:
    value = decode_record(to_bytes(record))
    assert isinstance(value, dict)
    return value


@given(records)
def test_a_record_survives(record: Record) -> None:
    """J-10."""
    data = to_bytes(record)
    assert from_bytes(data) == record
    assert encode(decode_record(data)) == data


@EACH
def test_an_example_survives(record: Record) -> None:
    assert from_bytes(to_bytes(record)) == record


def test_the_examples_are_one_of_each_kind() -> None:
    kinds = {kind.KIND for kind in get_args(Record)}
    assert [record.KIND for record in FULL] == [record.KIND for record in EMPTY]
    assert {record.KIND for record in FULL} == kinds == set(FORMATS)


@EACH_FULL
def test_a_full_record_has_exactly_the_fields_of_the_specification(record: Record) -> None:
    """J-11."""
    required, options = (text.split() for text in FORMATS[record.KIND])
    assert set(tree(record)) == {"kind", *required, *options}


@pytest.mark.parametrize("record", EMPTY, ids=lambda record: record.KIND)
def test_an_absent_option_is_left_out(record: Record) -> None:
    """J-12."""
    required, _ = (text.split() for text in FORMATS[record.KIND])
    more = {"events", "intents"} if isinstance(record, Step) else set()
    assert set(tree(record)) == {"kind", *required} | more


def test_inputs_carry_a_stamp() -> None:
    """J-13: records that follow from inputs carry none."""
    follow = {"step", "fault", "kernel_receipt"}
    for record in FULL:
        assert hasattr(record, "stamp") == (record.KIND not in follow)
        assert ("stamp" in tree(record)) == (record.KIND not in follow)


# Every place of a record's tree, altered in every way


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    if isinstance(value, list):
        for index in range(len(value)):
            yield from places(value[index], (*path, index))


def altered(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """``value`` with ``new`` at ``path``."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = altered(copy[path[0]], path[1:], new)
    return copy


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def outcome(value: Value) -> Record | None:
    """The record that these bytes are; None for damage. Nothing else may happen."""
    data = encode(value)
    try:
        record = from_bytes(data)
    except Damage:
        return None
    # A record has one encoding: the reader accepts only the bytes that the writer makes.
    assert to_bytes(record) == data
    return record


@EACH_FULL
def test_a_missing_field_is_damage(record: Record) -> None:
    """J-14: in the record and in whatever it holds. An option that is missing is another record."""
    options = {*FORMATS[record.KIND][1].split(), "detail", "key", "issuer_ref"} - {"key_id"}
    whole = tree(record)
    for path in places(whole):
        found = at(whole, path)
        if not isinstance(found, dict) or path == ("host",):
            continue
        for key in found:
            without = altered(whole, path, {k: v for k, v in found.items() if k != key})
            is_option = (
                key in options
                if path == () or path[0] in ("intents", "fault")
                else key in ("to", "overloaded", "unknown", "kept", "path")
            )
            after = outcome(without)
            assert (after is not None) == is_option, (path, key)
            assert after != record


@EACH
def test_a_field_too_many_is_damage(record: Record) -> None:
    """J-14."""
    whole = tree(record)
    for path in places(whole):
        found = at(whole, path)
        if not isinstance(found, dict) or path == ("host",):
            continue
        for key in ("more", "", "seq ", 0, -1):
            value = altered(whole, path, {**found, key: 1})
            assert outcome(value) is None, (path, key)


JUNK: tuple[Value, ...] = (
    None, True, False, -1, 0, 2**64 - 1, "", "text", "trap", b"", b"bytes", bytes(31), bytes(32),
    bytes(33), bytes(64), [], [[]], [0, 0], [0, 0, 0], ["", b""], {}, {"hash": bytes(32)},
    {"hash": bytes(32), "size": 1}, {"hash": bytes(31), "size": 1},
    {"hash": bytes(32), "size": -1}, {"ns": 0, "entropy": bytes(63)}, {0: 0},
    {"kind": [], "message": ""}, {"kind": {}, "message": ""},
    {"kind": "trap", "message": "", "detail": None}, {"kind": "trap", "message": None},
)  # fmt: skip


@EACH
def test_another_type_in_any_place_is_damage_or_another_record(record: Record) -> None:
    """J-14: nothing is taken that would be written in another way; nothing else is raised."""
    whole = tree(record)
    for path in places(whole):
        before = at(whole, path)
        for junk in JUNK:
            after = outcome(altered(whole, path, junk))
            if encode(junk) == encode(before):
                assert after == record
            else:
                assert after != record


NEVER: tuple[Value, ...] = (None, False, -1, [[]], {0: 0})


@EACH
def test_some_values_are_right_nowhere(record: Record) -> None:
    """J-14."""
    whole = tree(record)
    for path in places(whole):
        for junk in NEVER:
            assert outcome(altered(whole, path, junk)) is None, (path, junk)


@EACH_FULL
def test_an_empty_list_is_left_out_and_a_null_is_no_option(record: Record) -> None:
    """J-12: an absent option has one spelling."""
    whole = tree(record)
    for key in FORMATS[record.KIND][1].split():
        assert outcome({**whole, key: None}) is None
        assert outcome({**whole, key: []}) is None


@EACH_FULL
def test_every_flipped_bit_is_damage_or_another_record(record: Record) -> None:
    data = to_bytes(record)
    for offset in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[offset] ^= 1 << bit
            try:
                found = from_bytes(bytes(flipped))
            except Damage:
                continue
            assert found != record
            assert to_bytes(found) == bytes(flipped)


@EACH
def test_every_prefix_is_damage(record: Record) -> None:
    data = to_bytes(record)
    for size in range(len(data)):
        with pytest.raises(Damage, match="a record is not canonical CBOR"):
            from_bytes(data[:size])
    with pytest.raises(Damage, match="a record is not canonical CBOR"):
        from_bytes(data + b"\xf6")


@pytest.mark.parametrize(
    ("kind", "field", "what"),
    [
        ("step", "status", "step status"),
        ("receipt", "status", "receipt status"),
        ("kernel_receipt", "status", "receipt status"),
        ("receipt", "outcome", "receipt outcome"),
        ("kernel_receipt", "outcome", "receipt outcome"),
        ("attempt", "phase", "attempt phase"),
        ("manifest", "mode", "apply mode"),
        ("fork", "open_work", "open work of a fork"),
        ("control", "action", "control action"),
        ("control", "status", "control status"),
    ],
)
def test_a_word_that_its_field_does_not_have_is_damage(kind: str, field: str, what: str) -> None:
    """J-14."""
    whole = next(tree(record) for record in FULL if kind == record.KIND)

    with pytest.raises(Damage, match=f'{what} "gremlin" is unknown: a newer release wrote'):
        from_bytes(encode({**whole, field: "gremlin"}))


def test_damage_says_what_is_wrong() -> None:
    whole = tree(FULL[1])
    told: dict[str, Value] = {
        "Start record: host is missing": {k: v for k, v in whole.items() if k != "host"},
        "Start record: more is not a field of it": {**whole, "more": 1},
        'record kind "party" is unknown: a newer release wrote this journal, or it is damaged': {
            **whole,
            "kind": "party",
        },
        "record kind null is unknown": {k: v for k, v in whole.items() if k != "kind"},
        "record kind list[1] is unknown": {**whole, "kind": ["start"]},
        'a record holds text "one" where a natural number belongs': {**whole, "seq": "one"},
        "a record holds list[0] where a map belongs": [],
        "a start record holds something that is not text": {**whole, "host": {"a": 1}},
    }
    for message, value in told.items():
        with pytest.raises(Damage) as caught:
            from_bytes(encode(value))
        assert message in str(caught.value)

    fault = {**tree(FULL[5]), "fault": {"kind": "gremlin", "message": ""}}
    with pytest.raises(Damage, match='fault kind "gremlin" is unknown: a newer release wrote'):
        from_bytes(encode(fault))


def test_two_spellings_of_one_key_are_not_canonical() -> None:
    """J-10: the map's keys are in canonical order."""
    data = to_bytes(Start(seq=1, stamp=STAMP, host=(("a", "b"), ("c", "d"))))
    swapped = data.replace(b"\x61a\x61b\x61c\x61d", b"\x61c\x61d\x61a\x61b")
    assert swapped != data
    with pytest.raises(Damage, match="out of order"):
        from_bytes(swapped)


# Slots


def test_a_value_at_the_limit_is_inline_and_one_byte_more_is_not() -> None:
    """J-15."""
    blobs: dict[Hash, bytes] = {}
    short, long = bytes(INLINE_BYTES), bytes(INLINE_BYTES + 1)

    assert slot(short, blobs) == short
    assert blobs == {}
    assert slot(long, blobs) == Ref(content_hash(long), INLINE_BYTES + 1)
    assert blobs == {content_hash(long): long}


def test_a_slot_gives_its_bytes_and_their_hash_wherever_they_are() -> None:
    """J-15."""
    blobs: dict[Hash, bytes] = {}
    for data in (b"", b"short", bytes(5000)):
        found = slot(data, blobs)
        assert slot_bytes(found, blobs.__getitem__) == data
        assert slot_hash(found) == content_hash(data)


def test_a_missing_blob_is_the_readers_to_tell() -> None:
    def read(hash: Hash) -> bytes:
        raise Damage(f"blob {hash.hex()} is missing")

    with pytest.raises(Damage, match="is missing"):
        slot_bytes(Ref(content_hash(b"x"), 1), read)


def test_a_record_that_no_reader_would_take_is_not_written() -> None:
    """J-16."""
    record = Start(seq=1, stamp=STAMP, host=(("a", "x" * 1000),))
    size = len(to_bytes(record))

    assert from_bytes(to_bytes(record, max_bytes=size)) == record
    with pytest.raises(AssertionError, match=f"record 1 is too large: {size} bytes"):
        to_bytes(record, max_bytes=size - 1)
