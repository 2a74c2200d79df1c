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
from aos_cli.flow_naming import Named, admitted, declaration_in_force, instance
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to

ADMITTED = "admitted"
DUPLICATE = "duplicate"
EXISTING = "existing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The answer to a start. ``how`` is ``admitted``, ``duplicate`` (the same start was sent
    before) or ``existing`` (the same flow was started in another way); ``status`` is None for a new
    one. ``is_run`` says that a process runs the world."""

    flow: Named
    how: str
    seq: int | None
    status: str | None
    is_run: bool | None

    @property
    def text(self) -> str:
        if self.how == ADMITTED:
            return f"{self.flow.text} started (record {self.seq:,})"
        where = "" if self.seq is None else f" (record {self.seq:,})"
        return f"{self.flow.text} was started before{where}: {self.status or PENDING}"

    @property
    def document(self) -> dict[str, object]:
        return {
            **self.flow.document,
            "answer": self.how,
            "seq": self.seq,
            "status": self.status,
        }


def start_flow(world: Path, word: str, given: object) -> Started:
    """Start a flow with an input that ``parse_json`` read.

    Raises:
        BadUsage: No flow is called so.
        Refused: The input does not fit, or the flow was started with another input. Nothing has
            changed.
    """
    with looking_at(world) as view:
        flow, data = _instance_of(view, word, given)
    status = None if flow.seen is None else flow.seen.status
    before = None if flow.seen is None else flow.seen.state
    if before is not None and before.input is not None:
        if before.input != data:
            raise _other_input(flow, status)
        return Started(flow=flow, how=EXISTING, seq=None, status=status, is_run=None)
    schema = flow.declaration.start.name
    item = Item(schema=schema, value=data, submission_id=_submission_id(flow))
    with writing_to(world) as writer:
        [answer] = writer.send([item], batch_items=1)
        is_run = not writer.is_direct
    if isinstance(answer, Refusal) and answer.rule is Rule.SUBMISSION_ID_IS_TAKEN:
        raise _other_input(flow, status)
    found = admitted(answer)
    how = DUPLICATE if isinstance(found, Duplicate) else ADMITTED
    return Started(flow=flow, how=how, seq=found.seq, status=status, is_run=is_run)


def _instance_of(view: View, word: str, given: object) -> tuple[Named, bytes]:
    """Return the instance that an input names, and the input's canonical bytes."""
    declaration = declaration_in_force(view, word)
    schema = declaration.start
    routes = view.state.effective.routes(schema.name)
    route = next(each for each in routes if each.workflow == declaration.name)
    try:
        value = schema.from_json_object(given)
        key = route.key(value)
    except ValueProblem as problem:
        raise Refused(f"{schema.name}: {problem}") from problem
    return instance(view, declaration, (declaration.name, key)), schema.encode(value)


def _submission_id(flow: Named) -> str:
    """Return ``flow:<workflow>:<key>``, under which the world admits one start of each instance."""
    found = f"flow:{flow.id[0]}:{key_text(flow.key)}"
    size = len(found.encode())
    if size > SUBMISSION_ID_BYTES_MAX:
        raise Refused(
            f"{flow.id[0]}: the key is too long: expected at most {SUBMISSION_ID_BYTES_MAX} bytes "
            f"of flow:<workflow>:<key>, found {size} (use a shorter key, or send the start with "
            f"an id of your own: aos send {flow.declaration.start.name} JSON --id ID)"
        )
    return found


def _other_input(flow: Named, status: str | None) -> Refused:
    return Refused(
        f"{flow.text} was started before with another input; its status is {status or PENDING} (to "
        f"start another one, use another key; its input: aos flow show {flow.words})"
    )
