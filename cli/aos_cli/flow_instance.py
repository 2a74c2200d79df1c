"""Find the instance of a flow that the command line names, complete its messages, and cancel it
past a fault; start a flow once for each key, and wait for its end (spec/cli.md, C-70 to C-73).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from aos.client.current import CurrentState, Instance
from aos.core.decide.admit import SUBMISSION_ID_BYTES_MAX
from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.decide.routing import route
from aos.core.journal.inputs import RETRY, SKIP
from aos.core.journal.records import CellId, EntryId
from aos.core.state.cell import Cell, EventMail, Mail, ReceiptMail
from aos.core.state.version import writer_of
from aos.errors import BadUsage, Refused, Unavailable
from aos.flow.declaration import FlowDeclaration, declared_flow
from aos.flow.failure import failure_text
from aos.flow.flow_state import COMPLETED, ENDED, PENDING, STUCK
from aos.flow.operation import IssuerRef
from aos.host.door.way import PAUSE_S
from aos.host.door.writer import Item, Writer
from aos.host.folder.reader import WorldReader, open_reader
from aos.host.package_checks import ended_flow
from aos.read.lens.lookup import find_cell
from aos.read.lens.words import SECOND, key_text
from aos.read.views.cell_view import mail_document
from aos.read.views.flow_reading import SeenFlow, find_flow, read_flow
from aos.read.views.reason import command_words
from aos.read.views.view import View
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json
from aos_cli import inspect_text
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to
from aos_cli.output import note, print_json

JSON_BYTES_MAX = 20 * 1024 * 1024

CANCEL_S: Final = 10.0
"""Seconds that the process which runs the world may take to reach the cancellation, or the next
entry that fails."""

Document = dict[str, Any]
"""An entry of a mailbox, as ``aos flow cancel`` lists it."""

ADMITTED = "admitted"
DUPLICATE = "duplicate"
EXISTING = "existing"

FOR_EVER_S: Final = 100 * 365 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedInstance:
    """One instance that a command names. ``reading`` is None if it does not exist."""

    id: CellId
    key: object
    declaration: FlowDeclaration
    reading: SeenFlow | None

    @property
    def words(self) -> str:
        """``FLOW KEY`` as a user types it."""
        return command_words(self.id[0], self.key)

    @property
    def text(self) -> str:
        return f"{self.id[0]} {key_text(self.key)}"

    @property
    def document(self) -> dict[str, object]:
        return {"workflow": self.id[0], "key": self.key}


@dataclass(slots=True, kw_only=True)
class Skipping:
    """The skipped entries, and the records of the commands. ``is_over`` says that Cancel has
    run; ``is_run``, that a process runs the world."""

    skipped: list[Document] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    is_over: bool = False
    is_run: bool = True

    @property
    def effects(self) -> list[Document]:
        """The skipped receipts of effects that succeeded: what they did stays done."""
        return [
            entry
            for entry in self.skipped
            if entry["kind"] == "receipt" and entry["status"] == "ok" and entry["role"] is None
        ]


def declaration_in_force(view: View, word: str) -> FlowDeclaration:
    """Return what the manifest in force says about a flow.

    Raises:
        BadUsage: No flow is called so.
        Refused: The manifest in force no longer has it, so that no event reaches its instances.
    """
    name = find_flow(view.state, word)
    declaration = declared_flow(view.state.effective, name)
    if declaration is None:
        raise Refused(
            f"{name} is no flow of the manifest in force, so that no event reaches its instances "
            f"(to end one: aos cells end {name} KEY)"
        )
    return declaration


def find_instance(view: View, word: str, key: str) -> NamedInstance:
    """Find an instance, whether or not it exists. Raises as ``declaration_in_force``; also BadUsage
    for a key that does not fit."""
    declaration = declaration_in_force(view, word)
    return instance(view, declaration, find_cell(view.state, declaration.name, key))


def instance(view: View, declaration: FlowDeclaration, id: CellId) -> NamedInstance:
    cell = view.state.cells.get(id)
    key = declaration.key.to_json(declaration.key.from_record(id[1]))
    reading = None if cell is None else read_flow(view.state, cell, view.journal.blob)
    return NamedInstance(id=id, key=key, declaration=declaration, reading=reading)


def json_argument(text: str, argument_name: str) -> object:
    """Read an argument that is JSON. Raises BadUsage."""
    try:
        return parse_json(text, max_bytes=JSON_BYTES_MAX)
    except ValueProblem as problem:
        raise BadUsage(f"{argument_name}: {problem}") from problem


def admitted(answer: Answer) -> Admitted | Duplicate:
    """Return an answer that is no refusal.

    Raises:
        Unavailable: The world is busy.
        Refused: Another rule refuses the input.
    """
    if not isinstance(answer, Refusal):
        return answer
    if answer.rule is Rule.WORLD_IS_BUSY:
        raise Unavailable(answer.message)
    raise Refused(answer.message)


def message_value(flow: NamedInstance, schema: str, message: object) -> object:
    """Return the JSON of a message of ``aos flow signal``, with the key of its instance in it
    (C-71).

    Raises:
        BadUsage: The message is no object, or names another key.
        Refused: It does not fit its schema.
    """
    field = flow.declaration.messages[schema]
    return message if field is None else _with_key(flow, schema, message, field.split("."))


def _with_key(flow: NamedInstance, schema: str, message: object, names: list[str]) -> object:
    if not isinstance(message, dict):
        raise BadUsage(f"{schema}: expected an object, found {type(message).__name__}")
    value: dict[str, Any] = dict(message)
    name, *inner_names = names
    if inner_names:
        return {**value, name: _with_key(flow, schema, value.get(name, {}), inner_names)}
    if name in value and not _is_key_of(flow, value[name]):
        raise BadUsage(
            f"{schema}: {name} is another key: expected {flow.key!r} or nothing, found "
            f"{value[name]!r} (the command fills it in)"
        )
    return {**value, name: flow.key}


def _is_key_of(flow: NamedInstance, value: object) -> bool:
    schema = flow.declaration.key
    try:
        return schema.encode(schema.from_json_object(value)) == flow.id[1]
    except ValueProblem:
        return False


def refuse_after_the_end(
    view: View, flow: NamedInstance, schema: str, submission_id: str | None
) -> None:
    """Raise Refused if the flow has ended, even if others would take the message, too. A submission
    id that the world knows still gets its earlier answer."""
    state = view.state
    cell, read = state.cells.get(flow.id), view.journal.blob
    ended = ended_flow(state.effective, cell, schema, partial(writer_of, state), read)
    if ended is None:
        return
    if submission_id is None or view.state.submissions.get(submission_id) is None:
        raise Refused(ended.refusal(view.state.effective).message)


def refuse_to_begin(view: View, flow: NamedInstance, schema: str, value: object) -> None:
    """Raise Refused if a message would also reach a flow without an instance of this key: it would
    wait there for a start that may never come. A value that does not fit is left to the
    kernel."""
    manifest = view.state.effective
    message_schema = manifest.schemas[schema]
    try:
        targets = route(
            manifest, message_schema, message_schema.encode(message_schema.from_json_object(value))
        )
    except ValueProblem:
        return
    for message_route, id in zip(manifest.routes(schema), targets, strict=True):
        is_other_flow = id != flow.id and manifest.workflows[id[0]].is_flow
        if is_other_flow and message_route.creates and id not in view.state.cells:
            raise Refused(
                f"{schema} is also a message of {id[0]}, which has no instance of this key: there "
                "it would wait for a start (to send it anyway: aos send)"
            )


def skip_to_cancel(world: Path, writer: Writer, id: CellId, cancel: EntryId) -> Skipping:
    """Skip each entry that the instance fails on before ``cancel`` (C-72a).

    Cancel is sent like any other message, and waits behind the entry that failed. That entry is
    skipped by a signed command, and so is each entry after it that fails too, until Cancel runs.
    Without a process that runs the world no step runs, so only the first one is skipped.

    A skipped receipt never reaches the flow: if it reported that a step succeeded, no compensation
    undoes that step. The skipped entries are listed for this reason.

    Raises:
        Refused, Unavailable: As for any other command. Entries that were skipped before stay
        skipped.
    """
    skipping = Skipping()
    with open_reader(world) as reader:
        while (cell := _stopped_cell(reader, id, cancel)) is not None:
            assert cell.fault is not None
            head = _failed_entry(View(reader.state, reader.store), cell.mailbox[0])
            action = SKIP if cell.fault.by_entry else RETRY
            answer = writer.control(action, cell=id)
            if isinstance(answer, Refusal) and answer.rule is Rule.CELL_HAS_NOT_FAILED:
                continue
            skipping.seqs.append(admitted(answer).seq)
            if action == SKIP:
                skipping.skipped.append(head)
            if writer.is_direct:
                skipping.is_run = False
                return skipping
        skipping.is_over = _is_entry_taken(reader, id, cancel)
    return skipping


def _stopped_cell(reader: WorldReader, id: CellId, cancel: EntryId) -> Cell | None:
    """Wait until the instance has run ``cancel``, or stops before it; return it in that case."""
    deadline = time.monotonic() + CANCEL_S
    while time.monotonic() < deadline:
        reader.refresh()
        if _is_entry_taken(reader, id, cancel):
            return None
        cell = reader.state.cells[id]
        if cell.fault is not None:
            return cell
        time.sleep(PAUSE_S)
    return None


def _is_entry_taken(reader: WorldReader, id: CellId, entry: EntryId) -> bool:
    cell = reader.state.cells.get(id)
    return cell is None or all(mail.entry != entry for mail in cell.mailbox)


def _failed_entry(view: View, mail: Mail) -> Document:
    """Describe the entry that failed: with the path of its operation, and, of a receipt, what it
    reported, because no step of the flow will ever see it."""
    document = {**mail_document(view, mail), "path": None, "role": None}
    ref = None if isinstance(mail, EventMail) else IssuerRef.read(mail.intent.issuer_ref)
    if ref is not None:
        document |= {"path": ref.path, "role": ref.role}
    if isinstance(mail, ReceiptMail):
        document["payload"] = view.lens.payload(mail.receipt)
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The answer to a start. ``answer_kind`` is ``admitted``, ``duplicate`` (the same start was
    sent before) or ``existing`` (the same flow was started in another way); ``status`` is None for
    a new one. ``is_run`` says that a process runs the world."""

    flow: NamedInstance
    answer_kind: str
    seq: int | None
    status: str | None
    is_run: bool | None

    @property
    def text(self) -> str:
        if self.answer_kind == ADMITTED:
            return f"{self.flow.text} started (record {self.seq:,})"
        record_text = "" if self.seq is None else f" (record {self.seq:,})"
        return f"{self.flow.text} was started before{record_text}: {self.status or PENDING}"

    @property
    def document(self) -> dict[str, object]:
        return {
            **self.flow.document,
            "answer": self.answer_kind,
            "seq": self.seq,
            "status": self.status,
        }


