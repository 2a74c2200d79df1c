"""Convert the plain values of a test to canonical bytes and back, compare them, and read times and
spans as nanoseconds (spec/testing.md, T-4, T-5, T-6, T-13)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final, TypeAlias

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Ref, Slot, slot_bytes
from aos.errors import BadUsage, Erased, excerpt
from aos.manifest.effective import Effective
from aos.values.cbor import INGRESS_BYTES_MAX, decode_record, encode
from aos.values.digests import hash_text
from aos.values.errors import ValueProblem
from aos.values.foreign import from_foreign
from aos.values.schema import Schema
from aos.values.spelling import duration_ns, time_ns
from aos.worker.results import to_value

Time: TypeAlias = str | int | datetime
"""RFC 3339 text, nanoseconds since 1970, or a datetime with a time zone."""

Span: TypeAlias = str | int | timedelta
"""Text such as ``1m30s`` or ``30d``, or nanoseconds."""

DIFFERENCES_MAX: Final = 16

ERASED: Final = "$erased"
START: Final = "2024-01-01T00:00:00Z"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def canonical(schema: Schema, value: object, *, subject: str) -> bytes:
    """The canonical bytes of a plain value or of authoring JSON. Errors begin with ``subject``.

    Raises:
        BadUsage: It does not fit the schema in either form.
    """
    try:
        return schema.encode(schema.normalise(to_value(value)))
    except ValueProblem as problem:
        outcome = _authored(schema, value)
        if isinstance(outcome, bytes):
            return outcome
        # Of the two errors, the one deeper in the value helps more.
        worse = outcome if outcome.path.count(".") > problem.path.count(".") else problem
        raise BadUsage(
            f"this is not a valid {schema.name}: {worse}",
            location=subject,
            hint=f"given: {_excerpt_of(value)}",
        ) from problem


def _authored(schema: Schema, value: object) -> bytes | ValueProblem:
    try:
        return schema.encode(schema.from_json_object(_with_lists(value)))
    except ValueProblem as problem:
        return problem


def _with_lists(plain_value: object) -> object:
    """The value with tuples and sets as lists, as in JSON."""
    if isinstance(plain_value, Mapping):
        return {key: _with_lists(value) for key, value in plain_value.items()}
    if isinstance(plain_value, list | tuple | set | frozenset):
        return [_with_lists(element) for element in plain_value]
    return plain_value


def _excerpt_of(value: object) -> str:
    return excerpt(repr(value))


def plain(value: Slot, read: BlobReader) -> Any:
    """A value of the journal as a plain value.

    Bytes that are not canonical CBOR stay bytes: an ``agentos`` module may write such a state. An
    erased value is ``{"$erased": HASH}``.
    """
    try:
        data = slot_bytes(value, read)
    except Erased:
        assert isinstance(value, Ref)  # an inline value cannot be erased
        return {ERASED: hash_text(value.hash)}
    try:
        return decode_record(data)
    except ValueProblem:
        return data


def plain_state(value: Slot, read: BlobReader, manifest: Effective, workflow: str) -> Any:
    """A state of the journal as a plain value. The opaque one of an ``agentos`` module is read by
    its schema if it can be, else as ``plain`` does (AG-13)."""
    definition = manifest.workflows.get(workflow)
    if definition is not None and definition.has_opaque_state:
        with contextlib.suppress(Erased, ValueProblem):
            data = slot_bytes(value, read)
            bytes_max = max(len(data), INGRESS_BYTES_MAX)
            return from_foreign(definition.state, manifest.schemas, data, max_bytes=bytes_max)[1]
    return plain(value, read)


def plain_key(key: bytes) -> Any:
    return decode_record(key) if key else None


def payload_bytes(payload: object) -> bytes:
    """A stream frame's payload: bytes unchanged, any other value in canonical CBOR.

    Raises:
        BadUsage: It has no form in CBOR.
    """
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    try:
        return encode(to_value(payload))
    except ValueProblem as problem:
        raise BadUsage(f"not a plain value: {problem}", location="frame") from problem


class like:  # noqa: N801  # it reads as a word of the assertion: state == like({...})
    """Equal to every value that it describes (T-6)."""

    def __init__(self, pattern: object) -> None:
        self.pattern = pattern

    def __eq__(self, value: object) -> bool:
        return matches(self.pattern, value)

    __hash__ = None  # type: ignore[assignment]  # it equals many values, so it has no hash

    def __repr__(self) -> str:
        return f"like({self.pattern!r})"


def matches(pattern: object, value: object) -> bool:
    """Whether ``value`` matches ``pattern``, in dicts only by the keys of the pattern."""
    return next(mismatches(pattern, value), None) is None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A place where a value does not match a pattern, and the value found there."""

    path: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.actual}"


