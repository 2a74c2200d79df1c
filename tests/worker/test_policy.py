"""Attempts, pauses and timeouts: the manifest, then the decorator, then the default (X-43)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.worker.api import EffectFunction, effect
from aos.worker.failure import failure_of
from aos.worker.policy import Policy, policy_of
from tests.worker.stage import effective


def function(**given: Any) -> EffectFunction[Any]:
    return effect("test/x@1", **given)(lambda params, _: params)


def test_without_a_word_there_is_one_attempt_of_30_seconds() -> None:
    policy = policy_of(effective().effects["test/echo@1"], function())

    assert policy == Policy(attempts=None, base_ms=1_000, cap_ms=60_000, timeout_s=30.0)
    assert policy.attempts_for(failure_of(TimeoutError())) == 1


@pytest.mark.parametrize(("given", "most"), [({}, 5), ({"attempts": 1}, 1), ({"attempts": 7}, 7)])
def test_an_unexpected_exception_has_five_attempts_unless_someone_gave_a_number(
    given: Any, most: int
) -> None:
    """X-17."""
    policy = policy_of(effective().effects["test/echo@1"], function(**given))

    assert policy.attempts_for(failure_of(KeyError("x"))) == most


def test_the_decorator_fills_in_what_the_manifest_leaves_open() -> None:
    given = function(attempts=4, timeout_s=2.5, backoff_ms=10, backoff_cap_ms=40)

    policy = policy_of(effective().effects["test/echo@1"], given)

    assert policy == Policy(attempts=4, base_ms=10, cap_ms=40, timeout_s=2.5)


def test_the_manifest_wins_field_by_field() -> None:
    given = function(attempts=4, timeout_s=2.5, backoff_ms=10, backoff_cap_ms=40)

    assert policy_of(effective().effects["test/quick@1"], given) == Policy(
        attempts=4, base_ms=10, cap_ms=40, timeout_s=1
    )
    assert policy_of(effective().effects["test/retried@1"], given) == Policy(
        attempts=3, base_ms=1, cap_ms=2, timeout_s=2.5
    )


@pytest.mark.parametrize(("failed", "pause_s"), [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.5), (99, 0.5)])
def test_pauses_double_up_to_the_cap(failed: int, pause_s: float) -> None:
    policy = Policy(attempts=9, base_ms=100, cap_ms=500, timeout_s=1)

    assert policy.pause_s(failed) == pause_s
