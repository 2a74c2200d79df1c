"""Rates as text, such as ``50/s``, and the rate of each token (spec/node-api.md, N-131a)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aos.node.problems import Problem

if TYPE_CHECKING:
    from aos.node.tokens import Token

RATE_MAX: Final = 1_000_000
BURST_MAX: Final = 1_000_000
EXAMPLES: Final = 'text such as "50/s", "100/min" or "10/h"'

_RATE: Final = re.compile(r"([1-9][0-9]{0,6})/(s|min|h)")
_UNITS: Final = {"s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}


def interval_of(text: object) -> int | None:
    """The mean time between two uses of a rate, in ns; None if this is no rate."""
    read = _RATE.fullmatch(text) if isinstance(text, str) else None
    if read is None or int(read[1]) > RATE_MAX:
        return None
    return max(1, _UNITS[read[2]] // int(read[1]))


class TokenRates:
    """Counts what each token with a rate does."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._due: dict[str, int] = {}

    def check(self, token: Token) -> None:
        """Refuse a request of a token that has used up its rate.

        Raises:
            Problem: 429, with the time after which the next request is taken.
        """
        interval = interval_of(token.rate)
        if interval is None:
            return
        early = self._due.get(token.name, 0) - self._clock() - (token.burst - 1) * interval
        if early > 0:
            raise Problem(
                429, "token_is_too_fast",
                f"{token.name}: expected at most {token.rate}, and {token.burst} at once",
                retry_after_s=-(-early // 10**9),
            )  # fmt: skip

    def use(self, token: Token, number: int = 1) -> None:
        """Count a request, or the events of a batch, which may exceed the burst: then the next
        request waits for all of them."""
        interval = interval_of(token.rate)
        if interval is not None:
            due = max(self._due.get(token.name, 0), self._clock())
            self._due[token.name] = due + number * interval
