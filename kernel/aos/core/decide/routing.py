"""Find the cells that receive an event (spec/kernel.md, K-11, K-40a, K-42a, K-44, K-73)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from aos.core.decide.fits import event_problem
from aos.core.journal.records import (
    CellId,
)
from aos.core.state.state import State
from aos.core.state.version import home, is_pinned, manifest_under
from aos.manifest.effective import Effective, Route
from aos.values.errors import ValueProblem, quoted
from aos.values.schema import Schema
from aos.values.show import describe

KEY_BYTES_MAX: Final = 1024
"""Longest key of a cell, in canonical CBOR. Every record of the cell contains the key."""


class Placed(NamedTuple):
    """The targets of one event: those whose mailbox has room, those that it overloads, and those
    that do not exist and that it may not create (K-42a)."""

    to: tuple[CellId, ...]
    overloaded: tuple[CellId, ...]
    unknown: tuple[CellId, ...]


def route(effective: Effective, schema: Schema, data: bytes) -> list[CellId]:
    """The cells that receive an event, in manifest order. ``data`` is its normal form.

    Raises:
        ValueProblem: A key is missing, does not fit or is too long; no target gets the event then.
    """
    targets: list[CellId] = []
    routes = effective.routes(schema.name)
    value = schema.from_record(data) if routes else None
    for route in routes:
        key = route.key(value)
        if len(key) > KEY_BYTES_MAX:
            raise ValueProblem(
                f"too long for a key of {route.workflow}: expected at most {KEY_BYTES_MAX} bytes, "
                f"found {len(key)}",
                path=f"$.{route.key_field}",
            )
        targets.append((route.workflow, key))
    return targets


def shard_problem(effective: Effective, targets: Iterable[CellId]) -> str | None:
    """The first of these cells that is in another shard of the group than this world (K-40a), as a
    sentence. None if there is none, or if the world is in no group."""
    shard = effective.shard
    if shard is None:
        return None
    for id in targets:
        index = effective.workflows[id[0]].placement.shard(id[1], shard.count)
        if index is not None and index != shard.index:
            return (
                f"{cell_text(effective, id)} is in shard {index} of {shard.count}, and this world "
                f"is shard {shard.index}"
            )
    return None


def cell_text(effective: Effective, id: CellId) -> str:
    """The name of a cell in a sentence: its workflow, and the key if there is one."""
    name, key = id
    schema = effective.workflows[name].key
    value = None if schema is None else schema.from_record(key)
    if value is None:
        return name
    return f"{name} {quoted(value) if isinstance(value, str) else describe(value)}"


def pinned_problem(
    state: State,
    targets: list[CellId],
    schema: str,
    data: bytes,
    *,
    left_behind: tuple[CellId, ...],
) -> str | None:
    """The reason why an event cannot go to one of its targets: the target is pinned to a manifest
    under which it does not take such events (K-73). None if there is no such target.
    ``left_behind`` are the targets that are left behind.

    Raises:
        Damage: That manifest cannot be read.
    """
    if state.eras.is_one:
        return None
    for id in targets:
        cell = state.cells.get(id)
        if cell is None or not (id in left_behind or is_pinned(state, cell)):
            continue
        effective = manifest_under(state, home(state, cell))
        problem = event_problem(effective, effective.workflows[id[0]], schema, data)
        if problem is not None:
            return (
                _left_behind_problem(id, problem)
                if id in left_behind
                else _in_flight_problem(id, problem)
            )
    return None


def _in_flight_problem(id: CellId, problem: str) -> str:
    return (
        f"an instance of {id[0]} is in flight under an earlier manifest: {problem} "
        "(send it again when that instance is done)"
    )


def _left_behind_problem(id: CellId, problem: str) -> str:
    return (
        f"an instance of {id[0]} is finished, and stays under an earlier manifest because its "
        f"state does not fit the one in force: {problem} (apply a manifest that migrates it)"
    )


def place_event(
    state: State, routes: tuple[Route, ...], targets: list[CellId], mail_counts: Counter[CellId]
) -> Placed:
    """Split the targets of an event, to which ``routes`` lead in the same order.

    ``mail_counts`` counts the events that the same record has put into each mailbox so far; this
    function adds to it. A cell that an earlier event of the record creates exists. Events also
    reach failed instances, which keep or count them (K-44).
    """
    mailbox_max = state.effective.limits.mailbox
    to: list[CellId] = []
    overloaded: list[CellId] = []
    unknown: list[CellId] = []
    for route, id in zip(routes, targets, strict=True):
        cell = state.cells.get(id)
        if cell is None and not route.creates and not mail_counts[id]:
            unknown.append(id)
        elif cell is not None and cell.fault is not None:
            to.append(id)
        elif (0 if cell is None else len(cell.mailbox)) + mail_counts[id] < mailbox_max:
            mail_counts[id] += 1
            to.append(id)
        else:
            overloaded.append(id)
    return Placed(tuple(to), tuple(overloaded), tuple(unknown))
