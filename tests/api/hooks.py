"""How schemathesis calls the API of a node. It runs in an environment of its own, which has
nothing of this project."""

from __future__ import annotations

from typing import Any

import schemathesis  # type: ignore[import-not-found]

WASM = b"\x00asm\x01\x00\x00\x00"
TRIPS = 5
WAIT_MS_MAX = 50
"""Waits are shortened: most of what random requests wait for never comes."""


@schemathesis.serializer("application/wasm")  # type: ignore[untyped-decorator]
def wasm(_context: Any, value: Any) -> bytes:
    """A module is bytes: the schema says no more about it."""
    return WASM + repr(value).encode("utf-8", "surrogatepass")


@schemathesis.hook  # type: ignore[untyped-decorator]
def before_call(_context: Any, case: Any, _arguments: Any) -> None:
    """Shorten waits, and let some requests name what the world has."""
    shorten(case.query, "timeout_ms")
    shorten(case.body, "wait_ms")
    if case.path == "/v1/cell" and names_cell(case.query):
        case.query |= {"workflow": "trip/booking@1", "key": f"t-{len(case.query['key']) % TRIPS}"}
    if case.path == "/v1/events" and is_event(case.body):
        trip = f"t-{len(repr(case.body)) % TRIPS}"
        case.body |= {"schema": "trip/Requested@1", "value": {"trip_id": trip, "city": "Lisbon"}}


def shorten(given: Any, name: str) -> None:
    """Shorten the wait that a query or a body may have."""
    if isinstance(given, dict) and type(given.get(name)) is int and given[name] > WAIT_MS_MAX:
        given[name] %= WAIT_MS_MAX


def names_cell(query: Any) -> bool:
    """Whether a query fits the document, and names a cell: then it does so also with another."""
    return (
        isinstance(query, dict)
        and set(query) == {"workflow", "key"}
        and all(isinstance(each, str) and 0 < len(each) <= 512 for each in query.values())
    )


def is_event(body: Any) -> bool:
    """Whether a body fits the document: then it does so also as another event."""
    return (
        isinstance(body, dict)
        and {"schema", "value"} <= set(body) <= {"schema", "value", "submission_id"}
        and isinstance(body["schema"], str)
        and 0 < len(body["schema"]) <= 512
        and isinstance(body.get("submission_id"), str | None)
    )
