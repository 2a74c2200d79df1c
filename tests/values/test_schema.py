"""The laws of values, over types and values made for the purpose (spec/values.md, V-30 to V-51)."""

from __future__ import annotations

import json
import pickle
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.values.cbor import INGRESS_ITEMS_MAX, RECORD_BYTES_MAX, Value, decode_ingress
from aos.values.errors import MalformedCbor, ValueProblem
from aos.values.schema import Schema, compile_schemas, value_at
from tests.values import naive
from tests.values.strategies import (
    SCALARS,
    loosen,
    loosen_json,
    typed_values,
    types,
    values,
    values_of,
)


def compiled(type_: Any, **others: Any) -> Schema:
    return compile_schemas({"t/Subject@1": type_, **others})["t/Subject@1"]


def refusal(schema: Schema, text: str) -> str:
    with pytest.raises(ValueProblem) as caught:
        schema.from_json(text)
    return str(caught.value)


ORDER = {
    "record": {
        "order_id": {"text": {}},
        "items": {"list": {"record": {"sku": {"text": {}}, "qty": {"nat": {}}}}},
        "note": {"option": {"text": {}}},
    }
}
VARIANT = {"variant": {"Off": {"unit": {}}, "Dim": {"nat": {}}, "Named": {"option": {"text": {}}}}}

chances = st.randoms(use_true_random=False)


# Laws


@given(typed_values)
def test_an_encoded_value_is_read_back(typed: tuple[Any, Any]) -> None:
    """V-45: from_record(encode(v)) == v, and the bytes are those of the naive encoder."""
    type_, value = typed
    schema = compiled(type_)

    data = schema.encode(value)

    assert data == naive.encode(value)
    assert schema.from_record(data) == value
    assert naive.encode(schema.from_record(data)) == data


@given(typed_values)
def test_normal_form_is_left_as_it_is(typed: tuple[Any, Any]) -> None:
    """V-45: normalise is idempotent, and canonical bytes pass ingress unchanged."""
    type_, value = typed
    schema = compiled(type_)

    data = naive.encode(value)

    assert naive.encode(schema.normalise(value)) == data
    assert schema.from_ingress(data) == data
    kept, found = schema.from_ingress_value(data)
    assert kept is data, "bytes that are canonical already are not written again"
    assert naive.encode(found) == data


@given(typed_values, chances)
def test_every_spelling_at_ingress_becomes_the_one_canonical(
    typed: tuple[Any, Any], chance: random.Random
) -> None:
    """V-13, V-45: order, width, tag, absent options, sets, decimals and uuids."""
    type_, value = typed
    schema = compiled(type_)

    wide = naive.encode_widely(loosen(type_, value, chance), chance)

    assert schema.from_ingress(wide) == naive.encode(value)
    kept, found = schema.from_ingress_value(wide)
    assert kept == naive.encode(value) == naive.encode(found)


@given(typed_values)
def test_json_and_back_is_the_same_value(typed: tuple[Any, Any]) -> None:
    """V-51"""
    type_, value = typed
    schema = compiled(type_)

    obj = schema.to_json(value)

    assert naive.encode(schema.from_json_object(obj)) == naive.encode(value)
    for ascii_only in (True, False):
        text = json.dumps(obj, ensure_ascii=ascii_only)
        assert naive.encode(schema.from_json(text)) == naive.encode(value)


@given(typed_values, chances)
def test_every_authoring_spelling_in_json_is_the_same_value(
    typed: tuple[Any, Any], chance: random.Random
) -> None:
    """V-51"""
    type_, value = typed
    schema = compiled(type_)

    text = json.dumps(loosen_json(type_, schema.to_json(value), chance))

    assert naive.encode(schema.from_json(text)) == naive.encode(value)


