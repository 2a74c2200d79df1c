"""Strict JSON (spec/values.md, V-50)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aos.values.errors import ValueProblem
from aos.values.json_text import JSON_DEPTH_MAX, JSON_ITEMS_MAX, _Parser, parse_json
from tests.values.strategies import integers, texts

objects: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


def carefully(text: str) -> object:
    """The careful way alone, which also has the last word in parse_json."""
    return _Parser(text, JSON_DEPTH_MAX, JSON_ITEMS_MAX).parse()


def refusal(text: str, **limits: int) -> str:
    with pytest.raises(ValueProblem) as caught:
        parse_json(text, **limits)
    return str(caught.value)


@given(objects, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_text_from_the_json_module_is_read(
    obj: Any, ascii_only: bool, indent: int | str | None
) -> None:
    """V-50"""
    text = json.dumps(obj, ensure_ascii=ascii_only, indent=indent)

    for found in (parse_json(text), carefully(text)):
        assert json.dumps(found) == json.dumps(obj)


@given(objects, st.data())
def test_changed_text_is_refused_or_read_alike_on_both_ways(obj: Any, data: st.DataObject) -> None:
    """V-50"""
    text = json.dumps(obj)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        piece = data.draw(
            st.sampled_from(
                [
                    *'{}[],:"\\ \t\n0123456789-+.eEtfnu/',
                    "\ufeff",
                    "\u00a0",
                    "NaN",
                    "\\ud800",
                    "\\udc00",
                    "1e5",
                    "\0",
                ]
            )
        )
        text = text[:at] + piece + text[at + data.draw(st.integers(0, 2)) :]

    assert_both_ways_agree(text)


@given(st.text(st.sampled_from('{}[],:"\\ \n01-.eEtrufalsn/dD89'), max_size=12))
@example('{"a":1,"a":1}')
@example("-0")
@example("-")
@example("")
def test_any_text_is_refused_or_read_alike_on_both_ways(text: str) -> None:
    """V-50"""
    assert_both_ways_agree(text)


def assert_both_ways_agree(text: str) -> None:
    try:
        expected = carefully(text)
    except ValueProblem as problem:
        refused = str(problem)
    else:
        refused = ""
    if refused:
        assert refusal(text) == refused
    else:
        assert json.dumps(parse_json(text)) == json.dumps(expected)
        assert json.dumps(json.loads(text)) == json.dumps(expected)


AS_TEXT = "(write a decimal as text, in double quotes)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "$: expected a JSON value, found the end of the text at line 1, column 1"),
        ('{"a": {"b": [1, tru]}}',
         '$.a.b[1]: expected a JSON value, found "tru]}}" at line 1, column 17'),
        ('{"a": 1,\n "a": 2}', '$: duplicate key "a" at line 2, column 2'),
        ('{"b": [{"a": 1, "a": 2}]}', '$.b[0]: duplicate key "a" at line 1, column 17'),
        ("[1.5]", f"$[0]: expected an integer, found 1.5 {AS_TEXT} at line 1, column 2"),
        ("1e3", f"$: expected an integer, found 1e3 {AS_TEXT} at line 1, column 1"),
        ("[NaN]", '$[0]: expected a JSON value, found "NaN]" at line 1, column 2'),
        ("-Infinity", "$: bad number: expected digits after the minus sign at line 1, column 1"),
        ('{"x": "\\ud800"}',
         "$.x: lone surrogate in a string: expected Unicode text at line 1, column 7"),
        ('["\\udc00\\ud800"]',
         "$[0]: lone surrogate in a string: expected Unicode text at line 1, column 2"),
        ('["\ud800"]', "$: lone surrogate: expected Unicode text at line 1, column 3"),
        ("1 2", '$: expected the end of the text, found "2" at line 1, column 3'),
        ("[1,]", '$[1]: expected a JSON value, found "]" at line 1, column 4'),
        ('{"a": 1,}', '$: expected a key in double quotes, found "}" at line 1, column 9'),
        ("{a: 1}", '$: expected a key in double quotes, found "a: 1}" at line 1, column 2'),
        ("[1 2]", '$[1]: expected a comma or ], found "2]" at line 1, column 4'),
        ('{"a" 1}', '$: expected a colon after the key "a", found "1}" at line 1, column 6'),
        ("01", '$: expected the end of the text, found "1" at line 1, column 2'),
        ("\ufeff1", '$: expected a JSON value, found "\\ufeff1" at line 1, column 1'),
        ("\u0663", '$: expected a JSON value, found "\\u0663" at line 1, column 1'),
        ("\u00a01", '$: expected a JSON value, found "\\u00a01" at line 1, column 1'),
        ("this is no JSON at all",
         '$: expected a JSON value, found "this is no J\u2026" at line 1, column 1'),
    ],
)  # fmt: skip
def test_the_error_names_the_path_the_line_and_the_column(text: str, message: str) -> None:
    """V-3, V-50"""
    assert refusal(text) == message


@pytest.mark.parametrize(
    "text", ['"a\nb"', '"\t"', '"\\x"', '"\\u12g4"', '"', '"\\', '"\\u00', "'a'"]
)
def test_a_string_has_only_the_escapes_of_json(text: str) -> None:
    """V-50"""
    assert refusal(text).startswith("$: ")


def test_a_surrogate_pair_is_one_character() -> None:
    """V-50"""
    assert parse_json('"\\ud83d\\ude00 \\uFFFF"') == "\U0001f600 \uffff"


def test_integers_of_thousands_of_digits_are_refused_at_once() -> None:
    """V-50: Python's own limit would be a ValueError without a place, or quadratic time."""
    started = time.thread_time()

    for digits in (21, 4300, 4301, 1_000_000):
        found = "9" * 21 if digits == 21 else f"999999999999\u2026 ({digits} characters)"
        assert refusal("[" + "9" * digits + "]") == (
            f"$[0]: expected an integer of -2^64 to 2^64-1, found {found} at line 1, column 2"
        )

    assert time.thread_time() - started < 5
    assert parse_json("[18446744073709551615, -18446744073709551616]") == [2**64 - 1, -(2**64)]
    for over in ("18446744073709551616", "-18446744073709551617"):
        assert "expected an integer of" in refusal(over)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":['])
