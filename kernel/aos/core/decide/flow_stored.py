"""Check what a flow has stored for later turns against a new manifest (spec/flow.md, FL-90a).

A turn decodes only the values that its code comes to. This module reads those of later turns by
the schemas of the manifest, which are those of the code: compensations, messages, and the schemas
of events to other flows.
"""

from __future__ import annotations

from collections.abc import Iterator

from aos.flow.declaration import FlowDeclaration
from aos.flow.divergence import FlowDivergence
from aos.flow.flow_state import FlowState
from aos.flow.history import History
from aos.flow.message import Message
from aos.flow.operation import OperationKind, UndoState
from aos.flow.paths import UNDO, joined
from aos.flow.tree import OperationNode, tree, walk
from aos.manifest.effective import Effective
from aos.values.errors import ValueProblem


def stored_divergence(
    flow: FlowState, declaration: FlowDeclaration, manifest: Effective
) -> FlowDivergence | None:
    """Return the first stored part that later turns cannot use under ``manifest``; None if there is
    none. A history that cannot be read is a fault of the turn itself."""
    reading = _Reading(declaration, manifest)
    return next(reading.problems(flow), None)


class _Reading:
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
