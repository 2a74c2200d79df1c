"""Send the event that starts a flow, once for each key (spec/cli.md, C-70)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aos.audit.lens.words import key_text
from aos.audit.views.view import View
from aos.core.decide.admit import SUBMISSION_ID_BYTES_MAX
from aos.core.decide.answers import Duplicate, Refusal, Rule
from aos.errors import Refused
from aos.flow.flow_state import PENDING
from aos.host.door.writer import Item
from aos.values.errors import ValueProblem
from aos_cli.flow_naming import NamedInstance, admitted, declaration_in_force, instance
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to

ADMITTED = "admitted"
DUPLICATE = "duplicate"
EXISTING = "existing"


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