def test_a_hundred_thousand_levels_are_refused_and_do_not_overflow(opening: str) -> None:
    """V-50"""
    assert "nested too deep: expected at most 64 levels" in refusal(opening * 100_000)


def test_the_limits_are_exact() -> None:
    """V-50"""
    assert parse_json("[[1]]", max_depth=2) == [[1]]
    assert refusal("[[1]]", max_depth=1) == (
        "$[0]: nested too deep: expected at most 1 levels at line 1, column 2"
    )
    assert parse_json('{"a": [1, 2]}', max_items=5) == {"a": [1, 2]}
    assert refusal('{"a": [1, 2]}', max_items=4) == (
        "$.a[1]: too many items: expected at most 4 at line 1, column 11"
    )
    assert parse_json('"\u00e9"', max_bytes=4) == "\u00e9"
    assert refusal('"\u00e9"', max_bytes=3) == (
        "$: too large: expected at most 3 bytes of JSON, found 4"
    )
    assert (
        refusal(chr(34) + "x" * 9, max_bytes=9)
        == "$: too large: expected at most 9 bytes of JSON, found at least 10"
    )


@pytest.mark.parametrize(
    "text",
    [
        '"' + "a" * 1_000_000,
        '"' + "\\n" * 500_000,
        "[" * 1_000_000,
        " " * 1_000_000,
        "1" * 1_000_000,
        '{"a' * 300_000,
        "-" * 1_000_000,
        '"' + "\\u0041" * 160_000 + "\\",
    ],
    ids=["open", "escapes", "arrays", "spaces", "digits", "keys", "minus", "unicode"],
)
def test_a_mebibyte_of_anything_is_refused_in_a_moment(text: str) -> None:
    """V-50: no step of the parser backtracks."""
    started = time.thread_time()

    refusal(text)

    assert time.thread_time() - started < 5
