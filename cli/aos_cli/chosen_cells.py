"""The cells that a command names or means, and a command for each of them, in the world of a folder
or of a node (spec/cli.md, C-24b, C-26 to C-26c, C-92).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from aos.core.decide.answers import Answer
from aos.core.state.cell import Cell
from aos.core.state.version import is_pinned
from aos.errors import Refused
from aos.host.door.writer import Item
from aos.manifest.effective import Effective
from aos.read.lens.lookup import find_cell, find_workflow
from aos.read.lens.words import as_json, compact
from aos.read.operations.cell_reads import READ_CELL, READ_CELLS, READ_FAULTS
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos_cli.open_view import looking_at
from aos_cli.open_writing import NamedCell, named_cell, writing_to
from aos_cli.options import address_of, client_of
from aos_cli.output import progress
from aos_cli.world_reading import NodeReading, rows_of

CELLS_READ: Final = 10_000
"""Instances of the workflow whose keys ``near_keys`` compares, so that a large world answers soon,
too."""

NAMED_MAX: Final = 3
"""Most keys that ``near_keys`` returns."""


@dataclass(frozen=True, slots=True)
class ChosenCell:
    """An instance as it was when the world was read. ``status`` is None if there is none; ``mail``
    and ``open_effects`` count what it would lose by its end."""

    cell: NamedCell
    status: str | None = None
    mail: int = 0
    open_effects: int = 0


Command: TypeAlias = Callable[[NamedCell], Answer]
"""Sends the command for one cell, and returns the world's answer."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A cell, and the world's answer to its command."""

    cell: NamedCell
    answer: Answer


def cell_by_key(world: Path, node: str | None, workflow: str, key: str | None) -> list[NamedCell]:
    """The cell that the words name. In the world of a node it exists.

    Raises:
        BadUsage: The world has no such workflow, or the key does not fit it.
        Refused: The node has no such cell.
    """
    if node is not None:
        return [instance.cell for instance in _keyed_on_node(node, workflow, [key])]
    with looking_at(world) as view:
        return [named_cell(find_cell(view.state, workflow, key), view.state.manifest)]


def failed(world: Path, node: str | None, workflow: str | None) -> list[NamedCell]:
    """Every cell that a fault failed, of one workflow or of all, the earliest fault first."""
    if node is not None:
        rows = rows_of(NodeReading(node), READ_FAULTS, "faults", {"workflow": workflow})
        return [_of_row(row).cell for row in rows][::-1]
    must_have_journal(world, "--all-failed")
    with looking_at(world) as view:
        name = None if workflow is None else find_workflow(view.state, workflow)
        cells = [
            cell
            for cell in view.state.cells.active.values()
            if cell.fault is not None and (name is None or cell.id[0] == name)
        ]
        cells.sort(key=lambda cell: cell.fault_seq or 0)
        return [named_cell(cell.id, view.state.manifest) for cell in cells]


def pinned(world: Path, node: str | None, workflow: str | None) -> list[NamedCell]:
    """Every pinned cell, of one workflow or of all, by workflow and key."""
    if node is not None:
        query = {"workflow": workflow, "pinned": True}
        rows = rows_of(NodeReading(node), READ_CELLS, "cells", query)
        return [_of_row(row).cell for row in rows]
    must_have_journal(world, "--all-pinned")
    with looking_at(world) as view:
        state = view.state
        names = sorted(state.cells.shelves)
        if workflow is not None:
            names = [find_workflow(state, workflow)]
        return [
            named_cell(cell.id, state.manifest)
            for name in names
            for cell in sorted(state.cells.of(name), key=lambda cell: cell.id)
            if is_pinned(state, cell)
        ]


def must_have_journal(world: Path, option: str) -> None:
    """Raise BadUsage if the world is named by its address: its cells cannot be listed."""
    if address_of(world) is not None:
        # Few worlds are named by an address.
        from aos_cli.addressed_world import refuse_choice  # noqa: PLC0415

        refuse_choice(world, option)


def keyed(
    world: Path, node: str | None, workflow: str, keys: Sequence[str | None]
) -> list[ChosenCell]:
    """The instances with these keys, each once. Raises as ``cell_by_key``."""
    if node is not None:
        return _keyed_on_node(node, workflow, keys)
    with looking_at(world) as view:
        state = view.state
        ids = dict.fromkeys(find_cell(state, workflow, key) for key in keys)
        ids_and_cells = [(id, state.cells.get(id)) for id in ids]
        return [
            ChosenCell(named_cell(id, state.manifest))
            if cell is None
            else _of_cell(cell, state.manifest)
            for id, cell in ids_and_cells
        ]


def _keyed_on_node(node: str, workflow: str, keys: Iterable[str | None]) -> list[ChosenCell]:
    from aos.client.node_connection import NoSuchInstance  # noqa: PLC0415  # only a node raises it

    world = NodeReading(node)
    try:
        rows = [
            world.document(READ_CELL, {"workflow": workflow, "key": key})
            for key in dict.fromkeys(keys)
        ]
    except NoSuchInstance as problem:
        raise Refused(str(problem)) from problem
    return list({row["key_cbor"]: _of_row(row) for row in rows}.values())


def matching(
    world: Path, node: str | None, workflow: str, pattern: str | None, *, ended: bool
) -> list[ChosenCell]:
    """The instances of a workflow whose key, as text, matches the pattern, or all of them, by
    key; with ``ended`` also those that are over.

    Raises:
        BadUsage: The world has no such workflow.
    """
    if node is not None:
        return [
            _of_row(row)
            for row in rows_of(NodeReading(node), READ_CELLS, "cells", {"workflow": workflow})
            if (ended or not _row_is_over(row)) and _matches(_key_text(row["key"]), pattern)
        ]
    must_have_journal(world, "--all" if pattern is None else "--pattern")
    with looking_at(world) as view:
        state = view.state
        return [
            _of_cell(cell, state.manifest)
            for cell in sorted(
                state.cells.of(find_workflow(state, workflow)), key=lambda cell: cell.id
            )
            if (ended or not (cell.declared is not None and cell.is_at_rest))
            and _matches(view.lens.key_text(cell.id, hash=cell.workflow_hash), pattern)
        ]


def _matches(key: str, pattern: str | None) -> bool:
    return pattern is None or fnmatchcase(key, pattern)


def _key_text(key: object) -> str:
    return key if isinstance(key, str) else "" if key is None else compact(key)


def _row_is_over(row: Document) -> bool:
    has_work = row["mailbox"] or row["in_flight"] or row["fault"] is not None
    return row["declared"] is not None and not has_work


def _of_cell(cell: Cell, manifest: Effective | None) -> ChosenCell:
    return ChosenCell(
        named_cell(cell.id, manifest), cell.status, len(cell.mailbox), len(cell.inflight)
    )


def _of_row(row: Document) -> ChosenCell:
    return ChosenCell(
        NamedCell(row["workflow"], row["key"]),
        row.get("status"),
        row["mailbox"],
        row.get("in_flight", 0),
    )


def command_each(
    world: Path,
    node: str | None,
    action: str,
    cells: Sequence[NamedCell],
    *,
    doing: str,
    status: str | None = None,
    reason: str | None = None,
) -> list[Answered]:
    """Send the command for each cell, to ``node`` or else to the world of a folder: one record
    each (C-26 to C-26c). A refusal does not stop the others.

    ``doing`` names the work on the progress line, such as ``retrying``. Without a cell, the world
    is not opened.
    """
    if not cells:
        return []
    way = (
        _command_in_folder(world, action, status, reason) if node is None
        else _command_on_node(node, action, status, reason)
    )  # fmt: skip
    with way as command, progress(doing) as advance:
        answered = []
        for cell in cells:
            answered.append(Answered(cell, command(cell)))
            advance(len(answered), len(cells))
    return answered


@contextmanager
def _command_in_folder(
    world: Path, action: str, status: str | None, reason: str | None
) -> Iterator[Command]:
    with writing_to(world) as writer:
        yield lambda cell: writer.control(action, cell=cell.id, status=status, reason=reason)


@contextmanager
def _command_on_node(
    node: str, action: str, status: str | None, reason: str | None
) -> Iterator[Command]:
    with client_of(node) as client:
        yield lambda cell: client.command(
            action, workflow=cell.workflow, key=cell.key, status=status, why=reason
        )


def near_keys(world: Path, item: Item) -> tuple[str, list[str]] | None:
    """Find the instance that ``item`` is for and that does not exist: return its workflow and at
    most three keys of that workflow that resemble its key. None if there is no such instance by
    now, or its workflow has no key (C-24b)."""
    with looking_at(world) as view:
        target = _missing_instance(view, item)
        if target is None:
            return None
        workflow, key = target
        key_texts = (
            _encoded_key_text(view, workflow, cell.id[1])
            for cell in islice(view.state.cells.of(workflow), CELLS_READ)
        )
        return workflow, difflib.get_close_matches(
            _encoded_key_text(view, workflow, key), list(key_texts), n=NAMED_MAX
        )


def _missing_instance(view: View, item: Item) -> tuple[str, bytes] | None:
    manifest = view.state.effective
    schema = manifest.schemas[item.schema]
    value = schema.from_record(schema.encode(schema.from_json_object(item.value)))
    for route in manifest.routes(item.schema):
        key = route.key(value)
        if key and not route.creates and (route.workflow, key) not in view.state.cells:
            return route.workflow, key
    return None


def _encoded_key_text(view: View, workflow: str, key: bytes) -> str:
    value = as_json(view.state.effective.workflows[workflow].key, key)
    return value if isinstance(value, str) else compact(value)
