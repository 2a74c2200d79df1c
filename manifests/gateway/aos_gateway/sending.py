"""The events that an operator sends to records and lanes, to create and to command them, and their
results (spec/cli.md, C-120 to C-122, C-125).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Faulted, Step, slot_bytes
from aos.errors import Refused, Unavailable
from aos.host.door.writer import Item
from aos.host.folder.folder import open_folder
from aos.read.views.view import View
from aos.values.cbor import decode_record, encode
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to
from aos_gateway.cells import GatewayCell, find_cell, the_cell, unknown_text
from aos_gateway.keys import KINDS, LANE, Key, Kind, read_key
from aos_gateway.requests import Request, differences
from aos_gateway.rows import FAILED, IDLE, PARKED, PENDING, RUNNING, STALLED, Row, row
from aos_gateway.world import Filter, gateway_of, rows

PARK: Final = "Park"
RESUME: Final = "Resume"
CANCEL: Final = "Cancel"
RECONCILE: Final = "Reconcile"

ANSWER_S: Final = 10.0
LOOK_S: Final = 0.05
WHY_BYTES_MAX: Final = 1_024

_ALL_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    PARK: (PENDING, RUNNING, STALLED, IDLE),
    RESUME: (STALLED,),
    CANCEL: (PENDING, RUNNING, STALLED),
    RECONCILE: (RUNNING, STALLED),
}
"""The states of the records and lanes that ``--all`` means, unless ``--state`` names one."""


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


class _Change(NamedTuple):
    """The part of a row that a command may change."""

    state: str
    step: str | None
    stall: str | None
    code: str | None

    @classmethod
    def of(cls, row: Row) -> _Change:
        return cls(row["state"], row["step"], row["stall"], row["code"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Commanded:
    """A command for one cell. ``seq`` is its event, ``refusal`` the kernel's words if it refused
    the event. ``note`` is the decision of the cell's step, ``row_after`` the cell after it; both
    are None while the step has not run."""

    key: Key
    row_before: _Change
    seq: int | None = None
    refusal: str | None = None
    note: str | None = None
    row_after: _Change | None = None

    @property
    def document(self) -> Row:
        return {
            "type": self.key.kind.name,
            "key": self.key.text,
            "seq": self.seq,
            "refused": self.refusal,
            "before": self.row_before._asdict(),
            "after": None if self.row_after is None else self.row_after._asdict(),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Sent:
    """The commands of one call. ``is_run``: whether a process runs the world."""

    commands: Sequence[Commanded]
    is_run: bool

    @property
    def unanswered(self) -> int:
        return sum(
            command.seq is not None and command.row_after is None for command in self.commands
        )

    @property
    def refused(self) -> int:
        return sum(command.refusal is not None for command in self.commands)


def create(world: Path, request: Request) -> Created:
    """Create the record of a request, once for each key, and return as soon as that is durable
    (C-120 to C-122).

    Raises:
        BadUsage: The gateway's manifest is not in force.
        Refused: There is a record of this key with another input, or the kernel refuses the event.
    """
    existing_cell = _existing_cell(world, request)
    if existing_cell is None:
        return submit(world, request)
    _check_same_input(existing_cell, request)
    return _unchanged_record(existing_cell, request, _creating_seq(world, request))


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
            return _unchanged_record(_created_meanwhile(world, request), request, seq)
        case Refusal(rule=Rule.SUBMISSION_ID_IS_TAKEN):
            _check_same_input(_created_meanwhile(world, request), request)
            raise Refused(f"{request.key.words} exists with another input (nothing has changed)")
        case Refusal(rule=Rule.WORLD_IS_BUSY, message=message):
            raise Unavailable(message)
        case Refusal(message=message):
            raise Refused(message)


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


def _existing_cell(world: Path, request: Request) -> GatewayCell | None:
    with gateway_of(world) as view:
        return find_cell(view, request.key)


def _created_meanwhile(world: Path, request: Request) -> GatewayCell:
    """The record of a submission id that the kernel knows (K-12). Raises Refused if an operator
    has removed the record since."""
    cell = _existing_cell(world, request)
    if cell is None:
        raise Refused(
            f"{request.key.words} was created before, and an operator removed it since",
            hint=f"the kernel still knows its submission id {request.submission_id}, and "
            "accepts no other event with it",
        )
    return cell


def _creating_seq(world: Path, request: Request) -> int | None:
    """The number of the event that created the record, if ``create`` sent it."""
    store = open_folder(world).open_store(readonly=True)
    try:
        submission = store.submission(request.submission_id)
    finally:
        store.close()
    return None if submission is None else submission.seq


def _check_same_input(cell: GatewayCell, request: Request) -> None:
    """Raise Refused if the record was created with another input."""
    record_input = cell.input
    if record_input is None:
        raise Refused(f"{request.key.words} exists, and a fault stopped it: {cell.fault}")
    clauses = list(differences(record_input, request.input))
    if clauses:
        raise Refused(
            f"{request.key.words} exists with another input: {'; '.join(clauses)}",
            hint=f"nothing has changed; aos gateway show {request.key.text}",
        )


def _unchanged_record(cell: GatewayCell, request: Request, seq: int | None) -> Created:
    return Created(key=request.key, seq=seq, is_new=False, state=row(cell)["state"], is_run=None)


def cells_of_keys(world: Path, words: Sequence[str]) -> list[Commanded]:
    """The cells of these keys, each once.

    Raises:
        BadUsage: A word is no key.
        Refused: A key has no cell. Nothing has been sent for the others.
    """
    keys = dict.fromkeys(read_key(word) for word in words)
    with gateway_of(world) as view:
        cell_by_key = {key: find_cell(view, key) for key in keys}
        unknown = [unknown_text(view, key) for key, cell in cell_by_key.items() if cell is None]
    if unknown:
        suffix = "" if len(unknown) == 1 else f" (and {len(unknown) - 1} more of the keys)"
        raise Refused(f"{unknown[0]}{suffix}")
    return [_command_of(cell) for cell in cell_by_key.values() if cell is not None]


def all_of(world: Path, action: str, *, kind: Kind | None, state: str | None) -> list[Commanded]:
    """The cells that ``--all`` of a command means: those in one of its states, or in ``state``,
    except what is parked already or, of lanes, cannot be canceled."""
    with gateway_of(world) as view:
        cell_rows = rows(view, Filter(kind=kind, state=state))
    by_name = {cell_kind.name: cell_kind for cell_kind in KINDS}
    states = _ALL_STATES[action] if state is None else (state,)
    return [
        Commanded(key=Key(by_name[row["type"]], row["key"]), row_before=_Change.of(row))
        for row in cell_rows
        if row["state"] in states and not _is_pointless(action, row)
    ]


def _is_pointless(action: str, row: Row) -> bool:
    if action == CANCEL:
        return bool(row["type"] == LANE.name)
    return action == PARK and row["stall"] == PARKED


def command(world: Path, action: str, reason: str, cells: Sequence[Commanded]) -> Sent:
    """Send the command to each cell: one event each. If a process runs the world, wait for their
    steps, at most ``ANSWER_S`` for each thousand.

    Raises:
        Busy, Unavailable, Damage: As ``Writer.send``.
    """
    if not cells:
        return Sent((), is_run=False)
    with writing_to(world) as writer:
        answers = list(writer.send(_command_item(cell.key, action, reason) for cell in cells))
        is_run = not writer.is_direct
    sent = [_with_answer(cell, answer) for cell, answer in zip(cells, answers, strict=True)]
    if is_run:
        sent = _with_results(world, sent)
    return Sent(sent, is_run)


def _command_of(cell: GatewayCell) -> Commanded:
    return Commanded(key=cell.key, row_before=_Change.of(row(cell)))


def _command_item(key: Key, action: str, reason: str) -> Item:
    value: Any = {key.kind.field: key.text, "what": {"$tag": action}, "why": reason}
    return Item(schema=key.kind.commanded_by, value=encode(value))


def _with_answer(cell: Commanded, answer: object) -> Commanded:
    match answer:
        case Admitted(seq=seq) | Duplicate(seq=seq):
            return replace(cell, seq=seq)
        case Refusal(message=message):
            return replace(cell, refusal=message)
    raise AssertionError(f"no answer: {answer}")


def _with_results(world: Path, sent: Sequence[Commanded]) -> list[Commanded]:
    """The commands with the notes of their steps, and the cells after them."""
    notes = _step_notes(
        world, {(command.seq, command.key.cell) for command in sent if command.seq is not None}
    )
    with looking_at(world) as view:
        return [_with_note(view, command, notes) for command in sent]


def _with_note(
    view: View, command: Commanded, notes: Mapping[tuple[int, CellId], str | None]
) -> Commanded:
    if command.seq is None or (command.seq, command.key.cell) not in notes:
        return command
    cell = find_cell(view, command.key)
    row_after = command.row_before if cell is None else _Change.of(row(cell))
    return replace(command, note=notes[command.seq, command.key.cell], row_after=row_after)


def _step_notes(
    world: Path, step_ids: set[tuple[int, CellId]]
) -> dict[tuple[int, CellId], str | None]:
    """Wait for the steps that these events cause in their cells; return their annotations."""
    notes: dict[tuple[int, CellId], str | None] = {}
    if not step_ids:
        return notes
    until_s = time.monotonic() + ANSWER_S * (1 + len(step_ids) // 1_000)
    at = min(seq for seq, _ in step_ids)
    with looking_at(world) as view:
        while len(notes) < len(step_ids) and time.monotonic() < until_s:
            head = view.journal.head()
            if head is None or head.seq < at:
                time.sleep(LOOK_S)
                continue
            _read_notes(view, at, head.seq, step_ids, notes)
            at = head.seq + 1
    return notes


def _read_notes(
    view: View,
    first: int,
    last: int,
    step_ids: set[tuple[int, CellId]],
    notes: dict[tuple[int, CellId], str | None],
) -> None:
    for frame in view.journal.frames(first, last):
        for data in frame.records:
            if b"gw/" not in data:
                continue
            record = from_bytes(data)
            if not isinstance(record, Step | Faulted):
                continue
            step_id = record.root, record.cell
            if step_id in step_ids and step_id not in notes:
                notes[step_id] = _note_text(view, record)


def _note_text(view: View, record: Step | Faulted) -> str | None:
    if isinstance(record, Faulted):
        return f"fault {record.fault.kind.value}: {record.fault.message}"
    if record.ann is None:
        return None
    note: Any = decode_record(slot_bytes(record.ann, view.journal.blob))
    return str(note)
