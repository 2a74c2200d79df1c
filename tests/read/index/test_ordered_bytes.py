"""Bytes of values compare as the values do (SE-23)."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from aos.read.index.indexed_cells import OTHER, after_bytes, ordered_bytes, value_of

DECIMALS = st.builds(
    lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=34).map(tuple),
    st.integers(-6176, 6111),
)
WHOLE = st.integers(-(2**63), 2**64 - 1)
NUMBERS = st.text("0123456789.", max_size=30).filter(lambda text: text.count(".") < 2)
EXTENDED = st.one_of(
    st.tuples(st.sampled_from(("", "-")), st.integers(0, 10**9), NUMBERS).map(
        lambda parts: (Decimal(f"{parts[0]}{parts[1]}"), Decimal(f"{parts[0]}{parts[1]}{parts[2]}"))
    ),
    st.tuples(st.text(max_size=5), st.text("\x00 0a\U0010ffff", max_size=5)).map(
        lambda parts: (parts[0], parts[0] + parts[1])
    ),
    st.tuples(st.binary(max_size=5), st.binary(max_size=5)).map(
        lambda parts: (parts[0], parts[0] + parts[1])
    ),
)
"""Two values of which the second has the digits, characters or bytes of the first, and more."""
VALUES = (st.text(), st.binary(), WHOLE, st.booleans(), DECIMALS)


@given(st.one_of(*(st.tuples(each, each) for each in VALUES)))
@example((Decimal("1.0"), Decimal(1)))
@example((Decimal("-0"), Decimal(0)))
@example((Decimal(-12), Decimal("-1.2E1")))
@example((Decimal(-1), Decimal("-1.5")))
@example(("a", "a\x00"))
def test_bytes_compare_as_their_values(pair: tuple[object, object]) -> None:
    must_compare(*pair)


@given(EXTENDED)
@example((Decimal(-1), Decimal("-1.05")))
@example((Decimal(-1), Decimal("-1.0000000000000000000000000000000001")))
@example((Decimal("-1.5"), Decimal("-1.50")))
@example((Decimal(-10), Decimal(-100)))
def test_bytes_of_values_that_extend_one_another_compare_as_they_do(
    pair: tuple[object, object],
) -> None:
    one, two = pair
    must_compare(one, two)
    must_compare(two, one)


@given(st.one_of(*VALUES))
@example(Decimal("-0"))
@example(Decimal("-1.50"))
def test_a_value_is_read_from_its_bytes(value: object) -> None:
    found = value_of(ordered_bytes(value))

    assert found == value
    assert type(found) is type(value)


def must_compare(one: object, two: object) -> None:
    assert (ordered_bytes(one) == ordered_bytes(two)) == (one == two)
    assert (ordered_bytes(one) < ordered_bytes(two)) == (one < two)  # type: ignore[operator]


@given(st.one_of(*VALUES), st.one_of(*VALUES))
def test_values_of_different_types_compare_by_the_names_of_their_types(
    one: object, two: object
) -> None:
    names = type(one).__name__, type(two).__name__
    if names[0] != names[1]:
        assert (ordered_bytes(one) < ordered_bytes(two)) == (names[0] < names[1])
    assert ordered_bytes(one) > OTHER
    assert ordered_bytes(None) == OTHER


@given(st.text(), st.text())
def test_texts_with_a_prefix_are_between_its_bytes_and_the_ones_after(
    prefix: str, text: str
) -> None:
    for each in (text, prefix + text):
        end = after_bytes(ordered_bytes(prefix))
        assert end is not None
        is_between = ordered_bytes(prefix) <= ordered_bytes(each) < end
        assert is_between == each.startswith(prefix)
