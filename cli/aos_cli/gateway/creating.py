"""Create a record once for each key (spec/cli.md, C-120 to C-122)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.errors import Refused, Unavailable, sentence
from aos.host.door.writer import Item
from aos.host.folder.folder import open_folder
from aos_cli.gateway.cells import GatewayCell, find_cell, the_cell
from aos_cli.gateway.keys import Key
from aos_cli.gateway.requests import Request, differences
from aos_cli.gateway.rows import FAILED, PENDING, row
from aos_cli.gateway.world import gateway_of
from aos_cli.open_writing import writing_to


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The answer to a create. ``seq`` is the event that created the record; None if another program
    sent it. ``is_new`` is false if the record existed with the same input, so that nothing has
    changed; ``state`` is its state. ``is_run``: whether a process runs the world; None if
    nothing was sent."""

    key: Key
    seq: int | None
    is_new: bool
    state: str
    is_run: bool | None

    @property
    def document(self) -> dict[str, object]:
        return {
            "type": self.key.kind.name,
            "key": self.key.text,
            "id": self.key.id,
            "seq": self.seq,
            "created": self.is_new,
            "state": self.state,
        }


def input_of_work(world: Path, work: Key) -> tuple[dict[str, Any], str | None]:
    """The input of a work of this world, and why it failed, if it did.

    Raises:
        Refused: There is no such work.
    """
    with gateway_of(world) as view:
        cell = the_cell(view, work)
    record_input, record_row = cell.input, row(cell)
    if record_input is None:
        raise Refused(f"{work.words} has no input, because a fault stopped it: {cell.fault}")
    return record_input, record_row["code"] if record_row["state"] == FAILED else None


def create(world: Path, request: Request) -> Created:
    """Create the record of a request, and return once that is durable.

    Raises:
        BadUsage: The gateway's manifest is not in force.
        Refused: There is a record of this key with another input, or the kernel refuses the event.
    """
    existing_cell = _existing(world, request)
    if existing_cell is None:
        return submit(world, request)
    _check_same(existing_cell, request)
    return _unchanged(existing_cell, request, _record_of(world, request))


def submit(world: Path, request: Request) -> Created:
    """Send the event of a request whose record did not exist a moment ago. Raises as ``create``."""
    item = Item(
        schema=request.key.kind.created_by,
        value=request.data,
        submission_id=request.submission_id,
    )
    with writing_to(world) as writer:
        [answer] = writer.send([item], batch_items=1)
        is_run = not writer.is_direct
    match answer:
        case Admitted(seq=seq):
            return Created(key=request.key, seq=seq, is_new=True, state=PENDING, is_run=is_run)
        case Duplicate(seq=seq):
            return _unchanged(_created_meanwhile(world, request), request, seq)
        case Refusal(rule=Rule.SUBMISSION_ID_IS_TAKEN):
            _check_same(_created_meanwhile(world, request), request)
            raise Refused(f"{request.key.words} exists with another input (nothing has changed)")
        case Refusal(rule=Rule.WORLD_IS_BUSY, message=message):
            raise Unavailable(message)
        case Refusal(message=message):
            raise Refused(message)


def _existing(world: Path, request: Request) -> GatewayCell | None:
    with gateway_of(world) as view:
        return find_cell(view, request.key)


def _created_meanwhile(world: Path, request: Request) -> GatewayCell:
    """The record of a submission id that the kernel knows (K-12). Raises Refused if an operator
    has removed the record since."""
    cell = _existing(world, request)
    if cell is None:
        raise Refused(
            sentence(
                f"{request.key.words} was created before, and an operator removed it since",
                hint=f"the kernel still knows its submission id {request.submission_id}, and "
                "accepts no other event with it",
            )
        )
    return cell


def _record_of(world: Path, request: Request) -> int | None:
    """The number of the event that created the record, if ``create`` sent it."""
    store = open_folder(world).open_store(readonly=True)
    try:
        submission = store.submission(request.submission_id)
    finally:
        store.close()
    return None if submission is None else submission.seq


def _check_same(cell: GatewayCell, request: Request) -> None:
    """Raise Refused if the record was created with another input."""
    record_input = cell.input
    if record_input is None:
        raise Refused(f"{request.key.words} exists, and a fault stopped it: {cell.fault}")
    clauses = list(differences(record_input, request.input))
    if clauses:
        raise Refused(
            sentence(
                f"{request.key.words} exists with another input: {'; '.join(clauses)}",
                hint=f"nothing has changed; aos gateway show {request.key.text}",
            )
        )


def _unchanged(cell: GatewayCell, request: Request, seq: int | None) -> Created:
    return Created(key=request.key, seq=seq, is_new=False, state=row(cell)["state"], is_run=None)
