"""Paths, short descriptions and CBOR of unknown type (spec/values.md, V-3 and V-52)."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given

from aos.values.errors import (
    MalformedCbor,
    SchemaProblem,
    SchemaProblems,
    ValueProblem,
    quoted,
    segment,
)
from aos.values.show import describe, untyped_to_json
from tests.values.strategies import values


@pytest.mark.parametrize(
    ("key", "step"),
    [
        ("qty", ".qty"),
        ("$value", ".$value"),
        ("a-b", ".a-b"),
        (2, "[2]"),
        (-5, "[-5]"),
        ("2", '["2"]'),
        ("a b", '["a b"]'),
        ("a.b", '["a.b"]'),
        ("", '[""]'),
        ('"', '["\\""]'),
        ("\n", '["\\n"]'),
        ("\u202e", '["\\u202e"]'),
        ("x" * 65, '["' + "x" * 64 + '\u2026"]'),
    ],
)
def test_a_step_of_a_path_cannot_be_mistaken(key: str | int, step: str) -> None:
    """V-3"""
    assert segment(key) == step


def test_a_problem_grows_its_path_from_within() -> None:
    """V-3"""
    problem = ValueProblem("expected nat").under("qty").under(2).under("items")

    assert problem.path == "$.items[2].qty"
    assert problem.message == "expected nat"
    assert str(problem) == "$.items[2].qty: expected nat"


def test_a_problem_survives_the_way_between_two_processes() -> None:
    """V-3"""
    for problem in (
        ValueProblem("expected nat").under("qty"),
        MalformedCbor("cut short", offset=3).under(1),
        SchemaProblems([SchemaProblem(schema="S", pointer="/nat", message="expected {}")]),
    ):
        again = pickle.loads(pickle.dumps(problem))
        assert type(again) is type(problem)
        assert str(again) == str(problem)
        assert vars(again) == vars(problem)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "bool true"),
        (False, "bool false"),
        (5, "nat 5"),
        (-5, "int -5"),
        ((1 << 64) - 1, "nat 18446744073709551615"),
        pytest.param(1 << 100_000, "nat of 100001 bits", id="long"),
        ("x", 'text "x"'),
        ("x" * 100, 'text "' + "x" * 64 + '\u2026"'),
        (b"abc", "bytes[3]"),
        ([1, 2], "list[2]"),
        ({"a": 1}, "map[1]"),
        (1.5, "a float"),
    ],
)
def test_a_value_is_described_in_a_few_words(value: object, words: str) -> None:
    """V-3"""
    assert describe(value) == words


@given(values)
def test_a_description_is_one_short_line(value: Any) -> None:
    """V-3: also of hostile text."""
    words = describe(value)

    assert words.isascii() or words.replace("\u2026", "").isascii()
    assert words.isprintable()
    assert len(words) < 500


@given(values)
def test_any_value_can_be_shown_as_json(value: Any) -> None:
    """V-52"""
    json.dumps(untyped_to_json(value), allow_nan=False)


def test_bytes_and_integer_keys_are_marked() -> None:
    """V-52"""
    assert untyped_to_json({"a": b"\x00", "b": [1, {2: b""}]}) == {
        "a": {"$bytes": "AA=="},
        "b": [1, {"$map": [[2, {"$bytes": ""}]]}],
    }


def test_a_long_text_is_cut() -> None:
    assert quoted("a" * 64) == '"' + "a" * 64 + '"'
    assert quoted("a" * 65) == '"' + "a" * 64 + '\u2026"'
