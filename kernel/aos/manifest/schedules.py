"""Schedules, as a manifest has them and as a user creates them, and the names of their package
(M-75; spec/schedule.md).

Times are RFC 3339 texts and milliseconds here, and nanoseconds in events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from aos.errors import BadUsage, excerpt
from aos.manifest.limits import Range
from aos.manifest.names import SYSTEM
from aos.values.spelling import time_ns

SCHEDULE_PACKAGE: Final = "aos/schedule@1"

SCHEDULE: Final = "aos/schedule@1"
"""The workflow of schedules."""

SET: Final = "aos/ScheduleSet@1"
PAUSE: Final = "aos/SchedulePause@1"
RESUME: Final = "aos/ScheduleResume@1"
TRIGGER: Final = "aos/ScheduleTrigger@1"
DELETE: Final = "aos/ScheduleDelete@1"

SENT_TO_SCHEDULES: Final = frozenset({SET, PAUSE, RESUME, TRIGGER, DELETE})
"""Events of senders, and those that set the schedules of a manifest (spec/schedule.md, SC-30)."""

NOT_SCHEDULED: Final = (SYSTEM, "aos/Schedule")
"""Beginnings of schemas that a schedule cannot emit."""

CATCHUP_MS_DEFAULT: Final = 3_600_000

ID_BYTES_MAX: Final = 200
_YEAR_MS: Final = 366 * 86_400_000
RANGES: Final[Mapping[str, Range]] = {
    "every_ms": Range(low=1_000, high=_YEAR_MS),
    "catchup_ms": Range(low=0, high=_YEAR_MS),
    "jitter_ms": Range(low=0, high=86_400_000),
    "version": Range(low=1, high=2**53),
}
OVERLAPS: Final = ("allow", "skip")
_TEXTS: Final = ("cron", "tz", "event", "at_field", "plan")
_TIMES: Final = ("start", "end")
_OBJECTS: Final = ("value", "context")
_OF_EVENTS: Final = ("value", "at_field")
_OF_PLANS: Final = ("version", "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
    """One schedule. It has ``cron`` (with ``tz``) or ``every_ms``, and ``event`` (with ``value``
    and ``at_field``) or ``plan`` (with ``version`` and ``context``)."""

    id: str
    cron: str | None = None
    tz: str = "UTC"
    every_ms: int | None = None
    start: str | None = None
    end: str | None = None
    catchup_ms: int = CATCHUP_MS_DEFAULT
    overlap: str = "allow"
    jitter_ms: int = 0
    paused: bool = False
    event: str | None = None
    value: Mapping[str, Any] = field(default_factory=dict, hash=False)
    at_field: str | None = None
    plan: str | None = None
    version: int | None = None
    context: Mapping[str, Any] = field(default_factory=dict, hash=False)


FIELDS: Final = tuple(entry_field.name for entry_field in fields(ScheduleEntry))


class ScheduleInvalid(BadUsage):
    """A text or value is not a schedule, or does not fit the manifest. ``pointer`` is where."""

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


def schedule_of(node: object) -> ScheduleEntry:
    """Read a schedule as a manifest has it, canonical or not, or as a user wrote it.

    Raises:
        ScheduleInvalid: It is not one.
    """
    for pointer, message in schedule_problems(node):
        raise ScheduleInvalid(message, pointer)
    assert isinstance(node, Mapping)
    return schedule_in_form(node)


def schedule_in_form(node: Mapping[str, Any]) -> ScheduleEntry:
    """As ``schedule_of``, for a node without problems."""
    return ScheduleEntry(**{name: node[name] for name in FIELDS if name in node})


def schedule_node(entry: ScheduleEntry) -> dict[str, Any]:
    """The canonical node: without fields that have their default."""
    default = ScheduleEntry(id="")
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name in FIELDS
        if (value := getattr(entry, name)) != getattr(default, name)
    }


def schedule_problems(node: object) -> Iterator[tuple[str, str]]:
    """(pointer, message) of what keeps a node from being a schedule."""
    if not isinstance(node, Mapping):
        yield "", f"expected a schedule, found {excerpt(repr(node))}"
        return
    for name in node:
        if name not in FIELDS:
            yield "", f"unknown field {excerpt(str(name))}: known are {', '.join(FIELDS)}"
    id = node.get("id")
    if not isinstance(id, str) or not 1 <= _bytes_of_text(id) <= ID_BYTES_MAX:
        yield "/id", f"id: expected 1 to {ID_BYTES_MAX} bytes, found {excerpt(repr(id))}"
    yield from _shapes(node)
    yield from _either(node, ("cron", "every_ms"), {"cron": ("tz",)})
    yield from _either(node, ("event", "plan"), {"event": _OF_EVENTS, "plan": _OF_PLANS})


def _shapes(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, allowed in RANGES.items():
        actual = node.get(name, allowed.low)
        if not isinstance(actual, int) or isinstance(actual, bool) or actual not in allowed:
            expected = f"{allowed.low} to {allowed.high}"
            yield f"/{name}", f"{name}: expected {expected}, found {excerpt(repr(actual))}"
    for name in _TEXTS:
        actual = node.get(name, "")
        if not isinstance(actual, str) or _bytes_of_text(actual) > 256:
            expected = "text of at most 256 bytes"
            yield f"/{name}", f"{name}: expected {expected}, found {excerpt(repr(actual))}"
    for name in _TIMES:
        actual = node.get(name, "1970-01-01T00:00:00Z")
        ns = time_ns(actual) if isinstance(actual, str) else None
        if ns is None or not 0 <= ns < 2**63:
            expected = "a time such as 2026-12-01T00:00:00Z"
            yield f"/{name}", f"{name}: expected {expected}, found {excerpt(repr(actual))}"
    for name in _OBJECTS:
        if not isinstance(node.get(name, {}), Mapping):
            yield f"/{name}", f"{name}: expected an object, found {excerpt(repr(node[name]))}"
    if node.get("overlap", "allow") not in OVERLAPS:
        actual = excerpt(repr(node["overlap"]))
        yield "/overlap", f"overlap: expected {' or '.join(OVERLAPS)}, found {actual}"
    if not isinstance(node.get("paused", False), bool):
        actual = excerpt(repr(node["paused"]))
        yield "/paused", f"paused: expected true or false, found {actual}"


def _either(
    node: Mapping[str, Any], pair: tuple[str, str], belong: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    present = [name for name in pair if node.get(name) is not None]
    if len(present) != 1:
        actual = " and ".join(present) or "neither"
        yield "", f"expected either {pair[0]} or {pair[1]}, found {actual}"
        return
    for owner, names in belong.items():
        for name in names:
            if owner not in present and name in node:
                yield f"/{name}", f"{name} goes with {owner}, not with {present[0]}"


def _bytes_of_text(text: str) -> int:
    """Bytes of UTF-8; too many where it is none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 2**31
