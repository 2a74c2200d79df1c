"""Which blobs a value names (spec/values.md, V-70 to V-73)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.values.digests import Hash, content_hash, hash_text
from aos.values.hash_fields import HashFields
from aos.values.schema import Schema, compile_schemas
from tests.values import naive
from tests.values.strategies import loosen, typed_values, values

A, B, C, D = (content_hash(name) for name in (b"a", b"b", b"c", b"d"))
HASH: dict[str, Any] = {"hash": {}}
chances = st.randoms(use_true_random=False)


def found(type_: Any, value: Any, **others: Any) -> list[Hash]:
    schemas = compile_schemas({"t/Subject@1": type_, **others})
    schema = schemas["t/Subject@1"]
    return list(HashFields(schemas).of(schema, schema.encode(value)))


def named_by_hand(type_: dict[str, Any], value: Any) -> list[str]:
    """A second implementation of V-70, over the type as it is written."""
    ((form, argument),) = type_.items()
    if form == "hash":
        return [value]
    if form == "option":
        return [] if value is None else named_by_hand(argument, value)
    if form in ("list", "set"):
        return [each for item in value for each in named_by_hand(argument, item)]
    if form == "map":
        return [
            each
            for name, item in value.items()
            for each in named_by_hand(argument["key"], name)
            + named_by_hand(argument["value"], item)
        ]
    if form == "record":
        return [
            each for name, field in argument.items() for each in named_by_hand(field, value[name])
        ]
    if form == "variant":
        arm = argument[value["$tag"]]
        return [] if arm == {"unit": {}} else named_by_hand(arm, value["$value"])
    return []


def of_blake3(texts: list[str]) -> list[str]:
    return sorted(text for text in texts if text.startswith("blake3:"))


@given(typed_values)
def test_every_field_of_type_hash_is_found_and_nothing_else(typed: tuple[Any, Any]) -> None:
    """V-70, V-71."""
    type_, value = typed

    hashes = found(type_, value)

    assert sorted(map(hash_text, hashes)) == of_blake3(named_by_hand(type_, value))


PAGE: dict[str, Any] = {"record": {"image": {"option": HASH}, "title": {"text": {}}}}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("one", [A]),
        ("pages", [B, C]),
        ("pages.image", [B, C]),
        ("choice.image", [D]),
        ("names", [A]),
        ("inner.one", [B]),
        ("inner", [B]),
    ],
)
def test_hashes_below_a_field_are_found_through_options_lists_and_variants(
    path: str, expected: list[Hash]
) -> None:
    """X-79."""
    type_: dict[str, Any] = {
        "record": {
            "one": {"option": HASH},
            "pages": {"list": {"ref": "t/Page@1"}},
            "choice": {"variant": {"Page": {"ref": "t/Page@1"}, "None": {"unit": {}}}},
            "names": {"map": {"key": HASH, "value": {"text": {}}}},
            "inner": {"record": {"one": HASH}},
            "title": {"text": {}},
        }
    }
    a, b, c, d = map(hash_text, (A, B, C, D))
    value: Any = {
        "one": a,
        "pages": [
            {"image": b, "title": ""},
            {"image": None, "title": ""},
            {"image": c, "title": ""},
        ],
        "choice": {"$tag": "Page", "$value": {"image": d, "title": ""}},
        "names": {a: "x"},
        "inner": {"one": b},
        "title": "t",
    }
    fields = HashFields(compile_schemas({"t/Subject@1": type_, "t/Page@1": PAGE}))

    walk = fields.below("t/Subject@1", path)

    assert walk is not None
    assert list(walk(value)) == list(map(hash_text, expected))
    for none in ("title", "none", "one.more", "pages.title", "choice.none"):
        assert fields.below("t/Subject@1", none) is None


@given(typed_values, chances)
def test_bytes_as_they_came_name_what_their_normal_form_names(
    typed: tuple[Any, Any], chance: random.Random
) -> None:
    """V-72."""
    type_, value = typed
    schemas = compile_schemas({"t/Subject@1": type_})
    wide = naive.encode_widely(loosen(type_, value, chance), chance)

    hashes = list(HashFields(schemas).of(schemas["t/Subject@1"], wide))

    assert sorted(map(hash_text, hashes)) == of_blake3(named_by_hand(type_, value))


@given(typed_values, values, st.binary(max_size=40))
def test_no_bytes_end_it_with_an_error(typed: tuple[Any, Any], other: Any, noise: bytes) -> None:
    """V-72."""
    type_, value = typed
    schemas = compile_schemas({"t/Subject@1": type_})
    fields, schema = HashFields(schemas), schemas["t/Subject@1"]

    for data in (naive.encode(other), noise, naive.encode(value) + noise, b""):
        assert all(len(each) == 32 for each in fields.of(schema, data))


def test_each_place_that_can_hold_a_hash() -> None:
    """V-70."""
    a, b, c, d = map(hash_text, (A, B, C, D))
    part = {"record": {"deep": HASH, "beside": {"text": {}}}}
    type_ = {
        "record": {
            "plain": HASH,
            "listed": {"list": {"option": HASH}},
            "keyed": {"map": {"key": HASH, "value": {"nat": {}}}},
            "armed": {"variant": {"None": {"unit": {}}, "Some": {"ref": "t/Part@1"}}},
        }
    }
    value = {
        "plain": a,
        "listed": [None, b, None],
        "keyed": {c: 7},
        "armed": {"$tag": "Some", "$value": {"deep": d, "beside": a}},
    }

    assert set(found(type_, value, **{"t/Part@1": part})) == {A, B, C, D}
    assert found(type_, {**value, "armed": {"$tag": "None"}}, **{"t/Part@1": part}) == [A, B, C]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ({"text": {}}, hash_text(A)),
        ({"bytes": {}}, A),
        ({"map": {"key": {"text": {}}, "value": {"text": {}}}}, {hash_text(A): hash_text(B)}),
        (HASH, f"sha256:{A.hex()}"),
        ({"record": {"hash": {"text": {}}}}, {"hash": hash_text(A)}),
    ],
)
def test_a_value_whose_type_is_no_hash_names_nothing(type_: Any, value: Any) -> None:
    """V-70, V-71."""
    assert found(type_, value) == []


def test_a_value_that_is_named_twice_is_listed_twice() -> None:
    assert found({"list": HASH}, [hash_text(A), hash_text(A)]) == [A, A]


def test_bytes_that_do_not_fit_name_nothing() -> None:
    """V-72: half a value is no value."""
    schemas = compile_schemas({"t/Subject@1": {"list": HASH}})
    fields, schema = HashFields(schemas), schemas["t/Subject@1"]
    whole = schema.encode([hash_text(A), hash_text(B)])

    assert list(fields.of(schema, whole)) == [A, B]
    for end in range(len(whole)):
        assert list(fields.of(schema, whole[:end])) == []
    assert list(fields.of(schema, naive.encode([hash_text(A), 5]))) == []


class _Unread(Schema):
    """A schema that may not be read."""

    __slots__ = ()

    def from_record(self, data: bytes) -> Any:
        raise AssertionError(f"{len(data)} bytes were decoded")


def test_a_schema_without_a_hash_answers_without_decoding() -> None:
    """V-73."""
    schemas = compile_schemas(
        {
            "t/Plain@1": {"record": {"a": {"list": {"text": {}}}, "b": {"ref": "t/Leaf@1"}}},
            "t/Leaf@1": {"variant": {"Off": {"unit": {}}, "On": {"bytes": {}}}},
            "t/Named@1": {"record": {"at": HASH}},
        }
    )
    plain = schemas["t/Plain@1"]
    unread = _Unread(plain.name, plain.type, plain._codec)
    fields = HashFields(schemas)

    assert list(fields.of(unread, b"anything")) == []
    assert (fields.are_in("t/Plain@1"), fields.are_in("t/Leaf@1")) == (False, False)
    assert fields.are_in("t/Named@1")


def test_a_large_value_is_walked_in_about_the_time_that_it_takes_to_read_it() -> None:
    """A type that refers to the same part over and over is compiled once for each part."""
    types: dict[str, Any] = {"t/P0@1": {"record": {"at": {"option": HASH}}}}
    for level in range(1, 12):
        before = {"option": {"ref": f"t/P{level - 1}@1"}}
        types[f"t/P{level}@1"] = {"record": {f"f{n}": before for n in range(8)}}
    schemas = compile_schemas(types)
    top = schemas["t/P11@1"]
    value: Any = {"at": hash_text(A)}
    for _ in range(1, 12):
        value = {"f0": value, **{f"f{n}": None for n in range(1, 8)}}

    assert list(HashFields(schemas).of(top, top.encode(value))) == [A]
