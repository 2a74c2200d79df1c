"""Canonical CBOR and its two gates (spec/values.md, V-1 and V-10 to V-18)."""

from __future__ import annotations

import math
import random
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aos.values.cbor import (
    INGRESS_DEPTH_MAX,
    INGRESS_ITEMS_MAX,
    RECORD_DEPTH_MAX,
    Value,
    decode_ingress,
    decode_record,
    encode,
    is_within,
)
from aos.values.errors import MalformedCbor
from tests.values import naive
from tests.values.strategies import EDGES, values

GATES = (decode_record, decode_ingress)


def nested(levels: int) -> Value:
    value: Value = 0
    for _ in range(levels):
        value = [value]
    return value


# V-10, V-11: encoding


@given(values)
def test_encode_agrees_with_the_naive_encoder(value: Any) -> None:
    """V-10"""
    assert encode(value) == naive.encode(value)


@pytest.mark.parametrize("n", EDGES)
def test_each_integer_edge_has_its_shortest_head(n: int) -> None:
    """V-10"""
    assert encode(n) == naive.encode(n) == cbor2.dumps(n)


def test_keys_sort_by_encoded_bytes_not_by_length() -> None:
    """V-11: -1 is one byte (20), 24 is two (18 18), and 18 comes before 20."""
    assert encode({-1: 0, 24: 1, "": 2, 0: 3}).hex() == "a4" + "0003" + "181801" + "2000" + "6002"


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=30), st.none()))
def test_text_keys_agree_with_another_implementation(value: dict[str | int, Value]) -> None:
    """V-11"""
    assert encode(value) == cbor2.dumps(value, canonical=True)


@pytest.mark.parametrize(
    "thing",
    [1.5, math.nan, (1,), {1}, bytearray(b""), object, "\ud800", [b"", [1.0]], {"a": (1,)}],
    ids=ascii,
)
def test_encoding_a_thing_that_is_no_value_is_a_bug_of_the_caller(thing: Any) -> None:
    """V-17"""
    with pytest.raises(TypeError, match=r"not a Value|object expected"):
        encode(thing)


@pytest.mark.parametrize("key", [True, None, 1.0, b"k", (1,)], ids=repr)
def test_a_key_is_text_or_an_integer(key: Any) -> None:
    """V-1, V-17"""
    with pytest.raises(TypeError, match=r"not a map key|object expected"):
        encode({key: 0})


@pytest.mark.parametrize("n", [1 << 64, -(1 << 64) - 1, 1 << 20_000], ids=["over", "under", "far"])
def test_an_integer_over_64_bits_is_a_bug_of_the_caller(n: int) -> None:
    """V-17"""
    with pytest.raises(OverflowError):
        encode(n)


def test_a_written_value_can_be_read_back_at_any_depth() -> None:
    """V-16: the encoder stops where the record gate does."""
    deepest = nested(RECORD_DEPTH_MAX)

    assert decode_record(encode(deepest)) == deepest
    with pytest.raises(OverflowError):
        encode([deepest])


# V-12: the record gate


@given(values)
def test_the_record_gate_reads_back_what_was_written(value: Any) -> None:
    """V-12"""
    assert same(decode_record(naive.encode(value)), value)


@given(values, st.randoms(use_true_random=False))
def test_the_record_gate_takes_one_spelling_and_no_other(value: Any, chance: random.Random) -> None:
    """V-12"""
    wide = naive.encode_widely(value, chance)

    if wide == naive.encode(value):
        assert same(decode_record(wide), value)
    else:
        with pytest.raises(MalformedCbor):
            decode_record(wide)


@given(values, st.data())
def test_changed_bytes_are_refused_or_are_the_one_spelling_of_another_value(
    value: Any, data: st.DataObject
) -> None:
    """V-12: each flipped bit, cut, or inserted byte."""
    written = bytearray(naive.encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(written) - 1)))
        match data.draw(st.sampled_from(["flip", "drop", "insert", "cut"])):
            case "flip" if written:
                written[at] ^= 1 << data.draw(st.integers(0, 7))
            case "drop":
                del written[at : at + 1]
            case "insert":
                written.insert(at, data.draw(st.integers(0, 255)))
            case _:
                del written[at:]

    assert_only_canonical(bytes(written))


def test_every_sequence_of_two_bytes_is_refused_or_canonical() -> None:
    """V-12, V-13: a small space, wholly."""
    for n in range(1 << 16):
        assert_only_canonical(n.to_bytes(2, "big"))


