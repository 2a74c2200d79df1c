"""CBOR of another library, read into the normal form of a schema (AG-20 to AG-23)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.values.cbor import Value
from aos.values.errors import MalformedCbor, ValueProblem
from aos.values.foreign import decode_foreign, from_foreign
from aos.values.hash_rewrite import HashRewrite
from aos.values.schema import compile_schemas
from tests.values.strategies import ordered, typed_values

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
    began = time.thread_time()

    assert decode_foreign(chunks, max_bytes=len(chunks)) == b"a" * 2**19
    assert time.thread_time() - began < 10


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


UNITS = compile_schemas(
    {
        "t/Nothing@1": {"unit": {}},
        "t/Alias@1": {"ref": "t/Nothing@1"},
        "t/Empty@1": {"record": {}},
        "t/Step@1": {
            "variant": {
                "Tick": {"ref": "t/Nothing@1"},
                "Tock": {"ref": "t/Alias@1"},
                "Plain": {"unit": {}},
                "Empty": {"ref": "t/Empty@1"},
            }
        },
    }
)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("Tick", {"$tag": "Tick", "$value": None}),
        ("Tock", {"$tag": "Tock", "$value": None}),
        ("Plain", {"$tag": "Plain"}),
        ("Empty", {"$tag": "Empty", "$value": {}}),
    ],
)
@pytest.mark.parametrize(
    "spelling",
    [
        lambda tag: tag,
        lambda tag: {"$tag": tag},
        lambda tag: {"$tag": tag, "$value": None},
        lambda tag: {tag: None},
        lambda tag: {"$tag": tag, "$value": {}},
    ],
)
def test_an_arm_with_one_value_only_is_read_in_every_spelling(
    tag: str, expected: Value, spelling: Callable[[str], object]
) -> None:
    """AG-21: also behind refs."""
    _, found = from_foreign(UNITS["t/Step@1"], UNITS, cbor2.dumps(spelling(tag)))

    assert found == expected


@pytest.mark.parametrize("tag", ["Tick", "Tock"])
def test_a_unit_arm_behind_a_ref_may_be_sent_without_its_value(tag: str) -> None:
    """V-40: at ingress and in JSON."""
    schema, expected = UNITS["t/Step@1"], {"$tag": tag, "$value": None}

    assert schema.normalise({"$tag": tag}) == expected
    for text in (f'"{tag}"', f'{{"$tag": "{tag}"}}', f'{{"{tag}": null}}'):
        assert schema.from_json(text) == expected
    with pytest.raises(ValueProblem, match="missing: expected record"):
        schema.normalise({"$tag": "Empty"})


def named(type_: Any, chance: Random, types: dict[str, Any]) -> Any:
    """The type with some of its parts behind refs, which are added to ``types``."""
    ((form, inside),) = type_.items()
    if form in ("record", "variant"):
        inside = {name: named(each, chance, types) for name, each in inside.items()}
    elif form in ("list", "set", "option"):
        inside = named(inside, chance, types)
    elif form == "map":
        inside = {"key": inside["key"], "value": named(inside["value"], chance, types)}
    if chance.random() < 0.6:
        return {form: inside}
    name = f"t/N{len(types)}@1"
    types[name] = {form: inside}
    return {"ref": name}


def as_the_sdk(type_: Any, value: Any, chance: Random) -> Any:
    """A spelling of a normal value that a serializer of Rust writes for some declaration."""
    ((form, inside),) = type_.items()
    if form == "unit":
        return chance.choice([None, [], {}])
    if form == "bytes":
        return chance.choice([value, list(value)])
    if form == "option":
        if inside == {"record": {}} and value is not None:
            return {}  # a serializer that writes null for it cannot tell it from no value
        return None if value is None else as_the_sdk(inside, value, chance)
    if form in ("list", "set"):
        return [as_the_sdk(inside, each, chance) for each in value]
    if form == "map":
        return {key: as_the_sdk(inside["value"], each, chance) for key, each in value.items()}
    if form == "record":
        if not inside:
            return chance.choice([{}, None])
        written = {name: as_the_sdk(inside[name], each, chance) for name, each in value.items()}
        left_out = {
            name for name, each in value.items() if each is None and "option" in inside[name]
        }
        return {
            n: each for n, each in written.items() if n not in left_out or chance.random() < 0.5
        }
    if form == "variant":
        tag = value["$tag"]
        arm = inside[tag]
        if arm in ({"unit": {}}, {"record": {}}):
            return chance.choice([tag, {"$tag": tag}, {"$tag": tag, "$value": None}, {tag: None}])
        written = as_the_sdk(arm, value["$value"], chance)
        return chance.choice([{"$tag": tag, "$value": written}, {tag: written}])
    return value


@given(typed_values, st.randoms(use_true_random=False))
def test_every_spelling_of_the_sdk_is_read(typed: tuple[Any, Any], chance: Random) -> None:
    """AG-20, AG-21: for any type, with any of its parts behind refs."""
    type_, value = typed
    types: dict[str, Any] = {}
    types["t/Whole@1"] = named(type_, chance, types)
    schemas = compile_schemas(types)
    schema = schemas["t/Whole@1"]
    tagged = chance.choice([b"", bytes.fromhex("d9d9f7")])

    foreign = tagged + cbor2.dumps(as_the_sdk(type_, value, chance))
    data, found = from_foreign(schema, schemas, foreign, max_bytes=1 << 20)

    assert found == in_normal_form({"ref": "t/Whole@1"}, types, value)
    assert schema.from_record(data) == found


def in_normal_form(type_: Any, types: Mapping[str, Any], value: Any) -> Any:
    """The value under types with refs: only a unit arm differs, which has a value behind a ref."""
    ((form, inside),) = type_.items()
    if form == "ref":
        return in_normal_form(types[inside], types, value)
    if form == "option":
        return None if value is None else in_normal_form(inside, types, value)
    if form == "list":
        return [in_normal_form(inside, types, each) for each in value]
    if form == "set":
        return ordered([in_normal_form(inside, types, each) for each in value])
    if form == "map":
        return {key: in_normal_form(inside["value"], types, each) for key, each in value.items()}
    if form == "record":
        return {name: in_normal_form(inside[name], types, each) for name, each in value.items()}
    if form == "variant" and "$value" not in value:
        is_plain = inside[value["$tag"]] == {"unit": {}}
        return value if is_plain else {**value, "$value": None}
    if form == "variant":
        arm = inside[value["$tag"]]
        return {**value, "$value": in_normal_form(arm, types, value["$value"])}
    return value
