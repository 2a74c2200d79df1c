"""CBOR of another library, read into the normal form of a schema (AG-20 to AG-23)."""

from __future__ import annotations

import contextlib
import time
from random import Random

import pytest

from aos.values.cbor import Value
from aos.values.errors import MalformedCbor, ValueProblem
from aos.values.foreign import decode_foreign, from_foreign
from aos.values.hash_rewrite import HashRewrite
from aos.values.schema import compile_schemas

SCHEMAS = compile_schemas(
    {
        "t/Pc@1": {"variant": {"Idle": {"unit": {}}, "Busy": {"nat": {}}}},
        "t/Rec@1": {
            "record": {
                "pc": {"ref": "t/Pc@1"},
                "data": {"bytes": {}},
                "flag": {"bool": {}},
                "maybe": {"option": {"list": {"ref": "t/Pc@1"}}},
                "nothing": {"unit": {}},
            }
        },
        "t/Hashes@1": {
            "record": {
                "one": {"hash": {}},
                "some": {"option": {"set": {"hash": {}}}},
                "by": {"map": {"key": {"hash": {}}, "value": {"nat": {}}}},
                "arm": {"variant": {"A": {"hash": {}}, "B": {"unit": {}}}},
                "text": {"text": {}},
            }
        },
        "t/Plain@1": {"record": {"text": {"text": {}}}},
    }
)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("d9d9f7 01", 1),
        ("c0 61 61", "a"),
        ("9f 01 ff", [1]),
        ("bf 61 61 01 ff", {"a": 1}),
        ("7f 61 61 61 62 ff", "ab"),
        ("5f 41 01 41 02 ff", b"\1\2"),
        ("f7", None),
        ("1b 00 00 00 00 00 00 00 07", 7),
        ("a2 61 62 01 61 61 02", {"b": 1, "a": 2}),
        ("a2 61 61 01 61 61 02", {"a": 2}),
        ("38 63", -100),
    ],
)
def test_well_formed_json_is_read(data: str, value: Value) -> None:
    """AG-20: tags mean nothing, lengths may be open, of two equal keys the last counts."""
    assert decode_foreign(bytes.fromhex(data)) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "cut short"),
        ("82 01", "cut short"),
        ("9b ff ff ff ff ff ff ff ff", "cut short"),
        ("01 01", "1 bytes more"),
        ("fb 3f f8 00 00 00 00 00 00", "a float"),
        ("61 ff", "UTF-8"),
        ("1c", "reserved"),
        ("a1 80 01", "nested too deep"),
        ("a1 41 61 01", "map key"),
        ("7f 41 61 ff", "a chunk"),
        ("e0", "simple value"),
        ("81" * 65 + "01", "nested too deep"),
        ("c0" * 65 + "01", "nested too deep"),
    ],
)
def test_the_rest_is_refused(data: str, why: str) -> None:
    with pytest.raises(MalformedCbor, match=why):
        decode_foreign(bytes.fromhex(data))


def test_it_is_bounded() -> None:
    with pytest.raises(MalformedCbor, match="too large"):
        decode_foreign(bytes(5), max_bytes=4)
    with pytest.raises(MalformedCbor, match="too many items"):
        decode_foreign(b"\x9f" + bytes(70_000) + b"\xff")


def test_a_string_of_many_chunks_costs_no_more_than_its_bytes() -> None:
    """AG-20: half a million chunks, each of which would copy all that came before."""
    chunks = b"\x5f" + b"\x41a" * 2**19 + b"\xff"
    began = time.perf_counter()

    assert decode_foreign(chunks, max_bytes=len(chunks)) == b"a" * 2**19
    assert time.perf_counter() - began < 10