@given(types, values, chances)
def test_the_record_gate_takes_exactly_the_canonical_bytes_of_normal_values(
    type_: Any, value: Any, chance: random.Random
) -> None:
    """V-12, V-45: of any value at all, for any type at all."""
    assert_gates_agree(compiled(type_), naive.encode(value))
    assert_gates_agree(compiled(type_), naive.encode_widely(value, chance))


@given(typed_values, chances, st.data())
def test_changed_bytes_are_refused_or_are_canonical(
    typed: tuple[Any, Any], chance: random.Random, data: st.DataObject
) -> None:
    """V-12, V-45: near misses of the type, and then of the bytes."""
    type_, value = typed
    schema = compiled(type_)

    assert_gates_agree(schema, naive.encode(loosen(type_, value, chance)))
    for _ in range(8):
        assert_gates_agree(schema, naive.encode_hostile(value, chance))
    written = bytearray(naive.encode(value))
    for _ in range(8):
        changed = written.copy()
        at = data.draw(st.integers(0, len(written) - 1))
        match data.draw(st.sampled_from(["flip", "drop", "insert", "cut"])):
            case "flip":
                changed[at] ^= 1 << data.draw(st.integers(0, 7))
            case "drop":
                del changed[at]
            case "insert":
                changed.insert(at, data.draw(st.integers(0, 255)))
            case _:
                del changed[at:]
        assert_gates_agree(schema, bytes(changed))


SMALL: Any = {
    **{name: {name: {}} for name in SCALARS},
    "list": {"list": {"nat": {}}},
    "set": {"set": {"int": {}}},
    "map of int": {"map": {"key": {"int": {}}, "value": {"unit": {}}}},
    "map of text": {"map": {"key": {"text": {}}, "value": {"unit": {}}}},
    "option": {"option": {"int": {}}},
    "empty record": {"record": {}},
    "variant": {"variant": {"a": {"unit": {}}}},
}


@pytest.mark.parametrize("name", SMALL)
def test_every_short_input_is_judged_alike_on_both_ways(name: str) -> None:
    """V-12 to V-14, V-45: each initial byte before bytes that end, continue or break something."""
    schema = compiled(SMALL[name])
    tails = ["", "00", "17", "18", "20", "37", "40", "60", "61", "80", "f6", "ff"]
    tails += [
        "0000",
        "1818",
        "0018ff",
        "2000",
        "00f6",
        "60f6",
        "61e9",
        "0100",
        "00000000",
        "ff" * 8,
    ]
    tails += ["61" * n for n in range(24, 32)]
    for initial in range(256):
        for tail in tails:
            assert_gates_agree(schema, bytes([initial]) + bytes.fromhex(tail))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (ORDER, {"order_id": "x", "items": [{"sku": "a", "qty": 24}], "note": None}),
        (VARIANT, {"$tag": "Off"}),
        (VARIANT, {"$tag": "Dim", "$value": 3}),
        (VARIANT, {"$tag": "Named", "$value": None}),
        ({"map": {"key": {"int": {}}, "value": {"bool": {}}}}, {0: True, 24: False, -1: True}),
        ({"map": {"key": {"text": {}}, "value": {"nat": {}}}}, {"": 0, "b": 1, "aa": 2}),
        ({"set": {"text": {}}}, ["", "b", "aa"]),
        ({"list": {"dec128": {}}}, ["0", "-1.5", "10"]),
        ({"uuid": {}}, "0123abcd-0000-4000-8000-00000000000a"),
        ({"hash": {}}, "blake3:" + "0f" * 32),
        ({"bytes": {}}, bytes(24)),
    ],
)
def test_each_flipped_bit_each_cut_and_each_doubled_byte_is_judged_alike(
    type_: Any, value: Any
) -> None:
    """V-12 to V-14, V-45"""
    schema = compiled(type_)
    written = naive.encode(value)
    for at, byte in enumerate(written):
        for bit in range(8):
            assert_gates_agree(schema, written[:at] + bytes([byte ^ 1 << bit]) + written[at + 1 :])
        assert_gates_agree(schema, written[:at])
        assert_gates_agree(schema, written[:at] + written[at + 1 :])
        assert_gates_agree(schema, written[: at + 1] + written[at:])


