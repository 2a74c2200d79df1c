"""Check the expectations of a scenario against its world, as authoring JSON (T-64, T-65)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from aos.read.lens.words import name_cell
from aos.testing.effects import Effect
from aos.testing.plain import Mismatch, mismatches, short_text
from aos.testing.scenario import ScenarioStep
from aos.testing.words import CHECKS
from aos.testing.world import World
from aos.values.errors import ValueProblem
from aos.values.schema import Schema, untyped_to_json

PLACES_MAX: Final = 16


class Differs(Exception):  # internal: becomes a Failure
    """An expectation that failed: the places that differ, and both values as a whole."""

    def __init__(
        self, mismatches: Iterable[Mismatch], expected: object = None, actual: object = None
    ) -> None:
        self.mismatches = tuple(mismatches)[:PLACES_MAX]
        self.expected = expected
        self.actual = actual
        super().__init__(str(self.mismatches[0]))


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
        actual: dict[str, object] = {"status": status}
        if status is None:
            raise Differs([Mismatch("$", name_cell(name, key), "no such cell")])
        workflow = world.manifest.workflows[name]
        actual["state"] = _json(workflow.state, world.state(name, key))
        annotations = world.annotations(name, key)
        actual["annotation"] = _json(workflow.annotations, annotations[-1]) if annotations else None
        expected = {
            name: fields[name] for name in ("status", "state", "annotation") if name in fields
        }
        actual = {name: actual[name] for name in expected}
        self._compare(expected, actual, step, written=expected)

    def _flow(self, step: ScenarioStep) -> None:
        fields = step.fields
        document = self._world.flow_json(fields["workflow"], fields["key"])
        if document is None or fields.get("is_gone"):
            if (document is None) != fields.get("is_gone", False):
                actual = "no such flow" if document is None else f"one that is {document['status']}"
                expected = "no such flow" if document is not None else fields["workflow"]
                raise Differs([Mismatch("$", expected, actual)])
            return
        expected = {name: fields[name] for name in CHECKS["flow"] if name in fields}
        self._compare(
            expected, {name: document.get(name) for name in expected}, step, written=expected
        )

    def _rows(
        self, read: Callable[[ScenarioStep], list[dict[str, object]]], step: ScenarioStep
    ) -> None:
        rows = read(step)
        count = step.fields.get("count", len(rows))
        if count != len(rows):
            raise Differs(
                [Mismatch("count", str(count), f"{len(rows)}: {short_text(rows)}")], count, rows
            )
        if "are" in step.fields:
            are = [self._with_full_names(row) for row in step.fields["are"]]
            self._compare(are, rows, step, written=step.fields["are"])

    def _with_full_names(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row with full names of workflows and effects."""
        full_row = dict(row)
        if "workflow" in full_row:
            full_row["workflow"] = self._world.workflow(full_row["workflow"])
        if "effect" in full_row:
            full_row["effect"] = self._world.effect_name(full_row["effect"])
        if "message" in full_row:
            full_row["message"] = _Part(full_row["message"])
        return full_row

    @staticmethod
    def _compare(expected: object, actual: object, step: ScenarioStep, *, written: object) -> None:
        """Raises Differs. ``written`` is the expectation as in the file, for the message."""
        exactly = step.fields.get("exactly", False)
        # ``exactly`` applies inside of values. Fields that a row does not name never count.
        differences = (
            list(mismatches(expected, actual)) if not exactly else _exactly(expected, actual)
        )
        if differences:
            raise Differs(differences, written, actual)

    def _cells(self, step: ScenarioStep) -> list[dict[str, object]]:
        return [
            {
                "workflow": cell.workflow,
                "key": self._key(cell.workflow, cell.key),
                "status": cell.status,
                "state": _json(self._state_schema(cell.workflow), cell.state),
            }
            for cell in self._world.cells(step.fields.get("workflow"))
        ]

    def _effects(self, step: ScenarioStep) -> list[dict[str, object]]:
        return [self.effect(effect) for effect in self._world.effects(step.fields.get("effect"))]

    def _timers(self, _: ScenarioStep) -> list[dict[str, object]]:
        return [self.effect(timer) for timer in self._world.timers()]

    def _events(self, step: ScenarioStep) -> list[dict[str, object]]:
        return [
            {
                "schema": event.schema,
                "value": _json(self._world.manifest.schemas.get(event.schema), event.value),
                "workflow": event.workflow,
                "key": self._key(event.workflow, event.key),
            }
            for event in self._world.emitted(step.fields.get("schema"))
        ]

    def _faults(self, step: ScenarioStep) -> list[dict[str, object]]:
        return [
            {
                "workflow": fault.workflow,
                "key": self._key(fault.workflow, fault.key),
                "kind": fault.kind,
                "message": fault.message,
            }
            for fault in self._world.faults(step.fields.get("workflow"))
        ]

    def effect(self, world_effect: Effect) -> dict[str, object]:
        effect = self._world.manifest.effects.get(world_effect.name)
        return {
            "effect": world_effect.name,
            "params": _json(None if effect is None else effect.params, world_effect.params),
            "workflow": world_effect.workflow,
            "key": self._key(world_effect.workflow, world_effect.key),
            "issuer_ref": world_effect.issuer_ref,
        }

    def _key(self, workflow: str, key: Any) -> object:
        definition = self._world.manifest.workflows.get(workflow)
        return _json(None if definition is None else definition.key, key)

    def _state_schema(self, workflow: str) -> Schema | None:
        definition = self._world.manifest.workflows.get(workflow)
        return None if definition is None else definition.state


class _Part:
    """Equal to every text that contains it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __eq__(self, value: object) -> bool:
        return isinstance(value, str) and self._text in value

    __hash__ = None  # type: ignore[assignment]  # it equals many texts, so it has no hash

    def __repr__(self) -> str:
        return repr(f"…{self._text}…")


def _exactly(expected: object, actual: object) -> list[Mismatch]:
    """Compare only the named fields of rows and cells; tables inside their values must match
    completely."""
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return list(mismatches(expected, actual))
        return [
            mismatch
            for index, (expected_row, actual_row) in enumerate(zip(expected, actual, strict=True))
            for mismatch in _field_mismatches(expected_row, actual_row, f"$[{index}]")
        ]
    return _field_mismatches(expected, actual, "$")


def _field_mismatches(expected: Any, actual: Any, path: str) -> list[Mismatch]:
    return [
        mismatch
        for name, part in expected.items()
        for mismatch in mismatches(part, actual[name], f"{path}.{name}", exactly=True)
    ]


def _json(schema: Schema | None, value: Any) -> object:
    """A plain value as authoring JSON."""
    if value is None or schema is None:
        return untyped_to_json(value)
    try:
        return schema.to_json(schema.normalise(value))
    except ValueProblem:
        return untyped_to_json(value)  # it has an earlier version of its schema
