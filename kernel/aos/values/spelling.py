"""The text forms of dec128, uuid, hash, time, duration and bytes (spec/values.md, V-32 to V-38).

A ``normal_…`` function takes any accepted spelling and gives the one normal form; None means that
the text is not a spelling of that type. Nothing here reads a clock or a locale.
"""

from __future__ import annotations

import binascii
import re
from datetime import datetime, timedelta
from typing import Final

DECIMAL_DIGITS_MAX: Final = 34
HASH_HEX_DIGITS: Final = {"blake3": 64, "sha256": 64, "sha384": 96, "sha512": 128}

_DECIMAL: Final = re.compile(r"([+-]?)([0-9]++)(?:\.([0-9]++))?(?:[eE]([+-]?[0-9]{1,3}))?")
_UUID: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
)
_HASH: Final = re.compile(r"([a-z0-9]+):([0-9a-f]+)")
_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_UNITS: Final = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_DURATION: Final = re.compile(
    "(-?)(?=[0-9])" + "".join(rf"(?:([0-9]{{1,19}}){unit}(?![a-z]))?" for unit in _UNITS)
)
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # every time here is in UTC
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def normal_decimal(text: str) -> str | None:
    """``[-]digits[.digits]`` without leading zeros, trailing zeros, exponent or ``-0``.

    None too where the normal form has more than 34 significant digits, or more than 34 on one side
    of the point, which also bounds what an exponent can expand to.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    sign, integer, fraction, exponent = match.groups()
    digits = integer + (fraction or "")
    # The value is 0.<digits> times ten to the power of `point`.
    point = len(integer) + int(exponent or "0")
    bare = digits.lstrip("0")
    point -= len(digits) - len(bare)
    bare = bare.rstrip("0")
    if not bare:
        return "0"
    # With at most 34 digits on each side, at most 34 of all are significant.
    if (
        len(bare) > DECIMAL_DIGITS_MAX
        or point > DECIMAL_DIGITS_MAX
        or len(bare) - point > DECIMAL_DIGITS_MAX
    ):
        return None
    if point <= 0:
        body = "0." + "0" * -point + bare
    elif len(bare) <= point:
        body = bare + "0" * (point - len(bare))
    else:
        body = bare[:point] + "." + bare[point:]
    return "-" + body if sign == "-" else body


def normal_uuid(text: str) -> str | None:
    """Lower case, with its four hyphens."""
    return text.lower() if _UUID.fullmatch(text) else None


def normal_hash(text: str) -> str | None:
    """``algorithm:hex`` of a known algorithm, in lower case and with its length."""
    match = _HASH.fullmatch(text)
    if match and HASH_HEX_DIGITS.get(match[1]) == len(match[2]):
        return text
    return None


def time_ns(text: str) -> int | None:
    """RFC 3339 text -> ns since 1970-01-01T00:00:00Z, not yet range checked. No leap seconds."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if not (1 <= month <= 12 and hour < 24 and minute < 60 and second < 60):
        return None
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTH_DAYS[month - 1] + leap:
        return None
    seconds = _days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second
    if match[8]:
        offset_hour, offset_minute = int(match[9]), int(match[10])
        if offset_hour > 23 or offset_minute > 59:
            return None
        offset = offset_hour * 3_600 + offset_minute * 60
        seconds += offset if match[8] == "-" else -offset
    return seconds * 1_000_000_000 + int((match[7] or "").ljust(9, "0"))


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, Gregorian. Years begin in March, so that the leap day is the last."""
    year -= month <= 2
    month = (month + 9) % 12
    return (
        365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719_469
    )


def duration_ns(text: str) -> int | None:
    """``1d2h30m10s500ms20us3ns`` (each part optional, a leading minus allowed) -> ns, unbounded."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    sign, *counts = match.groups()
    total = sum(
        int(count) * unit for count, unit in zip(counts, _UNITS.values(), strict=True) if count
    )
    return -total if sign else total


def time_text(ns: int) -> str:
    """ns since 1970 -> RFC 3339 text in UTC, with as many digits as are needed (none, 3, 6 or 9).
    ``time_ns`` reads it. A time outside of the years 1 to 9999 is a plain number."""
    seconds, remainder = divmod(ns, 1_000_000_000)
    try:
        seconds_text = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return f"{ns} ns"
    digits = f"{remainder:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{seconds_text}{'.' if digits else ''}{digits}Z"


def duration_text(ns: int) -> str:
    """ns -> ``1d2h30m10s``, without parts that are 0; ``0s`` for 0. ``duration_ns`` reads it."""
    remainder, parts = abs(ns), []
    for unit, size in _UNITS.items():
        count, remainder = divmod(remainder, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if ns < 0 else "") + "".join(parts or ["0s"])


def base64_bytes(text: str) -> bytes | None:
    """Standard alphabet, padded, unused bits zero: one text for each byte string."""
    try:
        data = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    return data if base64_text(data) == text else None


def base64_text(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