def assert_gates_agree(schema: Schema, data: bytes) -> None:
    """The quick way and the careful way take the same bytes: V-45 as a definition."""
    try:
        normal = schema.normalise(decode_ingress(data))
    except ValueProblem:
        with pytest.raises(ValueProblem):
            schema.from_ingress(data)
        with pytest.raises(ValueProblem):
            schema.from_record(data)
        return
    canonical = naive.encode(normal)
    assert schema.from_ingress(data) == canonical
    assert schema.encode(normal) == canonical
    assert naive.encode(schema.from_record(canonical)) == canonical
    if data != canonical:
        with pytest.raises(ValueProblem):
            schema.from_record(data)


@given(types, st.data())
def test_a_reference_reads_as_what_it_refers_to(type_: Any, data: st.DataObject) -> None:
    """V-44"""
    value = data.draw(values_of(type_))
    through = compiled({"list": {"ref": "t/Other@1"}}, **{"t/Other@1": type_})

    assert through.from_record(naive.encode([value, value])) == [value, value]


def test_a_normal_value_is_in_canonical_order_whatever_its_sender() -> None:
    """V-45: iterating over it is deterministic too."""
    record = compiled({"record": {"b": {"nat": {}}, "aa": {"nat": {}}, "a": {"nat": {}}}})
    by_int = compiled({"map": {"key": {"int": {}}, "value": {"nat": {}}}})
    by_text = compiled({"map": {"key": {"text": {}}, "value": {"nat": {}}}})

    for found in (
        record.normalise({"aa": 1, "b": 2, "a": 3}),
        record.from_json('{"aa":1,"b":2,"a":3}'),
    ):
        assert isinstance(found, dict)
        assert list(found) == ["a", "b", "aa"]
    for found in (
        by_int.normalise({-1: 0, 24: 0, 0: 0}),
        by_int.from_json("[[-1,0],[24,0],[0,0]]"),
    ):
        assert isinstance(found, dict)
        assert list(found) == [0, 24, -1]
    for found in (by_text.normalise({"aa": 0, "b": 0}), by_text.from_json('{"aa":0,"b":0}')):
        assert isinstance(found, dict)
        assert list(found) == ["b", "aa"]


# Each type: refused values, and their messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"order_id": "x", "items": [{"sku": "a", "qty": 1}, {"sku": "b", "qty": "x"}]}',
         '$.items[1].qty: expected nat, found text "x"'),
        ('{"order_id": "x", "items": [{"sku": "a", "qty": -1}]}',
         "$.items[0].qty: expected nat (0 to 2^64-1), found int -1"),
        ('{"order_id": "x", "items": {}}', "$.items: expected list, as an array, found map[0]"),
        ('{"items": []}', "$.order_id: missing: expected text"),
        ("{}", "$.items: missing: expected list; $.order_id: missing: expected text"),
        ('{"items": [{"qty": 1}, {}]}',
         "$.items[0].sku: missing: expected text; $.order_id: missing: expected text"),
        ('{"items": [{}], "order_id": 1}',
         "$.items[0].qty: missing: expected nat; $.items[0].sku: missing: expected text"),
        ('{"order_id": "x", "items": [], "noet": ""}',
         "$.noet: unknown field (known: note, items, order_id)"),
        ('{"order_id": "x", "noet": "", "note": ""}',
         "$.noet: unknown field (known: note, items, order_id)"),
        ("[]", "$: expected a JSON object, found list[0]"),
        ('{"order_id": true, "items": []}', "$.order_id: expected text, found bool true"),
        ('{"order_id": null, "items": []}', "$.order_id: expected text, found null"),
    ],
)  # fmt: skip
def test_a_misfit_of_a_record_is_named_with_its_path(text: str, message: str) -> None:
    """V-3, V-39"""
    assert refusal(compiled(ORDER), text) == message


