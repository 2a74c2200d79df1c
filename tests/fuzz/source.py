"""Choices made from bytes: what a fuzzer varies decides what a target builds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Source:
    """Reads ``data`` from its beginning; past its end everything is zero."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_used_up(self) -> bool:
        return self._at >= len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def number(self, size: int) -> int:
        return int.from_bytes(self.bytes(size).ljust(size, b"\0"), "big")

    def choice(self, among: Sequence[T]) -> T:
        """One of at most 65,536."""
        number = self.byte() if len(among) <= 256 else self.number(2)
        return among[number % len(among)]

    def bytes(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        self._at += size
        return found
