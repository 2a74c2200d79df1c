"""The header ``Retry-After``: seconds, or a date (RFC 9110, 10.2.3)."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime


def retry_after_s(value: str) -> float:
    """Return the seconds for which ``Retry-After`` asks from now on: 0 for a date that is past, and
    for a value that is neither a number nor a date."""
    text = value.strip()
    try:
        if text.isascii() and text.isdecimal():
            return float(text)
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0
