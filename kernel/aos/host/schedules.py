"""What a world's manifest has to do with its schedules (spec/schedule.md, SC-22 to SC-33).

The kernel knows nothing of schedules: these checks are made before its own, and the events are
like any other. Everything runs on the core's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from aos.core.decide.answers import Blocker, Refusal, Rule
from aos.core.decide.routing import route, shard_problem
from aos.core.journal.inputs import EventInput
from aos.core.journal.records import CellId, slot_bytes
from aos.core.kernel_protocol import CellView
from aos.core.limits import LIMITS
from aos.manifest.effective import ONLY_OWN_STEPS, Effective
from aos.manifest.schedule_setting import changes, check_set_value, set_value
from aos.manifest.schedules import DELETE, SCHEDULE, SET, ScheduleEntry, ScheduleInvalid
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash
from aos.values.errors import ValueProblem

Read: TypeAlias = Callable[[Hash], bytes]

EVENTS_MAX: Final = 32
"""Events that one step of a schedule emits at most (SC-10)."""

DOES_NOT_FIT: Final = "schedule_does_not_fit"
"""A schedule emits an event that does not fit the new manifest (SC-33)."""


def refused_schedule(manifest: Effective, schema: str, value: Any) -> Refusal | None:
    """Why a schedule must not be set or deleted by a sender with an event of ``schema``; None if it
    may (SC-22, SC-32)."""
    if any(schedule.id == value["id"] for schedule in manifest.schedules):
        return _refusal(f"{value['id']} is a schedule of the manifest in force (change it there)")
    if schema == DELETE:
        return None
    if value["by_manifest"]:
        return _refusal("by_manifest: only schedules of a manifest have it")
    try:
        _check(value, manifest)
        _check_ingress(value, manifest)
    except EventIsInternal as problem:
        return Refusal(rule=Rule.EVENT_IS_INTERNAL, message=f"{schema}: {problem}")
    except ScheduleInvalid as problem:
        return _refusal(f"{schema}: {problem}")
    return None


def refused_manifest(cells: Iterable[CellView], new: Effective, read: Read) -> Refusal | None:
    """Why a manifest must not come into force: a schedule of its own is invalid, or one that a user
    made emits what no longer fits (SC-33). ``cells`` are those of the workflow ``SCHEDULE``."""
    try:
        for entry in _own_schedules(new):
            _check(set_value(entry, new.schemas, new.plans, by_manifest=True), new)
    except ScheduleInvalid as problem:
        return Refusal(rule=Rule.MANIFEST_IS_INVALID, message=f"schedule {entry.id}: {problem}")
    blockers = tuple(schedule_blockers(cells, new, read))
    if not blockers:
        return None
    detail = "; ".join(blocker.detail for blocker in blockers[:3])
    return Refusal(rule=Rule.WORLD_IS_NOT_QUIESCENT, message=detail, blockers=blockers)


def schedule_blockers(cells: Iterable[CellView], new: Effective, read: Read) -> Iterator[Blocker]:
    """The schedules that users made and whose event does not fit a new manifest (SC-33)."""
    manifest_ids = {schedule.id for schedule in new.schedules}
    if SCHEDULE not in new.workflows:
        return
    for cell, value in _schedules(cells, read):
        if value["by_manifest"] or value["id"] in manifest_ids:
            continue
        try:
            _check(value, new)
            _check_ingress(value, new)
        except ScheduleInvalid as problem:
            yield Blocker(
                kind=DOES_NOT_FIT,
                cell=cell,
                detail=f"schedule {value['id']}: {problem} (delete the schedule, or give it "
                "another definition)",
            )


def schedule_events(
    manifest: Effective | None, cells: Iterable[CellView], read: Read
) -> list[EventInput]:
    """The events that bring the schedules of a world, in ``cells``, to those of its manifest
    (SC-30, SC-31). In a group, a shard has the schedules that are placed in it (GR-3)."""
    if manifest is None or SCHEDULE not in manifest.workflows:
        return []
    try:
        definitions = [
            set_value(schedule, manifest.schemas, manifest.plans, by_manifest=True)
            for schedule in _own_schedules(manifest)
        ]
    except ScheduleInvalid:
        return []  # ``refused_manifest`` keeps such a manifest out of this world
    to_set, to_delete = changes(definitions, (value for _, value in _schedules(cells, read)))
    event_values: list[tuple[str, Any]] = [(SET, definition) for definition in to_set]
    event_values += [(DELETE, {"id": id}) for id in to_delete]
    return [
        EventInput(schema=schema, value=manifest.schemas[schema].encode(value))
        for schema, value in event_values
    ]


def _own_schedules(manifest: Effective) -> list[ScheduleEntry]:
    """The schedules of a manifest that are in this world: in a group, those of its shard."""
    return [
        entry
        for entry in manifest.schedules
        if shard_problem(manifest, ((SCHEDULE, encode(entry.id)),)) is None
    ]


def _schedules(cells: Iterable[CellView], read: Read) -> Iterator[tuple[CellId, Any]]:
    """The cells of schedules, each with its definition."""
    for cell in cells:
        if cell.state is None:
            continue
        fields: Any = decode_record(slot_bytes(cell.state, read))
        if isinstance(fields, dict) and fields.get("set") is not None:
            yield cell.id, fields["set"]


def _check(value: Mapping[str, Any], manifest: Effective) -> None:
    """Check that the kernel will take the events of a schedule.

    Raises:
        ScheduleInvalid: It will not.
    """
    schema: str = value["event"]
    sample = check_set_value(value, manifest.schemas)
    bytes_max = manifest.limits.event_bytes
    if len(sample) > bytes_max:
        raise ScheduleInvalid(
            f"value: expected an event of at most {bytes_max} bytes, found {len(sample)}", "/value"
        )
    try:
        reached = route(manifest, manifest.schemas[schema], sample)
    except ValueProblem as problem:
        raise ScheduleInvalid(f"value: {schema}: {problem}", "/value") from problem
    far = shard_problem(manifest, reached)
    if far is not None:
        raise ScheduleInvalid(
            f"value: {schema}: {far} (a schedule emits events in its own shard)", "/value"
        )
    if len(reached) * EVENTS_MAX > LIMITS.deliveries:
        raise ScheduleInvalid(
            f"event: expected at most {LIMITS.deliveries // EVENTS_MAX} routes of {schema}, found "
            f"{len(reached)}",
            "/event",
        )


class EventIsInternal(ScheduleInvalid):
    """A sender defined a schedule that emits an event which is not open at ingress."""


def _check_ingress(value: Mapping[str, Any], manifest: Effective) -> None:
    """Check that a sender may define a schedule which emits this event.

    Raises:
        EventIsInternal: Only the world's own steps and the schedules of the manifest may emit it.
    """
    if not manifest.is_open(value["event"]):
        raise EventIsInternal(f"event: {value['event']} {ONLY_OWN_STEPS}", "/event")


def _refusal(message: str) -> Refusal:
    return Refusal(rule=Rule.EVENT_IS_INVALID, message=message)