@given(st.binary(max_size=64))
@example(b"")
def test_random_bytes_are_refused_or_canonical(data: bytes) -> None:
    """V-12"""
    assert_only_canonical(data)


def assert_only_canonical(data: bytes) -> None:
    """Neither gate fails in another way, and what the record gate takes is canonical."""
    try:
        value = decode_ingress(data)
    except MalformedCbor as problem:
        refused = problem
    else:
        canonical = naive.encode(value)
        assert same(decode_record(canonical), value)
        if data == canonical:
            return
        refused = refusal(decode_record, data)
    assert 0 <= refused.offset <= len(data)
    assert refused.path.startswith("$")
    refusal(decode_record, data)


def refusal(gate: Callable[[bytes], Value], data: bytes) -> MalformedCbor:
    with pytest.raises(MalformedCbor) as caught:
        gate(data)
    return caught.value


# V-13: the ingress gate


@given(values, st.randoms(use_true_random=False))
def test_the_ingress_gate_reads_every_spelling_of_a_value(
    value: Any, chance: random.Random
) -> None:
    """V-13"""
    wide = naive.encode_widely(value, chance)

    assert same(decode_ingress(wide), value)
    assert encode(decode_ingress(wide)) == naive.encode(value)


def same(found: object, expected: object) -> bool:
    """Equal and of equal types: 1 is not True."""
    return found == expected and repr(types_of(found)) == repr(types_of(expected))


def types_of(value: object) -> object:
    if isinstance(value, list):
        return [types_of(item) for item in value]
    if isinstance(value, dict):
        return sorted(
            ((type(key).__name__, str(key), types_of(item)) for key, item in value.items()),
            key=lambda entry: entry[:2],
        )
    return type(value).__name__


# V-14: what both gates refuse


@pytest.mark.parametrize("gate", GATES)
def test_a_tag_within_or_a_second_one_is_refused(gate: Callable[[bytes], Value]) -> None:
    """V-13: one leading tag 55799, at the ingress gate only."""
    assert decode_ingress(bytes.fromhex("d9d9f701")) == 1
    for data in ("d9d9f7d9d9f701", "81d9d9f701", "c001", "d9d9f8f6"):
        with pytest.raises(MalformedCbor, match="tag"):
            gate(bytes.fromhex(data))


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("initial", [n for n in range(256) if n & 31 >= 28 or n >= 0xE0])
def test_no_reserved_initial_byte_is_read(gate: Callable[[bytes], Value], initial: int) -> None:
    """V-14: reserved heads, indefinite lengths, floats and simple values, each of them."""
    if initial in (0xF4, 0xF5, 0xF6):
        return
    with pytest.raises(MalformedCbor):
        gate(bytes([initial]) + bytes(9))


def test_a_key_is_a_duplicate_in_any_width() -> None:
    """V-14"""
    with pytest.raises(MalformedCbor) as caught:
        decode_ingress(bytes.fromhex("a2" + "0100" + "180100"))

    assert str(caught.value) == "$: map key 1: duplicate (byte 3)"


# V-15, V-16: limits


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(
    "head",
    ["5b", "7b", "9b", "bb", "5a", "7a", "9a", "ba"],
)
def test_a_huge_declared_length_costs_nothing(gate: Callable[[bytes], Value], head: str) -> None:
    """V-15"""
    width = 8 if head.endswith("b") else 4
    data = bytes.fromhex(head) + b"\xff" * width + b"\x00"
    tracemalloc.start()
    started = time.thread_time()

    with pytest.raises(MalformedCbor, match="cut short"):
        gate(data)

    assert time.thread_time() - started < 5
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("step", ["81", "a100", "a16161"])
def test_a_hundred_thousand_levels_are_refused_and_do_not_overflow(
    gate: Callable[[bytes], Value], step: str
) -> None:
    """V-16"""
    data = bytes.fromhex(step) * 100_000 + b"\x00"

    with pytest.raises(MalformedCbor, match="nested too deep"):
        gate(data)


def test_the_deepest_value_allowed_is_read_and_one_level_more_is_not() -> None:
    """V-16"""
    assert decode_ingress(encode(nested(INGRESS_DEPTH_MAX))) == nested(INGRESS_DEPTH_MAX)

    with pytest.raises(MalformedCbor) as caught:
        decode_ingress(encode(nested(INGRESS_DEPTH_MAX + 1)))
    assert caught.value.path == "$" + "[0]" * INGRESS_DEPTH_MAX
    assert caught.value.message.startswith("nested too deep")


