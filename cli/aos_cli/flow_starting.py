"""Start a flow once for each key, and wait for its end (spec/cli.md, C-70, C-70a)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.client.current import CurrentState, Instance
from aos.core.decide.admit import SUBMISSION_ID_BYTES_MAX
from aos.core.decide.answers import Duplicate, Refusal, Rule
from aos.errors import Refused
from aos.flow.failure import failure_text
from aos.flow.flow_state import COMPLETED, ENDED, PENDING, STUCK
from aos.host.door.writer import Item
from aos.read.lens.words import SECOND, key_text
from aos.read.views.view import View
from aos.values.errors import ValueProblem
from aos_cli import inspect_text
from aos_cli.flow_instance import NamedInstance, admitted, declaration_in_force, instance
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to
from aos_cli.output import note, print_json

ADMITTED = "admitted"
DUPLICATE = "duplicate"
EXISTING = "existing"

FOR_EVER_S: Final = 100 * 365 * 86_400.0


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
