"""A schedule -> the event that sets it, checked by the schemas of a manifest (M-75b, SC-22,
SC-23)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aos.manifest.catalog import Catalog, Findings, Node
from aos.manifest.expressions import closure
from aos.manifest.names import START
from aos.manifest.plans import (
    StepPlan,
    plan_of,
    plan_problems,
)
from aos.manifest.scheduled_event import emitted_fields, event_schema_of, sample_of
from aos.manifest.schedules import (
    SCHEDULE,
    SCHEDULE_PACKAGE,
    ScheduleEntry,
    ScheduleInvalid,
    schedule_of,
    schedule_problems,
)
from aos.values.schema import Schema, compile_schemas
from aos.values.spelling import time_ns

VALUE_BYTES_MAX: Final = 256 << 10
_MS: Final = 10**6


def must_have_schedules(workflows: Mapping[str, object]) -> None:
    """Raise ScheduleInvalid if a manifest has no schedules."""
    if SCHEDULE not in workflows:
        raise ScheduleInvalid(
            "the manifest in force has no schedules "
            f'(add "uses": ["{SCHEDULE_PACKAGE}"] to it and apply it)'
        )


def set_value(
    entry: ScheduleEntry,
    schemas: Mapping[str, Schema],
    plans: tuple[StepPlan, ...],
    *,
    by_manifest: bool = False,
) -> dict[str, Any]:
    """The value of the event ``aos/ScheduleSet@1`` for a schedule.

    Raises:
        ScheduleInvalid: Its event, plan, cron text or time zone does not fit.
    """
    event, value, at_field = emitted_fields(entry, schemas, plans)
    event_value: dict[str, Any] = {
        "id": entry.id,
        "when": {"$tag": "Every", "$value": {"interval": (entry.every_ms or 0) * _MS}}
        if entry.cron is None
        else {"$tag": "Cron", "$value": {"cron": entry.cron, "tz": entry.tz}},
        "start": None if entry.start is None else time_ns(entry.start),
        "end": None if entry.end is None else time_ns(entry.end),
        "catchup": entry.catchup_ms * _MS,
        "overlap": {"$tag": entry.overlap},
        "jitter": entry.jitter_ms * _MS,
        "paused": entry.paused,
        "by_manifest": by_manifest,
        "event": event,
        "value": value,
        "at_field": at_field,
    }
    check_set_value(event_value, schemas)
    return event_value


def check_set_value(value: Mapping[str, Any], schemas: Mapping[str, Schema]) -> bytes:
    """Check the value of an event ``aos/ScheduleSet@1`` by the schemas of a manifest.

    Returns:
        An event as the schedule will emit it, in canonical CBOR.

    Raises:
        ScheduleInvalid: What it emits does not fit, or its cron text has no times.
    """
    schema = event_schema_of(value["event"], schemas)
    if sum(map(len, value["value"].values())) > VALUE_BYTES_MAX:
        raise ScheduleInvalid(f"value: expected at most {VALUE_BYTES_MAX} bytes", "/value")
    sample = sample_of(schema, value["id"], value["value"], value["at_field"])
    _check_calendar(value["when"])
    return sample


def _check_calendar(calendar: Mapping[str, Any]) -> None:
    if calendar["$tag"] != "Cron":
        return
    # Calendars are slow to import, and few commands need one.
    from aos.manifest.cron_times import ZONE_UNKNOWN, CronProblem, next_times  # noqa: PLC0415

    cron_fields = calendar["$value"]
    try:
        next_times(cron_fields["cron"], cron_fields["tz"], 0, 1)
    except CronProblem as problem:
        at = "tz" if problem.code == ZONE_UNKNOWN else "cron"
        raise ScheduleInvalid(f"{at}: {problem.message}", f"/{at}") from problem


def changes(
    manifest_schedules: Iterable[Mapping[str, Any]], world_schedules: Iterable[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Compare the schedules of a manifest with those of a world (SC-31).

    Both are values of ``aos/ScheduleSet@1``. Returns those to set, and the ids to delete.
    """
    existing = {schedule["id"]: schedule for schedule in world_schedules}
    declared = {schedule["id"]: schedule for schedule in manifest_schedules}
    return (
        [schedule for id, schedule in declared.items() if existing.get(id) != schedule],
        [id for id, schedule in existing.items() if schedule["by_manifest"] and id not in declared],
    )


def schedules_fit(manifest: Node, catalog: Catalog) -> Findings:
    """Every schedule whose event, plan, cron text or time zone does not fit (M-75b), checked when
    an author's manifest is loaded.

    A manifest that a journal has is not checked so: the rules of time zones may have changed since.
    """
    plans = tuple(
        plan_of(plan) for plan in manifest.get("plans", ()) if not list(plan_problems(plan))
    )
    for index, node in enumerate(manifest.get("schedules", ())):
        if list(schedule_problems(node)):
            continue
        try:
            entry = schedule_of(node)
            set_value(entry, _catalog_schemas(entry, catalog), plans)
        except ScheduleInvalid as problem:
            yield f"/schedules/{index}{problem.pointer}", str(problem), None


def _catalog_schemas(entry: ScheduleEntry, catalog: Catalog) -> dict[str, Schema]:
    """The schema of its event, as far as it is valid."""
    name = START if entry.event is None else entry.event
    if not catalog.is_sound(name):
        return {}
    names = closure([name], catalog.types)
    return compile_schemas({schema_name: catalog.types[schema_name] for schema_name in names})
