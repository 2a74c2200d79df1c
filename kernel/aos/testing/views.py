"""Cells, events, faults and flows of a test world as plain values, and its journal as readable
lines (spec/testing.md, T-30 to T-33, T-35)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from aos.core.journal.records import CellId, Record, Slot, Step
from aos.errors import BadUsage
from aos.flow.failure import Failure
from aos.flow.flow_state import FlowState
from aos.flow.history import tree, waits, walk
from aos.read.lens.lens import ALL_BYTES, Lens
from aos.read.lens.lookup import find_workflow
from aos.read.lens.words import count, short, span_text, time_text
from aos.read.views.flow_reading import SeenFlow, find_flow, read_flow
from aos.read.views.record_view import Document, document, summary
from aos.testing.desk import Desk
from aos.testing.plain import canonical, plain, plain_key, plain_state
from aos.testing.problems import FaultSeen, WorldProblem
from aos.values.cbor import decode_record

STATE_CHARACTERS: Final = 160
LAST: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The present state of one cell."""

    workflow: str
    key: Any
    status: str
    state: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """An event that a step emitted, with its cell and the cells that it reached. ``unknown`` are
    cells that do not exist and that it may not create (K-42a)."""

    schema: str
    value: Any
    workflow: str
    key: Any
    to: tuple[tuple[str, Any], ...]
    seq: int
    unknown: tuple[tuple[str, Any], ...] = ()


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
    """One instance of a flow (T-35). ``operations`` are those that its state has, each before those
    in it; ``inbox`` has the schema and value of each message that no operation has taken."""

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


def cell_id(desk: Desk, workflow: str, key: object) -> CellId:
    """The cell's id. Raises: BadUsage: The workflow does not exist, or the key does not fit it."""
    name = find_workflow(desk.state, workflow)
    definition = desk.effective.workflows.get(name)
    schema = None if definition is None else definition.key
    if schema is None:
        if key is not None:
            raise BadUsage(f"{name} is not keyed: it has one cell", actual=repr(key))
        return name, b""
    if key is None:
        raise BadUsage(f"{name} is keyed: pass the key of a cell")
    return name, canonical(schema, key, subject=f"the key of {name}")