def test_at_the_record_gate_only_the_first_missing_field_is_named() -> None:
    """V-3: the message is part of faults in journals, so it never changes."""
    with pytest.raises(ValueProblem) as problem:
        compiled(ORDER).from_record(naive.encode({}))

    assert str(problem.value) == "$.items: missing: expected list"


def test_missing_fields_of_a_deep_value_are_found_in_one_pass() -> None:
    """V-3"""
    depth = 50
    type_: dict[str, object] = {"record": {"leaf": {"nat": {}}, "other": {"nat": {}}}}
    text = "{}"
    for _ in range(depth):
        type_ = {"record": {"in": type_, "lack": {"text": {}}}}
        text = f'{{"in": {text}}}'
    began = time.process_time()

    message = refusal(compiled(type_), text)

    assert message.startswith("$.in.in.in.")
    assert message.count("missing: expected") == 16
    assert message.endswith(f"; and {depth + 2 - 16} more")
    assert time.process_time() - began < 5


def test_an_error_of_missing_fields_survives_pickling() -> None:
    with pytest.raises(ValueProblem) as problem:
        compiled(ORDER).from_json("{}")

    copy = pickle.loads(pickle.dumps(problem.value))
    assert str(copy) == str(problem.value)


def test_an_absent_option_is_null_at_ingress_and_missing_at_the_record_gate() -> None:
    """V-39, V-43"""
    schema = compiled(ORDER)
    short = naive.encode({"order_id": "x", "items": []})

    assert schema.from_ingress(short) == naive.encode({"order_id": "x", "items": [], "note": None})
    with pytest.raises(ValueProblem, match=r"^\$\.note: not in normal form: expected null"):
        schema.from_record(short)