def test_any_bytes_are_read_or_refused() -> None:
    """AG-20, AG-22: nothing else comes out, whatever a module emits."""
    random = Random(17)
    heads = bytes.fromhex("5f7f9fbfffa1a2818200016161f6f7fb1bd9c0f81840")
    for _ in range(3000):
        some = bytes(random.choices(heads + random.randbytes(6), k=random.randrange(1, 24)))
        for schema in SCHEMAS.values():
            with contextlib.suppress(ValueProblem):
                data, value = from_foreign(schema, SCHEMAS, some)
                assert schema.from_record(data) == value


def test_people_are_shown_floats() -> None:
    """AG-13."""
    half, single, double = "f9 3e00", "fa 3fc00000", "fb 3ff8000000000000"
    data = bytes.fromhex(f"83 {half} {single} {double}")

    assert decode_foreign(data, shows_floats=True) == [{"$float": "1.5"}] * 3


def test_a_value_is_spelt_as_the_schema_wants_it() -> None:
    """AG-21."""
    foreign = bytes.fromhex(
        "bf"
        "6464617461 6161"  # data: text for bytes
        "627063 a1 6442757379 05"  # pc: {Busy: 5}
        "64666c6167 6474727565"  # flag: "true"
        "656d61796265 82 6449646c65 a2 6424746167 6449646c65 662476616c7565 f6"
        "676e6f7468696e67 80"  # nothing: a list
        "ff"
    )

    data, value = from_foreign(SCHEMAS["t/Rec@1"], SCHEMAS, foreign)

    assert value == {
        "pc": {"$tag": "Busy", "$value": 5},
        "data": b"a",
        "flag": True,
        "maybe": [{"$tag": "Idle"}, {"$tag": "Idle"}],
        "nothing": None,
    }
    assert SCHEMAS["t/Rec@1"].from_record(data) == value


@pytest.mark.parametrize(
    "data",
    [
        "a0",
        "a1 627063 a1 644e6f6e65 01",
        "a1 627063 a2 6424746167 6442757379 6178 01",
        "f6",
        "a1 627063 a1 01 01",
        "a1 627063 6442757379",
    ],
)
def test_a_json_text_that_does_not_fit_is_refused(data: str) -> None:
    """AG-22."""
    with pytest.raises(ValueProblem):
        from_foreign(SCHEMAS["t/Rec@1"], SCHEMAS, bytes.fromhex(data))


def test_the_size_in_normal_form_is_bounded_too() -> None:
    """AG-22: an option that is absent takes room."""
    schema = compile_schemas({"t/O@1": {"record": {"abcdef": {"option": {"nat": {}}}}}})["t/O@1"]

    with pytest.raises(ValueProblem, match="in canonical form"):
        from_foreign(schema, {}, b"\xa0", max_bytes=4)


def test_each_hash_in_a_value_is_rewritten() -> None:
    """AG-33."""
    rewrite = HashRewrite(SCHEMAS)
    value: dict[str | int, Value] = {
        "one": "a",
        "some": ["b"],
        "by": {"c": 1},
        "arm": {"$tag": "A", "$value": "d"},
        "text": "e",
    }

    assert rewrite.rewritten(SCHEMAS["t/Hashes@1"], value, str.upper) == {
        "one": "A",
        "some": ["B"],
        "by": {"C": 1},
        "arm": {"$tag": "A", "$value": "D"},
        "text": "e",
    }
    assert not rewrite.has_hashes(SCHEMAS["t/Plain@1"])
    other: Value = {"one": 5, "some": "x", "by": [], "arm": "A", "more": "a"}
    assert rewrite.rewritten(SCHEMAS["t/Hashes@1"], other, str.upper) == other
    assert rewrite.rewritten(SCHEMAS["t/Hashes@1"], [], str.upper) == []
    absent: dict[str | int, Value] = {**value, "some": None, "arm": {"$tag": "B"}}
    assert rewrite.rewritten(SCHEMAS["t/Hashes@1"], absent, str.upper) == {
        **absent,
        "one": "A",
        "by": {"C": 1},
    }
