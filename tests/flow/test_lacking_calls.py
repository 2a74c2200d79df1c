"""The interpreter fails, or gives another result, for each call that the reader refuses, and the
remedies have the results of CPython (PF-34, PF-35)."""

from __future__ import annotations

from typing import Any, Final

from aos.author.python.lacking_calls import LACKING_OPTIONS, UNKNOWN_ENCODINGS
from tests.flow.interpreter_attributes import output_with

HEAD: Final = """
import json
import re
from datetime import date, datetime, timedelta, timezone


def after(change):
    values = {1, 2}
    change(values)
    return sorted(values)


def joined(values):
    values |= {3}


def extended(values):
    values = [1]
    values += (2,)


def state(action):
    try:
        return repr(action())
    except Exception as problem:
        return type(problem).__name__

"""

OTHER: Final = (
    "bytes([1])",
    "bytes(range(3))",
    "next(v for v in [1])",
    "next(map(str, [1]))",
    "set().union([1], [2])",
    "after(joined)",
    "after(extended)",
    "re.sub('a', lambda match: 'b', 'a')",
    "re.compile('a').match('ba', 1) is None",
    "re.compile('a').search('ba', 1) is None",
    "timedelta(seconds=1.5)",
    "int('\u0663')",
    "round(2.675, 2)",
    "date.fromisoformat('20240131')",
    "datetime.strptime('2024', '%Y')",
    "timedelta(days=1) * 1.5",
    "{1: 'a', True: 'b'}",
    "pow(3, -1, 7)",
    "hasattr('a', 'upper')",
    *(f"'a'.encode('{name}')" for name in UNKNOWN_ENCODINGS),
    *(
        f"{function}('1', {name}=None)"
        for function, names in LACKING_OPTIONS.items()
        for name in names
    ),
)
"""Expressions whose results differ."""

SAME: Final = (
    'bytes.fromhex("".join(f"{number:02x}" for number in [0, 10, 255]))',
    "next(iter([v for v in [1, 2] if v > 5]), None)",
    '[len(f"{abs(number):b}".lstrip("0")) for number in (0, 1, 255, -256)]',
    '[f"{abs(number):b}".count("1") for number in (0, 1, 255, -256)]',
    '[int(data.hex() or "0", 16) for data in (b"", b"\\x01\\x02")]',
    'bytes.fromhex(f"{258:0{2 * 3}x}")',
    '"".join({"a": "b"}.get(char, char) for char in "abc")',
    '[number % 1 == 0 for number in (1.5, 2.0, float("inf"))]',
    "date.min + timedelta(days=738886 - 1)",
    "(date(2024, 1, 2) - date.min).days + 1",
    "datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=1700000000)",
    'date(2024, 1, 2).strftime("%G %V %u")',
    "re.sub('(?x) a  # c', 'b', 'aaa')",
    "sorted(['B', 'a'], key=lambda text: text.lower())",
    "timedelta(milliseconds=1500)",
    "after(lambda values: values.update({3}))",
)
"""Remedies."""


def in_a_world(*texts: str) -> list[str]:
    probes = "\n".join(f"    (lambda: {text},)," for text in texts)
    return list(output_with(f"{HEAD}\nPROBES = [\n{probes}\n]\n"))


def under_cpython(*texts: str) -> list[str]:
    namespace: dict[str, Any] = {}
    exec(HEAD, namespace)  # our own text
    return [namespace["state"](eval(f"lambda: {text}", namespace)) for text in texts]


def test_calls_that_are_refused_differ_and_remedies_do_not() -> None:
    results = in_a_world(*OTHER, *SAME)
    expected = under_cpython(*OTHER, *SAME)

    equal = [
        text
        for text, one, other in zip((*OTHER, *SAME), results, expected, strict=True)
        if one == other
    ]
    assert equal == list(SAME)
