"""A second, as plain as possible, decoder for both gates of spec/values.md (V-10 to V-19).

It shares nothing with ``aos.values``. It reports that a value is invalid, but not why.
"""

from __future__ import annotations

from typing import Any


class Bad(Exception):
    """These bytes are refused."""


def read(data: bytes, *, canonical: bool, most_bytes: int, most_items: int, most_depth: int) -> Any:
    """Raises ``Bad``."""
    if len(data) > most_bytes:
        raise Bad
    start = 3 if not canonical and data[:3] == b"\xd9\xd9\xf7" else 0
    reader = _Reader(data, start, canonical)
    value = reader.value(most_depth)
    if reader.at != len(data) or reader.items > most_items:
        raise Bad
    return value


class _Reader:
    def __init__(self, data: bytes, at: int, canonical: bool) -> None:
        self.data = data
        self.at = at
        self.canonical = canonical
        self.items = 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise Bad
        found = self.data[self.at : self.at + size]
        self.at += size
        return found

    def value(self, depth: int) -> Any:
        self.items += 1
        first = self.take(1)[0]
        major, info = first // 32, first % 32
        if major == 7:
            if first not in (0xF4, 0xF5, 0xF6):
                raise Bad
            return {0xF4: False, 0xF5: True, 0xF6: None}[first]
        number = self.argument(info)
        if major == 0:
            return number
        if major == 1:
            return -1 - number
        if major == 2:
            return self.take(number)
        if major == 3:
            return self.text(number)
        if major == 6 or depth == 0:
            raise Bad
        return self.array(number, depth) if major == 4 else self.map(number, depth)

    def argument(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise Bad
        size = 2 ** (info - 24)
        number = int.from_bytes(self.take(size), "big")
        least = {1: 24, 2: 2**8, 4: 2**16, 8: 2**32}[size]
        if self.canonical and number < least:
            raise Bad
        return number

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode("utf-8", "strict")
        except UnicodeDecodeError:
            raise Bad from None

    def array(self, number: int, depth: int) -> list[Any]:
        return [self.value(depth - 1) for _ in range(number)]

    def map(self, number: int, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        before = None
        for _ in range(number):
            start = self.at
            if start < len(self.data) and self.data[start] // 32 not in (0, 1, 3):
                raise Bad
            key = self.value(0)
            spelt = self.data[start : self.at]
            if key in found or (self.canonical and before is not None and spelt <= before):
                raise Bad
            before = spelt
            found[key] = self.value(depth - 1)
        return found