def mismatches(
    pattern: object, value: object, path: str = "$", *, exactly: bool = False
) -> Iterator[Mismatch]:
    """Where ``value`` does not match ``pattern``. ``exactly``: dicts must have the same keys."""
    if isinstance(pattern, like):
        yield from mismatches(pattern.pattern, value, path)
    elif isinstance(value, dict) and "$tag" in value and not _is_tagged(pattern):
        yield from _arm_mismatches(pattern, value, path, exactly=exactly)
    elif isinstance(pattern, Mapping) and isinstance(value, Mapping):
        for key, part in pattern.items():
            if key not in value:
                yield Mismatch(f"{path}.{key}", short_text(part), "no such key")
            else:
                yield from mismatches(part, value[key], f"{path}.{key}", exactly=exactly)
        for key in sorted(map(str, value.keys() - pattern.keys())) if exactly else ():
            yield Mismatch(f"{path}.{key}", "no such key", short_text(value[key]))
    elif isinstance(pattern, list | tuple) and isinstance(value, list | tuple):
        if len(pattern) != len(value):
            yield Mismatch(path, f"{len(pattern)} items", f"{len(value)}: {short_text(value)}")
            return
        for index, (part, element) in enumerate(zip(pattern, value, strict=True)):
            yield from mismatches(part, element, f"{path}[{index}]", exactly=exactly)
    # In Python True == 1, but they are different values.
    elif pattern != value or isinstance(pattern, bool) != isinstance(value, bool):
        yield Mismatch(path, short_text(pattern), short_text(value))


def holds_like(value: object) -> bool:
    """Whether it is a ``like``, or contains one in its lists and dicts."""
    if isinstance(value, Mapping):
        return any(map(holds_like, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_like, value))
    return isinstance(value, like)


def differences(pattern: object, value: object) -> list[Mismatch]:
    """Where ``pattern == value`` fails: at most ``DIFFERENCES_MAX`` places."""
    return list(islice(mismatches(pattern, value, exactly=True), DIFFERENCES_MAX))


def _is_tagged(pattern: object) -> bool:
    return isinstance(pattern, Mapping) and any(key in pattern for key in ("$tag", "$value"))


def _arm_mismatches(
    pattern: object, value: dict[Any, Any], path: str, *, exactly: bool
) -> Iterator[Mismatch]:
    """Compare a variant with a short form: ``"Arm"`` or ``{"Arm": pattern}``."""
    tag = value["$tag"]
    if isinstance(pattern, str):
        if pattern != tag:
            yield Mismatch(path, short_text(pattern), short_text(tag))
    elif isinstance(pattern, Mapping) and len(pattern) == 1:
        ((arm, inner),) = pattern.items()
        if arm == tag:
            yield from mismatches(inner, value.get("$value"), f"{path}.{arm}", exactly=exactly)
        else:
            yield Mismatch(path, f"arm {arm}", f"arm {tag}")
    elif not (isinstance(pattern, Mapping) and not pattern):
        yield Mismatch(path, short_text(pattern), short_text(value))


def short_text(value: object) -> str:
    """A value as one line of bounded length."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}…"


def read_time(time: Time) -> int:
    """Nanoseconds since 1970. Raises: BadUsage: It is not a time."""
    nanoseconds: int | None = None
    if isinstance(time, datetime):
        if time.tzinfo is not None:
            nanoseconds = (time - _EPOCH) // _MICROSECOND * 1_000
    elif isinstance(time, str):
        nanoseconds = time_ns(time)
    elif type(time) is int:
        nanoseconds = time
    if nanoseconds is None or not 0 <= nanoseconds < 2**63:
        raise BadUsage(
            "this is not a time",
            expected='RFC 3339 text ("2024-01-01T00:00:00Z"), ns since 1970, or a datetime '
            "with a zone",
            actual=repr(time),
        )
    return nanoseconds


def read_span(span: Span) -> int:
    """Nanoseconds. Raises: BadUsage: It is not a span of time, or is negative."""
    nanoseconds: int | None = None
    if isinstance(span, timedelta):
        nanoseconds = span // _MICROSECOND * 1_000
    elif isinstance(span, str):
        nanoseconds = duration_ns(span)
    elif type(span) is int:
        nanoseconds = span
    if nanoseconds is None or not 0 <= nanoseconds < 2**63:
        raise BadUsage(
            "this is not a span of time",
            expected='text such as "1m30s" or "30d", ns, or a timedelta, not negative',
            actual=repr(span),
        )
    return nanoseconds
