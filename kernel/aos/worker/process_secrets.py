"""Secrets that a worker process has by itself, such as tokens in URLs of its environment (X-77a).

A task's own secrets are hidden while it runs. These are hidden for as long as the process uses
them: in what it prints, and in every failure that it reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from aos.worker import redacted_output
from aos.worker.failure import AttemptFailure
from aos.worker.redaction import Redactor
from aos.worker.secret_leaks import without_secrets
from aos.worker.worker_secrets import SecretValue

_HIDDEN: Final[list[Redactor]] = []


@contextmanager
def process_secrets(secrets: Iterable[SecretValue]) -> Iterator[None]:
    """Hide these secrets in printed lines and in failures, inside of the block."""
    redactor = Redactor(secrets)
    if not redactor.longest:
        yield
        return
    _HIDDEN.append(redactor)
    redacted_output.hide(redactor)
    try:
        yield
    finally:
        redacted_output.unhide(redactor)
        _HIDDEN.remove(redactor)


def without_process_secrets(failure: AttemptFailure) -> AttemptFailure:
    """A failure without the secrets of this process. Call it before anything cuts its message."""
    for redactor in tuple(_HIDDEN):
        failure = without_secrets(failure, redactor)
    return failure
