"""Make the message of ``aos flow signal``: the key field is filled in (spec/cli.md, C-71)."""

from __future__ import annotations

from typing import Any

from aos.audit.views.view import View
from aos.core.decide.routing import route
from aos.errors import BadUsage, Refused
from aos.host.ended_flows import ended_flow
from aos.values.errors import ValueProblem
from aos_cli.flow_naming import Named


def message_value(flow: Named, schema: str, given: object) -> object:
    """Return the JSON of a message with the key of its instance in it.

    Raises:
        BadUsage: The message is no object, or names another key.
        Refused: It does not fit its schema.
    """
    field = flow.declaration.messages[schema]
    return given if field is None else _filled(flow, schema, given, field.split("."))


def refuse_after_the_end(view: View, flow: Named, schema: str, submission_id: str | None) -> None:
    """Raise Refused if the flow has ended, even if others would take the message, too. A submission
    id that the world knows still gets its earlier answer."""
    ended = ended_flow(view.state, flow.id, schema, view.journal.blob)
    if ended is None:
        return
    if submission_id is None or view.state.submissions.get(submission_id) is None:
        raise Refused(ended.refusal(view.state.effective).message)


def refuse_to_begin(view: View, flow: Named, schema: str, value: object) -> None:
    """Raise Refused if a message would also reach a flow without an instance of this key: it would
    wait there for a start that may never come. A value that does not fit is left to the
    kernel."""
    manifest = view.state.effective
    found = manifest.schemas[schema]
    try:
        targets = route(manifest, found, found.encode(found.from_json_object(value)))
    except ValueProblem:
        return
    for each, id in zip(manifest.routes(schema), targets, strict=True):
        is_other_flow = id != flow.id and manifest.workflows[id[0]].is_flow
        if is_other_flow and each.creates and id not in view.state.cells:
            raise Refused(
                f"{schema} is also a message of {id[0]}, which has no instance of this key: there "
                "it would wait for a start (to send it all the same: aos send)"
            )


def _filled(flow: Named, schema: str, given: object, names: list[str]) -> object:
    if not isinstance(given, dict):
        raise BadUsage(f"{schema}: expected an object, found {type(given).__name__}")
    value: dict[str, Any] = dict(given)
    name, *rest = names
    if rest:
        return {**value, name: _filled(flow, schema, value.get(name, {}), rest)}
    if name in value and not _is_key(flow, value[name]):
        raise BadUsage(
            f"{schema}: {name} is another key: expected {flow.key!r} or nothing, found "
            f"{value[name]!r} (the command fills it in)"
        )
    return {**value, name: flow.key}


def _is_key(flow: Named, found: object) -> bool:
    schema = flow.declaration.key
    try:
        return schema.encode(schema.from_json_object(found)) == flow.id[1]
    except ValueProblem:
        return False
