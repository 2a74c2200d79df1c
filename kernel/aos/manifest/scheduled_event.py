"""A schedule -> an event that it emits (M-75; spec/schedule.md, SC-24)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.errors import excerpt
from aos.manifest.names import LINEAR, LINEAR_PACKAGE, START
from aos.manifest.plans import LinearRefused, StepPlan, chosen_plan, context_of, start_event
from aos.manifest.schedules import NOT_SCHEDULED, ScheduleEntry, ScheduleInvalid
from aos.manifest.sealed_places import is_sealing, sealing_problem
from aos.values.cbor import Value, decode_record, encode
from aos.values.errors import ValueProblem
from aos.values.schema import Schema

_SAMPLE: Final = "2026-01-01T00:00:00.000000000Z"
"""The longest text that a due time becomes."""


def sample_event(
    entry: ScheduleEntry, schemas: Mapping[str, Schema], plans: tuple[StepPlan, ...]
) -> tuple[str, bytes]:
    """The schema of the event that a schedule emits, and one such event in canonical CBOR. Its cron
    text is not checked.

    Raises:
        ScheduleInvalid: Its event or plan does not fit.
    """
    event, event_fields, at_field = emitted_fields(entry, schemas, plans)
    return event, sample_of(schemas[event], entry.id, event_fields, at_field)


def sample_of(
    schema: Schema, id: str, event_fields: Mapping[str, bytes], at_field: str | None
) -> bytes:
    """An event as the schedule ``id`` emits it, in canonical CBOR; ``event_fields`` are canonical
    CBOR, without the one for the due time, which is ``at_field``.

    Raises:
        ScheduleInvalid: It is no event of the schema.
    """
    try:
        emitted: dict[str | int, Value] = {
            name: decode_record(data) for name, data in event_fields.items()
        }
        if at_field is not None:
            emitted[at_field] = f"{id}@{_SAMPLE}"
        sample = encode(emitted)
        schema.from_record(sample)
    except ValueProblem as problem:
        raise ScheduleInvalid(f"value: {schema.name}: {problem}", "/value") from problem
    return sample


def event_schema_of(event: str, schemas: Mapping[str, Schema]) -> Schema:
    """The schema of an event that a schedule may emit. Raises ScheduleInvalid."""
    if event.startswith(NOT_SCHEDULED):
        raise ScheduleInvalid(f"event: a schedule cannot emit {excerpt(event)}", "/event")
    if event not in schemas:
        raise ScheduleInvalid(f"event: the manifest has no schema {excerpt(event)}", "/event")
    return schemas[event]


def emitted_fields(
    entry: ScheduleEntry, schemas: Mapping[str, Schema], plans: tuple[StepPlan, ...]
) -> tuple[str, dict[str, bytes], str | None]:
    """The schema of the event, its fields as canonical CBOR, and the field for the due time.

    Raises:
        ScheduleInvalid: Its event or plan does not fit.
    """
    if entry.plan is not None:
        return START, _started(entry, entry.plan, schemas, plans), "instance"
    assert entry.event is not None
    schema = event_schema_of(entry.event, schemas)
    event_fields = dict(entry.value)
    if entry.at_field is not None:
        if entry.at_field in event_fields:
            raise ScheduleInvalid(
                f"at_field: {entry.at_field} is the due time, and value has it too", "/at_field"
            )
        event_fields[entry.at_field] = f"{entry.id}@{_SAMPLE}"
    try:
        if is_sealing(schemas):
            unsealed = sealing_problem(schema, event_fields, schemas)
            if unsealed is not None:
                raise unsealed
        data = schema.encode(schema.from_json_object(event_fields))
    except ValueProblem as problem:
        raise ScheduleInvalid(f"value: {entry.event}: {problem}", "/value") from problem
    return entry.event, _record_fields(data, entry.at_field), entry.at_field


def _started(
    entry: ScheduleEntry, plan: str, schemas: Mapping[str, Schema], plans: tuple[StepPlan, ...]
) -> dict[str, bytes]:
    if START not in schemas:
        raise ScheduleInvalid(
            f'plan: the manifest has no {LINEAR} (add "{LINEAR_PACKAGE}" to its uses)', "/plan"
        )
    try:
        step_plan = chosen_plan(plans, plan, entry.version)
    except LinearRefused as problem:
        raise ScheduleInvalid(str(problem), "/plan") from problem
    try:
        context = context_of(entry.context)
        _, start = start_event(step_plan, f"{entry.id}@{_SAMPLE}", context, schedule=entry.id)
    except (LinearRefused, ValueProblem) as problem:
        raise ScheduleInvalid(str(problem), "/context") from problem
    value: Any = start
    return _record_fields(schemas[START].encode(value), "instance")


def _record_fields(data: bytes, without: str | None) -> dict[str, bytes]:
    record = decode_record(data)
    if not isinstance(record, dict):
        raise ScheduleInvalid("event: expected one that is a record", "/event")
    return {str(name): encode(value) for name, value in record.items() if name != without}
