"""The events and times of an author's schedules, checked when the manifest is loaded (M-75b).

A manifest that a journal has is not checked so: the rules of time zones may have changed since.
"""

from __future__ import annotations

from aos.manifest.catalog import Catalog, Findings, Node
from aos.manifest.expressions import closure
from aos.manifest.linear_names import START
from aos.manifest.plans import plan_of, plan_problems
from aos.manifest.schedule_setting import set_value
from aos.manifest.schedules import ScheduleEntry, ScheduleInvalid, schedule_of, schedule_problems
from aos.values.schema import Schema, compile_schemas


def schedules_fit(manifest: Node, catalog: Catalog) -> Findings:
    """Every schedule whose event, plan, cron text or time zone does not fit (M-75b)."""
    plans = tuple(
        plan_of(plan) for plan in manifest.get("plans", ()) if not list(plan_problems(plan))
    )
    for index, node in enumerate(manifest.get("schedules", ())):
        if list(schedule_problems(node)):
            continue
        try:
            entry = schedule_of(node)
            set_value(entry, _schemas(entry, catalog), plans)
        except ScheduleInvalid as problem:
            yield f"/schedules/{index}{problem.pointer}", str(problem), None


def _schemas(entry: ScheduleEntry, catalog: Catalog) -> dict[str, Schema]:
    """The schema of its event, as far as it is valid."""
    name = START if entry.event is None else entry.event
    if not catalog.is_sound(name):
        return {}
    names = closure([name], catalog.types)
    return compile_schemas({schema_name: catalog.types[schema_name] for schema_name in names})
