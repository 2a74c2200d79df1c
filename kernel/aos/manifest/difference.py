"""Compare two manifests, for an operator who is about to apply one (M-60).

Changes of authority are separate from all others, so that a new power cannot hide among changed
definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from aos.manifest.effective import Effective, Executor, Route
from aos.manifest.governance import GovernanceBlock
from aos.manifest.keys import key_text
from aos.manifest.manifest_secrets import Secret
from aos.manifest.names import is_built_in
from aos.manifest.placement import Placement, default_placement
from aos.manifest.plans import StepPlan
from aos.manifest.schedules import ScheduleEntry
from aos.values.cbor import decode_record

Change = Literal["added", "removed", "changed"]
_RouteRow = tuple[str, str, str | None, bool]

_SIGNS: Final[Mapping[Change, str]] = {"added": "+", "removed": "-", "changed": "~"}
_WORDS: Final[Mapping[str, str]] = {
    "defschema": "schema",
    "defmodule": "module",
    "defworkflow": "workflow",
    "defeffect": "effect",
    "defsecret": "secret",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionChange:
    """A definition that was added, removed or changed. ``fields`` are the top-level fields that
    differ, empty unless it is changed."""

    change: Change
    kind: str
    name: str
    fields: tuple[str, ...] = ()

    @property
    def sign(self) -> str:
        return _SIGNS[self.change]

    @property
    def word(self) -> str:
        """Its kind as a printed word."""
        return _WORDS[self.kind]

    def __str__(self) -> str:
        text = f"{self.sign} {self.word} {self.name}"
        return f"{text}: {', '.join(self.fields)}" if self.fields else text


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChange:
    """An added or removed subscription, printed as ``event -> workflow by key_field``. A route
    whose ``creates`` changes is removed and added."""

    change: Change
    event: str
    workflow: str
    key_field: str | None
    creates: bool = True

    def __str__(self) -> str:
        by = f" by {self.key_field}" if self.key_field is not None else ""
        only = "" if self.creates else ", existing instances only"
        return f"{_SIGNS[self.change]} {self.event} -> {self.workflow}{by}{only}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChange:
    """A workflow that is placed in other shards of a group than before, or that is new and not
    placed by default. ``old`` is None if the workflow is new."""

    workflow: str
    old: Placement | None
    new: Placement

    def __str__(self) -> str:
        if self.old is None:
            return f"+ {self.workflow} placed {self.new}"
        return f"~ {self.workflow} placed {self.old} -> {self.new}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """A changed limit. ``owner`` is ``world`` or the name of a workflow."""

    owner: str
    limit: str
    old: int | None
    new: int | None

    def __str__(self) -> str:
        old, new = ("not set" if number is None else number for number in (self.old, self.new))
        return f"~ {self.owner} {self.limit}: {old} -> {new}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """A version of a plan that was added, removed or changed. Instances keep the plan that they
    started with."""

    change: Change
    type: str
    version: int

    def __str__(self) -> str:
        return f"{_SIGNS[self.change]} plan {self.type} version {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    """A schedule that was added, removed or changed."""

    change: Change
    id: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.change]} schedule {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityChange:
    """A power that an executor, workflow, secret, sender or approver gains (``added``) or loses
    (``removed``), or the fate of a key (``changed``)."""

    change: Change
    who: str
    power: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.change]} {self.who} {self.power}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Everything that a new manifest changes. ``str()`` of each part is one line.

    Attributes:
        reordered: The subscriptions are the same in another order, in which events fan out.
    """

    definitions: tuple[DefinitionChange, ...]
    routes: tuple[RouteChange, ...]
    reordered: bool
    placements: tuple[PlacementChange, ...]
    limits: tuple[LimitChange, ...]
    plans: tuple[PlanChange, ...]
    schedules: tuple[ScheduleChange, ...]
    authority: tuple[AuthorityChange, ...]

    @property
    def is_empty(self) -> bool:
        parts = (
            self.definitions, self.routes, self.placements, self.limits, self.plans,
            self.schedules, self.authority,
        )  # fmt: skip
        return not self.reordered and not any(parts)


