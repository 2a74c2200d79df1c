"""Documents and dates for the tests of both SDKs: the vectors, and the answers of Python."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any, Final, NoReturn

from hypothesis import strategies as st

from tests.modules.guests import ROOT

VECTORS: Final = ROOT / "spec/vectors"
LEVELS_MAX: Final = 64
EPOCH: Final = dt.date(1970, 1, 1)

NUMBER: Final = "\ue000"
"""Before the text of a number, while Python would read the number itself."""


def load(name: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads((VECTORS / name).read_text("utf-8"))
    return vectors


def document_of(vector: dict[str, Any]) -> bytes:
    if "hex" in vector:
        return bytes.fromhex(vector["hex"])
    return joined(vector, "text").encode()


def joined(vector: dict[str, Any], field: str) -> str:
    """The text of a field that may be given as runs."""
    if field in vector:
        text: str = vector[field]
        return text
    return "".join(piece * times for piece, times in vector[f"{field}_runs"])


def rewritten(document: bytes) -> str | None:
    """Return the document as an SDK must write it again, or None if it must refuse it."""
    try:
        text = document.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse,
            parse_int=NUMBER.__add__,
            parse_float=NUMBER.__add__,
        )
        written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        written.encode("utf-8")  # half of a surrogate pair cannot be written
    except (ValueError, RecursionError):
        return None
    return re.sub(f'"{NUMBER}([^"]*)"', r"\1", written) if _levels(value) <= LEVELS_MAX else None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _levels(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_levels, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_levels, value), default=0)
    return 0


PIECES: Final = (
    *'{}[]:,"\\/- \t\r\n\0\x1f\x7fé€😀0123456789.eE+abunrtf',
    *('"a"', '"b":', "null", "true", "false", "-0", "1.5e-3", "18446744073709551616"),
    *("\\u00", "\\u0000", "\\ud83d", "\\ude00", "\\udc00", '"\\uD83D\\uDE00"', "[[[[", "]]]]"),
    *('{"a":1}', '"\\n"', "NaN", "//"),
)  # fmt: skip
"""Hostile documents consist of these."""

HOSTILE: Final = st.lists(st.sampled_from(PIECES), max_size=12).map("".join).map(str.encode)

_TEXTS: Final = st.text(st.sampled_from('ab"\\/\0\x1f\n\té€\u2028😀'), max_size=4)
_NUMBERS: Final = (
    st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.1, -0.0, 1e300])
)
VALUES: Final = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(_TEXTS, inside, max_size=4),
    max_leaves=12,
)
"""Values that Python writes as JSON."""


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A document that is valid, or has one byte changed, removed or inserted."""
    value = draw(VALUES)
    document = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1])),
        allow_nan=True,
    ).encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(document) - 1))
        piece = draw(st.sampled_from((*PIECES, ""))).encode()
        document = document[:at] + piece + document[at + draw(st.integers(0, 1)) :]
    return document


def months_later(date: dt.date, months: int) -> str:
    """The date so many months later, counted one month at a time; "" outside of 1 to 9999."""
    year, month = date.year, date.month
    for _ in range(abs(months)):
        month += 1 if months > 0 else -1
        if month in (0, 13):
            year, month = (year - 1, 12) if month == 0 else (year + 1, 1)
    for day in range(date.day, 27, -1) if date.day > 28 else (date.day,):
        try:
            return dt.date(year, month, day).isoformat()
        except ValueError:
            if not 1 <= year <= 9999:
                return ""
    raise AssertionError(date)


def days_of(date: str) -> int:
    return (dt.date.fromisoformat(date) - EPOCH).days


DATES: Final = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
ENDS: Final = st.builds(
    lambda year, month, back: (
        dt.date(year + month // 12, month % 12 + 1, 1) - dt.timedelta(days=back)
    ),
    st.integers(1970, 9998), st.integers(0, 11), st.integers(1, 4),
)  # fmt: skip
"""The last days of months."""
