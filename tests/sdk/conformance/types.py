"""Scenarios: every type expression, in and out, and the defaults of all."""

from __future__ import annotations

from typing import Any, Final

from tests.sdk.conformance.driver import ConformanceWorld, Emitted

ZEROS: Final = "blake3:" + 64 * "0"

DEFAULTS: Final[dict[str, Any]] = {
    "yes": False, "int": 0, "nat": 0, "dec": "0", "bytes": b"", "text": "", "time": 0,
    "duration": 0, "hash": ZEROS, "uuid": "00000000-0000-0000-0000-000000000000", "unit": None,
    "record": {"a": 0, "b": {"c": ""}}, "variant": {"$tag": "Number", "$value": 0}, "list": [],
    "lists": [], "ints": [], "texts": [], "points": [], "by_int": {}, "by_nat": {}, "by_text": {},
    "by_uuid": {}, "by_hash": {}, "maybe": None, "maybe_nat": None, "maybe_bytes": None,
    "maybe_point": None, "options": [], "point": {"x": 0, "y": 0}, "shape": {"$tag": "Empty"},
    "shapes": [], "number": 0, "nothing": None, "type": "", "x-rate": 0,
}  # fmt: skip

GIVEN: Final[dict[str, Any]] = {
    "yes": True, "int": -(2**63), "nat": 2**64 - 1, "dec": "-0.50", "bytes": "AP8=",
    "text": "\u0000é\U0001f389", "time": "2024-02-29T12:00:00Z", "duration": "-1h",
    "hash": "sha512:" + 128 * "b", "uuid": "00112233-4455-6677-8899-AABBCCDDEEFF", "unit": None,
    "record": {"a": 2**63 - 1, "b": {"c": "deep"}},
    "variant": {"Pair": {"left": 256, "right": "r"}}, "list": [0, 23, 24, 255, 256, 65536, -1],
    "lists": [["a"], []], "ints": [5, -1, 5, 1000], "texts": ["z", "aa"],
    "points": [{"x": 1, "y": 0}, {"x": 0, "y": 1}], "by_int": [[24, "a"], [-1, "b"], [-300, "c"]],
    "by_nat": [[1, {"x": 1, "y": 2}]], "by_text": {"long": [1], "b": []},
    "by_uuid": {"10000000-0000-0000-0000-000000000000": True},
    "by_hash": {ZEROS: 3, "blake3:" + 64 * "a": None}, "maybe": "", "maybe_nat": 7,
    "maybe_bytes": ["", "AA=="], "maybe_point": {"x": 3, "y": 4}, "options": [None, False],
    "point": {"x": -1, "y": -2}, "shape": {"Nothing": None},
    "shapes": ["Empty", {"Named": {"name": "n"}}, {"Line": []}], "number": 9, "nothing": None,
    "type": "keyword", "x-rate": 24,
}  # fmt: skip

BUILT: Final[dict[str, Any]] = {
    "yes": True, "int": -(2**63), "nat": 2**64 - 1, "dec": "15", "bytes": b"\x00\x01\xff",
    "text": 'é日本🎉"\\\n', "time": -1, "duration": 90_000_000_000, "hash": "sha256:" + 64 * "a",
    "uuid": "00112233-4455-6677-8899-aabbccddeeff", "unit": None,
    "record": {"a": -24, "b": {"c": "c"}},
    "variant": {"$tag": "Pair", "$value": {"left": 24, "right": ""}}, "list": [23, 24, -24, -25],
    "lists": [[], ["a", "bb"]], "ints": [0, 3, 24, 256, -1, -25], "texts": ["", "a", "b", "bb"],
    "points": [{"x": 1, "y": 2}, {"x": 2, "y": 1}, {"x": -1, "y": 0}],
    "by_int": {1: "one", 24: "x", 1000: "thousand", -1: "minus one", -25: "far"},
    "by_nat": {2: {"x": 0, "y": 0}, 300: {"x": 3, "y": 0}},
    "by_text": {"b": [1, 2], "bb": [], "aaa": [0]},
    "by_uuid": {
        "00000000-0000-4000-8000-000000000000": False,
        "ffffffff-ffff-4fff-bfff-ffffffffffff": True,
    },
    "by_hash": {ZEROS: None, "blake3:" + 64 * "f": -1}, "maybe": None, "maybe_nat": 0,
    "maybe_bytes": [], "maybe_point": {"x": 7, "y": -7}, "options": [None, True, False],
    "point": {"x": 0, "y": 1}, "shape": {"$tag": "Named", "$value": {"name": "n", "at": None}},
    "shapes": [
        {"$tag": "Empty"},
        {"$tag": "Dot", "$value": {"x": 1, "y": 1}},
        {"$tag": "Line", "$value": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]},
        {"$tag": "Named", "$value": {"name": "", "at": {"x": 5, "y": 5}}},
        {"$tag": "Nothing", "$value": None},
    ],
    "number": 7, "nothing": None, "type": "t", "x-rate": 65536,
}  # fmt: skip


def every_type_comes_back_as_it_was_given(world: ConformanceWorld) -> None:
    value = world.effective.schemas["conformance/Everything@1"].from_json_object(GIVEN)

    seen = world.give("conformance/Everything@1", GIVEN)

    assert seen.fault is None
    assert seen.state == {"last": value, "steps": 1}
    assert seen.events == (Emitted(schema="conformance/Echo@1", value={"value": value}),)
    assert (seen.effects, seen.ann, seen.declared) == ((), None, None)


def a_value_that_the_module_makes_is_in_normal_form(world: ConformanceWorld) -> None:
    seen = world.give("conformance/Build@1", {})

    assert seen.fault is None
    assert seen.state == {"last": BUILT, "steps": 1}
    assert seen.events == (Emitted(schema="conformance/Echo@1", value={"value": BUILT}),)


def what_was_stored_is_read_again(world: ConformanceWorld) -> None:
    world.give("conformance/Build@1", {})
    seen = world.give("conformance/Everything@1", GIVEN)
    again = world.give("conformance/Everything@1", GIVEN)

    assert (seen.state["steps"], again.state["steps"]) == (2, 3)
    assert again.state["last"] == seen.state["last"]


def a_new_cell_has_the_default_of_every_type(world: ConformanceWorld) -> None:
    first = world.give("conformance/Touch@1", {})
    second = world.give("conformance/Touch@1", {})

    assert (first.fault, first.state) == (None, DEFAULTS)
    assert second.state == DEFAULTS
    assert (first.events, first.effects, first.declared) == ((), (), None)
