"""Keep the secrets of a task and of its process out of outcomes (X-77, X-77a, X-78)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from aos.values.cbor import encode
from aos.values.errors import ValueProblem
from aos.worker import redacted_output
from aos.worker.failure import RESULT_INVALID, AttemptFailure
from aos.worker.redaction import Redactor
from aos.worker.results import to_value
from aos.worker.worker_secrets import SecretValue

_PROCESS_REDACTORS: Final[list[Redactor]] = []
"""They find the secrets of this process."""


def without_secrets(failure: AttemptFailure, redactor: Redactor) -> AttemptFailure:
    """A failure whose code and message have each secret replaced. Call it before anything cuts
    them: half of a secret is not found."""
    return replace(
        failure, code=redactor.code(failure.code), message=redactor.text(failure.message)
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
            code=redactor.leak_code,
            message=f"the result holds the value of {redactor.finds}, which the journal would "
            "keep: expected a result without it",
            retryable=False,
            end="park",
        )
    return None


@contextmanager
def process_secrets(secrets: Iterable[SecretValue]) -> Iterator[None]:
    """Hide secrets that a worker process has by itself, such as tokens in URLs of its environment
    (X-77a).

    A task's own secrets are hidden while it runs. These are hidden inside of the block, for as long
    as the process uses them: in what it prints, and in every failure that it reports.
    """
    redactor = Redactor(secrets)
    if not redactor.longest:
        yield
        return
    _PROCESS_REDACTORS.append(redactor)
    redacted_output.hide(redactor)
    try:
        yield
    finally:
        redacted_output.unhide(redactor)
        _PROCESS_REDACTORS.remove(redactor)


def without_process_secrets(failure: AttemptFailure) -> AttemptFailure:
    """A failure without the secrets of this process. Call it before anything cuts its message."""
    for redactor in tuple(_PROCESS_REDACTORS):
        failure = without_secrets(failure, redactor)
    return failure
