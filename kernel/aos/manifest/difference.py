"""(old, new) -> Difference: what an operator reads before a manifest is applied (M-60).

Who may do what stands apart from everything else, so that a new power cannot hide among changed
definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from aos.manifest.effective import Effective, Executor, Route
from aos.manifest.keys import key_text
from aos.manifest.names import is_system
from aos.values.cbor import decode_record

Change = Literal["added", "removed", "changed"]
_Spelled = tuple[str, str, str | None]

_SIGNS: Final[Mapping[Change, str]] = {"added": "+", "removed": "-", "changed": "~"}
_WORDS: Final[Mapping[str, str]] = {
    "defschema": "schema",
    "defmodule": "module",
    "defworkflow": "workflow",
    "defeffect": "effect",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionChange:
    """``fields`` are the top-level fields that differ; empty unless it is changed."""

    change: Change
    kind: str
    name: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f"{_SIGNS[self.change]} {_WORDS[self.kind]} {self.name}"
        return f"{what}: {', '.join(self.fields)}" if self.fields else what


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChange:
    """A subscription, written as it is read: ``event -> workflow by key_field``."""

    change: Change
    event: str
    workflow: str
    key_field: str | None

    def __str__(self) -> str:
        by = f" by {self.key_field}" if self.key_field is not None else ""
        return f"{_SIGNS[self.change]} {self.event} -> {self.workflow}{by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """``owner`` is ``world`` or the name of a workflow."""

    owner: str
    limit: str
    old: int
    new: int

    def __str__(self) -> str:
        return f"~ {self.owner} {self.limit}: {self.old} -> {self.new}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityChange:
    """Somebody may do something from now on (``added``), or may not any more (``removed``)."""

    change: Change
    who: str
    what: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.change]} {self.who} {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Everything that a new manifest changes. ``str()`` of each part is one line.

    Attributes:
        reordered: The same subscriptions in another order, in which events fan out.
    """

    definitions: tuple[DefinitionChange, ...]
    routes: tuple[RouteChange, ...]
    reordered: bool
    limits: tuple[LimitChange, ...]
    authority: tuple[AuthorityChange, ...]

    @property
    def is_empty(self) -> bool:
        parts = (self.definitions, self.routes, self.limits, self.authority)
        return not self.reordered and not any(parts)


def difference(old: Effective | None, new: Effective) -> Difference:
    """What becomes of ``old`` when ``new`` is applied. None: a world without a manifest yet."""
    before = () if old is None else tuple(map(_spelled, old.subscriptions))
    after = tuple(map(_spelled, new.subscriptions))
    return Difference(
        definitions=tuple(_definitions(_nodes(old), _nodes(new))),
        routes=tuple(_routes(before, after)),
        reordered=set(before) == set(after) and before != after,
        limits=() if old is None else tuple(_limits(old, new)),
        authority=tuple(sorted(_authority(old, new), key=lambda c: (c.who, c.what, c.change))),
    )


def _nodes(effective: Effective | None) -> dict[tuple[str, str], dict[str, Any]]:
    """The users' definitions; the built-in ones come and go with these."""
    if effective is None:
        return {}
    document: Any = decode_record(effective.document)
    return {
        (node["$kind"], node["name"]): node
        for node in document["definitions"]
        if not is_system(node["name"])
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
    return route.event, route.workflow, route.key_field


def _routes(old: tuple[_Spelled, ...], new: tuple[_Spelled, ...]) -> Iterator[RouteChange]:
    before, after = frozenset(old), frozenset(new)
    for event, workflow, key_field in (route for route in old if route not in after):
        yield RouteChange(change="removed", event=event, workflow=workflow, key_field=key_field)
    for event, workflow, key_field in (route for route in new if route not in before):
        yield RouteChange(change="added", event=event, workflow=workflow, key_field=key_field)


def _limits(old: Effective, new: Effective) -> Iterator[LimitChange]:
    owners = [("world", old.limits.to_document(), new.limits.to_document())]
    owners += [
        (name, workflow.limits.to_document(), new.workflows[name].limits.to_document())
        for name, workflow in old.workflows.items()
        if name in new.workflows
    ]
    for owner, before, after in owners:
        for limit, number in after.items():
            if before[limit] != number:
                yield LimitChange(owner=owner, limit=limit, old=before[limit], new=number)


def _authority(old: Effective | None, new: Effective) -> Iterator[AuthorityChange]:
    before = set() if old is None else set(_powers(old))
    after = set(_powers(new))
    for who, what in before - after:
        yield AuthorityChange(change="removed", who=who, what=what)
    for who, what in after - before:
        yield AuthorityChange(change="added", who=who, what=what)


def _powers(effective: Effective) -> Iterator[tuple[str, str]]:
    """Every (who, what they may do) of a manifest, as text that an operator can read."""
    for workflow in effective.workflows.values():
        for effect in workflow.effects_emitted:
            yield f"workflow {workflow.name}", f"may emit {effect}"
    if effective.executors is None:
        yield "the world's key", "may sign for every effect"
        return
    for executor in effective.executors.values():
        yield from _powers_of(executor)


def _powers_of(executor: Executor) -> Iterator[tuple[str, str]]:
    who = f"executor {executor.name}"
    yield who, f"signs with {key_text(executor.public_key)}"
    for effect in executor.effects:
        yield who, f"may sign for {effect}"
    for key in executor.retired_keys:
        yield who, f"proves older receipts with {key_text(key)}"
    for key in executor.revoked_keys:
        yield who, f"revokes {key_text(key)}"
