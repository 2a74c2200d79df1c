"""Reports about a manifest as JSON documents: an apply or its dry run, the changes since a record,
a proposal, and its shadow reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from aos.core.decide.answers import Admitted, Blocker, Refusal, Rule
from aos.core.decide.flow_gate import FlowGate
from aos.core.decide.migration import Converted
from aos.core.journal.faults import Fault
from aos.core.journal.records import CellId
from aos.host.apply.apply import Applied
from aos.host.apply.dry_run import WaysOut, groups
from aos.manifest.effective import Effective, Workflow
from aos.manifest.load import Loaded
from aos.manifest.schedules import SCHEDULE
from aos.prove.replay.difference import difference as differing
from aos.read.lens.flow_lens import gate_document
from aos.read.lens.words import as_json
from aos.read.views.manifest_changes import changes_document
from aos.sandbox.module import Unreadable, constants
from aos.values.digests import hash_text

ApplyReport: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEvent:
    """An event with a subscription that the steps of a workflow emit, and that senders may send."""

    event: str
    workflow: str


def apply_report(
    applied: Applied, gate: FlowGate, ways: WaysOut | None, loaded: Loaded
) -> ApplyReport:
    """The result of applying ``loaded``, or of its dry run (spec/host.md, H-71b).

    ``aos apply`` prints it, whether the world is that of a folder or of a node. ``ways`` is None
    unless there are blockers.
    """
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
            {
                "kind": blocker.kind,
                "cell": _cell_document(blocker.cell, manifest),
                "detail": blocker.detail,
            }
            for blocker in applied.blockers
        ],
        "groups": groups_document(applied.blockers, manifest),
        "ways_out": None if ways is None else _ways_document(ways),
        "states": [_state_document(state, manifest) for state in applied.states],
        "refused": refused,
        "fates": None
        if applied.fates is None
        else {name: dict(counts) for name, counts in sorted(applied.fates.by_workflow.items())},
        "flows": gate_document(gate, lambda cell: _key_as_json(cell, manifest)),
        "open_events": [asdict(open_event) for open_event in open_events(loaded)],
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
            "examples": [_cell_document(cell, manifest) for cell in group.examples],
            "detail": group.detail,
        }
        for group in groups(blockers)
    ]


def _ways_document(ways: WaysOut) -> dict[str, Any]:
    return {
        "modes": list(ways.modes),
        "leaves_cells": ways.leaves_cells,
        "in_place": list(ways.in_place),
        "to_migrate": list(ways.to_migrate),
    }


def _state_document(converted: Converted, new: Effective) -> dict[str, Any]:
    state_before = as_json(converted.source.state, converted.old_state)
    document: dict[str, Any] = {"cell": _cell_document(converted.cell, new), "before": state_before}
    if isinstance(converted.result, Fault):
        fault = {"kind": converted.result.kind.value, "message": converted.result.message}
        return {**document, "after": None, "fault": fault, "changed": []}
    state_after = as_json(new.workflows[converted.cell[0]].state, converted.result)
    changed = [
        {"path": path, "before": old, "after": now}
        for path, old, now in _changed_places(state_before, state_after)
    ]
    return {**document, "after": state_after, "fault": None, "changed": changed}


def _changed_places(state_before: object, state_after: object) -> list[tuple[str, object, object]]:
    between = differing("$", state_before, state_after)
    if between.places:
        return [
            (deviation.path, deviation.recorded, deviation.recomputed)
            for deviation in between.places
        ]
    return [] if state_before == state_after else [("$", state_before, state_after)]


def _cell_document(cell: CellId, manifest: Effective | None) -> dict[str, object]:
    return {"workflow": cell[0], "key": _key_as_json(cell, manifest)}


def _key_as_json(cell: CellId, manifest: Effective | None) -> object:
    name, key = cell
    if not key:
        return None
    workflow = manifest.workflows.get(name) if manifest else None
    return as_json(workflow.key if workflow else None, key)


def open_events(loaded: Loaded) -> tuple[OpenEvent, ...]:
    """The events to warn of, with one of the workflows that emit each (spec/cli.md, C-21c). Empty
    where the manifest lists the events from outside.

    A manifest declares which effects a workflow requests, but not which events it emits. So this
    looks for the names of subscribed schemas in the constants of the modules: a module that emits
    an event names its schema, unless it puts the name together while it runs.
    """
    effective = loaded.effective
    if effective.ingress is not None:
        return ()
    workflow_by_event: dict[str, str] = {}
    for event, workflow in _emitted_events(loaded):
        if effective.routes(event):
            workflow_by_event.setdefault(event, workflow)
    return tuple(
        OpenEvent(event=event, workflow=workflow_by_event[event])
        for event in sorted(workflow_by_event)
    )


def _emitted_events(loaded: Loaded) -> Iterator[tuple[str, str]]:
    effective = loaded.effective
    for module in effective.modules.values():
        wasm = loaded.modules.get(module.hash)
        workflows = [
            workflow for workflow in effective.workflows.values() if workflow.module == module
        ]
        if wasm is not None and workflows:
            yield from _constant_events(effective, workflows, wasm)
    for schedule in effective.schedules:
        if schedule.event is not None:
            yield schedule.event, SCHEDULE


def _constant_events(
    effective: Effective, workflows: list[Workflow], wasm: bytes
) -> Iterator[tuple[str, str]]:
    """The events whose names are constants of the module of some workflows.

    Flows, and modules in AssemblyScript, whose texts are UTF-16, also name the events that they
    take: these are left out.
    """
    try:
        data = constants(wasm)
    except Unreadable:
        return
    handled_events = {event for workflow in workflows for event in workflow.arms}
    has_flows = any(workflow.is_flow for workflow in workflows)
    for event in effective.by_event:
        is_taken = event in handled_events
        is_named = event.encode() in data and not (is_taken and has_flows)
        if is_named or (event.encode("utf-16-le") in data and not is_taken):
            yield event, workflows[0].name
