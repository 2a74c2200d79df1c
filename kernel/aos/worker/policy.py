"""Attempts, pauses and timeout of an effect: from manifest, decorator or default (X-43)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aos.manifest.effective import Effect
from aos.manifest.forms import (
    ATTEMPTS_DEFAULT,
    BASE_MS_DEFAULT,
    CAP_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
)
from aos.worker.api import EffectFunction
from aos.worker.failure import AttemptFailure

PARKING_ATTEMPTS: Final = 5
"""Attempts before an effect is parked, if neither definition nor decorator gives a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """``attempts`` includes the first; None if no one gave a number. The timeout is for one
    attempt."""

    attempts: int | None
    base_ms: int
    cap_ms: int
    timeout_s: float

    def attempts_for(self, failure: AttemptFailure) -> int:
        """How many attempts there are, the first included, if they fail with ``failure`` (X-44)."""
        if self.attempts is not None:
            return self.attempts
        return PARKING_ATTEMPTS if failure.end == "park" else ATTEMPTS_DEFAULT

    def pause_s(self, failed: int) -> float:
        """The pause after attempt number ``failed``, in seconds (X-44)."""
        return float(min(self.base_ms * 2 ** min(failed - 1, 32), self.cap_ms)) / 1000


def policy_of(effect: Effect, function: EffectFunction[Any]) -> Policy:
    """Combine the definition's policy with the decorator's.

    The canonical form of a definition drops defaults, so a field with its default was not given.
    """
    return Policy(
        attempts=effect.attempts if effect.attempts != ATTEMPTS_DEFAULT else function.attempts,
        base_ms=_defined_or_decorated(effect.base_ms, BASE_MS_DEFAULT, function.backoff_ms),
        cap_ms=_defined_or_decorated(effect.cap_ms, CAP_MS_DEFAULT, function.backoff_cap_ms),
        timeout_s=attempt_ns(effect, function.timeout_ns) / 1e9,
    )


def attempt_ns(effect: Effect, function_ns: int | None) -> int:
    """How long one attempt may take, by the definition or else by its function (X-43)."""
    if effect.timeout_ms == TIMEOUT_MS_DEFAULT and function_ns is not None:
        return function_ns
    return effect.timeout_ms * 1_000_000


def _defined_or_decorated(defined: int, default: int, decorated: int | None) -> int:
    return decorated if defined == default and decorated is not None else defined