def difference(old: Effective | None, new: Effective) -> Difference:
    """The changes that applying ``new`` makes. ``old`` is None for a world without a manifest."""
    old_routes = () if old is None else tuple(map(_route_row, old.subscriptions))
    new_routes = tuple(map(_route_row, new.subscriptions))
    return Difference(
        definitions=tuple(_definitions(_nodes(old), _nodes(new))),
        routes=tuple(_routes(old_routes, new_routes)),
        reordered=set(old_routes) == set(new_routes) and old_routes != new_routes,
        placements=tuple(_placements(old, new)),
        limits=() if old is None else tuple(_limits(old, new)),
        plans=tuple(_plans(() if old is None else old.plans, new.plans)),
        schedules=tuple(_schedules(() if old is None else old.schedules, new.schedules)),
        authority=tuple(sorted(_authority(old, new), key=lambda c: (c.who, c.power, c.change))),
    )


def _nodes(effective: Effective | None) -> dict[tuple[str, str], dict[str, Any]]:
    """The user's definitions. Built-in ones are left out: they depend on these."""
    if effective is None:
        return {}
    document: Any = decode_record(effective.document)
    return {
        (node["$kind"], node["name"]): node
        for node in document["definitions"]
        if not is_built_in(node["$kind"], node["name"])
    }


def _definitions(
    old: Mapping[tuple[str, str], Mapping[str, Any]],
    new: Mapping[tuple[str, str], Mapping[str, Any]],
) -> Iterator[DefinitionChange]:
    for kind, name in sorted(old.keys() | new.keys()):
        old_node, new_node = old.get((kind, name)), new.get((kind, name))
        if old_node is None or new_node is None:
            change: Change = "added" if old_node is None else "removed"
            yield DefinitionChange(change=change, kind=kind, name=name)
        elif old_node != new_node:
            fields = sorted(old_node.keys() | new_node.keys())
            differing = tuple(f for f in fields if old_node.get(f) != new_node.get(f))
            yield DefinitionChange(change="changed", kind=kind, name=name, fields=differing)


def _route_row(route: Route) -> _RouteRow:
    return route.event, route.workflow, route.key_field, route.creates


def _routes(old: tuple[_RouteRow, ...], new: tuple[_RouteRow, ...]) -> Iterator[RouteChange]:
    old_routes, new_routes = frozenset(old), frozenset(new)
    for route in old:
        if route not in new_routes:
            yield _route("removed", route)
    for route in new:
        if route not in old_routes:
            yield _route("added", route)


def _route(change: Change, route: _RouteRow) -> RouteChange:
    event, workflow, key_field, creates = route
    return RouteChange(
        change=change, event=event, workflow=workflow, key_field=key_field, creates=creates
    )


def _placements(old: Effective | None, new: Effective) -> Iterator[PlacementChange]:
    for name, workflow in new.workflows.items():
        old_workflow = None if old is None else old.workflows.get(name)
        old_placement = None if old_workflow is None else old_workflow.placement
        earlier = old_placement or default_placement(name, is_keyed=workflow.key is not None)
        if workflow.placement != earlier:
            yield PlacementChange(workflow=name, old=old_placement, new=workflow.placement)


def _limits(old: Effective, new: Effective) -> Iterator[LimitChange]:
    owners = [("world", asdict(old.limits), asdict(new.limits))]
    owners += [
        (name, asdict(workflow.limits), asdict(new.workflows[name].limits))
        for name, workflow in old.workflows.items()
        if name in new.workflows
    ]
    for owner, old_limits, new_limits in owners:
        for limit, number in new_limits.items():
            if old_limits[limit] != number:
                yield LimitChange(owner=owner, limit=limit, old=old_limits[limit], new=number)


def _plans(old: tuple[StepPlan, ...], new: tuple[StepPlan, ...]) -> Iterator[PlanChange]:
    old_plans = {(plan.type, plan.version): plan for plan in old}
    new_plans = {(plan.type, plan.version): plan for plan in new}
    for key, change in _changed(old_plans, new_plans):
        yield PlanChange(change=change, type=key[0], version=key[1])


def _schedules(
    old: tuple[ScheduleEntry, ...], new: tuple[ScheduleEntry, ...]
) -> Iterator[ScheduleChange]:
    old_entries, new_entries = (
        {entry.id: entry for entry in old},
        {entry.id: entry for entry in new},
    )
    for id, change in _changed(old_entries, new_entries):
        yield ScheduleChange(change=change, id=id)


