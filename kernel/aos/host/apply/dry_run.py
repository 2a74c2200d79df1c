"""Try a new manifest on a world without applying it (spec/host.md, H-71, H-71a, H-77), and report
an apply or its dry run as a JSON document (H-71b).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from aos.core.decide.answers import Admitted, Blocker, Refusal, Rule
from aos.core.decide.flow_gate import NO_FLOWS, FlowGate, flow_gate, taken_over
from aos.core.decide.migration import Converted
from aos.core.decide.quiescence import MISFIT, REMOVED, Change, blockers
from aos.core.journal.faults import Fault
from aos.core.journal.inputs import MIGRATE, PIN, STRICT
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import MODES, ApplyMode, word_of
from aos.core.state.state import State
from aos.host.apply.apply import Applied, check_keys, check_modules, fates, left_by
from aos.host.apply.migrator import dry_migration, migrator_with, sample
from aos.host.folder.reader import WorldReader, open_reader
from aos.host.folder.restore import Progress
from aos.host.schedules import schedule_blockers
from aos.manifest.difference import difference
from aos.manifest.effective import Effective, Workflow
from aos.manifest.load import Loaded
from aos.manifest.schedules import SCHEDULE
from aos.prove.replay.difference import difference as differing
from aos.read.lens.flow_lens import gate_document
from aos.read.lens.words import as_json
from aos.read.views.manifest_changes import changes_document
from aos.sandbox.module import Unreadable, constants
from aos.sandbox.stack import run_on_big_stack
from aos.values.digests import Hash, hash_text

EXAMPLES: Final = 3
"""Most instances that one group names."""

ApplyReport: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The blockers of one kind that one workflow has. ``detail`` is that of the first."""

    workflow: str
    kind: str
    count: int
    examples: tuple[CellId, ...]
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysOut:
    """The modes that would work now instead of a refused apply. Nothing of it was done.

    Attributes:
        modes: The modes that the world would accept now, the least change for instances first.
        leaves_cells: Whether these need the removal of workflows that have cells to be allowed.
        in_place: The workflows that block a strict apply; it would work if the manifest declared
            ``upgrade: "in_place"`` for them. Empty if it would not.
        to_migrate: The workflows whose stored states do not fit, for which the manifest declares no
            migration from the schema in force.
    """

    modes: tuple[ApplyMode, ...]
    leaves_cells: bool
    in_place: tuple[str, ...]
    to_migrate: tuple[str, ...]


def dry_run_of(
    path: Path,
    loaded: Loaded,
    *,
    mode: str = STRICT,
    leave_cells: bool = False,
    show: int = 0,
    progress: Progress | None = None,
) -> Applied:
    """Forecast the changes and blockers of applying ``loaded`` to the world at ``path`` (H-71).

    With the mode ``migrate``, the result has up to ``show`` states before and after, those that
    fail first. Needs neither the lock nor the process that runs the world.

    Raises:
        Refused: A module is refused, or an executor may not have its key.
    """
    apply_mode = word_of(MODES, mode)
    assert apply_mode is not None, f"mode: expected one of {MODES}, found {mode!r}"
    with open_reader(path, progress=progress) as reader:
        check_modules(loaded.effective, loaded.modules, in_force=reader.manifest, world=path)
        check_keys(loaded.effective, reader.state)
        leaves = left_by(reader.manifest, loaded.effective) if leave_cells else ()
        change = Change(
            in_force=reader.manifest, effective=loaded.effective, mode=apply_mode, leaves=leaves
        )
        standing = _standing(reader.state, change, reader.store.blob)
        if mode == MIGRATE and not standing:
            standing = dry_migration(
                reader.state, change, reader.store.blob, loaded.modules, world=path
            )
        states: tuple[Converted, ...] = ()
        if mode == MIGRATE and show:
            read = reader.store.blob
            states = sample(reader.state, change, read, loaded.modules, world=path, limit=show)
        return Applied(
            difference=difference(reader.manifest, loaded.effective),
            manifest=loaded.effective.hash,
            blockers=standing,
            answer=None,
            fates=fates(reader.state, change, reader.store.blob),
            states=states,
        )


