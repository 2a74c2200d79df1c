"""Limits of ``sys/http.request@1``, for the node and its HTTP process (X-64, X-66)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HTTP: Final = "sys/http.request@1"

MIB: Final = 1024 * 1024
CONCURRENCY: Final = 64
REQUEST_BYTES_MAX: Final = 16 * MIB
"""Maximum size of a request body that ``body_ref`` names."""

NOT_ALLOWED: Final = "http_not_allowed"
TOO_LARGE: Final = "http_too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """A response over the limit is an error; one too large for a receipt is stored as a blob.

    ``timeout_s`` covers one attempt as a whole: name resolution, connection, request, response.
    """

    response_bytes_max: int = 16 * MIB
    inline_bytes_max: int = 64 * 1024
    timeout_s: float = 30.0

    @property
    def wire_bytes_max(self) -> int:
        """Limit on all bytes that a server sends for one request, headers and framing included."""
        return 2 * self.response_bytes_max + MIB
