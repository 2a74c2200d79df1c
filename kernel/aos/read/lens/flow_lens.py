"""Show the state of a flow: its operations as a tree instead of ``ops``, and its values by their
own schemas (spec/audit.md, A-3a); and which flows in progress new code would continue or stop
(A-90).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aos.core.decide.flow_gate import FlowGate, StoppedFlow
from aos.core.journal.records import CellId
from aos.flow.flow_state import FlowState
from aos.flow.history import OperationNode, Wait, tree, waits, walk
from aos.flow.operation import Compensation, Details, Message, OperationKind
from aos.manifest.effective import Effective
from aos.values.cbor import decode_record, encode
from aos.values.schema import Schema

Document: TypeAlias = dict[str, Any]
Show: TypeAlias = Callable[[Schema | None, bytes], object]

_NULL: Final = b"\xf6"


class FlowLens:
    """Shows flows by the schemas of one manifest. ``show`` turns the bytes of a value into JSON by
    a schema; ``show_key`` does so for a cell's key, as commands read it."""

    def __init__(self, manifest: Effective | None, show: Show, show_key: Show) -> None:
        self._manifest = manifest
        self._show = show
        self._show_key = show_key
        self._schemas: Mapping[str, Schema] = {} if manifest is None else manifest.schemas

    def document(self, state: FlowState) -> Document:
        """Return the whole state as JSON. Without a readable history, ``operations``,
        ``compensations`` and ``waits`` are null and ``history_problem`` gives the reason."""
        history = state.history
        return {
            "status": state.status,
            "started_ns": state.started_ns,
            "input": self._by_name(state.input_schema, state.input),
            "output": self._by_name(state.output_schema, state.output),
            "error": None if state.failure is None else state.failure.to_document(),
            "view": self._by_name(state.view_schema, state.view),
            "operations": None if history is None else self.operations(tree(history)),
            "waits": None if history is None else [self.wait(wait) for wait in waits(history)],
            "compensations": None
            if history is None
            else [self.compensation(compensation) for compensation in history.compensations],
            "inbox": [self._message(message) for message in state.inbox],
            "parent": None
            if state.parent is None
            else {
                "schema": state.parent.schema,
                "key": self._show_key(None, state.parent.key),
                "path": state.parent.path,
                "attempt": state.parent.attempt,
            },
            "history_problem": state.history_problem,
        }

    def operations(self, roots: list[OperationNode]) -> list[Document]:
        """Return a tree of operations as JSON, each with its ``children``."""
        documents: dict[int, Document] = {}
        for node in walk(roots):
            documents[id(node)] = self._operation(node)
        for node in walk(roots):
            documents[id(node)]["children"] = [documents[id(child)] for child in node.children]
        return [documents[id(node)] for node in roots]

    def _operation(self, node: OperationNode) -> Document:
        operation, details = node.operation, node.operation.details
        return {
            "path": node.path,
            "kind": operation.kind.word,
            "state": operation.state.word,
            "attempts": operation.attempts,
            "created_ns": operation.created_ns,
            "last_ns": operation.last_ns,
            "done_ns": operation.done_ns,
            "effect": details.effect,
            "schemas": list(details.schemas),
            "child": self._child(details.workflow, details.key),
            "retry_ns": details.retry_ns,
            "until_ns": details.until_ns,
            "value": self._value(operation.kind, details),
            "error": None if details.failure is None else details.failure.to_document(),
        }

    def _value(self, kind: OperationKind, details: Details) -> object:
        data = details.value
        if data is None:
            return None
        if kind is OperationKind.STEP and details.effect is not None:
            return self.receipt(details.effect, data)
        if kind is not OperationKind.LISTEN or len(details.schemas) != 1 or details.is_wrapped:
            return self._show(None, data)
        schema = self._schemas.get(details.schemas[0])
        if not details.is_many:
            # A listen with a deadline that has passed has null for its message.
            return None if data == _NULL else self._show(schema, data)
        messages = decode_record(data)
        assert isinstance(messages, list)
        return [self._show(schema, encode(message)) for message in messages]

    def receipt(self, effect: str, data: bytes) -> object:
        """Return the result of an effect as JSON."""
        definition = None if self._manifest is None else self._manifest.effects.get(effect)
        return self._show(None if definition is None else definition.receipt, data)

    def compensation(self, compensation: Compensation) -> Document:
        definition = (
            None if self._manifest is None else self._manifest.effects.get(compensation.effect)
        )
        return {
            "path": compensation.path,
            "effect": compensation.effect,
            "params": self._show(
                None if definition is None else definition.params, compensation.params
            ),
            "state": compensation.state.word,
            "attempts": compensation.attempts,
            "created_ns": compensation.created_ns,
            "last_ns": compensation.last_ns,
            "done_ns": compensation.done_ns,
            "error": None if compensation.failure is None else compensation.failure.to_document(),
        }

    def wait(self, wait: Wait) -> Document:
        return {
            "path": wait.path,
            "kind": wait.kind,
            "since_ns": wait.since_ns,
            "until_ns": wait.until_ns,
            "attempt": wait.attempt,
            "effect": wait.effect,
            "schemas": list(wait.schemas),
            "child": self._child(wait.workflow, wait.key),
            "is_canceled": wait.is_canceled,
        }

    def _child(self, workflow: str | None, key: bytes | None) -> Document | None:
        if workflow is None:
            return None
        definition = None if self._manifest is None else self._manifest.workflows.get(workflow)
        schema = None if definition is None else definition.key
        return {"workflow": workflow, "key": None if key is None else self._show_key(schema, key)}

    def _by_name(self, schema: str | None, data: bytes | None) -> object:
        if data is None:
            return None
        return self._show(None if schema is None else self._schemas.get(schema), data)

    def _message(self, message: Message) -> Document:
        return {"schema": message.schema, "value": self._by_name(message.schema, message.value)}


def gate_document(gate: FlowGate, key: Callable[[CellId], object]) -> dict[str, object]:
    """Return the gate's result; ``key`` returns the key of a cell as JSON."""
    return {
        "checked": gate.checked,
        "go_on": gate.continued,
        "diverge": [_stopped(flow, key(flow.cell)) for flow in gate.stopped],
    }


def _stopped(flow: StoppedFlow, key: object) -> dict[str, object]:
    divergence = flow.divergence
    return {
        "cell": {"workflow": flow.cell[0], "key": key},
        "path": None if divergence is None else divergence.path,
        "expected": None if divergence is None else divergence.expected,
        "found": None if divergence is None else divergence.found,
        "fault": {"kind": flow.fault.kind.value, "message": flow.fault.message},
    }
