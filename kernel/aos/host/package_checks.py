"""Refuse inputs that would break a duty of a package, or that a flow which has ended would ignore
(spec/linear.md, L-34; schedule.md, SC-22; flow.md, FL-83, FL-83a; host.md, H-30a).

``refused_command`` checks the commands of operators that end or remove cells of the packages,
``refused_event`` the events from outside by which a package emits an event that the sender chooses.
Like the checks of ``host.schedules``, these are made before the kernel's own, in the process that
writes the journal.

A flow that has ended ignores what comes to it (FL-3). A sender would take the admission of such an
event for its delivery, so the host refuses it after the kernel has decided it and before it is
recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from shlex import join
from typing import Any, Final, TypeAlias

from aos.core.decide.answers import Answer, Decided, Refusal, Rule, admission
from aos.core.journal.inputs import END, REMOVE, ControlInput, EventInput
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Event, Record, Stamp, slot_bytes
from aos.core.kernel_protocol import CellView, KernelProtocol
from aos.errors import excerpt
from aos.host.schedules import refused_schedule
from aos.linear import RUNNING, status_of
from aos.manifest.effective import ONLY_OWN_STEPS, Effective, Workflow
from aos.manifest.names import BIZ_KEY, LINEAR, RESULT
from aos.manifest.schedules import DELETE, SCHEDULE, SET
from aos.read.lens.words import as_json, key_text
from aos.read.views.reason import command_words
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash
from aos.values.errors import ValueProblem

Read: TypeAlias = Callable[[Hash], bytes]
CellOf: TypeAlias = Callable[[CellId], CellView | None]
_Check: TypeAlias = Callable[[Effective, CellOf, CellView, str, Read], Refusal | None]

OWN_COMMANDS: Final[Mapping[str, str]] = {
    LINEAR: "aos linear cancel INSTANCE",
    BIZ_KEY: "aos linear cancel INSTANCE",
    SCHEDULE: "aos schedule delete ID",
}
"""The command of a package that ends a cell of the workflow, with what the cell holds elsewhere."""

GUARDED: Final = frozenset({SET, DELETE, RESULT})
"""Events of senders that ``refused_event`` looks at."""


def refused_command(
    manifest: Effective | None, control: ControlInput, cell_of: CellOf, read: Read
) -> Refusal | None:
    """Why an operator must not end or remove a cell of a package; None if it may be, or if the
    kernel refuses the command anyway.

    A cell of a package has duties that the kernel does not know: an instance of a plan frees its
    business key and lets its schedule continue. The generic commands would skip these duties, so
    they are refused with the command of the package (spec/linear.md, L-52, L-53; schedule.md,
    SC-25).

    The cells of a package that the manifest in force no longer has get no events, so nothing but
    the generic commands is left for them.
    """
    if control.action not in (END, REMOVE) or control.cell is None:
        return None
    check = _CHECKS.get(control.cell[0])
    if check is None or manifest is None or control.cell[0] not in manifest.workflows:
        return None
    cell = cell_of(control.cell)
    return None if cell is None else check(manifest, cell_of, cell, control.action, read)


def _check_linear(
    _manifest: Effective, _cell_of: CellOf, cell: CellView, action: str, read: Read
) -> Refusal | None:
    """L-52."""
    id = _key_text(cell.id)
    status = RUNNING if cell.state is None else status_of(_state_fields(cell, read))
    if status == RUNNING:
        return _own_command(
            f"{excerpt(id)} is a running instance of a linear plan: {action} would keep its "
            "business key and its schedule waiting for its end",
            cell,
            _aos_command("linear", "cancel", id),
        )
    if action == REMOVE:
        return None
    return Refusal(
        rule=Rule.CELL_HAS_ENDED,
        message=f"{excerpt(id)} is an instance of a linear plan that has ended: {status}",
    )


def _check_biz_key(
    _manifest: Effective, cell_of: CellOf, cell: CellView, action: str, read: Read
) -> Refusal | None:
    """L-53."""
    key = excerpt(_key_text(cell.id))
    holder = _holder(cell_of, cell, read)
    if holder is not None:
        instance = _key_text(holder.id)
        return _own_command(
            f"{key} is the business key of the running instance {excerpt(instance)}",
            holder,
            _aos_command("linear", "cancel", instance),
        )
    if action == REMOVE:
        return None
    return _own_command(
        f"{key} is a business key: it has no status, and is free once its cell is removed",
        None,
        f"aos cells remove {command_words(BIZ_KEY, _key_text(cell.id))}",
    )


def _holder(cell_of: CellOf, cell: CellView, read: Read) -> CellView | None:
    """The instance that runs, or is about to start, under a business key."""
    if cell.state is None:
        return None
    holder = cell_of((LINEAR, encode(_state_fields(cell, read)["instance"])))
    if holder is None or holder.state is None:
        return holder
    instance = _state_fields(holder, read)
    has_it = status_of(instance) == RUNNING and instance["biz_key"] == _key_text(cell.id)
    return holder if has_it else None


def _check_schedule(
    manifest: Effective, _cell_of: CellOf, cell: CellView, action: str, _read: Read
) -> Refusal | None:
    """SC-25."""
    id = _key_text(cell.id)
    if any(schedule.id == id for schedule in manifest.schedules):
        return _own_command(
            f"{excerpt(id)} is a schedule of the manifest in force: a changed manifest removes it",
            cell,
            _aos_command("schedule", "pause", id),
        )
    if action == REMOVE:
        return None
    return _own_command(
        f"{excerpt(id)} is a schedule: {action} would leave it in place without a next time",
        cell,
        _aos_command("schedule", "delete", id),
    )


_CHECKS: Final[Mapping[str, _Check]] = {
    LINEAR: _check_linear,
    BIZ_KEY: _check_biz_key,
    SCHEDULE: _check_schedule,
}


def _own_command(text: str, cell: CellView | None, command: str) -> Refusal:
    """A refusal that names the command of the package. A cell that failed by a fault must be
    resumed before it can take that command."""
    hint = command
    if cell is not None and cell.fault is not None:
        retry = f"aos cells retry {command_words(cell.id[0], _key_text(cell.id))}"
        hint = f"it has failed: {retry}, with --skip if it fails again; then {command}"
    return Refusal(rule=Rule.CELL_HAS_OWN_COMMAND, message=f"{text} ({hint})")


def _aos_command(*words: str) -> str:
    """``aos`` with these words, the last of which is an id."""
    *first, id = words
    return join(("aos", *first, *(["--"] if id.startswith("-") else []), id))


def _state_fields(cell: CellView, read: Read) -> dict[str, Any]:
    assert cell.state is not None
    fields: Any = decode_record(slot_bytes(cell.state, read))
    assert isinstance(fields, dict), "the states of the packages are records"
    return fields


def _key_text(cell: CellId) -> str:
    """The key of a cell of a package, which is a text."""
    key = decode_record(cell[1])
    assert isinstance(key, str), "the keys of the packages are texts"
    return key


def refused_event(manifest: Effective | None, event: EventInput) -> Refusal | None:
    """Why an event of ``GUARDED`` must not be admitted; None if it may, or if the kernel refuses it
    anyway.

    A definition of a schedule names the event that the schedule emits, and the result of a plan
    step has the events of its handler. The steps that emit them are the world's own, so the kernel
    does not ask whether these events are open at ingress. It is asked here, just before the
    kernel's own checks (spec/schedule.md, SC-22; spec/linear.md, L-34).
    """
    schema = None if manifest is None else manifest.schemas.get(event.schema)
    if manifest is None or schema is None or not manifest.is_open(event.schema):
        return None
    try:
        value: Any = schema.from_ingress_value(event.value)[1]
    except ValueProblem:
        return None
    if event.schema == RESULT:
        return _refused_result(manifest, value)
    return refused_schedule(manifest, event.schema, value)


def _refused_result(manifest: Effective, result: Any) -> Refusal | None:
    """Why a result of a plan step must not be admitted: an event of its handler is not open."""
    for index, event in enumerate(result["outbound"]):
        schema = event["schema"]
        if schema in manifest.schemas and not manifest.is_open(schema):
            return Refusal(
                rule=Rule.EVENT_IS_INTERNAL,
                message=f"{RESULT}: outbound[{index}]: {schema} {ONLY_OWN_STEPS}",
            )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedFlow:
    """A flow that ignores an event because it has ended. ``status`` is one of ``ENDED``, and
    ``last_seq`` is the record of its last step."""

    id: CellId
    status: str
    last_seq: int

    def refusal(self, manifest: Effective) -> Refusal:
        """The answer to an event whose only receivers are this flow and others that have ended."""
        workflow = manifest.workflows[self.id[0]]
        key = as_json(workflow.key, self.id[1])
        return Refusal(
            rule=Rule.CELL_HAS_ENDED,
            message=f"{workflow.name} {key_text(key)} is {self.status}: it accepts no more "
            f"messages, and its last step is record {self.last_seq:,} "
            f"(aos flow show {command_words(workflow.name, key)})",
        )


def admit_from_outside(kernel: KernelProtocol, event: EventInput, stamp: Stamp) -> Answer:
    """As ``kernel.admit``, but refuse an event whose only receivers are flows that have ended. If
    other cells receive it too, the answer has these flows in ``ended``.

    Raises:
        Damage: As ``admit``.
    """
    manifest = kernel.manifest
    if manifest is None or event.schema not in manifest.flow_events:
        return kernel.admit(event, stamp)
    decision = kernel.decide(event, stamp)
    if not isinstance(decision, Decided):
        assert isinstance(decision, Answer)
        return decision
    ended = ended_receivers(kernel, decision.record)
    if isinstance(ended, Refusal):
        return ended
    kernel.enter(decision)
    return replace(admission(decision.record), ended=ended)


def ended_receivers(kernel: KernelProtocol, record: Record) -> Refusal | tuple[CellId, ...]:
    """The receivers of a decided event that are flows and have ended; or the refusal of the event,
    if it has no others. Raises as ``ended_flow``."""
    manifest = kernel.manifest
    assert isinstance(record, Event)
    if manifest is None or record.schema not in manifest.flow_events:
        return ()
    receivers = (
        ended_flow(manifest, kernel.cell(id), record.schema, kernel.writer_of, kernel.read)
        for id in record.to
        if manifest.workflows[id[0]].is_flow
    )
    ended = [flow for flow in receivers if flow is not None]
    if ended and len(ended) == len(record.to) and not record.overloaded:
        return ended[0].refusal(manifest)
    return tuple(flow.id for flow in ended)


def ended_flow(
    manifest: Effective,
    cell: CellView | None,
    schema: str,
    writer_of: Callable[[CellId], Workflow | None],
    read: BlobReader,
) -> EndedFlow | None:
    """Return the flow of ``cell`` if it has ended and ignores events of ``schema``; None otherwise,
    also for a cell that does not exist or is no flow. ``writer_of`` returns the workflow under
    which a cell came in flight.

    Raises:
        Damage: Its state, or the manifest under which it was written, cannot be read.
    """
    # Every flow that has ended declares it, and few others do (FL-7): only their states are read.
    if cell is None or cell.declared is None or cell.state is None:
        return None
    workflow = manifest.workflows[cell.id[0]]
    if not workflow.is_flow:
        return None
    # A world without flows needs nothing that reads them.
    from aos.flow.declaration import CALL_ARM, CONTROL_ARM  # noqa: PLC0415
    from aos.flow.flow_state import ENDED, read_status  # noqa: PLC0415

    arm = workflow.arms.get(schema)
    if arm is None or arm == CALL_ARM or (arm == CONTROL_ARM and cell.fault is not None):
        return None
    wrote = writer_of(cell.id)
    if wrote is None or not wrote.is_flow:
        return None
    try:
        status = read_status(slot_bytes(cell.state, read))
    except ValueProblem:
        return None  # the step meets it
    return EndedFlow(id=cell.id, status=status, last_seq=cell.last_seq) if status in ENDED else None
