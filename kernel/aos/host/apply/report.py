"""The result of an apply, or of its dry run, as one JSON document (spec/host.md, H-71b).

``aos apply`` prints it, whether the world is that of a folder or of a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from aos.audit.lens.gate_document import gate_document
from aos.audit.lens.lens import shown
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
            {"kind": each.kind, "cell": _cell(each.cell, manifest), "detail": each.detail}
            for each in applied.blockers
        ],
        "groups": groups_document(applied.blockers, manifest),
        "ways_out": None if ways is None else _ways(ways),
        "states": [_state(each, manifest) for each in applied.states],
        "refused": refused,
        "fates": None
        if applied.fates is None
        else {name: dict(each) for name, each in sorted(applied.fates.by_workflow.items())},
        "flows": gate_document(gate, lambda cell: _key(cell, manifest)),
        "open_events": [asdict(each) for each in open_events(loaded)],
    }


def changes_document(found: Difference) -> dict[str, Any]:
    """The changes of a manifest, each as a line that begins with ``+``, ``-`` or ``~``."""
    return {
        "definitions": [str(each) for each in found.definitions],
        "routes": [str(each) for each in found.routes],
        "routes_reordered": found.reordered,
        "limits": [str(each) for each in found.limits],
        "plans": [str(each) for each in found.plans],
        "schedules": [str(each) for each in found.schedules],
        "authority": [str(each) for each in found.authority],
    }


def groups_document(
    blockers: Sequence[Blocker], manifest: Effective | None
) -> list[dict[str, Any]]:
    """Blockers by workflow and kind, with examples."""
    return [
        {
            "workflow": each.workflow,
            "kind": each.kind,
            "count": each.count,
            "examples": [_cell(cell, manifest) for cell in each.examples],
            "detail": each.detail,
        }
        for each in groups(blockers)
    ]


def _ways(ways: WaysOut) -> dict[str, Any]:
    return {
        "modes": list(ways.modes),
        "leaves_cells": ways.leaves_cells,
        "in_place": list(ways.in_place),
        "to_migrate": list(ways.to_migrate),
    }


def _state(each: Converted, new: Effective) -> dict[str, Any]:
    before = shown(each.source.state, each.before)
    found: dict[str, Any] = {"cell": _cell(each.cell, new), "before": before}
    if isinstance(each.after, Fault):
        fault = {"kind": each.after.kind.value, "message": each.after.message}
        return {**found, "after": None, "fault": fault, "changed": []}
    after = shown(new.workflows[each.cell[0]].state, each.after)
    changed = [
        {"path": path, "before": old, "after": now} for path, old, now in _changed(before, after)
    ]
    return {**found, "after": after, "fault": None, "changed": changed}


def _changed(before: object, after: object) -> list[tuple[str, object, object]]:
    between = differing("$", before, after)
    if between.places:
        return [(place.path, place.recorded, place.recomputed) for place in between.places]
    return [] if before == after else [("$", before, after)]


def _cell(cell: CellId, manifest: Effective | None) -> dict[str, object]:
    return {"workflow": cell[0], "key": _key(cell, manifest)}


def _key(cell: CellId, manifest: Effective | None) -> object:
    name, key = cell
    if not key:
        return None
    workflow = manifest.workflows.get(name) if manifest else None
    return shown(workflow.key if workflow else None, key)
