"""Keep secrets out of the outcome of a function that has them (X-77, X-78)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from aos.values.cbor import encode
from aos.values.errors import ValueProblem
from aos.worker.failure import RESULT_INVALID, AttemptFailure
from aos.worker.redaction import Redactor
from aos.worker.results import to_value

SECRET_IN_RESULT: Final = "secret_in_result"  # noqa: S105  # an error code


def without_secrets(failure: AttemptFailure, redactor: Redactor) -> AttemptFailure:
    """A failure whose code and message have each secret replaced. Call it before anything cuts
    them: half of a secret is not found."""
    return replace(
        failure, code=redactor.text(failure.code), message=redactor.text(failure.message)
    )


def leak_in(
    value: object, redactor: Redactor, *, cost: object = None, blobs: Iterable[bytes] = ()
) -> AttemptFailure | None:
    """Return why a result must not be stored: it holds a secret, in one of the forms of X-69.

    It is checked before the receipt schema, whose errors quote parts of the result. The effect is
    parked at once: another attempt would act again and return the same.
    """
    try:
        data = encode(to_value(value))
    except ValueProblem:
        return AttemptFailure(
            code=RESULT_INVALID,
            message="the result has no form as a value (the value found is not shown, because the "
            "task has secrets)",
            retryable=False,
            end="park",
        )
    if any(map(redactor.holds, (data, repr(cost).encode("utf-8", "replace"), *blobs))):
        return AttemptFailure(
            code=SECRET_IN_RESULT,
            message="the result holds the value of a secret, which the journal would keep: "
            "expected a result without it",
            retryable=False,
            end="park",
        )
    return None
