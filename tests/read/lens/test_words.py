"""Figures as people read them (spec/audit.md, A-4)."""

from __future__ import annotations

import pytest

from aos.read.lens.words import compact, count, short, span_text, time_text

SECOND = 10**9


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123Z"),
        (253_402_300_799 * SECOND, "9999-12-31T23:59:59.000Z"),
        (253_402_300_800 * SECOND, "253402300800000000000 ns"),
        (-1, "-1 ns"),
    ],
)
def test_a_time_is_rfc_3339_while_there_are_years_for_it(ns: int, text: str) -> None:
    assert time_text(ns) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 us"),
        (999_999, "999 us"),
        (1_000_000, "1 ms"),
        (999_999_999, "999 ms"),
        (SECOND, "1.0 s"),
        (9_950_000_000, "9.9 s"),
        (10 * SECOND, "10 s"),
        (59 * SECOND, "59 s"),
        (60 * SECOND, "1 min"),
        (61 * SECOND, "1 min 1 s"),
        (3_600 * SECOND, "1 h"),
        (3_725 * SECOND, "1 h 2 min"),
        (90_061 * SECOND, "1 d 1 h"),
        (-2 * SECOND, "-2.0 s"),
    ],
)
def test_a_span_has_the_digits_that_matter(ns: int, text: str) -> None:
    assert span_text(ns) == text


def test_values_are_cut_and_counted() -> None:
    assert short({"a": [1, None]}) == '{"a":[1,null]}'
    assert short("x" * 80, 10) == "xxxxxxxxx…"
    assert compact("ü") == '"ü"'
    assert (count(1, "step"), count(1200, "step")) == ("1 step", "1,200 steps")
