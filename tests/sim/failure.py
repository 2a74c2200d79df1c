"""The exception that a simulation raises when a check fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class SimFailure(Exception):
    """``check`` names the check that failed, ``text`` what it saw, ``trace`` what led to it."""

    def __init__(self, check: str, text: str, trace: Sequence[tuple[Any, ...]] = ()) -> None:
        super().__init__(f"{check}: {text}")
        self.check = check
        self.text = text
        self.trace = trace