def test_true_is_not_one() -> None:
    """V-31"""
    assert refusal(compiled({"int": {}}), "true") == "$: expected int, found bool true"
    assert refusal(compiled({"bool": {}}), "1") == "$: expected bool, found nat 1"
    with pytest.raises(ValueProblem):
        compiled({"nat": {}}).from_record(naive.encode(True))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("int", -(1 << 63), (1 << 63) - 1),
        ("nat", 0, (1 << 64) - 1),
        ("time", -(1 << 63), (1 << 63) - 1),
        ("duration", -(1 << 63), (1 << 63) - 1),
    ],
)
def test_an_integer_at_the_edge_is_read_and_one_more_is_not(name: str, low: int, high: int) -> None:
    """V-31"""
    schema = compiled({name: {}})
    for edge in (low, high):
        assert schema.from_record(naive.encode(edge)) == edge
        assert schema.from_json(str(edge)) == edge
    for over in (low - 1, high + 1):
        if -(1 << 64) <= over < 1 << 64:
            for gate in (schema.from_record, schema.from_ingress):
                with pytest.raises(ValueProblem):
                    gate(naive.encode(over))
        with pytest.raises(ValueProblem):
            schema.from_json(str(over))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"Off"', {"$tag": "Off"}),
        ('{"Off": null}', {"$tag": "Off"}),
        ('{"$tag": "Off"}', {"$tag": "Off"}),
        ('{"Dim": 3}', {"$tag": "Dim", "$value": 3}),
        ('{"$value": 3, "$tag": "Dim"}', {"$tag": "Dim", "$value": 3}),
        ('{"Named": null}', {"$tag": "Named", "$value": None}),
        ('{"$tag": "Named", "$value": "x"}', {"$tag": "Named", "$value": "x"}),
    ],
)
def test_a_variant_has_three_spellings_in_json(text: str, value: Value) -> None:
    """V-40"""
    assert compiled(VARIANT).from_json(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"Dim"', '$: arm "Dim" has a value: expected {"Dim": value}'),
        ('"On"', '$: unknown arm "On" (known: Dim, Named, Off)'),
        ('{"On": 1}', '$: unknown arm "On" (known: Dim, Named, Off)'),
        ('{"$tag": "On"}', '$.$tag: unknown arm "On" (known: Dim, Named, Off)'),
        ('{"$tag": 1}', "$.$tag: expected an arm name, found nat 1"),
        ('{"$tag": "Off", "$value": null}', "$.$value: expected no $value in a unit arm"),
        ('{"$tag": "Dim"}', "$.$value: missing: expected nat"),
        ('{"$tag": "Named"}', "$.$value: missing: expected text or null"),
        ('{"$tag": "Dim", "$value": "x"}', '$.$value: expected nat, found text "x"'),
        ('{"Dim": "x"}', '$.Dim: expected nat, found text "x"'),
        ('{"Off": 0}', "$.Off: expected null in a unit arm, found nat 0"),
        ('{"$tag": "Off", "x": 1}', "$.x: unknown field of a variant (known: $tag, $value)"),
        ('{"$value": 1}', '$: unknown arm "$value" (known: Dim, Named, Off)'),
        ("{}", '$: expected variant {"$tag", "$value"} or {Arm: value}, found an object of 0 keys'),
        ("3", '$: expected variant {"$tag", "$value"}, {Arm: value} or "Arm", found nat 3'),
    ],
)
def test_a_misfit_of_a_variant_is_named_with_its_path(text: str, message: str) -> None:
    """V-40"""
    assert refusal(compiled(VARIANT), text) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Off", '$: expected variant {"$tag", "$value"}, found text "Off"'),
        ({"Off": None}, '$: expected variant {"$tag", "$value"}, found map[1]'),
        ({"$tag": "Off", "$value": None}, "$.$value: expected no $value in a unit arm"),
        ({"$tag": "Dim", "$value": 1, 5: 1},
         "$[5]: unknown field of a variant (known: $tag, $value)"),
    ],
)  # fmt: skip
def test_in_cbor_a_variant_has_one_shape(value: Any, message: str) -> None:
    """V-40"""
    for gate in (compiled(VARIANT).from_ingress, compiled(VARIANT).from_record):
        with pytest.raises(ValueProblem) as caught:
            gate(naive.encode(value))
        assert str(caught.value) == message


def test_a_ref_to_a_unit_schema_is_not_a_unit_arm() -> None:
    """V-40: a unit arm is one whose type is written unit. The value may be left out outside."""
    schema = compiled({"variant": {"Ping": {"ref": "t/Ping@1"}}}, **{"t/Ping@1": {"unit": {}}})

    assert schema.from_json('{"Ping": null}') == {"$tag": "Ping", "$value": None}
    with_value: Value = {"$tag": "Ping", "$value": None}
    assert schema.from_ingress(naive.encode({"$tag": "Ping"})) == schema.encode(with_value)
    with pytest.raises(ValueProblem, match=r"not in normal form"):
        schema.from_record(naive.encode({"$tag": "Ping"}))


def test_a_long_arm_name_has_a_longer_head() -> None:
    """V-22, V-40"""
    for size in (23, 24, 255, 256):
        schema = compiled({"variant": {"A" * size: {"nat": {}}}})
        value: Value = {"$tag": "A" * size, "$value": 1}
        assert schema.from_record(schema.encode(value)) == value
        assert schema.encode(value) == naive.encode(value)


def test_a_set_is_sorted_by_encoded_bytes_and_has_no_doubles() -> None:
    """V-41: 24 is 18 18, -1 is 20."""
    schema = compiled({"set": {"int": {}}})

    assert schema.from_json("[-1, 24, 0, 24, -1]") == [0, 24, -1]
    assert schema.from_ingress(naive.encode([-1, 24, 24])) == naive.encode([24, -1])
    unsorted: Value = [-1, 24]
    doubled: Value = [24, 24]
    for stored in (unsorted, doubled):
        with pytest.raises(ValueProblem, match="not in normal form"):
            schema.from_record(naive.encode(stored))


