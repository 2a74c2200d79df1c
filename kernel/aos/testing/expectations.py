"""Check the expectations of a scenario against its world, as authoring JSON (T-64, T-65)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from aos.audit.views.record_view import name_cell
from aos.testing.effects import Effect
from aos.testing.plain import Mismatch, mismatches, shown
from aos.testing.scenario import ScenarioStep
from aos.testing.words import CHECKS
from aos.testing.world import World
from aos.values.errors import ValueProblem
from aos.values.schema import Schema, untyped_to_json

PLACES_MAX: Final = 16


class Differs(Exception):  # internal: becomes a Failure
    """An expectation that failed: the places that differ, and both values as a whole."""

    def __init__(
        self, places: Iterable[Mismatch], expected: object = None, found: object = None
    ) -> None:
        self.places = tuple(places)[:PLACES_MAX]
        self.expected = expected
        self.found = found
        super().__init__(str(self.places[0]))


class Expectations:
    """Checks the steps ``expect``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kinds: dict[str, Callable[[ScenarioStep], None]] = {
            "cell": self._cell,
            "flow": self._flow,
            "cells": partial(self._rows, self._cells),
            "effects": partial(self._rows, self._effects),
            "timers": partial(self._rows, self._timers),
            "events": partial(self._rows, self._events),
            "faults": partial(self._rows, self._faults),
        }

    def check(self, step: ScenarioStep) -> None:
        """Check one step. Raises: Differs; BadUsage for an unknown name."""
        self._kinds[step.value](step)

    def _cell(self, step: ScenarioStep) -> None:
        world, fields = self._world, step.fields
        name = world.workflow(fields["workflow"])
        key = fields.get("key")
        status = world.status(name, key)
        if fields.get("is_gone"):
            if status is not None:
                raise Differs([Mismatch("$", "no such cell", f"one that is {status}")])
            return
        found: dict[str, object] = {"status": status}
        if status is None:
            raise Differs([Mismatch("$", name_cell(name, key), "no such cell")])
        workflow = world.manifest.workflows[name]
        found["state"] = _json(workflow.state, world.state(name, key))
        said = world.annotations(name, key)
        found["annotation"] = _json(workflow.annotations, said[-1]) if said else None
        expected = {
            name: fields[name] for name in ("status", "state", "annotation") if name in fields
        }
        found = {name: found[name] for name in expected}
        self._compare(expected, found, step, said=expected)

    def _flow(self, step: ScenarioStep) -> None:
        fields = step.fields
        found = self._world.flow_json(fields["workflow"], fields["key"])
        if found is None or fields.get("is_gone"):
            if (found is None) != fields.get("is_gone", False):
                said = "no such flow" if found is None else f"one that is {found['status']}"
                expected = "no such flow" if found is not None else fields["workflow"]
                raise Differs([Mismatch("$", expected, said)])
            return
        expected = {name: fields[name] for name in CHECKS["flow"] if name in fields}
        self._compare(expected, {name: found.get(name) for name in expected}, step, said=expected)

    def _rows(
        self, read: Callable[[ScenarioStep], list[dict[str, object]]], step: ScenarioStep
    ) -> None:
        rows = read(step)
        count = step.fields.get("count", len(rows))
        if count != len(rows):
            raise Differs(
                [Mismatch("count", str(count), f"{len(rows)}: {shown(rows)}")], count, rows
            )
        if "are" in step.fields:
            are = [self._whole(each) for each in step.fields["are"]]
            self._compare(are, rows, step, said=step.fields["are"])

    def _whole(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row with full names of workflows and effects."""
        found = dict(row)
        if "workflow" in found:
            found["workflow"] = self._world.workflow(found["workflow"])
        if "effect" in found:
            found["effect"] = self._world.effect_name(found["effect"])
        if "message" in found:
            found["message"] = _Part(found["message"])
        return found

    @staticmethod
    def _compare(expected: object, found: object, step: ScenarioStep, *, said: object) -> None:
        """Raises Differs. ``said`` is the expectation as written in the file, for the message."""
        exactly = step.fields.get("exactly", False)
        # ``exactly`` applies inside of values. Fields that a row does not name never count.
        places = list(mismatches(expected, found)) if not exactly else _exactly(expected, found)
        if places:
            raise Differs(places, said, found)

    def _cells(self, step: ScenarioStep) -> list[dict[str, object]]:
        return [
            {
                "workflow": each.workflow,
                "key": self._key(each.workflow, each.key),
                "status": each.status,
                "state": _json(self._state_schema(each.workflow), each.state),
            }
            for each in self._world.cells(step.fields.get("workflow"))
        ]

    def _effects(self, step: ScenarioStep) -> list[dict[str, object]]:
        return [self.effect(each) for each in self._world.effects(step.fields.get("effect"))]

    def _timers(self, _: ScenarioStep) -> list[dict[str, object]]:
        return [self.effect(each) for each in self._world.timers()]

    def _events(self, step: ScenarioStep) -> list[dict[str, object]]:
        return [
            {
                "schema": each.schema,
                "value": _json(self._world.manifest.schemas.get(each.schema), each.value),
                "workflow": each.workflow,
                "key": self._key(each.workflow, each.key),
            }
            for each in self._world.emitted(step.fields.get("schema"))
        ]

    def _faults(self, step: ScenarioStep) -> list[dict[str, object]]:
        return [
            {
                "workflow": each.workflow,
                "key": self._key(each.workflow, each.key),
                "kind": each.kind,
                "message": each.message,
            }
            for each in self._world.faults(step.fields.get("workflow"))
        ]

    def effect(self, each: Effect) -> dict[str, object]:
        effect = self._world.manifest.effects.get(each.name)
        return {
            "effect": each.name,
            "params": _json(None if effect is None else effect.params, each.params),
            "workflow": each.workflow,
            "key": self._key(each.workflow, each.key),
            "issuer_ref": each.issuer_ref,
        }

    def _key(self, workflow: str, key: Any) -> object:
        known = self._world.manifest.workflows.get(workflow)
        return _json(None if known is None else known.key, key)

    def _state_schema(self, workflow: str) -> Schema | None:
        known = self._world.manifest.workflows.get(workflow)
        return None if known is None else known.state


class _Part:
    """Equal to every text that contains it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._text in other

    __hash__ = None  # type: ignore[assignment]  # it equals many texts, so it has no hash

    def __repr__(self) -> str:
        return repr(f"…{self._text}…")


def _exactly(expected: object, found: object) -> list[Mismatch]:
    """Compare only the named fields of rows and cells; tables inside their values must match
    completely."""
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return list(mismatches(expected, found))
        return [
            place
            for index, (ours, theirs) in enumerate(zip(expected, found, strict=True))
            for place in _named(ours, theirs, f"$[{index}]")
        ]
    return _named(expected, found, "$")


def _named(expected: Any, found: Any, path: str) -> list[Mismatch]:
    return [
        place
        for name, part in expected.items()
        for place in mismatches(part, found[name], f"{path}.{name}", exactly=True)
    ]


def _json(schema: Schema | None, value: Any) -> object:
    """A plain value as authoring JSON."""
    if value is None or schema is None:
        return untyped_to_json(value)
    try:
        return schema.to_json(schema.normalise(value))
    except ValueProblem:
        return untyped_to_json(value)  # it has an earlier version of its schema
