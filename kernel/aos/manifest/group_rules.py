"""(manifest) -> findings: the rules of a manifest for a group of worlds (spec/groups.md, GR-30 to
GR-36).

Each shard decides alone. So everything that one event reaches must be in one shard, and a workflow
must find in its own shard whatever it sends events to, as far as a manifest shows this. The kernel
refuses the rest when it happens (K-40a).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aos.manifest.catalog import RuleFinding, Subject
from aos.manifest.effective import Effective, Route, Workflow
from aos.manifest.expressions import Expression, Types, resolved, same
from aos.manifest.names import BIZ_KEY, LINEAR
from aos.manifest.placement import BEFORE_BAR, Placement
from aos.manifest.scheduled_event import sample_event
from aos.manifest.schedules import SCHEDULE, ScheduleEntry, ScheduleInvalid
from aos.values.cbor import decode_record, encode
from aos.values.errors import ValueProblem

_MANIFEST: Final[Subject] = ("manifest", "manifest")

_CALL_ARM: Final = "Call"
_RETURN_ARM: Final = "Return"
"""Arms of the event of a flow that others call, and of one that calls others (FL-3)."""


def group_findings(manifest: Effective) -> Iterator[RuleFinding]:
    """Every broken rule of a manifest without other findings, for a group of any number of shards.

    Pointers fit the author's nodes with the packages written out, and the canonical ones.
    """
    yield from _events(manifest)
    yield from _effects(manifest)
    yield from _flows(manifest)
    yield from _business_keys(manifest)
    for entry in manifest.schedules:
        yield from _schedule(entry, manifest)


def _events(manifest: Effective) -> Iterator[RuleFinding]:
    """GR-31, GR-32: the shards of everything that an event reaches can be the same."""
    types = _types(manifest)
    positions = {id(route): index for index, route in enumerate(manifest.subscriptions)}
    for event, routes in manifest.by_event.items():
        in_one_shard = [route for route in routes if _placement(manifest, route).kind != "each"]
        for route in in_one_shard[1:]:
            problem = _differs(manifest, event, in_one_shard[0], route, types)
            if problem is not None:
                message, hint = problem
                pointer = f"/routing/subscriptions/{positions[id(route)]}"
                yield RuleFinding(subject=_MANIFEST, pointer=pointer, message=message, hint=hint)


def _differs(
    manifest: Effective, event: str, first: Route, second: Route, types: Types
) -> tuple[str, str] | None:
    """Message and hint if two routes of an event may lead to different shards."""
    placements = _placement(manifest, first), _placement(manifest, second)
    message = f"{event} reaches {_by(manifest, first)}, and {_by(manifest, second)}: "
    if placements[0].kind != placements[1].kind:
        alone = first if placements[0].kind == "first" else second
        return f"{message}{_ONE_SHARD}", _hint_each(alone.workflow)
    if placements[0].kind == "first" or _can_agree(manifest, (first, second), types):
        return None
    return f"{message}{_ONE_VALUE}", _HINT_SHARD_BY


_ONE_SHARD: Final = "expected all that one event reaches in one shard"
_ONE_VALUE: Final = "expected both to be placed by the same value"
_HINT_SHARD_BY: Final = (
    "list both in routing.shards with a shard_by that gives the same value for every event, for "
    "example the customer of both keys"
)


def _hint_each(workflow: str) -> str:
    return (
        f'list {workflow} in routing.shards with "shard": "each", so that each shard has one, or '
        "remove one of the two subscriptions"
    )


def _can_agree(manifest: Effective, routes: tuple[Route, Route], types: Types) -> bool:
    """Whether two keyed routes are placed by the same part of the event; or by parts of two keys
    that have one type and that the author declared to be the same value."""
    (field, placement), (other_field, other_placement) = (
        (route.key_field, _placement(manifest, route)) for route in routes
    )
    if field == other_field:
        return placement == other_placement
    if placement.shard_by is None or other_placement.shard_by is None:
        return False
    part, other_part = (_part_type(manifest.workflows[route.workflow], types) for route in routes)
    return same(part, other_part, types)


def _by(manifest: Effective, route: Route) -> str:
    placement = _placement(manifest, route)
    if placement.kind == "first":
        return f"{route.workflow}, which is in shard 0 alone"
    if placement.kind == "each":
        return f"{route.workflow}, which is in each shard"
    if placement.shard_by is None:
        return f"{route.workflow}, which is placed by {route.key_field}"
    if placement.shard_by == BEFORE_BAR:
        part = f"the text before the first {BEFORE_BAR} of {route.key_field}"
    else:
        part = f"{route.key_field}.{placement.shard_by}"
    return f"{route.workflow}, which is placed by {part}"


def _effects(manifest: Effective) -> Iterator[RuleFinding]:
    """GR-33: a requested key is one request in one world, and a group has several."""
    for name, effect in manifest.effects.items():
        if effect.idempotency_scope == "world":
            yield RuleFinding(
                subject=("defeffect", name),
                pointer="/idempotency_scope",
                message=f"{name} has one request for each idempotency key in a world, and a group "
                "has several worlds: expected idempotency_scope cell, found world",
                hint="leave idempotency_scope out, and request the effect in one instance, whose "
                "key is the idempotency key",
            )


def _flows(manifest: Effective) -> Iterator[RuleFinding]:
    """GR-34: a flow that calls others can have one of the flows that can be called in its shard."""
    types = _types(manifest)
    flows = [workflow for workflow in manifest.workflows.values() if workflow.is_flow]
    callable_flows = [flow for flow in flows if _CALL_ARM in flow.arms.values()]
    for flow in flows:
        if _RETURN_ARM not in flow.arms.values() or not callable_flows:
            continue
        if not any(_can_meet(flow, child, types) for child in callable_flows):
            names = ", ".join(child.name for child in callable_flows)
            yield RuleFinding(
                subject=("defworkflow", flow.name),
                pointer="/key_schema",
                message=f"{flow.name} calls flows, and none of those that can be called ({names}) "
                "can be in its shard",
                hint="list the called flow and the caller in routing.shards, both with a shard_by "
                'of the same type, or the called flow with "shard": "each"',
            )


def _can_meet(sender: Workflow, receiver: Workflow, types: Types) -> bool:
    """Whether the author of ``sender`` can choose keys of ``receiver`` that are in the shard of the
    sending cell."""
    kinds = sender.placement.kind, receiver.placement.kind
    if kinds[1] == "each":
        return True
    if kinds != ("key", "key"):
        return kinds == ("first", "first")
    return same(_part_type(sender, types), _part_type(receiver, types), types)


def _business_keys(manifest: Effective) -> Iterator[RuleFinding]:
    """GR-35: an instance of a plan and its business key are different keys, and send each other
    events."""
    instances, biz_keys = manifest.workflows.get(LINEAR), manifest.workflows.get(BIZ_KEY)
    if instances is None or biz_keys is None:
        return
    placement = instances.placement
    is_by_part = placement.kind == "each" or placement.shard_by is not None
    if placement != biz_keys.placement or not is_by_part:
        yield RuleFinding(
            subject=_MANIFEST,
            pointer="/routing/shards",
            message=f"{LINEAR} and {BIZ_KEY} send each other events, and an instance has another "
            "key than its business key: expected both to be placed by a part of their keys",
            hint=f'list both in routing.shards with "shard_by": "{BEFORE_BAR}", and begin both '
            f"keys alike, such as c-1{BEFORE_BAR}order-7",
        )


def _schedule(entry: ScheduleEntry, manifest: Effective) -> Iterator[RuleFinding]:
    """GR-36: the event of a schedule reaches cells in the shard of the schedule."""
    try:
        event, sample = sample_event(entry, manifest.schemas, manifest.plans)
        value = decode_record(sample)
        routes = manifest.routes(event)
        keys = [route.key(value) for route in routes]
    except (ScheduleInvalid, ValueProblem):
        return  # the schedule does not fit the manifest, which another rule says
    own = manifest.workflows[SCHEDULE].placement
    own_part = own.part(encode(entry.id))
    placements = [_placement(manifest, route) for route in routes]
    are_all_each = all(placement.kind == "each" for placement in placements)
    for route, placement, key in zip(routes, placements, keys, strict=True):
        if placement.kind == "each":
            is_near = own.kind == "each" or not are_all_each
        else:
            is_near = placement.kind == own.kind and (
                placement.kind == "first" or placement.part(key) == own_part
            )
        if not is_near:
            yield RuleFinding(
                subject=_MANIFEST,
                pointer="/schedules",
                message=f"schedule {entry.id} is {_SHARD_OF_SCHEDULE[own.kind]}, and its event "
                f"{event} reaches {_by(manifest, route)}: expected both in the same shard",
                hint=_schedule_hint(placement),
            )


_SHARD_OF_SCHEDULE: Final = {
    "key": "in the shard of its id", "first": "in shard 0", "each": "in each shard",
}  # fmt: skip


def _schedule_hint(placement: Placement) -> str:
    if placement.kind == "each":
        return f'list {SCHEDULE} in routing.shards with "shard": "each"'
    if placement.kind == "first":
        return f"leave {SCHEDULE} out of routing.shards, so that schedules are in shard 0"
    return (
        f'list {SCHEDULE} and the workflow in routing.shards with "shard_by": "{BEFORE_BAR}", and '
        f"begin the id and the key alike, such as c-1{BEFORE_BAR}nightly"
    )


def _placement(manifest: Effective, route: Route) -> Placement:
    return manifest.workflows[route.workflow].placement


def _part_type(workflow: Workflow, types: Types) -> Expression:
    """The type of the part of a key by which a keyed workflow is placed."""
    assert workflow.key is not None
    whole = resolved(types[workflow.key.name], types)
    shard_by = workflow.placement.shard_by
    if shard_by is None or shard_by == BEFORE_BAR:
        return whole
    part: Expression = whole["record"][shard_by]
    return part


def _types(manifest: Effective) -> Types:
    document: Any = decode_record(manifest.document)
    return {
        node["name"]: node["type"]
        for node in document["definitions"]
        if node["$kind"] == "defschema"
    }
