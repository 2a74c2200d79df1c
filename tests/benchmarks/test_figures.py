"""Percentiles, windows and ratios, held against their definitions."""

from __future__ import annotations

import pytest
from benchmarks.figures import (
    NS_PER_MS,
    NS_PER_S,
    Samples,
    Spread,
    Summary,
    measured,
    percentile,
    ratio,
    summary,
)
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.lists(st.integers(min_value=0, max_value=1000), min_size=1, max_size=50)


@given(VALUES, st.floats(min_value=0, max_value=1))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(
    values: list[int], share: float
) -> None:
    found = percentile(values, share)

    assert found in values
    # One part in 10^9 is what a share of a whole number may be off by.
    assert sum(each <= found for each in values) >= share * len(values) - 1e-9
    smaller = [each for each in values if each < found]
    if smaller:
        most = max(smaller)
        assert sum(each <= most for each in values) < share * len(values)


def test_percentiles_of_a_hundred_are_what_one_counts_to() -> None:
    values = list(range(100, 0, -1))

    assert [percentile(values, each) for each in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]


def test_a_percentile_of_nothing_or_of_no_share_is_refused() -> None:
    with pytest.raises(ValueError, match="of nothing"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match=r"from 0 to 1, found 1\.5"):
        percentile([1], 1.5)


def test_only_what_ends_within_the_window_counts_and_with_its_whole_time() -> None:
    ms = NS_PER_MS
    samples = Samples(
        sent={1: 0, 2: 90 * ms, 3: 150 * ms, 4: 190 * ms},
        accepted=[(1, 50 * ms), (2, 110 * ms), (3, 160 * ms), (4, 200 * ms)],
        finished=[(1, 100 * ms), (2, 130 * ms), (3, 199 * ms), (4, 200 * ms)],
    )

    found = summary(samples, 100 * ms, 200 * ms)

    assert found.items == 3
    assert found.rate == pytest.approx(30)
    assert found.finish == Spread(49.0, 100.0)
    assert found.accept == Spread(10.0, 20.0)


def test_a_window_in_which_nothing_ended_has_a_rate_and_no_times() -> None:
    found = summary(Samples(sent={1: 0}), 0, NS_PER_S)

    assert (found.items, found.rate, found.accept, found.finish) == (0, 0.0, None, None)


def test_a_window_in_which_some_caller_finished_nothing_gives_way_to_all_there_was() -> None:
    ms = NS_PER_MS
    samples = Samples(sent={1: 0, 2: 0}, finished=[(1, 150 * ms), (2, 400 * ms)])

    def found(callers: int) -> Summary:
        return measured(samples, start_ns=0, warm_s=0.1, seconds=0.1, callers=callers)

    assert found(1) == summary(samples, 100 * ms, 200 * ms)
    assert (found(2).items, found(2).is_whole) == (2, True)
    assert found(2).rate == pytest.approx(5)


def test_nothing_finished_is_no_measurement() -> None:
    with pytest.raises(ValueError, match="nothing was finished"):
        measured(Samples(sent={1: 0}), start_ns=0, warm_s=0, seconds=1, callers=1)


def test_a_window_without_time_is_refused() -> None:
    with pytest.raises(ValueError, match="without time"):
        summary(Samples(), 5, 5)


def test_a_ratio_needs_both_sides() -> None:
    assert ratio(6.0, 3.0) == 2
    assert [ratio(None, 1.0), ratio(1.0, None), ratio(1.0, 0.0), ratio(0.0, 1.0)] == [None] * 4
