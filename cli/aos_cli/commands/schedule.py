"""``aos schedule``: events at the times of a calendar (spec/cli.md, C-103 to C-105)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from aos.core.journal.records import CellId
from aos.errors import BadUsage, Refused
from aos.manifest.schedule_setting import must_have_schedules, set_value
from aos.manifest.schedules import DELETE, PAUSE, RESUME, SCHEDULE, SET, TRIGGER, schedule_of
from aos.read.lens.words import compact, count, span_text
from aos.read.operations.schedule_reads import READ_SCHEDULE, READ_SCHEDULES
from aos.read.views import schedule_view
from aos.read.views.record_view import Document
from aos.values.cbor import encode
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json
from aos_cli.cell_answers import ask
from aos_cli.open_view import looking_at
from aos_cli.options import (
    DEFAULT_WORLD,
    Json,
    NodeUrl,
    World,
    argument,
    client_of,
    flag,
    number,
    option,
    span,
)
from aos_cli.output import line, note, print_json
from aos_cli.reading_command import printed
from aos_cli.world_reading import reading_of

VALUE_BYTES_MAX: Final = 1 << 20
_MS: Final = 10**6

_COMMAND_SCHEMAS = {"pause": PAUSE, "resume": RESUME, "trigger": TRIGGER, "delete": DELETE}

Id = Annotated[str, argument("ID", "The id of the schedule.")]


@dataclass(frozen=True, slots=True)
class ScheduleWorld:
    """The schedules in the world of a folder or of a node. ``node`` None: the world of the folder
    ``world``.

    Every method raises Refused with the words of the schedule if that refuses, and as the folder
    or the client otherwise.
    """

    world: Path
    node: str | None

    def schedule(self, id: str) -> Document:
        """One schedule; see ``schedule_view.schedule``."""
        return reading_of(self.world, self.node).document(READ_SCHEDULE, {"id": id})

    def create(self, definition: Mapping[str, Any], *, replace: bool) -> tuple[int, bool]:
        """Set a schedule, as a manifest has it; return the record, and whether it has answered."""
        if self.node is not None:
            with client_of(self.node) as client:
                answer = client.schedule("create", **definition, replace=replace or None)
            return answer["seq"], True
        entry = schedule_of(definition)
        with looking_at(self.world) as view:
            manifest = view.state.manifest
            must_have_schedules({} if manifest is None else manifest.workflows)
            assert manifest is not None
            value = set_value(entry, manifest.schemas, manifest.plans)
            if not replace and view.state.cells.get(_schedule_cell(entry.id)) is not None:
                raise Refused(
                    f"there is a schedule {entry.id} already (--replace gives it this definition)"
                )
        return self._send(SET, value)

    def command(self, id: str, action: str) -> tuple[int, bool]:
        """Pause, resume, trigger or delete a schedule; as ``create``."""
        if self.node is not None:
            with client_of(self.node) as client:
                answer = client.schedule("command", id=id, action=action)
            return answer["seq"], True
        self.schedule(id)
        return self._send(_COMMAND_SCHEMAS[action], {"id": id})

    def _send(self, schema: str, value: Any) -> tuple[int, bool]:
        return ask(self.world, schema, value, _schedule_cell(value["id"]), schedule_view.refusal_of)


def _schedule_cell(id: str) -> CellId:
    return SCHEDULE, encode(id)


def create(
    id: Id,
    *,
    cron: Annotated[
        str | None,
        option("TEXT", "Minute, hour, day of the month, month and day of the week: '30 2 * * *'."),
    ] = None,
    tz: Annotated[str | None, option("ZONE", "The time zone of --cron (default: UTC).")] = None,
    every: Annotated[
        int | None, option("D", "An interval instead of --cron, such as 15m.", parser=span)
    ] = None,
    event: Annotated[str | None, option("SCHEMA", "The event to emit at each time.")] = None,
    value: Annotated[str | None, option("JSON", "The fields of --event (default: none).")] = None,
    at_field: Annotated[
        str | None, option("FIELD", "A text field of --event that becomes ID@due time.")
    ] = None,
    plan: Annotated[
        str | None, option("TYPE", "Start this plan at each time, instead of --event.")
    ] = None,
    version: Annotated[
        int | None, option("N", "This version of --plan (default: the newest).", parser=number)
    ] = None,
    context: Annotated[str | None, option("JSON", "The context of --plan (default: {}).")] = None,
    start: Annotated[
        str | None, option("TIME", "First possible time, such as 2026-12-01T00:00:00Z.")
    ] = None,
    end: Annotated[str | None, option("TIME", "Last possible time.")] = None,
    catchup: Annotated[
        int | None,
        option(
            "D",
            "Make up for missed times that are at most this long ago (default: 1h).",
            parser=span,
        ),
    ] = None,
    overlap: Annotated[
        str | None, option("RULE", "skip: emit none while the last one is in progress.")
    ] = None,
    jitter: Annotated[
        int | None, option("D", "Delay each event at random by up to this.", parser=span)
    ] = None,
    paused: Annotated[bool, flag("--paused", "Create the schedule paused.")] = False,
    replace: Annotated[
        bool, flag("--replace", "Replace the definition of an existing schedule.")
    ] = False,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    arguments: dict[str, Any] = {
        "id": id,
        "cron": cron,
        "tz": tz,
        "every_ms": _whole_ms(every, "--every"),
        "event": event,
        "value": _json_option(value, "--value"),
        "at_field": at_field,
        "plan": plan,
        "version": version,
        "context": _json_option(context, "--context"),
        "start": start,
        "end": end,
        "catchup_ms": _whole_ms(catchup, "--catchup"),
        "overlap": overlap,
        "jitter_ms": _whole_ms(jitter, "--jitter"),
        "paused": paused or None,
    }
    definition = {name: argument for name, argument in arguments.items() if argument is not None}
    schedules = ScheduleWorld(world, node)
    _show_sent(schedules, id, schedules.create(definition, replace=replace), json=json)


def pause(
    id: Id, *, node: NodeUrl = None, world: World = DEFAULT_WORLD, json: Json = False
) -> None:
    _send_command("pause", id, ScheduleWorld(world, node), json=json)


def resume(
    id: Id, *, node: NodeUrl = None, world: World = DEFAULT_WORLD, json: Json = False
) -> None:
    _send_command("resume", id, ScheduleWorld(world, node), json=json)


def trigger(
    id: Id, *, node: NodeUrl = None, world: World = DEFAULT_WORLD, json: Json = False
) -> None:
    _send_command("trigger", id, ScheduleWorld(world, node), json=json)


def delete(
    id: Id, *, node: NodeUrl = None, world: World = DEFAULT_WORLD, json: Json = False
) -> None:
    seq, is_run = ScheduleWorld(world, node).command(id, "delete")
    if json:
        print_json({"id": id, "seq": seq, "answered": is_run})
        return
    line(f"{id} is deleted" if is_run else f"record {seq:,}")
    if not is_run:
        _note_waits()


def _send_command(action: str, id: str, schedules: ScheduleWorld, *, json: bool) -> None:
    _show_sent(schedules, id, schedules.command(id, action), json=json)


def _show_sent(
    schedules: ScheduleWorld, id: str, sent_event: tuple[int, bool], *, json: bool
) -> None:
    seq, is_run = sent_event
    if is_run and json:
        print_json(schedules.schedule(id))
    elif is_run:
        _show_schedule(schedules.schedule(id))
    elif json:
        print_json({"id": id, "seq": seq, "answered": False})
    else:
        line(f"record {seq:,}")
        _note_waits()


def _note_waits() -> None:
    note("no process runs this world: the schedule takes it when one does (aos run, aos node)")


def _show_list(document: Mapping[str, Any]) -> None:
    for schedule in document["schedules"]:
        line(
            f"{schedule['id']}  {_recurrence_text(schedule)}  {schedule['event']}  "
            f"{_state_text(schedule)}"
        )
    note(count(len(document["schedules"]), "schedule"))


def _show_schedule(schedule: Mapping[str, Any]) -> None:
    line(f"schedule  {schedule['id']}", style="bold")
    line(f"when      {_recurrence_text(schedule)}{_bounds_text(schedule)}")
    line(f"event     {schedule['event']} {compact(schedule['value'])}")
    if schedule["at_field"] is not None:
        line(f"          {schedule['at_field']} is {schedule['id']}@ and the due time")
    line(f"from      {'the manifest' if schedule['by_manifest'] else 'a user'}")
    line(f"state     {_state_text(schedule)}")
    for index, due_time in enumerate(schedule["next"]):
        line(f"{'next' if index == 0 else '':<10}{due_time}")
    line(f"runs      {_counts_text(schedule)}")
    for run in schedule["recent"]:
        kind = run["kind"].replace("_", " ")
        line(f"  {run['due']}  {kind}" + ("" if run["at"] == run["due"] else f" at {run['at']}"))


def _recurrence_text(schedule: Mapping[str, Any]) -> str:
    if schedule["cron"] is not None:
        return f"{schedule['cron']} ({schedule['tz']})"
    return f"every {span_text(schedule['every_ms'] * _MS)}"


def _bounds_text(schedule: Mapping[str, Any]) -> str:
    parts = []
    if schedule["start"] is not None:
        parts.append(f"from {schedule['start']}")
    if schedule["end"] is not None:
        parts.append(f"until {schedule['end']}")
    if schedule["jitter_ms"]:
        parts.append(f"late by up to {span_text(schedule['jitter_ms'] * _MS)}")
    if schedule["overlap"] == "skip":
        parts.append("not before the last one is done")
    return "".join(f", {part}" for part in parts)


def _state_text(schedule: Mapping[str, Any]) -> str:
    if schedule["failed"]:
        return "it has failed (aos inspect faults)"
    if schedule["paused"]:
        return "paused"
    if schedule["problem"] is not None:
        return f"stopped: {schedule['problem']}"
    waits = ", the last event is not done yet" if schedule["waits_for_end"] else ""
    return (f"next {schedule['next'][0]}" if schedule["next"] else "no time is left") + waits


def _counts_text(schedule: Mapping[str, Any]) -> str:
    parts = [f"{schedule['runs']:,}"]
    parts += [
        f"{schedule[name]:,} {words}"
        for name, words in (
            ("made_up", "of them made up after an outage"),
            ("skipped", "times skipped: too long ago"),
            ("overlapped", "times skipped: the last event was not done"),
        )
        if schedule[name]
    ]
    return ", ".join(parts)


def _whole_ms(ns: int | None, option: str) -> int | None:
    if ns is None:
        return None
    if ns % _MS:
        raise BadUsage(f"{option}: expected whole milliseconds, found {ns} ns")
    return ns // _MS


def _json_option(text: str | None, option: str) -> object:
    if text is None:
        return None
    try:
        return parse_json(text, max_bytes=VALUE_BYTES_MAX)
    except ValueProblem as problem:
        raise BadUsage(f"{option}: {problem}") from problem


list_schedules = printed(READ_SCHEDULES, _show_list)
show = printed(READ_SCHEDULE, _show_schedule)
