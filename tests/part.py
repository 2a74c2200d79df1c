"""A part of the tests, for runs that are too long to be made whole each time: ``AOS_PART=2/4``.

Each test falls into one of the parts by the hash of its name, so the parts together are all tests,
and the same part is the same tests on every machine. ``.ci/run`` chooses the part by the commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import pytest

VARIABLE: Final = "AOS_PART"


class WrongPartError(ValueError):
    """``AOS_PART`` does not name a part."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part ``number`` of ``count``, counted from 1."""

    number: int
    count: int

    @staticmethod
    def from_text(text: str) -> Part:
        """Read ``2/4``.

        Raises:
            WrongPartError: It is something else, or there is no such part.
        """
        found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise WrongPartError(f"{VARIABLE}: expected a part such as 2/4, found {text!r}")
        return Part(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, name: str) -> bool:
        """Whether the test with this name is in this part."""
        hashed = blake2b(name.encode(), digest_size=8).digest()
        return int.from_bytes(hashed, "big") % self.count == self.number - 1

    def of(self, items: Iterable[pytest.Item]) -> list[pytest.Item]:
        return [each for each in items if self.has(each.nodeid)]


WHOLE: Final = Part(1, 1)