def start_flow(world: Path, word: str, input_value: object) -> Started:
    """Start a flow with an input that ``parse_json`` read.

    Raises:
        BadUsage: No flow is called so.
        Refused: The input does not fit, or the flow was started with another input. Nothing has
            changed.
    """
    with looking_at(world) as view:
        flow, data = _instance_of(view, word, input_value)
    status = None if flow.reading is None else flow.reading.status
    earlier_state = None if flow.reading is None else flow.reading.state
    if earlier_state is not None and earlier_state.input is not None:
        if earlier_state.input != data:
            raise _other_input(flow, status)
        return Started(flow=flow, answer_kind=EXISTING, seq=None, status=status, is_run=None)
    schema = flow.declaration.start.name
    item = Item(schema=schema, value=data, submission_id=_submission_id(flow))
    with writing_to(world) as writer:
        [answer] = writer.send([item], batch_items=1)
        is_run = not writer.is_direct
    if isinstance(answer, Refusal) and answer.rule is Rule.SUBMISSION_ID_IS_TAKEN:
        raise _other_input(flow, status)
    admission = admitted(answer)
    answer_kind = DUPLICATE if isinstance(admission, Duplicate) else ADMITTED
    return Started(
        flow=flow, answer_kind=answer_kind, seq=admission.seq, status=status, is_run=is_run
    )