def plain_ids(ids: tuple[CellId, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((workflow, plain_key(key)) for workflow, key in ids)


def state_of(desk: Desk, id: CellId) -> Any:
    cell = desk.cell(id)
    return None if cell is None or cell.state is None else _state_value(desk, cell.state, id)


def _state_value(desk: Desk, state_slot: Slot, id: CellId) -> Any:
    return plain_state(state_slot, desk.read, desk.effective, id[0])


def status_of(desk: Desk, id: CellId) -> str | None:
    cell = desk.state.cells.get(id)
    return None if cell is None or cell.is_gone else cell.status


def cells(desk: Desk, workflow: str | None) -> list[Cell]:
    name = None if workflow is None else find_workflow(desk.state, workflow)
    existing = [
        (id, cell)
        for id, cell in desk.state.cells.items()
        if name in (None, id[0]) and not cell.is_gone
    ]
    return [
        Cell(
            workflow=id[0],
            key=plain_key(id[1]),
            status=cell.status,
            state=None if cell.state is None else _state_value(desk, cell.state, id),
        )
        for id, cell in sorted(existing, key=lambda entry: entry[0])
    ]


def annotated(desk: Desk, id: CellId) -> list[Any]:
    return [plain(step.ann, desk.read) for step in steps(desk.records, id) if step.ann is not None]


def steps(records: list[Record], id: CellId) -> Iterator[Step]:
    return (record for record in records if isinstance(record, Step) and record.cell == id)


def emitted(desk: Desk, schema: str | None) -> list[Emitted]:
    """Emitted events. Raises: BadUsage: The schema is unknown, and no such event was emitted."""
    events = [
        Emitted(
            schema=event.schema,
            value=plain(event.value, desk.read),
            workflow=record.cell[0],
            key=plain_key(record.cell[1]),
            to=plain_ids(event.to),
            seq=record.seq,
            unknown=plain_ids(event.unknown),
        )
        for record in desk.records
        if isinstance(record, Step)
        for event in record.events
        if schema in (None, event.schema)
    ]
    if schema is not None and not events and schema not in desk.effective.schemas:
        raise BadUsage(f"the manifest has no schema {schema}", hint="see aos inspect manifest")
    return events


def faults(desk: Desk, workflow: str | None, since: int = 0) -> list[FaultSeen]:
    """The faults of a workflow, or all, without the first ``since`` faults (T-32)."""
    name = None if workflow is None else find_workflow(desk.state, workflow)
    return [
        FaultSeen(
            workflow=id[0],
            key=plain_key(id[1]),
            kind=fault.kind.value,
            message=fault.message,
            seq=seq,
        )
        for seq, id, fault in desk.failed[since:]
        if name in (None, id[0])
    ]


def trace(desk: Desk, last: int = LAST) -> str:
    """One line per record, with the clock where it moved and the new state after each step
    (T-33)."""
    records = desk.records
    lens = Lens(desk.manifests, desk.read, for_people=True)
    lines = list(_trace_lines(desk, [document(record, lens) for record in records[-last:]]))
    if len(records) > last:
        lines.insert(0, f"… {count(len(records) - last, 'record')} before")
    return "\n".join(lines)


def _trace_lines(desk: Desk, documents: list[Document]) -> Iterator[str]:
    clock = None
    for record in documents:
        at = record.get("at_ns")
        if at is not None and at != clock:
            moved = "" if clock is None else f" (+{span_text(at - clock)})"
            yield f"      {time_text(at)}{moved}"
            clock = at
        yield f"{record['seq']:5} {record['kind']:8} {summary(record)}"
        if record["kind"] == "step":
            yield from _step_lines(record)
        if record["kind"] == "fault" and record["seq"] in desk.notes:
            yield from (f"      │ {line}" for line in desk.notes[record["seq"]].splitlines()[:20])


def _step_lines(record: Document) -> Iterator[str]:
    if record["state"] is not None:
        yield f"      │ state {short(record['state'], STATE_CHARACTERS)}"
    if record["annotations"] is not None:
        yield f"      │ annotation {short(record['annotations'], STATE_CHARACTERS)}"
    for event in record["events"]:
        yield f"      │ emits {event['schema']} {short(event['value'], STATE_CHARACTERS)}"
    for intent in record["intents"]:
        ref = f" ({intent['issuer_ref']})" if intent["issuer_ref"] else ""
        yield f"      │ asks {intent['effect']} {short(intent['params'], STATE_CHARACTERS)}{ref}"


def seen_flow(desk: Desk, word: str, key: object) -> SeenFlow | None:
    """Find an instance; None if it does not exist. Raises: BadUsage: There is no such flow."""
    name = find_flow(desk.state, word)
    schema = desk.effective.workflows[name].key
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
        input=_decoded(None if state is None else state.input),
        output=_decoded(None if state is None else state.output),
        error=None if state is None else state.failure,
        view=_decoded(None if state is None else state.view),
        operations=()
        if history is None
        else tuple(
            FlowOperation(
                path=node.path,
                kind=node.operation.kind.word,
                state=node.operation.state.word,
                attempts=node.operation.attempts,
                value=_decoded(node.operation.details.value),
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
        inbox=_inbox_of(state),
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
        "operations": list(_flat_operations(document.get("operations") or [])),
    }


def _flat_operations(operations: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for operation in operations:
        yield operation
        yield from _flat_operations(operation["children"])


def _inbox_of(state: FlowState | None) -> tuple[tuple[str, Any], ...]:
    if state is None:
        return ()
    return tuple((message.schema, decode_record(message.value)) for message in state.inbox)


def _decoded(data: bytes | None) -> Any:
    return None if data is None else decode_record(data)
