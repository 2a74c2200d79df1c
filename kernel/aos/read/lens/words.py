"""Format times, time spans and short JSON for people (spec/audit.md, A-4), and recorded bytes as
JSON, by their schema if they fit it: nothing there raises.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Final

from aos.values.cbor import INGRESS_BYTES_MAX, decode_record
from aos.values.codec import JsonForm
from aos.values.errors import ValueProblem
from aos.values.foreign import decode_foreign, from_foreign
from aos.values.schema import Schema, untyped_to_json

SECOND: Final = 1_000_000_000
FAR_NS: Final = 86_400 * SECOND
"""A time that is at least this far away is named before the span until it, in nanoseconds."""

_YEAR_10000: Final = 253_402_300_800 * SECOND
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def time_text(ns: int) -> str:
    """Return a time in RFC 3339, UTC, with milliseconds; beyond year 9999 the plain number."""
    if not 0 <= ns < _YEAR_10000:
        return f"{ns} ns"
    seconds, fraction_ns = divmod(ns, SECOND)
    return (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        + f".{fraction_ns // 1_000_000:03}Z"
    )


def span_text(ns: int) -> str:
    """Return a time span with about two significant digits: ``850 us``, ``3.2 s``, ``2 h 5
    min``."""
    if ns < 0:
        return "-" + span_text(-ns)
    if ns < 1_000_000:
        return f"{ns // 1_000} us"
    if ns < SECOND:
        return f"{ns // 1_000_000} ms"
    seconds = ns // SECOND
    if seconds < 60:
        return f"{seconds}.{ns % SECOND // 100_000_000} s" if seconds < 10 else f"{seconds} s"
    parts = []
    for size, name in _SPANS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}")
    if seconds:
        parts.append(f"{seconds} s")
    return " ".join(parts[:2])


def short(value: object, length_max: int = 72) -> str:
    """Return compact JSON, cut after ``length_max`` characters."""
    text = value if isinstance(value, str) else compact(value)
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def name_cell(workflow: str, key: object) -> str:
    """Return a cell's name as text, such as ``shop/order@1 ord-1``."""
    return workflow if key is None else f"{workflow} {short(key, 40)}"


def one_line(text: str) -> str:
    """Return a text of several lines on one line."""
    return " ".join(text.split())


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def key_text(key: object) -> str:
    """Return a cell's key as text: a text key itself, any other as JSON."""
    return key if isinstance(key, str) else compact(key)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 step``, ``2 steps``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def as_json(
    schema: Schema | None, data: bytes, *, is_ingress: bool = False, for_people: bool = False
) -> object:
    """Return bytes as JSON: by the schema if they fit it, else as plain CBOR, else as raw bytes."""
    try:
        if schema is not None:
            if is_ingress:
                data = schema.from_ingress(data, max_bytes=max(len(data), INGRESS_BYTES_MAX))
            form = JsonForm.PEOPLE if for_people else JsonForm.TEXTS
            return schema.to_json(schema.completed_value(data), form=form)
        return untyped_to_json(decode_record(data))
    except ValueProblem:
        if schema is not None:
            return as_json(None, data)
        return untyped_to_json(data)


def opaque_as_json(schema: Schema, schemas: Mapping[str, Schema], data: bytes) -> object:
    """Return an unchecked state as JSON: by the schema if it can be read so, else as plain CBOR,
    else as raw bytes."""
    bytes_max = max(len(data), INGRESS_BYTES_MAX)
    try:
        value = from_foreign(schema, schemas, data, max_bytes=bytes_max)[1]
        return schema.to_json(value, form=JsonForm.TEXTS)
    except ValueProblem:
        pass
    try:
        return untyped_to_json(decode_foreign(data, max_bytes=bytes_max, shows_floats=True))
    except ValueProblem:
        return untyped_to_json(data)
