"""Look up the definitions of a manifest by name and type, for the rules that check them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS
from aos.manifest.expressions import (
    Expression,
    closure,
    escape,
    form_of,
    references,
    resolved,
    without_comments,
)
from aos.manifest.limits import Range
from aos.manifest.names import UNSUPPORTED_EFFECTS, is_system
from aos.manifest.sealed_places import SEALED, SEALED_PACKAGE
from aos.values.errors import SchemaProblem, SchemaProblems
from aos.values.expressions import ReadTypes, read_types

Node = Mapping[str, Any]
Subject = tuple[str, str]
"""(kind, name) of the node that a finding is about."""

Findings = Iterator[tuple[str, str, str | None]]
"""The findings of one rule: (pointer, message, hint) of each."""

GOVERNANCE: Final = "sys/governance."

NOT_YET: Final = "not supported by this version"

_WORDS: Final[Mapping[str, str]] = {
    "defschema": "schema",
    "defmodule": "module",
    "defworkflow": "workflow",
    "defeffect": "effect",
    "defsecret": "secret",
}
_BUILTINS: Final[Mapping[str, Mapping[str, Node]]] = {
    "defschema": SCHEMAS,
    "defeffect": EFFECTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFinding:
    """One broken rule, at a JSON pointer into the subject's node."""

    subject: Subject
    pointer: str
    message: str
    hint: str | None = None


class Catalog:
    """The definitions that exist, and their types as far as they are valid."""

    def __init__(
        self,
        manifest: Node | None,
        definitions: Mapping[Subject, Node],
        broken: AbstractSet[Subject],
        *,
        incomplete: bool,
    ) -> None:
        self.incomplete = incomplete
        self.manifest = manifest
        self.definitions = definitions
        self.broken = broken
        self.types: dict[str, Expression] = {
            name: node["type"] for name, node in SCHEMAS.items()
        } | {
            name: without_comments(node["type"])
            for (kind, name), node in definitions.items()
            if kind == "defschema"
        }
        self.unsound = {name for kind, name in broken if kind == "defschema"}
        self.schema_findings = list(self._schema_findings())

    def exists(self, kind: str, name: str) -> bool:
        subject = (kind, name)
        return (
            subject in self.definitions or subject in self.broken or name in _BUILTINS.get(kind, {})
        )

    def node(self, kind: str, name: str) -> Node | None:
        """The definition; None if it does not exist or its shape is invalid."""
        return self.definitions.get((kind, name)) or _BUILTINS.get(kind, {}).get(name)

    def is_sound(self, schema: str) -> bool:
        """Whether a schema and all schemas that it reaches exist and have no findings."""
        if schema not in self.types:
            return False
        reached = closure([schema], self.types)
        return not reached & self.unsound

    def use(self, kind: str, name: str, pointer: str) -> Findings:
        """A finding if no definition of this kind has the name."""
        if not self.exists(kind, name):
            yield from self._missing(kind, name, pointer)

    def _missing(self, kind: str, name: str, pointer: str) -> Findings:
        if name in UNSUPPORTED_EFFECTS and kind == "defeffect":
            yield pointer, f"effect {name} is {NOT_YET}", None
            return
        hint = self._instead_of(kind, name)
        if hint is not None or not self.incomplete:
            yield pointer, f"unknown {_WORDS[kind]} {name}", hint

    def _instead_of(self, kind: str, name: str) -> str | None:
        if (kind, name) == ("defschema", SEALED):
            return f'add "uses": ["{SEALED_PACKAGE}"] to the manifest'
        for other_kind, word in _WORDS.items():
            if other_kind != kind and self.exists(other_kind, name):
                article = "an" if word == "effect" else "a"
                return f"that is the name of {article} {word}"
        names = {n for k, n in (*self.definitions, *self.broken) if k == kind}
        return did_you_mean(name, names | set(_BUILTINS.get(kind, {}))) or _not_here(kind, name)

    def _schema_findings(self) -> Iterator[RuleFinding]:
        if self._are_valid_together():
            return
        # Check each schema alone, then all together without the invalid ones, so that one problem
        # does not hide another.
        for name in sorted(self.types.keys() - SCHEMAS.keys()):
            known_refs = {
                ref for _, ref in references(self.types[name]) if self.exists("defschema", ref)
            }
            yield from self._refused({**_stubs(known_refs), name: self.types[name]})
        unsound_count = -1
        while len(self.unsound) != unsound_count:
            unsound_count = len(self.unsound)
            yield from self._refused({**self.types, **_stubs(self.unsound)})

    def _are_valid_together(self) -> bool:
        """Then each is valid alone, too: this is the usual case, in one pass."""
        own = {name for kind, name in self.definitions if kind == "defschema"}
        try:
            if own.isdisjoint(SCHEMAS):
                read_types({name: self.types[name] for name in own}, _builtin_types())
            else:
                read_types(self.types)
        except SchemaProblems:
            return False
        return True

    def _refused(self, types: Mapping[str, Expression]) -> Iterator[RuleFinding]:
        try:
            read_types(types)
        except SchemaProblems as problems:
            for problem in problems.problems:
                yield from self._schema_finding(problem)

    def _schema_finding(self, problem: SchemaProblem) -> Iterator[RuleFinding]:
        self.unsound.add(problem.schema)
        subject, pointer = ("defschema", problem.schema), f"/type{problem.pointer}"
        names_by_pointer = dict(references(self.types.get(problem.schema, {})))
        unknown = names_by_pointer.get(problem.pointer)
        if unknown is None or self.exists("defschema", unknown):
            yield RuleFinding(
                subject=subject, pointer=pointer, message=problem.message, hint=problem.hint
            )
            return
        for at, message, hint in self._missing("defschema", unknown, pointer):
            yield RuleFinding(subject=subject, pointer=at, message=message, hint=hint)


