"""Canonical CBOR at both gates (spec/values.md, V-10 to V-19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from aos.values.cbor import (
    INGRESS_BYTES_MAX,
    INGRESS_DEPTH_MAX,
    INGRESS_ITEMS_MAX,
    RECORD_BYTES_MAX,
    RECORD_DEPTH_MAX,
    RECORD_ITEMS_MAX,
    Value,
    decode_ingress,
    decode_record,
    encode,
)
from aos.values.errors import MalformedCbor
from tests.fuzz import naive_cbor
from tests.fuzz.naive_cbor import Bad
from tests.values import naive

RUNS: Final = 2_000
TOKENS: Final = (
    b"\xa0", b"\x80", b"\xf6", b"\x1b" + bytes(8), b"\x5b" + b"\xff" * 8, b"\x9f", b"\xbf", b"\xff",
    b"\xd9\xd9\xf7", b"\xfb" + bytes(8), b"\x81" * 65, b"\xa1\x60" * 65, b"\x61\xc3", b"\x38\x18",
)  # fmt: skip
# Small enough that one input reaches them.
SMALL: Final = {"max_bytes": 64, "max_items": 9}


def target(data: bytes) -> None:
    """Both gates take what a naive decoder takes, and whatever is taken is written again alike."""
    recorded = _agreed(
        data, decode_record, canonical=True, most_bytes=RECORD_BYTES_MAX,
        most_items=RECORD_ITEMS_MAX, most_depth=RECORD_DEPTH_MAX,
    )  # fmt: skip
    taken = _agreed(
        data, decode_ingress, canonical=False, most_bytes=INGRESS_BYTES_MAX,
        most_items=INGRESS_ITEMS_MAX, most_depth=INGRESS_DEPTH_MAX,
    )  # fmt: skip
    if recorded is not None:
        assert encode(recorded[0]) == data
        if len(data) <= INGRESS_BYTES_MAX and taken is None:
            assert naive_depth(recorded[0]) > INGRESS_DEPTH_MAX or (
                naive.items(recorded[0]) > INGRESS_ITEMS_MAX
            )
    if taken is not None:
        again = encode(taken[0])
        assert len(again) <= len(data)
        assert again == naive.encode(taken[0])
        assert exactly(decode_record(again)) == exactly(taken[0])
    _agreed(
        data, lambda given: decode_ingress(given, max_depth=3, **SMALL), canonical=False,
        most_bytes=SMALL["max_bytes"], most_items=SMALL["max_items"], most_depth=3,
    )  # fmt: skip


def _agreed(data: bytes, gate: Callable[[bytes], Value], **limits: Any) -> tuple[Value] | None:
    """Return the value that both decoders read, in a tuple; None if both refuse."""
    try:
        expected = (naive_cbor.read(data, **limits),)
    except Bad:
        expected = None
    try:
        found = (gate(data),)
    except MalformedCbor as problem:
        found = None
        _is_well_said(problem, data)
    assert exactly(found) == exactly(expected)
    return found


def _is_well_said(problem: MalformedCbor, data: bytes) -> None:
    assert 0 <= problem.offset <= len(data)
    assert str(problem).isprintable()


def exactly(value: object) -> object:
    """Convert to a form in which types differ (in Python ``True == 1``) and map order does not."""
    if isinstance(value, dict):
        return {(type(key), key): exactly(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exactly(item) for item in value]
    return type(value), value


def naive_depth(value: Value) -> int:
    if isinstance(value, list):
        return 1 + max(map(naive_depth, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(naive_depth, value.values()), default=0)
    return 0


def seeds() -> Iterator[bytes]:
    values: list[Value] = [
        None, True, 0, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**64 - 1, -1, -24, -25,
        -(2**64), b"", bytes(24), "", "a" * 24, "é\U0001f4a3", [], [[], {}], {}, {0: 1, -1: 2},
        {"b": 1, "a": [True, None, {"c": b"\xff"}], 10: "x", -500: {}, "aa": 0},
    ]  # fmt: skip
    for value in values:
        yield encode(value)
    yield b"\xd9\xd9\xf7" + encode(values[-1])
    yield b"\xa2\x61b\x18\x01\x61a\x1b" + bytes(7) + b"\x02"
    yield b"\x81" * 64 + b"\x00"
    yield b"\x81" * 128 + b"\x00"
