"""The headers of every answer of the page (spec/page.md, PG-20)."""

from __future__ import annotations

from typing import Final

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

HEADERS: Final = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)

RAW: Final = tuple((name.encode(), value.encode()) for name, value in HEADERS)
"""The headers as ASGI has them."""

LINES: Final = b"".join(name + b": " + value + b"\r\n" for name, value in RAW)
"""The headers as lines of HTTP/1.1."""