def test_doubles_in_a_set_are_found_after_normalising() -> None:
    """V-41"""
    assert compiled({"set": {"dec128": {}}}).from_json('["1.0", "1", "+1.00"]') == ["1"]


def test_a_map_with_integer_keys_is_an_array_of_pairs_in_json() -> None:
    """V-42"""
    schema = compiled({"map": {"key": {"int": {}}, "value": {"text": {}}}})

    value = schema.from_json('[[-1, "a"], [24, "b"], [0, "c"]]')

    assert value == {0: "c", 24: "b", -1: "a"}
    assert (
        json.dumps(schema.to_json({-1: "a", 24: "b", 0: "c"})) == '[[0, "c"], [24, "b"], [-1, "a"]]'
    )
    assert schema.encode(value).hex() == "a3" + "006163" + "18186162" + "206161"
    assert refusal(schema, "[[1]]") == "$[0]: expected a [key, value] pair, found list[1]"
    assert refusal(schema, '[[1, "a"], [1, "b"]]') == "$[1]: map key: duplicate nat 1"
    assert refusal(schema, "[[1, 2]]") == "$[0][1]: expected text, found nat 2"
    assert refusal(schema, '[["1", "a"]]') == '$[0]: map key: expected int, found text "1"'
    assert refusal(schema, "{}") == "$: expected a JSON array of [key, value] pairs, found map[0]"


def test_map_keys_that_become_equal_are_duplicates() -> None:
    """V-42: a uuid in both cases."""
    schema = compiled({"map": {"key": {"uuid": {}}, "value": {"nat": {}}}})
    key = "0123abcd-0000-4000-8000-00000000000a"

    assert schema.from_json(f'{{"{key.upper()}": 1}}') == {key: 1}
    with pytest.raises(ValueProblem, match="map key: duplicate"):
        schema.from_ingress(naive.encode({key: 1, key.upper(): 2}))


def test_a_bad_map_key_is_named_at_the_map() -> None:
    """V-42"""
    schema = compiled({"record": {"m": {"map": {"key": {"nat": {}}, "value": {"nat": {}}}}}})

    with pytest.raises(ValueProblem) as caught:
        schema.from_ingress(naive.encode({"m": {-1: 1}}))

    assert str(caught.value) == "$.m: map key: expected nat (0 to 2^64-1), found int -1"


def test_where_a_record_is_canonical_but_not_normal_is_named() -> None:
    """V-45"""
    schema = compiled({"list": {"record": {"price": {"dec128": {}}}}})

    with pytest.raises(ValueProblem) as caught:
        schema.from_record(naive.encode([{"price": "1"}, {"price": "1.50"}]))

    assert str(caught.value) == (
        '$[1].price: not in normal form: expected text "1.5", found text "1.50"'
    )


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (ORDER, {"order_id": "x", "items": []}),
        (ORDER, {"order_id": "x", "items": [], "note": None, "more": 1}),
        (VARIANT, {"$tag": "Off", "$value": None}),
        (VARIANT, {"$tag": "Dim"}),
    ],
)
def test_a_value_that_is_not_normal_is_not_encoded_with_fields_left_out(
    type_: Any, value: Any
) -> None:
    """V-17: a bug of the caller, and no silent loss."""
    with pytest.raises(TypeError, match="not in normal form"):
        compiled(type_).encode(value)


# Limits


def test_absent_fields_cannot_make_a_short_input_huge() -> None:
    """V-46"""
    fields: Any = {f"f{n}": {"option": {"nat": {}}} for n in range(1000)}
    schema = compiled({"list": {"record": fields}})
    short: Value = [{} for _ in range(60_000)]
    started = time.thread_time()

    with pytest.raises(ValueProblem, match=r"^\$\[65\]: too many absent fields"):
        schema.from_ingress(naive.encode(short))
    with pytest.raises(ValueProblem, match=r"^\$\[65\]: too many absent fields"):
        schema.from_json(json.dumps(short))

    assert time.thread_time() - started < 5


