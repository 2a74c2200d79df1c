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
        for each in self.operations:
            if each.path == path:
                return each
        paths = ", ".join(each.path for each in self.operations) or "none"
        raise WorldProblem(
            f"{self.workflow} {self.key}: no operation {path!r} (there are: {paths})"
        )


def seen_flow(desk: Desk, word: str, key: object) -> SeenFlow | None:
    """Find an instance; None if it does not exist. Raises: BadUsage: There is no such flow."""
    name = find_flow(desk.state, word)
    schema = desk.state.effective.workflows[name].key
    assert schema is not None, "a flow has a key"
    cell = desk.state.cells.get((name, canonical(schema, key, what=f"the key of {name}")))
    return None if cell is None else read_flow(desk.state, cell, desk.read)


def flow_of(seen: SeenFlow) -> Flow:
    """Return an instance as plain values.

    Raises:
        WorldProblem: Its state or its history cannot be read.
    """
    name, key = seen.id
    state = seen.state
    problem = seen.problem or (None if state is None else state.history_problem)
    if problem is not None:
        raise WorldProblem(f"{name} {decode_record(key)!r}: {problem}")
    history = None if state is None else state.history
    return Flow(
        workflow=name,
        key=decode_record(key),
        status=seen.status,
        input=_plain(None if state is None else state.input),
        output=_plain(None if state is None else state.output),
        error=None if state is None else state.failure,
        view=_plain(None if state is None else state.view),
        operations=()
        if history is None
        else tuple(
            FlowOperation(
                path=each.path,
                kind=each.operation.kind.word,
                state=each.operation.state.word,
                attempts=each.operation.attempts,
                value=_plain(each.operation.details.value),
                error=each.operation.details.failure,
            )
            for each in walk(tree(history))
        ),
        waits=()
        if history is None
        else tuple(
            FlowWait(
                path=each.path,
                kind=each.kind,
                attempt=each.attempt,
                effect=each.effect,
                messages=each.schemas,
                until_ns=each.until_ns,
            )
            for each in waits(history)
        ),
        compensations=()
        if history is None
        else tuple(
            FlowCompensation(
                path=each.path,
                effect=each.effect,
                params=decode_record(each.params),
                state=each.state.word,
                attempts=each.attempts,
                error=each.failure,
            )
            for each in history.compensations
        ),
        inbox=_inbox(state),
    )


def flow_document(desk: Desk, seen: SeenFlow) -> dict[str, Any]:
    """Return an instance as JSON (A-3a): its values by their schemas, its operations as a list of
    all of them in the order of the tree."""
    lens = Lens(desk.manifests, desk.read, most=ALL_BYTES).flow_lens(seen.manifest)
    found: dict[str, Any] = {} if seen.state is None else lens.document(seen.state)
    return {
        **found,
        "workflow": seen.id[0],
        "status": seen.status,
        "operations": list(_flat(found.get("operations") or [])),
    }


def _flat(operations: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in operations:
        yield each
        yield from _flat(each["children"])


def _inbox(state: FlowState | None) -> tuple[tuple[str, Any], ...]:
    if state is None:
        return ()
    return tuple((each.schema, decode_record(each.value)) for each in state.inbox)


def _plain(data: bytes | None) -> Any:
    return None if data is None else decode_record(data)
