"""Flows of a test world as plain values (spec/testing.md, T-35)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aos.audit.lens.flow_lookup import find_flow
from aos.audit.lens.lens import ALL_BYTES, Lens
from aos.audit.views.flow_reading import SeenFlow, read_flow
from aos.flow.failure import Failure
from aos.flow.flow_state import FlowState
from aos.flow.tree import tree, walk
from aos.flow.waits import waits
from aos.testing.desk import Desk
from aos.testing.plain import canonical
from aos.testing.problems import WorldProblem
from aos.values.cbor import decode_record


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOperation:
    """One operation; ``value`` is None where it has none, or none that was kept."""

    path: str
    kind: str
    state: str
    attempts: int
    value: Any
    error: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowWait:
    """One operation that is not over. ``kind`` is ``effect``, ``pause``, ``sleep``, ``message``,
    ``child`` or ``resume``; ``until_ns`` is when it ends by itself."""

    path: str
    kind: str
    attempt: int
    effect: str | None
    messages: tuple[str, ...]
    until_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCompensation:
    """A registered compensation of the step at ``path``."""

    path: str
    effect: str
    params: Any
    state: str
    attempts: int
    error: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One instance of a flow. ``operations`` are those that its state has, each before those in
    it; ``inbox`` has the schema and value of each message that no operation has taken."""

    workflow: str
    key: Any
    status: str
    input: Any
    output: Any
    error: Failure | None
    view: Any
    operations: tuple[FlowOperation, ...]
    waits: tuple[FlowWait, ...]
    compensations: tuple[FlowCompensation, ...]
    inbox: tuple[tuple[str, Any], ...]

    def operation(self, path: str) -> FlowOperation:
        """Return the operation at ``path``. Raises: WorldProblem: There is none now."""
        for operation in self.operations:
            if operation.path == path:
                return operation
        paths = ", ".join(operation.path for operation in self.operations) or "none"
        raise WorldProblem(
            f"{self.workflow} {self.key}: no operation {path!r} (there are: {paths})"
        )


def seen_flow(desk: Desk, word: str, key: object) -> SeenFlow | None:
    """Find an instance; None if it does not exist. Raises: BadUsage: There is no such flow."""
    name = find_flow(desk.state, word)
    schema = desk.state.effective.workflows[name].key
    assert schema is not None, "a flow has a key"
    cell = desk.state.cells.get((name, canonical(schema, key, subject=f"the key of {name}")))
    return None if cell is None else read_flow(desk.state, cell, desk.read)


def flow_of(flow: SeenFlow) -> Flow:
    """Return an instance as plain values.

    Raises:
        WorldProblem: Its state or its history cannot be read.
    """
    name, key = flow.id
    state = flow.state
    problem = flow.problem or (None if state is None else state.history_problem)
    if problem is not None:
        raise WorldProblem(f"{name} {decode_record(key)!r}: {problem}")
    history = None if state is None else state.history
    return Flow(
        workflow=name,
        key=decode_record(key),
        status=flow.status,
        input=_plain(None if state is None else state.input),
        output=_plain(None if state is None else state.output),
        error=None if state is None else state.failure,
        view=_plain(None if state is None else state.view),
        operations=()
        if history is None
        else tuple(
            FlowOperation(
                path=node.path,
                kind=node.operation.kind.word,
                state=node.operation.state.word,
                attempts=node.operation.attempts,
                value=_plain(node.operation.details.value),
                error=node.operation.details.failure,
            )
            for node in walk(tree(history))
        ),
        waits=()
        if history is None
        else tuple(
            FlowWait(
                path=wait.path,
                kind=wait.kind,
                attempt=wait.attempt,
                effect=wait.effect,
                messages=wait.schemas,
                until_ns=wait.until_ns,
            )
            for wait in waits(history)
        ),
        compensations=()
        if history is None
        else tuple(
            FlowCompensation(
                path=compensation.path,
                effect=compensation.effect,
                params=decode_record(compensation.params),
                state=compensation.state.word,
                attempts=compensation.attempts,
                error=compensation.failure,
            )
            for compensation in history.compensations
        ),
        inbox=_inbox(state),
    )


def flow_document(desk: Desk, flow: SeenFlow) -> dict[str, Any]:
    """Return an instance as JSON (A-3a): its values by their schemas, its operations as a list of
    all of them in the order of the tree."""
    lens = Lens(desk.manifests, desk.read, value_bytes_max=ALL_BYTES).flow_lens(flow.manifest)
    document: dict[str, Any] = {} if flow.state is None else lens.document(flow.state)
    return {
        **document,
        "workflow": flow.id[0],
        "status": flow.status,
        "operations": list(_flat(document.get("operations") or [])),
    }


def _flat(operations: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for operation in operations:
        yield operation
        yield from _flat(operation["children"])


def _inbox(state: FlowState | None) -> tuple[tuple[str, Any], ...]:
    if state is None:
        return ()
    return tuple((message.schema, decode_record(message.value)) for message in state.inbox)


def _plain(data: bytes | None) -> Any:
    return None if data is None else decode_record(data)
