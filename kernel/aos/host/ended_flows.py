"""Events from outside for flows that have ended (spec/flow.md, FL-83, FL-83a; spec/host.md, H-30a).

A flow that has ended ignores what comes to it (FL-3). A sender would take the admission of such an
event for its delivery, so the host refuses it after the kernel has decided it and before it is
recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from aos.core.decide.answers import Answer, Decided, Refusal, Rule, admission
from aos.core.journal.inputs import EventInput
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Event, Record, Stamp, slot_bytes
from aos.core.kernel_protocol import CellView, KernelProtocol
from aos.manifest.effective import Effective, Workflow
from aos.read.lens.json_values import as_json
from aos.read.lens.words import key_text
from aos.read.views.reason import command_words
from aos.values.errors import ValueProblem


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
