"""An outcome: which may be followed by another attempt, and which leaves its task open."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from aos.values.cbor import decode_record
from aos.worker.failure import CANCELED, TIMEOUT, AttemptFailure, End
from aos.worker.outcome import Outcome
from tests.worker.stage import intent_of

ENDS = get_args(End)


def failed(*, retryable: bool = True, end: End = "settle", status: str = "error") -> Outcome:
    failure = AttemptFailure(code="c", message="m", retryable=retryable, end=end)
    return Outcome.failed(
        failure, intent=intent_of(1), effect="t/e@1", attempt=2, started_ns=1 << 62, status=status
    )


def test_only_a_retryable_failure_whose_call_has_ended_may_be_retried() -> None:
    """X-44, X-45; what the process lacks does not come by another attempt (X-15)."""
    assert {
        (retryable, end, status)
        for retryable in (True, False)
        for end in ENDS
        for status in ("error", TIMEOUT, CANCELED)
        if failed(retryable=retryable, end=end, status=status).may_be_retried
    } == {(True, end, status) for end in ("settle", "park") for status in ("error", TIMEOUT)}
    assert not replace(failed(), is_final=True).may_be_retried


@pytest.mark.parametrize("end", ENDS)
def test_a_canceled_task_is_not_left_open(end: End) -> None:
    """X-6."""
    outcome = failed(end=end)
    canceled = outcome.canceled(AttemptFailure(code=CANCELED, message="m", retryable=False))

    assert outcome.halts == (end != "settle")
    assert not canceled.halts
    assert not canceled.may_be_retried
    assert (canceled.status, decode_record(canceled.payload)) == (
        "canceled",
        {"code": "canceled", "message": "m", "retryable": False},
    )
    assert (canceled.attempt, canceled.finished_ns) == (outcome.attempt, outcome.finished_ns)


def test_an_attempt_does_not_end_before_it_began() -> None:
    """X-4: also if the wall clock was set back."""
    assert failed().finished_ns == failed().started_ns == 1 << 62
