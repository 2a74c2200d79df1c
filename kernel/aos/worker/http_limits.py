"""Bounds of ``sys/http.request@1``, for the node and for the process that runs it (X-64, X-66)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HTTP: Final = "sys/http.request@1"

MIB: Final = 1024 * 1024
CONCURRENCY: Final = 64
REQUEST_BYTES_MAX: Final = 16 * MIB
"""Of a request body that comes by ``body_ref``."""

TOO_LARGE: Final = "http_too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """A longer response is an error; one that is too long to stand in a receipt becomes a blob.

    ``timeout_s`` is for all of one attempt: name, connection, request, response.
    """

    response_bytes_max: int = 16 * MIB
    inline_bytes_max: int = 64 * 1024
    timeout_s: float = 30.0

    @property
    def wire_bytes_max(self) -> int:
        """Of everything that a server sends for one request, in whatever parts."""
        return 2 * self.response_bytes_max + MIB
