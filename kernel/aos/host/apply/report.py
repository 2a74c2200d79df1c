"""The result of an apply, or of its dry run, as one JSON document (spec/host.md, H-71b).

``aos apply`` prints it, whether the world is that of a folder or of a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from aos.audit.lens.gate_document import gate_document
from aos.audit.lens.lens import as_json
from aos.audit.replay.difference import difference as differing
from aos.core.decide.answers import Admitted, Blocker, Refusal, Rule
from aos.core.decide.flow_gate import FlowGate
from aos.core.decide.migration import Converted
from aos.core.journal.faults import Fault
from aos.core.journal.records import CellId
from aos.host.apply.apply import Applied
from aos.host.apply.open_events import open_events
from aos.host.apply.ways_out import WaysOut, groups
from aos.manifest.difference import Difference
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded
from aos.values.digests import hash_text

ApplyReport: TypeAlias = dict[str, Any]


def apply_report(
    applied: Applied, gate: FlowGate, ways: WaysOut | None, loaded: Loaded
) -> ApplyReport:
    """The report about applying ``loaded``. ``ways`` is None unless there are blockers."""
    answer, manifest = applied.answer, loaded.effective
    refused = None
    if isinstance(answer, Refusal) and answer.rule is not Rule.MANIFEST_IS_IN_FORCE:
        refused = {"rule": answer.rule.value, "message": answer.message}
    return {
        "manifest": hash_text(applied.manifest),
        "applied": isinstance(answer, Admitted),
        "in_force": isinstance(answer, Admitted)
        or (isinstance(answer, Refusal) and answer.rule is Rule.MANIFEST_IS_IN_FORCE),
        "seq": answer.seq if isinstance(answer, Admitted) else None,
        "changes": changes_document(applied.difference),
        "blockers": [
            {"kind": blocker.kind, "cell": _cell(blocker.cell, manifest), "detail": blocker.detail}
            for blocker in applied.blockers
        ],
        "groups": groups_document(applied.blockers, manifest),
        "ways_out": None if ways is None else _ways(ways),
        "states": [_state(state, manifest) for state in applied.states],
        "refused": refused,
        "fates": None
        if applied.fates is None
        else {name: dict(counts) for name, counts in sorted(applied.fates.by_workflow.items())},
        "flows": gate_document(gate, lambda cell: _key(cell, manifest)),
        "open_events": [asdict(open_event) for open_event in open_events(loaded)],
    }


def changes_document(changes: Difference) -> dict[str, Any]:
    """The changes of a manifest, each as a line that begins with ``+``, ``-`` or ``~``."""
    return {
        "definitions": [str(definition) for definition in changes.definitions],
        "routes": [str(route) for route in changes.routes],
        "routes_reordered": changes.reordered,
        "limits": [str(limit) for limit in changes.limits],
        "plans": [str(plan) for plan in changes.plans],
        "schedules": [str(schedule) for schedule in changes.schedules],
        "authority": [str(change) for change in changes.authority],
    }


def groups_document(
    blockers: Sequence[Blocker], manifest: Effective | None
) -> list[dict[str, Any]]:
    """Blockers by workflow and kind, with examples."""
    return [
        {
            "workflow": group.workflow,
            "kind": group.kind,
            "count": group.count,
            "examples": [_cell(cell, manifest) for cell in group.examples],
            "detail": group.detail,
        }
        for group in groups(blockers)
    ]


def _ways(ways: WaysOut) -> dict[str, Any]:
    return {
        "modes": list(ways.modes),
        "leaves_cells": ways.leaves_cells,
        "in_place": list(ways.in_place),
        "to_migrate": list(ways.to_migrate),
    }


def _state(converted: Converted, new: Effective) -> dict[str, Any]:
    state_before = as_json(converted.source.state, converted.old_state)
    document: dict[str, Any] = {"cell": _cell(converted.cell, new), "before": state_before}
    if isinstance(converted.result, Fault):
        fault = {"kind": converted.result.kind.value, "message": converted.result.message}
        return {**document, "after": None, "fault": fault, "changed": []}
    state_after = as_json(new.workflows[converted.cell[0]].state, converted.result)
    changed = [
        {"path": path, "before": old, "after": now}
        for path, old, now in _changed(state_before, state_after)
    ]
    return {**document, "after": state_after, "fault": None, "changed": changed}


def _changed(state_before: object, state_after: object) -> list[tuple[str, object, object]]:
    between = differing("$", state_before, state_after)
    if between.places:
        return [
            (deviation.path, deviation.recorded, deviation.recomputed)
            for deviation in between.places
        ]
    return [] if state_before == state_after else [("$", state_before, state_after)]


def _cell(cell: CellId, manifest: Effective | None) -> dict[str, object]:
    return {"workflow": cell[0], "key": _key(cell, manifest)}


def _key(cell: CellId, manifest: Effective | None) -> object:
    name, key = cell
    if not key:
        return None
    workflow = manifest.workflows.get(name) if manifest else None
    return as_json(workflow.key if workflow else None, key)
