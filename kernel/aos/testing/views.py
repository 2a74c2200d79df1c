"""Cells, events and faults of a test world as plain values (spec/testing.md, T-30 to T-32)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aos.audit.lens.lookup import find_workflow
from aos.core.journal.records import CellId, Record, Slot, Step
from aos.errors import BadUsage, sentence
from aos.testing.desk import Desk
from aos.testing.plain import canonical, plain, plain_key, plain_state
from aos.testing.problems import FaultSeen


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


def cell_id(desk: Desk, workflow: str, key: object) -> CellId:
    """The cell's id. Raises: BadUsage: The workflow does not exist, or the key does not fit it."""
    name = find_workflow(desk.state, workflow)
    definition = desk.state.effective.workflows.get(name)
    schema = None if definition is None else definition.key
    if schema is None:
        if key is not None:
            raise BadUsage(sentence(f"{name} is not keyed: it has one cell", actual=repr(key)))
        return name, b""
    if key is None:
        raise BadUsage(f"{name} is keyed: pass the key of a cell")
    return name, canonical(schema, key, subject=f"the key of {name}")


def plain_ids(ids: tuple[CellId, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((workflow, plain_key(key)) for workflow, key in ids)


def state_of(desk: Desk, id: CellId) -> Any:
    cell = desk.state.cells.get(id)
    return None if cell is None or cell.state is None else _state(desk, cell.state, id)


def _state(desk: Desk, state_slot: Slot, id: CellId) -> Any:
    return plain_state(state_slot, desk.read, desk.state.effective, id[0])


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
            state=None if cell.state is None else _state(desk, cell.state, id),
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
    if schema is not None and not events and schema not in desk.state.effective.schemas:
        raise BadUsage(
            sentence(f"the manifest has no schema {schema}", hint="see aos inspect manifest")
        )
    return events


def faults(desk: Desk, workflow: str | None, since: int = 0) -> list[FaultSeen]:
    """The faults of a workflow, or all, without the first ``since`` faults."""
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
