"""Compare two manifests, for an operator who is about to apply one (M-60).

Changes of authority are separate from all others, so that a new power cannot hide among changed
definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from aos.manifest.builtins import is_built_in
from aos.manifest.effective import Effective, Executor, Route
from aos.manifest.governance import GovernanceBlock
from aos.manifest.keys import key_text
from aos.manifest.manifest_secrets import Secret
from aos.manifest.plans import StepPlan
from aos.manifest.schedules import ScheduleEntry
from aos.values.cbor import decode_record

Change = Literal["added", "removed", "changed"]
_Spelled = tuple[str, str, str | None, bool]

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
        what = f"{self.sign} {self.word} {self.name}"
        return f"{what}: {', '.join(self.fields)}" if self.fields else what


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
class LimitChange:
    """A changed limit. ``owner`` is ``world`` or the name of a workflow."""

    owner: str
    limit: str
    old: int | None
    new: int | None

    def __str__(self) -> str:
        old, new = ("not set" if each is None else each for each in (self.old, self.new))
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
    what: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.change]} {self.who} {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Everything that a new manifest changes. ``str()`` of each part is one line.

    Attributes:
        reordered: The subscriptions are the same in another order, in which events fan out.
    """

    definitions: tuple[DefinitionChange, ...]
    routes: tuple[RouteChange, ...]
    reordered: bool
    limits: tuple[LimitChange, ...]
    plans: tuple[PlanChange, ...]
    schedules: tuple[ScheduleChange, ...]
    authority: tuple[AuthorityChange, ...]

    @property
    def is_empty(self) -> bool:
        parts = (
            self.definitions, self.routes, self.limits, self.plans, self.schedules, self.authority
        )  # fmt: skip
        return not self.reordered and not any(parts)


def difference(old: Effective | None, new: Effective) -> Difference:
    """The changes that applying ``new`` makes. ``old`` is None for a world without a manifest."""
    before = () if old is None else tuple(map(_spelled, old.subscriptions))
    after = tuple(map(_spelled, new.subscriptions))
    return Difference(
        definitions=tuple(_definitions(_nodes(old), _nodes(new))),
        routes=tuple(_routes(before, after)),
        reordered=set(before) == set(after) and before != after,
        limits=() if old is None else tuple(_limits(old, new)),
        plans=tuple(_plans(() if old is None else old.plans, new.plans)),
        schedules=tuple(_schedules(() if old is None else old.schedules, new.schedules)),
        authority=tuple(sorted(_authority(old, new), key=lambda c: (c.who, c.what, c.change))),
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
        before, after = old.get((kind, name)), new.get((kind, name))
        if before is None or after is None:
            change: Change = "added" if before is None else "removed"
            yield DefinitionChange(change=change, kind=kind, name=name)
        elif before != after:
            fields = sorted(before.keys() | after.keys())
            differing = tuple(f for f in fields if before.get(f) != after.get(f))
            yield DefinitionChange(change="changed", kind=kind, name=name, fields=differing)


def _spelled(route: Route) -> _Spelled:
    return route.event, route.workflow, route.key_field, route.creates


def _routes(old: tuple[_Spelled, ...], new: tuple[_Spelled, ...]) -> Iterator[RouteChange]:
    before, after = frozenset(old), frozenset(new)
    for route in old:
        if route not in after:
            yield _route("removed", route)
    for route in new:
        if route not in before:
            yield _route("added", route)


def _route(change: Change, route: _Spelled) -> RouteChange:
    event, workflow, key_field, creates = route
    return RouteChange(
        change=change, event=event, workflow=workflow, key_field=key_field, creates=creates
    )


def _limits(old: Effective, new: Effective) -> Iterator[LimitChange]:
    owners = [("world", asdict(old.limits), asdict(new.limits))]
    owners += [
        (name, asdict(workflow.limits), asdict(new.workflows[name].limits))
        for name, workflow in old.workflows.items()
        if name in new.workflows
    ]
    for owner, before, after in owners:
        for limit, number in after.items():
            if before[limit] != number:
                yield LimitChange(owner=owner, limit=limit, old=before[limit], new=number)


def _plans(old: tuple[StepPlan, ...], new: tuple[StepPlan, ...]) -> Iterator[PlanChange]:
    before = {(plan.type, plan.version): plan for plan in old}
    after = {(plan.type, plan.version): plan for plan in new}
    for key, change in _changed(before, after):
        yield PlanChange(change=change, type=key[0], version=key[1])


def _schedules(
    old: tuple[ScheduleEntry, ...], new: tuple[ScheduleEntry, ...]
) -> Iterator[ScheduleChange]:
    before, after = {each.id: each for each in old}, {each.id: each for each in new}
    for id, change in _changed(before, after):
        yield ScheduleChange(change=change, id=id)


def _changed(
    before: Mapping[Any, object], after: Mapping[Any, object]
) -> Iterator[tuple[Any, Change]]:
    for key in sorted({*before, *after}):
        if key not in before:
            yield key, "added"
        elif key not in after:
            yield key, "removed"
        elif before[key] != after[key]:
            yield key, "changed"


def _authority(old: Effective | None, new: Effective) -> Iterator[AuthorityChange]:
    before = set() if old is None else {*_powers(old), *_powers_of_senders(old)}
    after = set(_powers(new))
    if old is not None or new.ingress is not None:  # a first manifest accepts every event
        after |= set(_powers_of_senders(new))
    for who, what in before - after:
        yield AuthorityChange(change="removed", who=who, what=what)
    for who, what in after - before:
        yield AuthorityChange(change="added", who=who, what=what)
    yield from _key_changes({} if old is None else old.executors or {}, new.executors or {})


def _key_changes(
    old: Mapping[str, Executor], new: Mapping[str, Executor]
) -> Iterator[AuthorityChange]:
    """Changes of keys: revoked keys stay revoked, and a key that is only replaced should be listed
    as retired or revoked."""
    before = {key: each.name for each in old.values() for key in each.revoked_keys}
    after = {key: each.name for each in new.values() for key in each.revoked_keys}
    for key, name in after.items():
        if key not in before:
            yield _about(name, "added", f"revokes {key_text(key)} for good")
    for key, name in before.items():
        if key not in after:
            yield _about(name, "changed", f"no longer names {key_text(key)}, which stays revoked")
    named = {key for each in new.values() for key in (each.public_key, *each.retired_keys)} | {
        *after
    }
    for name in sorted(old.keys() & new.keys()):
        key = old[name].public_key
        if key not in named:
            yield _about(
                name,
                "changed",
                f"is given another key; {key_text(key)} is neither retired nor revoked (list it in "
                "retired_keys, or in revoked_keys if it may have leaked)",
            )


def _about(executor: str, change: Change, what: str) -> AuthorityChange:
    return AuthorityChange(change=change, who=f"executor {executor}", what=what)


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
    for each in governance.approvers:
        yield f"approver {each.name}", f"votes with {key_text(each.public_key)}"
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
