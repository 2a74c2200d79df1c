"""Try the code of a new manifest on the flows that are in progress (spec/flow.md, FL-90 and
FL-90a).

For each of them the new code decides a ``Continue`` on the stored state: it replays the history and
asks for nothing that was not asked for before. The result is dropped. If the code no longer fits
the history, the step ends with the fault ``diverged``, and so would the flow. Then the values that
only later turns decode are read by the schemas of the manifest (``stored_divergence``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from aos.core.decide.fits import key_problem
from aos.core.decide.step import rehearse
from aos.core.journal.faults import Fault, FaultKind, refuse_host_memory
from aos.core.journal.ports import BlobReader, Runner
from aos.core.journal.records import CellId, Stamp, slot_bytes
from aos.core.state.cell import Cell, EventMail, Root
from aos.core.state.state import State
from aos.core.state.version import manifest_under, runs_under, workflow_of
from aos.flow.declaration import CONTINUE, FlowDeclaration, declared_flow, declared_flows
from aos.flow.failure import FlowDivergence
from aos.flow.flow_state import STUCK, TRIED, FlowState
from aos.flow.history import History, OperationNode, tree, walk
from aos.flow.operation import UNDO, Message, OperationKind, UndoState, joined
from aos.manifest.effective import Effective, Workflow
from aos.values.errors import ValueProblem

_NO_CHANCE: Final = bytes(64)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedFlow:
    """A flow in progress that the new code would stop with ``fault``; ``divergence`` says where its
    history and the code differ, if that is the fault."""

    cell: CellId
    fault: Fault
    divergence: FlowDivergence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowGate:
    """The result: how many flows in progress were tried, and those that would be stopped."""

    checked: int
    stopped: tuple[StoppedFlow, ...]

    @property
    def continued(self) -> int:
        """How many would continue."""
        return self.checked - len(self.stopped)


NO_FLOWS: Final = FlowGate(checked=0, stopped=())


def taken_over(manifest: Effective) -> dict[str, frozenset[str]]:
    """Return the flows of ``manifest``, each with the statuses of the instances that continue under
    it: with ``in_place`` all in progress (K-75). A stuck one always does (K-74a), because for the
    kernel it has failed; it continues after ``Resume``.
    """
    return {
        name: TRIED if manifest.workflows[name].upgrade == "in_place" else frozenset({STUCK})
        for name in declared_flows(manifest)
    }


def flow_gate(
    state: State,
    manifest: Effective,
    statuses_by_flow: Mapping[str, frozenset[str]],
    *,
    runner: Runner,
    read: BlobReader,
    skips_unchanged: bool = True,
) -> FlowGate:
    """Try flows of ``manifest`` on each of their instances that is in progress.

    Args:
        statuses_by_flow: The flows, each with the statuses of the instances to try.
        skips_unchanged: Leave out instances that run this workflow and module already.

    Raises:
        Damage: A stored state or a module cannot be read.
        Unavailable: This machine lacks the memory to run a flow.
    """
    checked, stopped = 0, []
    for name, statuses in statuses_by_flow.items():
        declaration = declared_flow(manifest, name)
        assert declaration is not None, "named as a flow of this manifest"
        new = manifest.workflows[name]
        for cell, flow in _in_progress(state, new, statuses, read):
            if skips_unchanged and _is_unchanged(state, cell, new, manifest):
                continue
            checked += 1
            event = _continue(state, cell, declaration)
            fault = rehearse(state, cell, event, manifest=manifest, runner=runner, read=read)
            if fault is not None:
                refuse_host_memory(fault, f"a flow of {name}")
                divergence = FlowDivergence.read(fault.detail)
                stopped.append(StoppedFlow(cell=cell.id, fault=fault, divergence=divergence))
            elif (divergence := stored_divergence(flow, declaration, manifest)) is not None:
                stopped.append(
                    StoppedFlow(cell=cell.id, fault=_later_fault(divergence), divergence=divergence)
                )
    return FlowGate(checked=checked, stopped=tuple(stopped))


def _in_progress(
    state: State, new: Workflow, statuses: frozenset[str], read: BlobReader
) -> Iterator[tuple[Cell, FlowState]]:
    for cell in state.cells.of(new.name):
        old = workflow_of(state, cell)
        if (
            cell.state is None
            or cell.fault is not None
            or cell.declared == "completed"
            or key_problem(new, cell.id[1]) is not None
            or (old is not None and not old.is_flow)
        ):
            continue
        try:
            flow = FlowState.read(slot_bytes(cell.state, read))
        except ValueProblem:
            continue  # no state of a flow: an apply refuses it anyway (K-71), as a misfit key
        if flow.status in statuses:
            yield cell, flow


def _is_unchanged(state: State, cell: Cell, new: Workflow, manifest: Effective) -> bool:
    """Whether a flow runs this workflow, module and definitions of effects already."""
    old, old_manifest = workflow_of(state, cell), manifest_under(state, runs_under(state, cell))
    return (
        old is not None
        and (old.hash, old.module.hash) == (new.hash, new.module.hash)
        and all(
            old_manifest.effects[name].hash == manifest.effects[name].hash
            for name in new.effects_emitted
        )
    )


def _later_fault(divergence: FlowDivergence) -> Fault:
    """The fault for something that no turn has come to yet."""
    path = divergence.path or "the flow"
    message = f"at {path}: the history has {divergence.expected}, the new code {divergence.found}"
    return Fault(kind=FaultKind.GUEST, message=f"diverged: {message}")


def _continue(state: State, cell: Cell, declaration: FlowDeclaration) -> EventMail:
    seq = state.next_seq
    return EventMail(
        entry=(seq, 0),
        root=Root(seq=seq, stamp=Stamp(state.clock_ns, _NO_CHANCE)),
        depth=0,
        schema=declaration.control.name,
        value=declaration.control_value(cell.id[1], CONTINUE),
    )


def stored_divergence(
    flow: FlowState, declaration: FlowDeclaration, manifest: Effective
) -> FlowDivergence | None:
    """Return the first stored part that later turns cannot use under ``manifest``; None if there is
    none (FL-90a).

    A turn decodes only the values that its code comes to. This function reads those of later turns
    by the schemas of the manifest, which are those of the code: compensations, messages, and the
    schemas of events to other flows. A history that cannot be read is a fault of the turn itself.
    """
    stored_parts = _StoredParts(declaration, manifest)
    return next(stored_parts.problems(flow), None)


class _StoredParts:
    def __init__(self, declaration: FlowDeclaration, manifest: Effective) -> None:
        self._declaration = declaration
        self._manifest = manifest

    def problems(self, flow: FlowState) -> Iterator[FlowDivergence]:
        if flow.history is not None:
            yield from self._undone(flow.history)
            for node in walk(tree(flow.history)):
                yield from self._operation(node)
        if flow.failure is None:
            yield from self._messages("inbox", flow.inbox)
        if flow.parent is not None:
            yield from self._event_schema("", "a caller", flow.parent.schema)

    def _undone(self, history: History) -> Iterator[FlowDivergence]:
        for undo in history.compensations:
            if undo.state not in (UndoState.DONE, UndoState.SKIPPED):
                yield from self._compensation(undo.path, undo.effect, undo.params)

    def _operation(self, node: OperationNode) -> Iterator[FlowDivergence]:
        operation, details = node.operation, node.operation.details
        yield from self._messages(node.path, details.messages)
        if operation.state.is_over:
            return
        if operation.kind is OperationKind.STEP and details.effect is not None:
            yield from self._effect(node.path, "a step", details.effect)
        if details.unknown is not None:
            yield from self._compensation(node.path, *details.unknown)
        if details.control is not None:
            yield from self._event_schema(node.path, "a call", details.control)

    def _effect(self, path: str, part: str, effect: str) -> Iterator[FlowDivergence]:
        if effect not in self._declaration.workflow.effects_emitted:
            actual = "does not have it in effects(…)"
            yield FlowDivergence(path=path, expected=f"{part} of {effect}", found=actual)

    def _compensation(self, step: str, effect: str, params: bytes) -> Iterator[FlowDivergence]:
        path = joined(step, UNDO)
        undeclared = list(self._effect(path, "a compensation", effect))
        if undeclared:
            yield from undeclared
            return
        try:
            self._manifest.effects[effect].params.from_ingress(params)
        except ValueProblem as problem:
            expected = f"a compensation of {effect}"
            yield FlowDivergence(path=path, expected=expected, found=f"other params: {problem}")

    def _messages(self, path: str, messages: tuple[Message, ...]) -> Iterator[FlowDivergence]:
        for message in messages:
            if message.schema not in self._declaration.messages:
                continue  # no operation of the new code asks for it
            try:
                self._manifest.schemas[message.schema].from_record(message.value)
            except ValueProblem as problem:
                expected = f"message {message.number} of {message.schema}"
                yield FlowDivergence(path=path, expected=expected, found=f"another type: {problem}")

    def _event_schema(self, path: str, part: str, schema: str) -> Iterator[FlowDivergence]:
        """The schema of an event that a later turn emits."""
        if schema not in self._manifest.schemas:
            expected = f"{part} with the schema {schema}"
            yield FlowDivergence(path=path, expected=expected, found="does not have this schema")