def _changed(old: Mapping[Any, object], new: Mapping[Any, object]) -> Iterator[tuple[Any, Change]]:
    for key in sorted({*old, *new}):
        if key not in old:
            yield key, "added"
        elif key not in new:
            yield key, "removed"
        elif old[key] != new[key]:
            yield key, "changed"


def _authority(old: Effective | None, new: Effective) -> Iterator[AuthorityChange]:
    old_powers = set() if old is None else {*_powers(old), *_powers_of_senders(old)}
    new_powers = set(_powers(new))
    if old is not None or new.ingress is not None:  # a first manifest accepts every event
        new_powers |= set(_powers_of_senders(new))
    for who, power in old_powers - new_powers:
        yield AuthorityChange(change="removed", who=who, power=power)
    for who, power in new_powers - old_powers:
        yield AuthorityChange(change="added", who=who, power=power)
    yield from _key_changes({} if old is None else old.executors or {}, new.executors or {})


def _key_changes(
    old: Mapping[str, Executor], new: Mapping[str, Executor]
) -> Iterator[AuthorityChange]:
    """Changes of keys: revoked keys stay revoked, and a key that is only replaced should be listed
    as retired or revoked."""
    old_revoked = {key: executor.name for executor in old.values() for key in executor.revoked_keys}
    new_revoked = {key: executor.name for executor in new.values() for key in executor.revoked_keys}
    for key, name in new_revoked.items():
        if key not in old_revoked:
            yield _executor_change(name, "added", f"revokes {key_text(key)} for good")
    for key, name in old_revoked.items():
        if key not in new_revoked:
            yield _executor_change(
                name, "changed", f"no longer names {key_text(key)}, which stays revoked"
            )
    named_keys = {
        key for executor in new.values() for key in (executor.public_key, *executor.retired_keys)
    } | {*new_revoked}
    for name in sorted(old.keys() & new.keys()):
        key = old[name].public_key
        if key not in named_keys:
            yield _executor_change(
                name,
                "changed",
                f"is given another key; {key_text(key)} is neither retired nor revoked (list it in "
                "retired_keys, or in revoked_keys if it may have leaked)",
            )


def _executor_change(executor: str, change: Change, power: str) -> AuthorityChange:
    return AuthorityChange(change=change, who=f"executor {executor}", power=power)


def _powers(effective: Effective) -> Iterator[tuple[str, str]]:
    """Every power in a manifest as text for an operator: (holder, power)."""
    for workflow in effective.workflows.values():
        for effect in workflow.effects_emitted:
            yield f"workflow {workflow.name}", f"may emit {effect}"
    for secret in effective.secrets.values():
        yield from _powers_of_secret(secret)
    if effective.governance is not None:
        yield from _powers_of_approvers(effective.governance)
    if effective.executors is None:
        yield "the world's key", "may sign for every effect"
        return
    for executor in effective.executors.values():
        yield from _powers_of(executor)


def _powers_of_senders(effective: Effective) -> Iterator[tuple[str, str]]:
    if effective.ingress is None:
        yield "a sender", "may send every event"
        return
    for schema in effective.ingress:
        yield "a sender", f"may send {schema}"


def _powers_of_approvers(governance: GovernanceBlock) -> Iterator[tuple[str, str]]:
    for approver in governance.approvers:
        yield f"approver {approver.name}", f"votes with {key_text(approver.public_key)}"
    yield "a manifest", f"needs the approval of {governance.quorum} approvers"
    if governance.shadow_records:
        yield "an approval", f"needs a shadow report of {governance.shadow_records} records"


def _powers_of_secret(secret: Secret) -> Iterator[tuple[str, str]]:
    who = f"secret {secret.name}"
    yield who, f"is read from {secret.binding}"
    for workflow in sorted(secret.workflows or ["every workflow"]):
        yield who, f"may be used by {workflow}"
    for host in sorted(map(str, secret.hosts or ["every host that the node allows"])):
        yield who, f"may be sent to {host}"


def _powers_of(executor: Executor) -> Iterator[tuple[str, str]]:
    who = f"executor {executor.name}"
    yield who, f"signs with {key_text(executor.public_key)}"
    for effect in executor.effects:
        yield who, f"may sign for {effect}"
    for key in executor.retired_keys:
        yield who, f"proves older receipts with {key_text(key)}"
