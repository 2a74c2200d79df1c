"""Attempts, pauses and timeout of an effect: from manifest, decorator or default (X-43)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aos.manifest.effective import Effect
from aos.manifest.forms import (
    ATTEMPTS_DEFAULT,
    BASE_MS_DEFAULT,
    CAP_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
)
from aos.worker.api import EffectFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """``attempts`` includes the first. The timeout is for one attempt."""

    attempts: int
    base_ms: int
    cap_ms: int
    timeout_s: float

    def pause_s(self, failed: int) -> float:
        """The pause after attempt number ``failed``."""
        return float(min(self.base_ms * 2 ** min(failed - 1, 32), self.cap_ms)) / 1000


def policy_of(effect: Effect, function: EffectFunction[Any]) -> Policy:
    """Combine the definition's policy with the decorator's.

    The canonical form of a definition drops defaults, so a field with its default was not given.
    """
    timeout_s = effect.timeout_ms / 1000
    if effect.timeout_ms == TIMEOUT_MS_DEFAULT and function.timeout_s is not None:
        timeout_s = function.timeout_s
    return Policy(
        attempts=_given(effect.attempts, ATTEMPTS_DEFAULT, function.attempts),
        base_ms=_given(effect.base_ms, BASE_MS_DEFAULT, function.backoff_ms),
        cap_ms=_given(effect.cap_ms, CAP_MS_DEFAULT, function.backoff_cap_ms),
        timeout_s=timeout_s,
    )


def _given(defined: int, default: int, decorated: int | None) -> int:
    return decorated if defined == default and decorated is not None else defined