def gate_flows(path: Path, loaded: Loaded, *, progress: Progress | None = None) -> FlowGate:
    """Try every flow in progress of the world at ``path`` that ``loaded`` would take over (H-77).

    Reads the durable world, and needs neither the lock nor the process that runs it. Without a flow
    in the manifest, the world is not opened.

    Raises:
        Refused: A module is refused.
        Damage: A stored state cannot be read.
    """
    flow_statuses = taken_over(loaded.effective)
    if not flow_statuses:
        return NO_FLOWS
    with open_reader(path, progress=progress) as reader:
        if reader.manifest is None:
            return NO_FLOWS
        check_modules(loaded.effective, loaded.modules, in_force=reader.manifest, world=path)

        def run() -> FlowGate:
            read = reader.store.blob
            migrator = migrator_with(read, loaded.modules, world=path)
            try:
                return flow_gate(
                    reader.state, loaded.effective, flow_statuses, runner=migrator, read=read
                )
            finally:
                migrator.close()

        return run_on_big_stack(run)


def groups(blockers: Sequence[Blocker]) -> tuple[Group, ...]:
    """Group blockers by workflow and kind, in the order of the first of each group."""
    blockers_by_group: dict[tuple[str, str], list[Blocker]] = {}
    for blocker in blockers:
        blockers_by_group.setdefault((blocker.cell[0], blocker.kind), []).append(blocker)
    return tuple(
        Group(
            workflow=workflow,
            kind=kind,
            count=len(group_blockers),
            examples=tuple(
                dict.fromkeys(blocker.cell for blocker in group_blockers if blocker.cell[1])
            )[:EXAMPLES],
            detail=group_blockers[0].detail,
        )
        for (workflow, kind), group_blockers in blockers_by_group.items()
    )


def ways_out(
    path: Path, loaded: Loaded, blockers: Sequence[Blocker], *, mode: str, leave_cells: bool
) -> WaysOut:
    """Find out what would work instead of an apply in ``mode`` that ``blockers`` blocks (H-71a).

    Reads the durable world: needs neither the lock nor the process that runs the world. Runs the
    migrations that the manifest declares, and discards the results.

    Raises:
        Damage: A stored state cannot be read.
    """
    with open_reader(path) as reader:
        attempt = _Attempt(path, reader, loaded.effective, loaded.modules)
        removes = any(blocker.kind == REMOVED for blocker in blockers)
        leaves = left_by(reader.manifest, loaded.effective) if leave_cells or removes else ()
        return WaysOut(
            modes=tuple(
                apply_mode
                for apply_mode in (STRICT, MIGRATE, PIN)
                if (apply_mode != mode or removes) and attempt.works(apply_mode, leaves)
            ),
            leaves_cells=bool(leaves),
            in_place=attempt.in_place(blockers, leaves),
            to_migrate=tuple(attempt.to_migrate(blockers)),
        )


@dataclass(slots=True)
class _Attempt:
    path: Path
    reader: WorldReader
    new: Effective
    modules: Mapping[Hash, bytes]

    def works(self, mode: ApplyMode, leaves: tuple[str, ...]) -> bool:
        change = self._change(self.new, mode, leaves)
        if mode == MIGRATE and not any(map(change.migrates, self.new.workflows)):
            return False
        state, read = self.reader.state, self.reader.store.blob
        if _standing(state, change, read):
            return False
        return mode != MIGRATE or not dry_migration(
            state, change, read, self.modules, world=self.path
        )

    def in_place(self, blockers: Sequence[Blocker], leaves: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(sorted({blocker.cell[0] for blocker in blockers} & set(self.new.workflows)))
        if not names or all(self.new.workflows[name].upgrade == "in_place" for name in names):
            return ()
        moved = {name: replace(self.new.workflows[name], upgrade="in_place") for name in names}
        new = replace(self.new, workflows={**self.new.workflows, **moved})
        change = self._change(new, STRICT, leaves)
        return () if _standing(self.reader.state, change, self.reader.store.blob) else names

    def to_migrate(self, blockers: Sequence[Blocker]) -> Iterator[str]:
        change = self._change(self.new, MIGRATE, ())
        for name in sorted({blocker.cell[0] for blocker in blockers if blocker.kind == MISFIT}):
            if not change.migrates(name):
                yield name

    def _change(self, new: Effective, mode: ApplyMode, leaves: tuple[str, ...]) -> Change:
        return Change(in_force=self.reader.manifest, effective=new, mode=mode, leaves=leaves)


def _standing(state: State, change: Change, read: BlobReader) -> tuple[Blocker, ...]:
    """Everything that keeps a manifest from being applied now: the kernel's blockers, and schedules
    that do not fit."""
    cells = state.cells.of(SCHEDULE)
    return (*blockers(state, change, read), *schedule_blockers(cells, change.effective, read))


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
