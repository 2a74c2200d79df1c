"""Make the message of ``aos flow signal``: the key field is filled in (spec/cli.md, C-71)."""

from __future__ import annotations

from typing import Any

from aos.audit.views.view import View
from aos.core.decide.routing import route
from aos.errors import BadUsage, Refused
from aos.host.ended_flows import ended_flow
from aos.values.errors import ValueProblem
from aos_cli.flow_naming import NamedInstance


def message_value(flow: NamedInstance, schema: str, message: object) -> object:
    """Return the JSON of a message with the key of its instance in it.

    Raises:
        BadUsage: The message is no object, or names another key.
        Refused: It does not fit its schema.
    """
    field = flow.declaration.messages[schema]
    return message if field is None else _filled(flow, schema, message, field.split("."))


def refuse_after_the_end(
    view: View, flow: NamedInstance, schema: str, submission_id: str | None
) -> None:
    """Raise Refused if the flow has ended, even if others would take the message, too. A submission
    id that the world knows still gets its earlier answer."""
    ended = ended_flow(view.state, flow.id, schema, view.journal.blob)
    if ended is None:
        return
    if submission_id is None or view.state.submissions.get(submission_id) is None:
        raise Refused(ended.refusal(view.state.effective).message)


def refuse_to_begin(view: View, flow: NamedInstance, schema: str, value: object) -> None:
    """Raise Refused if a message would also reach a flow without an instance of this key: it would
    wait there for a start that may never come. A value that does not fit is left to the
    kernel."""
    manifest = view.state.effective
    message_schema = manifest.schemas[schema]
    try:
        targets = route(
            manifest, message_schema, message_schema.encode(message_schema.from_json_object(value))
        )
    except ValueProblem:
        return
    for message_route, id in zip(manifest.routes(schema), targets, strict=True):
        is_other_flow = id != flow.id and manifest.workflows[id[0]].is_flow
        if is_other_flow and message_route.creates and id not in view.state.cells:
            raise Refused(
                f"{schema} is also a message of {id[0]}, which has no instance of this key: there "
                "it would wait for a start (to send it all the same: aos send)"
            )


def _filled(flow: NamedInstance, schema: str, message: object, names: list[str]) -> object:
    if not isinstance(message, dict):
        raise BadUsage(f"{schema}: expected an object, found {type(message).__name__}")
    value: dict[str, Any] = dict(message)
    name, *inner_names = names
    if inner_names:
        return {**value, name: _filled(flow, schema, value.get(name, {}), inner_names)}
    if name in value and not _is_key(flow, value[name]):
        raise BadUsage(
            f"{schema}: {name} is another key: expected {flow.key!r} or nothing, found "
            f"{value[name]!r} (the command fills it in)"
        )
    return {**value, name: flow.key}


def _is_key(flow: NamedInstance, value: object) -> bool:
    schema = flow.declaration.key
    try:
        return schema.encode(schema.from_json_object(value)) == flow.id[1]
    except ValueProblem:
        return False