def _instance_of(view: View, word: str, input_value: object) -> tuple[NamedInstance, bytes]:
    """Return the instance that an input names, and the input's canonical bytes."""
    declaration = declaration_in_force(view, word)
    schema = declaration.start
    routes = view.state.effective.routes(schema.name)
    route = next(candidate for candidate in routes if candidate.workflow == declaration.name)
    try:
        value = schema.from_json_object(input_value)
        key = route.key(value)
    except ValueProblem as problem:
        raise Refused(f"{schema.name}: {problem}") from problem
    return instance(view, declaration, (declaration.name, key)), schema.encode(value)


def _submission_id(flow: NamedInstance) -> str:
    """Return ``flow:<workflow>:<key>``, under which the world admits one start of each instance."""
    submission_id = f"flow:{flow.id[0]}:{key_text(flow.key)}"
    size = len(submission_id.encode())
    if size > SUBMISSION_ID_BYTES_MAX:
        raise Refused(
            f"{flow.id[0]}: the key is too long: expected at most {SUBMISSION_ID_BYTES_MAX} bytes "
            f"of flow:<workflow>:<key>, found {size} (use a shorter key, or send the start with "
            f"an id of your own: aos send {flow.declaration.start.name} JSON --id ID)"
        )
    return submission_id


def _other_input(flow: NamedInstance, status: str | None) -> Refused:
    return Refused(
        f"{flow.text} was started before with another input; its status is {status or PENDING} (to "
        f"start another one, use another key; its input: aos flow show {flow.words})"
    )


