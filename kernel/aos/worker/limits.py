"""Bounds of ``sys/http.request@1``, for the node and for the process that runs it (X-64, X-66)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HTTP: Final = "sys/http.request@1"

MIB: Final = 1024 * 1024
CONCURRENCY: Final = 64
REQUEST_BYTES_MAX: Final = 16 * MIB
"""Of a request body that comes by ``body_ref``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A longer response is an error; one that is too long to stand in a receipt becomes a blob."""

    response_bytes_max: int = 16 * MIB
    inline_bytes_max: int = 64 * 1024