def event_arms(event: str, catalog: Catalog) -> Mapping[str, Expression] | None:
    """The arms of a variant, empty for a record; None for another or unknown type."""
    if not catalog.is_sound(event):
        return None
    form, argument = form_of(resolved(catalog.types[event], catalog.types))
    if form == "variant":
        arms: Mapping[str, Expression] = argument
        return arms
    return {} if form == "record" else None


@cache
def _builtin_types() -> ReadTypes:
    """The types of the built-in schemas, which are in every manifest: they are checked once."""
    return ReadTypes.of({name: node["type"] for name, node in SCHEMAS.items()})


def _stubs(names: Iterable[str]) -> dict[str, Expression]:
    """Valid placeholder types, for schemas that are checked elsewhere."""
    return {name: {"record": {}} for name in names}


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint with the most similar candidate; None if none is similar."""
    import difflib  # noqa: PLC0415  # only an unknown name needs it

    near = difflib.get_close_matches(name, sorted(candidates), n=1, cutoff=0.75)
    return f"did you mean {near[0]}?" if near else None


def each_once(names: list[str]) -> Iterator[tuple[int | None, str]]:
    """(index, name) for the first of each name; (None, name) once for each repeated name."""
    seen_names: set[str] = set()
    repeated: set[str] = set()
    for index, name in enumerate(names):
        if name not in seen_names:
            yield index, name
        elif name not in repeated:
            repeated.add(name)
            yield None, name
        seen_names.add(name)


def within(pointer: str, requested: Mapping[str, int], ranges: Mapping[str, Range]) -> Findings:
    for name, number in requested.items():
        allowed = ranges[name]
        if number not in allowed:
            yield (
                f"{pointer}/{escape(name)}",
                f"{name}: expected {allowed.low} to {allowed.high}, found {number}",
                None,
            )


def _not_here(kind: str, name: str) -> str | None:
    """Advice on a built-in name of AgentOS that this kernel does not have."""
    if not is_system(name):
        return None
    if kind == "defeffect":
        if name.startswith(GOVERNANCE):
            return (
                "a workflow does not govern the manifest under which it runs: people do, with "
                "aos gov"
            )
        return "this kernel has no such effect"
    if kind == "defmodule":
        return "built-in effects have no module here: leave it out"
    return None