def wait_for_end(world: Path, started: Started, *, timeout_ns: int | None, json: bool) -> int:
    """Wait for the end of a flow; print its output, or why it has none (C-70a). Return the
    exit code.

    Raises:
        Unavailable: It has not ended in time.
    """
    flow = started.flow
    if started.is_run is False and not json:
        note("no process runs this world, so the flow does not advance (aos run)")
    current = CurrentState(world)
    try:
        instance = current.wait(
            flow.id[0],
            flow.key,
            _has_ended,
            FOR_EVER_S if timeout_ns is None else timeout_ns / SECOND,
        )
    finally:
        current.close()
    state: dict[str, Any] = instance.state or {}
    status = _end_status(instance)
    if json:
        print_json(
            {
                **started.document,
                "status": status,
                "output": state.get("output"),
                "error": state.get("error"),
                "fault": instance.fault,
            }
        )
        return 0 if status == COMPLETED else Refused.exit_code
    if status == COMPLETED:
        inspect_text.value(state.get("output"))
        return 0
    raise Refused(f"{flow.text} {_ending_text(instance, status)} (aos flow show {flow.words})")


def _has_ended(instance: Instance) -> bool:
    state = instance.state or {}
    if instance.fault is not None:
        return True
    return instance.status in ("completed", "failed") and state.get("status") != "pending"


def _end_status(instance: Instance) -> str:
    flow_status = (instance.state or {}).get("status")
    if instance.fault is not None:
        return "faulted"
    return flow_status if flow_status in (*ENDED, STUCK) else "closed"


def _ending_text(instance: Instance, status: str) -> str:
    error = (instance.state or {}).get("error")
    if status == "faulted":
        return f"is stopped by a fault: {instance.fault}"
    if status == STUCK:
        return "is stuck in its rollback"
    if status == "closed":
        return "was ended by an operator"
    error_text = "" if error is None else f": {failure_text(error)}"
    return f"{'failed' if status == 'failed' else 'was canceled'}{error_text}"