def test_the_size_limit_holds_for_what_came_and_for_what_is_kept() -> None:
    """V-47"""
    schema = compiled({"record": {"a": {"option": {"nat": {}}}, "b": {"text": {}}}})
    short = naive.encode({"b": "x"})
    kept = naive.encode({"b": "x", "a": None})

    assert schema.from_ingress(short, max_bytes=len(kept)) == kept
    assert schema.from_ingress(kept, max_bytes=len(kept)) == kept
    with pytest.raises(ValueProblem, match=r"expected at most 7 bytes in canonical form, found 8"):
        schema.from_ingress(short, max_bytes=len(kept) - 1)
    with pytest.raises(MalformedCbor, match="too large"):
        schema.from_ingress(kept, max_bytes=len(kept) - 1)


def test_canonical_input_is_under_the_same_limits_as_any_other() -> None:
    """V-16: the quick way counts too."""
    schema = compiled({"list": {"nat": {}}})
    most = naive.encode([0] * (INGRESS_ITEMS_MAX - 1))

    assert schema.from_ingress(most) == most
    with pytest.raises(MalformedCbor, match="too many items"):
        schema.from_ingress(naive.encode([0] * INGRESS_ITEMS_MAX))


def test_json_and_records_have_their_limits_too() -> None:
    """V-16, V-50"""
    most = [0] * (INGRESS_ITEMS_MAX - 1)
    numbers = compiled({"list": {"nat": {}}})
    assert numbers.from_json(json.dumps(most)) == most
    assert "too many items: expected at most 65536" in refusal(numbers, json.dumps([*most, 0]))

    blob = compiled({"bytes": {}})
    head = naive.head(2, RECORD_BYTES_MAX - 5)
    assert blob.from_record(head + bytes(RECORD_BYTES_MAX - 5)) == bytes(RECORD_BYTES_MAX - 5)
    with pytest.raises(MalformedCbor, match="too large: expected at most 67108864 bytes"):
        blob.from_record(naive.head(2, RECORD_BYTES_MAX - 4) + bytes(RECORD_BYTES_MAX - 4))


def test_a_type_as_deep_as_the_gate_is_read() -> None:
    """V-26: the deepest type, an option on every level, has values at both gates and in JSON."""
    type_: Any = {"option": {"nat": {}}}
    value: Value = 1
    for _ in range(64):
        type_ = {"option": {"map": {"key": {"int": {}}, "value": type_}}}
        value = {-1: value}
    schema = compiled(type_)

    assert schema.from_ingress(naive.encode(value)) == naive.encode(value)
    assert schema.encode(schema.normalise(value)) == naive.encode(value)
    assert schema.from_record(naive.encode(value)) == value
    assert schema.from_json(json.dumps(schema.to_json(value))) == value


# value_at


def test_a_key_field_is_found_by_its_dotted_path() -> None:
    """V-53"""
    value: Value = {"a": {"b": 1}, "$value": {"note_id": "n"}, "c": None}

    assert value_at(value, "a.b") == 1
    assert value_at(value, "$value.note_id") == "n"
    assert value_at(value, "c") is None
    for dotted, message in (
        ("x", '$: expected the field "x", found none'),
        ("a.x", '$.a: expected the field "x", found none'),
        ("a.b.c", '$.a.b: expected a record with the field "c", found nat 1'),
        ("c.d", '$.c: expected a record with the field "d", found null'),
        ("", '$: expected the field "", found none'),
    ):
        with pytest.raises(ValueProblem) as caught:
            value_at(value, dotted)
        assert str(caught.value) == message
