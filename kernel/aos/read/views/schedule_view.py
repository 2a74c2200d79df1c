"""Schedules as documents (spec/schedule.md, SC-40)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.core.journal.records import slot_bytes
from aos.core.state.cell import Cell
from aos.errors import Refused
from aos.manifest.schedule_setting import must_have_schedules
from aos.manifest.schedules import SCHEDULE
from aos.read.lens.words import as_json, time_text
from aos.read.views.cell_view import Annotation
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.values.cbor import Value, decode_record, encode
from aos.values.schema import Schema

NEXT_SHOWN: Final = 5
_MS: Final = 10**6
_LAST_NS: Final = 2**63 - 1
"""The last time that a schedule can have, in the year 2262."""


def refusal_of(answer: Annotation) -> str | None:
    """Why a schedule refused an event; None if it did what was asked."""
    return None if answer.tag != "Refused" else str(answer.value["detail"])


def schedules(view: View) -> Document:
    """All schedules, by id.

    Raises:
        BadUsage: The manifest in force has no schedules.
    """
    _must_have(view)
    documents = (_document(view, cell) for cell in view.state.cells.of(SCHEDULE))
    return {
        "schedules": sorted(
            (document for document in documents if document),
            key=lambda document: str(document["id"]),
        )
    }


def schedule(view: View, id: str) -> Document:
    """One schedule: its definition, its next times, and its last runs.

    Raises:
        BadUsage: As ``schedules``.
        Refused: There is no such schedule.
    """
    _must_have(view)
    cell = view.state.cells.get((SCHEDULE, encode(id)))
    document = None if cell is None else _document(view, cell)
    if document is None:
        raise Refused(f"there is no schedule {id!r} (aos schedule list)")
    return document


def _must_have(view: View) -> None:
    manifest = view.state.manifest
    must_have_schedules({} if manifest is None else manifest.workflows)


def _document(view: View, cell: Cell) -> Document | None:
    if cell.state is None:
        return None
    state: Any = decode_record(slot_bytes(cell.state, view.journal.blob))
    manifest = view.state.manifest
    schemas = {} if manifest is None else manifest.schemas
    return schedule_document(state, schemas, is_failed=cell.fault is not None)


def schedule_document(
    state: Any, schemas: Mapping[str, Schema], *, is_failed: bool = False
) -> Document | None:
    """The document of a schedule's state; None if it is not set. ``schemas`` are those of the
    manifest in force, which show the value of its event."""
    set_ = state["set"]
    if set_ is None:
        return None
    return {
        "id": set_["id"],
        "by_manifest": set_["by_manifest"],
        **_rule_document(set_["when"]),
        "start": _time(set_["start"]),
        "end": _time(set_["end"]),
        "catchup_ms": set_["catchup"] // _MS,
        "overlap": set_["overlap"]["$tag"],
        "jitter_ms": set_["jitter"] // _MS,
        "event": set_["event"],
        "value": _value(set_, schemas),
        "at_field": set_["at_field"],
        "paused": state["paused"],
        "failed": is_failed,
        "problem": state["problem"],
        "next": [] if state["paused"] or is_failed else [_time(due_ns) for due_ns in _next(state)],
        "waits_for_end": state["running"],
        **{name: state[name] for name in ("runs", "made_up", "skipped", "overlapped")},
        "recent": [
            {"due": _time(run["due"]), "at": _time(run["at"]), "kind": run["kind"]["$tag"]}
            for run in state["recent"]
        ],
        "tzdata": state["tzdata"],
    }


def _value(set_: Mapping[str, Any], schemas: Mapping[str, Schema]) -> object:
    """The fields of the event, without the one that each time fills in."""
    fields: dict[str | int, Value] = {
        name: decode_record(data) for name, data in set_["value"].items()
    }
    at_field = set_["at_field"]
    filled = fields if at_field is None else fields | {at_field: ""}
    json_value = as_json(schemas.get(set_["event"]), encode(filled))
    if isinstance(json_value, dict) and at_field not in fields:
        json_value.pop(at_field, None)
    return json_value


def _rule_document(variant: Mapping[str, Any]) -> Document:
    rule = variant["$value"]
    if variant["$tag"] == "Cron":
        return {"cron": rule["cron"], "tz": rule["tz"], "every_ms": None}
    return {"cron": None, "tz": None, "every_ms": rule["interval"] // _MS}


def _next(state: Any) -> list[int]:
    """The next five times: those that the schedule knows, and more by the same rule."""
    if state["problem"] is not None:
        return []
    stored_times: list[int] = list(state["next"])
    set_, missing = state["set"], NEXT_SHOWN - len(stored_times)
    after_ns = stored_times[-1] if stored_times else state["after"]
    rule = set_["when"]["$value"]
    if missing <= 0:
        later_times = []
    elif set_["when"]["$tag"] == "Cron":
        # Calendars are slow to import, and only these documents need one.
        from aos.manifest.cron_times import CronProblem, next_times  # noqa: PLC0415

        try:
            later_times = next_times(rule["cron"], rule["tz"], after_ns, missing)
        except CronProblem:
            later_times = []
    else:
        origin, interval = set_["start"] or 0, rule["interval"]
        first = origin + ((after_ns - origin) // interval + 1) * interval
        every = (first + index * interval for index in range(missing))
        later_times = [due_ns for due_ns in every if due_ns <= _LAST_NS]
    times = [*stored_times, *later_times]
    return [due_ns for due_ns in times if set_["end"] is None or due_ns <= set_["end"]][:NEXT_SHOWN]


def _time(ns: int | None) -> str | None:
    return None if ns is None else time_text(ns)
