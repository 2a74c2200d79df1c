"""Find the cells that receive an event (spec/kernel.md, K-11, K-44, K-73)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from aos.core.decide.fits import event_problem
from aos.core.journal.records import (
    CellId,
)
from aos.core.state.state import State
from aos.core.state.version import is_pinned, manifest_of
from aos.manifest.effective import Effective
from aos.values.errors import ValueProblem
from aos.values.schema import Schema

KEY_BYTES_MAX: Final = 1024
"""Longest key of a cell, in canonical CBOR. Every record of the cell contains the key."""

"""Mailboxes that one record may reach. With ``KEY_BYTES_MAX`` it keeps a record readable (J-16)."""


def route(effective: Effective, schema: Schema, data: bytes) -> list[CellId]:
    """The cells that receive an event, in manifest order. ``data`` is its normal form.

    Raises:
        ValueProblem: A key is missing, does not fit or is too long; no target gets the event then.
    """
    targets: list[CellId] = []
    routes = effective.routes(schema.name)
    value = schema.from_record(data) if routes else None
    for each in routes:
        key = each.key(value)
        if len(key) > KEY_BYTES_MAX:
            raise ValueProblem(
                f"too long for a key of {each.workflow}: expected at most {KEY_BYTES_MAX} bytes, "
                f"found {len(key)}",
                path=f"$.{each.key_field}",
            )
        targets.append((each.workflow, key))
    return targets


def pinned_problem(state: State, targets: list[CellId], schema: str, data: bytes) -> str | None:
    """The reason why an event cannot go to one of its targets: the target is pinned to a manifest
    under which it does not take such events (K-73). None if there is no such target.

    Raises:
        Damage: That manifest cannot be read.
    """
    if state.eras.is_one:
        return None
    for id in targets:
        cell = state.cells.get(id)
        if cell is None or not is_pinned(state, cell):
            continue
        effective = manifest_of(state, cell)
        problem = event_problem(effective, effective.workflows[id[0]], schema, data)
        if problem is not None:
            return (
                f"an instance of {id[0]} is in flight under an earlier manifest: {problem} "
                "(send it again when that instance is done)"
            )
    return None


def place(
    state: State, targets: list[CellId], taken: Counter[CellId]
) -> tuple[tuple[CellId, ...], tuple[CellId, ...]]:
    """Split targets into those whose mailbox has room and those that it overloads.

    ``taken`` counts the events that the same record has put into each mailbox so far; this function
    adds to it. Events also reach failed instances, which keep or count them (K-44).
    """
    most = state.effective.limits.mailbox
    to: list[CellId] = []
    overloaded: list[CellId] = []
    for id in targets:
        cell = state.cells.get(id)
        if cell is not None and cell.fault is not None:
            to.append(id)
        elif (0 if cell is None else len(cell.mailbox)) + taken[id] < most:
            taken[id] += 1
            to.append(id)
        else:
            overloaded.append(id)
    return tuple(to), tuple(overloaded)
