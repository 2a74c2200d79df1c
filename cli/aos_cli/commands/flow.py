"""``aos flow``: start, signal, cancel, resume and show flows (spec/cli.md, C-70 to C-76)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.inputs import RETRY, SKIP
from aos.core.journal.records import EntryId, slot_bytes
from aos.core.state.cell import EventMail
from aos.errors import BadUsage, Refused
from aos.flow.declaration import CANCEL, RESUME
from aos.flow.flow_state import CANCELED, STUCK
from aos.host.door.writer import Item
from aos.read.lens.words import count
from aos.read.operations.flow_reads import READ_FLOW, READ_FLOWS
from aos.read.views.flow_reading import FAULTED, SeenFlow, find_message
from aos_cli import flow_text as text
from aos_cli.flow_instance import (
    NamedInstance,
    Skipping,
    admitted,
    find_instance,
    json_argument,
    message_value,
    refuse_after_the_end,
    refuse_to_begin,
    skip_to_cancel,
    start_flow,
    wait_for_end,
)
from aos_cli.open_view import looking_at
from aos_cli.open_writing import cell_document, cell_text, writing_to
from aos_cli.options import (
    DEFAULT_WORLD,
    Json,
    WaitTimeout,
    World,
    address_of,
    argument,
    flag,
    option,
)
from aos_cli.output import line, note, print_json
from aos_cli.reading_command import ReadingCall, reading

CELLS_SHOWN: Final = 8

FlowName = Annotated[str, argument("FLOW", "The flow's name, or a unique part of it.")]
Key = Annotated[str, argument("KEY", "The instance's key, as JSON or as plain text.")]


def start(
    flow: FlowName,
    value: Annotated[str, argument("JSON", "The input, with the key in it.")],
    *,
    wait: Annotated[
        bool, flag("--wait", "Wait until the flow has ended, and print its output.")
    ] = False,
    timeout: WaitTimeout = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if timeout is not None and not wait:
        raise BadUsage("flow start: --timeout goes with --wait (see aos flow start --help)")
    if wait and address_of(world) is not None:
        from aos_cli.addressed_world import refuse_choice  # noqa: PLC0415  # few worlds have one

        refuse_choice(world, "--wait")
    flow_input = json_argument(value, "JSON")
    started = start_flow(world, flow, flow_input)
    if wait:
        return wait_for_end(world, started, timeout_ns=timeout, json=json)
    if json:
        print_json({**started.document, "output": None, "error": None, "fault": None})
        return 0
    line(started.text)
    if started.is_run is False:
        note("no process runs this world, so the flow does not advance (aos run)")
    return 0


def signal(
    flow: FlowName,
    key: Key,
    message: Annotated[str, argument("MESSAGE", "The message's schema, or a unique part of it.")],
    value: Annotated[str, argument("JSON", "The message; its key field is filled in.")],
    *,
    submission_id: Annotated[
        str | None,
        option(
            "ID", "Submission id; sending the same message with it again has no effect.", "--id"
        ),
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    payload = json_argument(value, "JSON")
    is_folder = address_of(world) is None
    with looking_at(world) as view:
        target = find_instance(view, flow, key)
        schema = find_message(target.declaration, message)
        filled = message_value(target, schema, payload)
        refuse_after_the_end(view, target, schema, submission_id)
        if is_folder:  # otherwise it is not known which instances exist
            refuse_to_begin(view, target, schema, filled)
        manifest = view.state.effective
    answer = _send(world, Item(schema=schema, value=filled, submission_id=submission_id))
    admission = admitted(answer)
    to = admission.to if isinstance(admission, Admitted) else ()
    if json:
        print_json(
            {
                **target.document,
                "message": schema,
                "answer": "admitted" if isinstance(admission, Admitted) else "duplicate",
                "seq": admission.seq,
                "to": [cell_document(cell, manifest) for cell in to],
            }
        )
        return 0
    cells = ", ".join(cell_text(cell, manifest) for cell in to[:CELLS_SHOWN])
    line(f"{admission.seq}  → {cells}" if cells else f"{admission.seq}  sent before")
    if is_folder:
        _note_on(target.reading)
    return 0


def _note_on(instance: SeenFlow | None) -> None:
    """Print why the flow does not take a message immediately."""
    if instance is None or instance.state is None or instance.state.input is None:
        note("the flow has not started: the message waits in its inbox")
    elif instance.status == FAULTED:
        note("a fault has stopped the flow: the message waits behind it")


def cancel(
    flow: FlowName,
    key: Key,
    *,
    no_rollback: Annotated[
        bool, flag("--no-rollback", "Run no compensations; completed steps are not undone.")
    ] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    with looking_at(world) as view:
        target = find_instance(view, flow, key)
        instance = _existing(target)
        if instance.state is not None and instance.state.has_ended and instance.cell.fault is None:
            if instance.status != CANCELED:
                raise Refused(f"{target.text} is {instance.status}: there is nothing to cancel")
            _show_canceled(target, None, None, json=json)
            return 0
        waiting = _waiting_cancel(target, instance, view.journal.blob)
    skipping = None
    with writing_to(world) as writer:
        entry = waiting
        if entry is None:
            value = target.declaration.control_value(target.id[1], CANCEL, rollback=not no_rollback)
            item = Item(schema=target.declaration.control.name, value=value)
            [answer] = writer.send([item], batch_items=1)
            entry = admitted(answer).seq, 0
        if instance.cell.fault is not None:
            skipping = skip_to_cancel(world, writer, target.id, entry)
    _show_canceled(target, entry[0], skipping, json=json)
    return 0


def _existing(target: NamedInstance) -> SeenFlow:
    """Return the instance itself. Raises Refused if there is none."""
    if target.reading is None:
        raise Refused(
            f"there is no {target.text}: no event has reached it (aos flow list --flow "
            f"{target.id[0]} shows those that there are)"
        )
    return target.reading


def _waiting_cancel(target: NamedInstance, instance: SeenFlow, read: Any) -> EntryId | None:
    """Return the entry of a Cancel that waits in the mailbox already; None if there is none."""
    control = target.declaration.control
    for mail in instance.cell.mailbox:
        if isinstance(mail, EventMail) and mail.schema == control.name:
            value = control.from_record(slot_bytes(mail.value, read))
            command = value.get("command") if isinstance(value, dict) else None
            if isinstance(command, dict) and command.get("$tag") == CANCEL:
                return mail.entry
    return None


def _show_canceled(
    target: NamedInstance, seq: int | None, skipping: Skipping | None, *, json: bool
) -> None:
    skipped = [] if skipping is None else skipping.skipped
    if json:
        print_json(
            {
                **target.document,
                "seq": seq,
                "skipped": skipped,
                "commands": [] if skipping is None else skipping.seqs,
                "is_over": skipping is None or skipping.is_over,
            }
        )
        return
    if seq is None:
        line(f"{target.text} is canceled already")
        return
    line(f"{target.text} gets Cancel (record {seq:,})")
    for entry in skipped:
        line(f"  skipped, and not compensated: {text.mail(entry)}")
    if skipping is None:
        return
    if skipping.effects:
        note(
            f"{count(len(skipping.effects), 'skipped receipt')} reported a success that the flow "
            "never got: find out whether it has to be undone by hand (the journal keeps it: "
            f"aos flow show {target.words} --history)"
        )
    if skipping.is_over:
        return
    if skipping.is_run:
        note(f"Cancel has not run yet: see aos flow show {target.words}")
    else:
        note(
            "no process runs this world: Cancel runs with the next aos run. If the flow is still "
            f"faulted then, another entry failed before Cancel: aos flow cancel {target.words}"
        )


def resume(
    flow: FlowName,
    key: Key,
    *,
    skip: Annotated[
        bool, flag("--skip", "Skip the compensation that is stuck, or the entry that failed.")
    ] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    with looking_at(world) as view:
        target = find_instance(view, flow, key)
    instance = _existing(target)
    if instance.status not in (FAULTED, STUCK):
        raise Refused(
            f"{target.text} is {instance.status}: only a flow that a fault has stopped, or that is "
            f"stuck in its rollback, can be resumed (aos flow show {target.words})"
        )
    if instance.status == FAULTED:
        with writing_to(world) as writer:
            answer = writer.control(SKIP if skip else RETRY, cell=target.id)
    else:
        value = target.declaration.control_value(target.id[1], RESUME, skip=skip)
        answer = _send(world, Item(schema=target.declaration.control.name, value=value))
    seq = admitted(answer).seq
    if json:
        print_json({**target.document, "from": instance.status, "skip": skip, "seq": seq})
        return 0
    if instance.status == FAULTED:
        manner = "after the entry that failed" if skip else "with the entry that failed"
    else:
        manner = "without the compensation that is stuck" if skip else "its rollback"
    line(f"{target.text} resumes {manner} (record {seq:,})")
    return 0


def _send(world: Path, item: Item) -> Answer:
    with writing_to(world) as writer:
        [answer] = writer.send([item], batch_items=1)
    return answer


@reading(READ_FLOWS)
def list_flows(call: ReadingCall) -> None:
    document = call.document()
    call.show(document, lambda flows: text.flows(flows, call.reading.now_ns(call.query["at"])))


@reading(READ_FLOW)
def show(call: ReadingCall) -> None:
    document = call.document()
    call.show(document, lambda flow: text.flow(flow, call.reading.now_ns(call.query["at"])))
