"""(seed, kind, request, how often it was sent) -> whether it goes wrong, the same in every run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Any, Final

KINDS: Final = (
    "limit",
    "fail",
    "html",
    "drop",
    "stale",
    "delay",
    "fail_after",
    "cut",
    "lose",
)
"""In the order in which they are decided for a request."""

FINISHES: Final = ("limit", "fail", "html")
"""The request is answered and not forwarded. At most one of these happens to a request."""

REPLACES: Final = ("fail_after", "cut", "lose")
"""The request was forwarded; its reply is not returned. At most one of these happens."""

_AMOUNTS: Final = ("delay_ms", "stale_blocks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often each kind of mischief happens, as a share of the requests (0 to 1).

    Not forwarded: ``limit`` (429), ``fail`` (500), ``html`` (a page with status 200). Forwarded:
    ``fail_after`` (500), ``cut`` (half of the reply's JSON), ``lose`` (no reply), ``delay`` (the
    reply comes ``delay_ms`` later), ``stale`` (a read is answered as ``stale_blocks`` ago),
    ``drop`` (the transaction is accepted, and removed from the pool).
    """

    limit: float = 0.0
    fail: float = 0.0
    html: float = 0.0
    drop: float = 0.0
    stale: float = 0.0
    stale_blocks: int = 2
    delay: float = 0.0
    delay_ms: int = 200
    fail_after: float = 0.0
    cut: float = 0.0
    lose: float = 0.0

    def changed(self, changes: dict[str, Any]) -> Rates:
        """Return the rates with these changes.

        Raises:
            ValueError: A name is unknown, or a value is out of range.
        """
        known = [field.name for field in fields(self)]
        for name, value in changes.items():
            if name not in known:
                raise ValueError(f"unknown rate {name}: expected one of {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name}: expected a number, found {value!r}")  # noqa: TRY004  # one kind
            if value < 0 or (name not in _AMOUNTS and value > 1):
                raise ValueError(f"{name}: expected a share from 0 to 1, found {value}")
            if name in _AMOUNTS and not isinstance(value, int):
                raise ValueError(f"{name}: expected a whole number, found {value}")
        return replace(self, **changes)


def drawn(rates: Rates, seed: int, request: str, number: int) -> frozenset[str]:
    """Say what happens to the ``number``-th request (from 1) with this content.

    Equal seeds and requests give equal answers, in whatever order the requests come. A kind that
    is drawn at one rate is drawn at any higher rate too.
    """
    found: list[str] = []
    for kind in KINDS:
        excluded = any(
            kind in group and any(other in group for other in found)
            for group in (FINISHES, REPLACES)
        )
        rate: float = getattr(rates, kind)
        if rate > 0 and not excluded and _share(seed, kind, request, number) < rate:
            found.append(kind)
    return frozenset(found)


def _share(seed: int, kind: str, request: str, number: int) -> float:
    text = f"{seed}\0{kind}\0{number}\0{request}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big") / 2**48
