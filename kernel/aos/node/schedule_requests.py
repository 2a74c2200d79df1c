"""``/v1/schedules/*``: create, pause, resume, trigger and delete schedules (spec/schedule.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.core.journal.records import CellId
from aos.manifest.effective import Effective
from aos.manifest.schedule_setting import must_have_schedules, set_value
from aos.manifest.schedules import (
    DELETE,
    PAUSE,
    RESUME,
    SCHEDULE,
    SET,
    TRIGGER,
    ScheduleInvalid,
    schedule_of,
)
from aos.node.calls import ApiCall, ApiReply
from aos.node.events import ask_cell, not_allowed
from aos.node.problems import Problem
from aos.node.services import Services
from aos.node.tokens import SEND
from aos.read.views.schedule_view import refusal_of
from aos.values.cbor import encode

COMMANDS: Final[Mapping[str, str]] = {
    "pause": PAUSE, "resume": RESUME, "trigger": TRIGGER, "delete": DELETE,
}  # fmt: skip


async def create_schedule(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/schedules/create``: answered once the schedule is set."""
    fields = {name: value for name, value in call.body.items() if name != "replace"}
    manifest = _manifest(services)
    try:
        entry = schedule_of(fields)
        value = set_value(entry, manifest.schemas, manifest.plans)
    except ScheduleInvalid as problem:
        raise Problem(
            422, "schedule_is_invalid", str(problem), pointer=problem.pointer or None
        ) from problem
    barred = not_allowed(call.caller, value["event"])
    if barred is not None:
        raise barred
    if not call.body.get("replace", False):
        _must_be_new(services, entry.id)
    return await _ask_schedule(services, call, SET, value)


async def command_schedule(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/schedules/command``: pause, resume, trigger or delete a schedule."""
    _manifest(services)
    return await _ask_schedule(
        services, call, COMMANDS[call.body["action"]], {"id": call.body["id"]}
    )


async def _ask_schedule(
    services: Services, call: ApiCall, schema: str, value: Mapping[str, Any]
) -> ApiReply:
    if not call.caller.allows(SEND, schema):
        raise Problem(
            403, "token_does_not_allow", f"the token {call.caller.name} may not send {schema}"
        )
    answer = await ask_cell(services, schema, value, f"schedule {value['id']}")
    refusal = refusal_of(answer)
    if refusal is not None:
        raise Problem(409, "schedule_refuses", refusal)
    return ApiReply(document={"id": value["id"], "seq": answer.seq})


def _manifest(services: Services) -> Effective:
    manifest = services.follower.state.manifest
    try:
        must_have_schedules({} if manifest is None else manifest.workflows)
    except ScheduleInvalid as problem:
        raise Problem(422, "no_schedules", str(problem)) from problem
    assert manifest is not None
    return manifest


def _must_be_new(services: Services, id: str) -> None:
    cell: CellId = (SCHEDULE, encode(id))
    if services.follower.state.cells.get(cell) is not None:
        raise Problem(
            409, "schedule_exists",
            f"there is a schedule {id} already (with replace it gets this definition)",
        )  # fmt: skip
