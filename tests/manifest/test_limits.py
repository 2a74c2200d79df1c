"""Limits as documents."""

from __future__ import annotations

import pytest

from aos.manifest.limits import STEP_RANGES, WORLD_RANGES, Range, StepLimits, WorldLimits


def test_a_document_has_every_field_and_reads_back() -> None:
    for limits in (StepLimits(fuel=5), WorldLimits(mailbox=6)):
        assert type(limits).from_document(limits.to_document()) == limits
    assert StepLimits().to_document().keys() == STEP_RANGES.keys() - StepLimits.LATER
    assert WorldLimits().to_document().keys() == WORLD_RANGES.keys() - WorldLimits.LATER


def test_a_limit_that_came_later_is_in_a_document_only_where_it_differs() -> None:
    """M-41: a document of an older release keeps its bytes."""
    slower = WorldLimits(stream_rate=7)
    assert slower.to_document() == {**WorldLimits().to_document(), "stream_rate": 7}
    assert WorldLimits.from_document(slower.to_document()) == slower
    with pytest.raises(ValueError, match="stream_rate has its default"):
        WorldLimits.from_document({**WorldLimits().to_document(), "stream_rate": 100})


def test_a_workflow_remembers_as_many_keys_as_the_world_says_unless_it_sets_its_own_limit() -> None:
    """M-41, M-43: a document that sets no limit has no field for it."""
    assert StepLimits.from_document(StepLimits().to_document()).keys is None

    own = StepLimits(keys=64)

    assert own.to_document() == {**StepLimits().to_document(), "keys": 64}
    assert StepLimits.from_document(own.to_document()) == own


@pytest.mark.parametrize("odd", [{}, {"fuel": 1}, {**StepLimits().to_document(), "more": 1}])
def test_an_incomplete_document_is_refused(odd: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="these differ"):
        StepLimits.from_document(odd)


def test_a_range_has_both_of_its_ends() -> None:
    assert [number in Range(low=1, high=3) for number in range(5)] == [
        False,
        True,
        True,
        True,
        False,
    ]
