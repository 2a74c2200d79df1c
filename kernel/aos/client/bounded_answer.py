"""Read the answer of a node within a time and a size (spec/worker.md, W-4b)."""

from __future__ import annotations

import time
from typing import Final

import httpx

from aos.errors import Unavailable

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""The longest body of an answer that a client keeps, in bytes."""


class AnswerParts:
    """The parts of a body, until ``seconds`` from now are over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until_s = time.monotonic() + seconds
        self._body = bytearray()

    def take(self, part: bytes) -> None:
        """Add a part.

        Raises:
            httpx.ReadTimeout: It comes too late.
            Unavailable: The body is too long.
        """
        if time.monotonic() > self._until_s:
            raise httpx.ReadTimeout(f"there is no whole answer after {self._seconds:g} s")
        self._body += part
        if len(self._body) > ANSWER_BYTES_MAX:
            raise Unavailable(f"the node sent an answer of more than {ANSWER_BYTES_MAX:,} bytes")

    def body(self) -> bytes:
        """Return the body."""
        return bytes(self._body)