def test_the_most_items_allowed_are_read_and_one_more_is_not() -> None:
    """V-16: the array itself is an item."""
    most: Value = [0] * (INGRESS_ITEMS_MAX - 1)
    assert decode_ingress(encode(most)) == most

    long_list: Value = [0] * INGRESS_ITEMS_MAX
    long_map: Value = dict.fromkeys(range(INGRESS_ITEMS_MAX // 2), 0)
    for too_many in (long_list, long_map):
        with pytest.raises(MalformedCbor, match="too many items: expected at most 65536"):
            decode_ingress(encode(too_many))


def test_items_are_counted_over_all_containers() -> None:
    """V-16"""
    value: Value = [[0, 0], {"a": [0]}]

    assert decode_ingress(encode(value), max_items=naive.items(value)) == value
    with pytest.raises(MalformedCbor, match=r"\$\[1\]\.a: too many items"):
        decode_ingress(encode(value), max_items=naive.items(value) - 1)


@pytest.mark.parametrize("gate", GATES)
def test_the_size_is_checked_before_anything_is_read(gate: Callable[..., Value]) -> None:
    """V-16"""
    assert gate(bytes(1), max_bytes=1) == 0
    with pytest.raises(MalformedCbor) as caught:
        gate(bytes(3), max_bytes=2)
    assert str(caught.value) == "$: too large: expected at most 2 bytes, found 3 (byte 2)"


@pytest.mark.parametrize("gate", GATES)
def test_the_worst_input_of_a_mebibyte_takes_a_moment(gate: Callable[..., Value]) -> None:
    """V-15: many items, then a mistake in the last byte."""
    rows: list[Value] = [[{"k": n}] for n in range(13_000)]
    data = encode([*rows, 0])[:-1] + b"\xff"
    started = time.thread_time()

    with pytest.raises(MalformedCbor):
        gate(data)

    assert time.thread_time() - started < 5


@given(values, st.integers(0, 6), st.integers(1, 40))
def test_within_limits_means_what_the_gate_means(value: Any, levels: int, items: int) -> None:
    """V-16"""
    try:
        decode_ingress(naive.encode(value), max_depth=levels, max_items=items)
    except MalformedCbor:
        assert not is_within(value, levels=levels, items=items)
    else:
        assert is_within(value, levels=levels, items=items)


# V-3: where it is

ANY = "null, bool, integer, bytes, text, array or map"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "$: cut short: expected a value, found the end (byte 0)"),
        ("a1616181ff",
         f"$.a[0]: break without an indefinite length: expected {ANY} (byte 4)"),
        ("a16161", "$.a: cut short: expected a value, found the end (byte 3)"),
        ("a2616100616100", '$: map key "a": duplicate (byte 4)'),
        ("a14100f6", "$: map key: expected text or an integer (byte 1)"),
        ("a1f500", "$: map key: expected text or an integer (byte 1)"),
        ("a1c10000", "$: map key: expected text or an integer (byte 1)"),
        ("8261610b00", "$: expected the end, found 1 bytes more (byte 4)"),
        ("8261ff00", "$[0]: text is not valid UTF-8 (byte 2)"),
        ("636161ff", "$: text is not valid UTF-8 (byte 3)"),
        ("a163616100", '$["aa\\u0000"]: cut short: expected a value, found the end (byte 5)'),
        ("a1636100", "$: cut short: expected 3 bytes, found 2 to the end (byte 1)"),
        ("63eda080", "$: text is not valid UTF-8 (byte 1)"),
        ("a1613a9f", '$[":"]: indefinite length: expected a definite one (byte 3)'),
        ("a1386382f61c", "$[-100][1]: not CBOR: reserved initial byte 0x1c (byte 5)"),
        ("a461616100", "$: cut short: expected 8 items, found 4 bytes to the end (byte 1)"),
        ("8200f97e00", f"$[1]: 16-bit float: expected {ANY} (byte 2)"),
        ("f7", f"$: undefined: expected {ANY} (byte 0)"),
    ],
)  # fmt: skip
def test_the_error_names_the_path_and_the_byte(data: str, message: str) -> None:
    """V-3, V-14"""
    for gate in GATES:
        with pytest.raises(MalformedCbor) as caught:
            gate(bytes.fromhex(data))
        assert str(caught.value) == message
