"""Compare two schemas of a state, field by field, to write a migration (AU-92).

(schemas in force, schemas of the build, workflow) -> Plan
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.errors import BadUsage, Refused, excerpt
from aos.manifest.effective import Effective
from aos.manifest.expressions import (
    FIELDS_OF,
    ITEMS_OF,
    Expression,
    Types,
    alike,
    extends,
    form_of,
    references,
    without_comments,
)
from aos.manifest.names import is_system
from aos.values.cbor import decode_record

RECORD: Final = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPlan:
    """One field of the new state. ``problem`` is None for a field that is copied; otherwise it is
    what the author has to do, in one line."""

    name: str
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A migration from one state schema to another.

    Attributes:
        source: Name of the state schema in force.
        target: Name of the state schema of the build.
        old: The type in force. Fields that are copied have the comments of the new type, which make
            handles of them; references to schemas that the build defines otherwise are replaced by
            their types.
        fields: Of the new state; None if one of the two states is no record.
        dropped: Fields of the old state that the new one does not have.
    """

    workflow: str
    source: str
    target: str
    old: Expression
    fields: tuple[FieldPlan, ...] | None
    dropped: tuple[str, ...]

    @property
    def todo(self) -> str:
        """The author's task if there are no fields to copy."""
        return f"todo: make the {self.target} that takes the place of this {self.source}"


def local_name(name: str) -> str:
    """``shop/card.order@1`` -> ``card.order``."""
    return name.partition("/")[2].partition("@")[0]


def file_stem(workflow: str) -> str:
    """The name of the skeleton's file: ``shop/card.order@1`` -> ``migration_card_order``."""
    return "migration_" + re.sub(r"[^a-z0-9]+", "_", local_name(workflow).lower()).strip("_")


def named_workflow(word: str, names: Iterable[str]) -> str:
    """Find a workflow by its name, or by its name without namespace or version.

    Raises:
        BadUsage: No workflow of the build matches, or several do.
    """
    sorted_names = sorted(names)
    if word in sorted_names:
        return word
    matches = [name for name in sorted_names if word in (name.partition("@")[0], local_name(name))]
    if len(matches) == 1:
        return matches[0]
    raise BadUsage(
        f"{excerpt(repr(word))} is the name of "
        + ("several workflows" if matches else "no workflow of this project"),
        location="--migration",
        expected="one of " + ", ".join(matches or sorted_names),
    )


def plan(old_manifest: Effective, new_manifest: Effective, schemas: Types, workflow: str) -> Plan:
    """Plan the migration of a workflow from ``old_manifest`` to ``new_manifest``, the manifest of
    the build. ``schemas`` are the types of the build, with their comments.

    Raises:
        Refused: There is nothing to migrate, or the two states have the same name.
    """
    old, new = old_manifest.workflows.get(workflow), new_manifest.workflows[workflow]
    if old is None:
        raise Refused(f"{workflow} is not in the manifest in force: it has no states to migrate")
    source, target = old.state.name, new.state.name
    types = _types(old_manifest)
    if extends(types[source], types, schemas[target], schemas):
        raise Refused(f"the stored states of {workflow} fit {target}: they need no migration")
    if source == target:
        raise Refused(
            f"{workflow}: the new state has the name of the old one, {source}",
            expected=f"another name, such as {_next(source)}",
            hint="rename the new state; the migration needs both",
        )
    if new.migrate is not None and new.migrate.source == source:
        raise Refused(
            f"{workflow} declares a migration from {source} already, by {new.migrate.entrypoint}"
        )
    if source in schemas and not alike(types[source], types, schemas[source], schemas):
        raise Refused(
            f"{source} has another definition in this project than in the manifest in force",
            hint="give the new one another name; the migration needs the old one as it was",
        )
    return _Comparison(types, schemas).plan(workflow, source, target)


def _next(name: str) -> str:
    base, _, version = name.rpartition("@")
    return f"{base}@{int(version) + 1}"


def _types(manifest: Effective) -> Types:
    document: Any = decode_record(manifest.document)
    return {
        node["name"]: node["type"]
        for node in document["definitions"]
        if node["$kind"] == "defschema"
    }


def _has_inline_type(expression: Expression) -> bool:
    """Whether a record or variant is written inside of it. In the languages, it is then one type in
    the old state and another in the new one."""
    form, argument = form_of(expression)
    if form == "map":
        return _has_inline_type(argument["key"]) or _has_inline_type(argument["value"])
    return form in FIELDS_OF or (form in ITEMS_OF and _has_inline_type(argument))


@dataclass(frozen=True, slots=True)
class _Comparison:
    old: Types
    new: Types

    def plan(self, workflow: str, source: str, target: str) -> Plan:
        old, new = self.old[source], self.new[target]
        (old_form, old_fields), (new_form, new_fields) = form_of(old), form_of(new)
        if not old_form == new_form == RECORD:
            return Plan(
                workflow=workflow, source=source, target=target,
                old=self._without_changed_refs(old), fields=None, dropped=(),
            )  # fmt: skip
        fields = tuple(
            FieldPlan(
                name=name, problem=self._problem(name, old_fields.get(name), expression, target)
            )
            for name, expression in new_fields.items()
        )
        copied = {field.name for field in fields if field.problem is None}
        record = {
            name: new_fields[name] if name in copied else self._without_changed_refs(expression)
            for name, expression in old_fields.items()
        }
        return Plan(
            workflow=workflow, source=source, target=target,
            old={RECORD: record}, fields=fields,
            dropped=tuple(name for name in old_fields if name not in new_fields),
        )  # fmt: skip

    def _problem(
        self, name: str, old: Expression | None, new: Expression, target: str
    ) -> str | None:
        if old is None:
            return f"todo: {name} is new in {target}: give the value that stored states get"
        if self._same(old, new):
            if not _has_inline_type(new):
                return None
            return f"todo: {name} has a type without a name: convert the old {name}"
        return f"todo: {name} has another type in {target}: convert the old {name}"

    def _same(self, old: Expression, new: Expression) -> bool:
        """Whether the two are written alike, and mean the same in both manifests."""
        if without_comments(old) != without_comments(new):
            return False
        return all(self._is_unchanged(name) for _, name in references(old))

    def _is_unchanged(self, name: str) -> bool:
        if is_system(name):
            return True
        old, new = self.old[name], self.new.get(name)
        return new is not None and self._same(old, new)

    def _without_changed_refs(self, expression: Any) -> Any:
        """The expression without references to schemas that the build defines otherwise."""
        if not isinstance(expression, Mapping):
            return expression
        name = expression.get("ref")
        if isinstance(name, str) and not self._is_unchanged(name):
            return self._without_changed_refs(self.old[name])
        return {form: self._without_changed_refs(argument) for form, argument in expression.items()}
