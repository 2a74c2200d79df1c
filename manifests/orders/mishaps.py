"""(seed, operation, order, how often it was asked) -> what goes wrong, the same in every run."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from typing import Final

MISHAPS_MAX: Final = 3
"""So many requests under one key may go wrong. The next one is answered."""


class Mishap(enum.Enum):
    NONE = "none"
    UNAVAILABLE = "503, nothing done"
    ANSWER_LOST = "500, but done"
    STALL_THEN_DO = "done late, after the caller may have given up"
    DO_THEN_STALL = "done, and answered late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Temper:
    """How often things go wrong. Rates are shares of requests, ``refuse_rate`` of orders."""

    seed: int
    fail_rate: float
    stall_rate: float
    refuse_rate: float
    stall_ms: int

    def mishap(self, operation: str, order_id: str, request_number: int) -> Mishap:
        """Say what happens to the ``request_number``-th request (from 1) under its key."""
        if request_number > MISHAPS_MAX:
            return Mishap.NONE
        drawn = self._draw(operation, order_id, str(request_number))
        for mishap, rate in (
            (Mishap.UNAVAILABLE, 0.75 * self.fail_rate),
            (Mishap.ANSWER_LOST, 0.25 * self.fail_rate),
            (Mishap.STALL_THEN_DO, 0.5 * self.stall_rate),
            (Mishap.DO_THEN_STALL, 0.5 * self.stall_rate),
        ):
            if drawn < rate:
                return mishap
            drawn -= rate
        return Mishap.NONE

    def refuses(self, operation: str, order_id: str) -> bool:
        """Say whether the operation is refused for this order, whenever it is asked for."""
        return self._draw("refuse", operation, order_id) < self.refuse_rate

    def _draw(self, *words: str) -> float:
        text = "\0".join((str(self.seed), *words))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest()) / 2**48
