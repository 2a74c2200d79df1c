"""A broken law."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True, kw_only=True)
class Finding:
    """``key`` is the work, the score, the epoch or the lane; ``step`` is its step at the time."""

    law: str
    key: str
    step: str
    message: str
    seq: int = 0
    """The record of the journal, 0 if the chain alone shows it."""

    def __str__(self) -> str:
        place = f", record {self.seq}" if self.seq else ""
        return f"{self.law}: {self.key}, {self.step}{place}: {self.message}"
