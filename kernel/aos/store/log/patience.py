"""Repeat requests to servers that do not answer for a moment: they elect a leader, or start
(spec/cluster.md, CL-135)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from aos.errors import AosError
from aos.store.log.bucket import BucketUnreachable
from aos.store.log.log import LogUnreachable

PATIENCE_S: Final = 30.0
"""How long servers may not answer before a command is given up. An election takes up to nine
seconds."""

_PAUSE_S: Final = 0.1

_Value = TypeVar("_Value")


@dataclass(slots=True)
class Patience:
    """Since when servers have not answered; None if they do."""

    since_s: float | None = None

    def renew(self) -> None:
        """Note that they have answered."""
        self.since_s = None

    def wait(self, problem: AosError) -> None:
        """Wait a moment before the request is repeated. Raises ``problem`` if this lasts too
        long."""
        now_s = time.monotonic()
        if self.since_s is None:
            self.since_s = now_s
        if now_s - self.since_s >= PATIENCE_S:
            raise problem
        time.sleep(min(_PAUSE_S, PATIENCE_S))


def patiently(request: Callable[[], _Value]) -> _Value:
    """Repeat a request that may be carried out twice until servers answer. Raises what it raises
    then; LogUnreachable or BucketUnreachable after ``PATIENCE_S``."""
    patience = Patience()
    while True:
        try:
            return request()
        except (LogUnreachable, BucketUnreachable) as problem:
            patience.wait(problem)
