"""Find the parts of a cell that a version of its workflow cannot take (K-71, K-102).

A cell was made under one manifest and may continue under another: its key, state, mail and open
intents must fit the workflow there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Slot, slot_bytes
from aos.core.state.cell import Cell, EventMail, Mail, OpenIntent, ReceiptMail
from aos.core.state.continuation import settled_arm, takes
from aos.manifest.builtins import REJECTED, STREAM
from aos.manifest.effective import Effective, Workflow
from aos.values.errors import ValueProblem


def key_problem(workflow: Workflow, key: bytes) -> str | None:
    if workflow.key is None:
        return None if not key else "its workflow has no keys any more"
    if not key:
        return "its workflow has keys now, and it has none"
    try:
        workflow.key.from_record(key)
    except ValueProblem as problem:
        return f"its key is no {workflow.key.name}: {problem}"
    return None


def state_problem(workflow: Workflow, state: Slot | None, read: BlobReader) -> str | None:
    """The problem of a state with the workflow's schema; None if it fits.

    Raises:
        Damage: The state cannot be read.
    """
    if state is None or workflow.has_opaque_state:
        return None  # an opaque state always fits (AG-12)
    try:
        workflow.state.from_record(slot_bytes(state, read))
    except ValueProblem as problem:
        return f"its state is no {workflow.state.name}: {problem}"
    return None


def work_problems(
    effective: Effective,
    workflow: Workflow,
    mails: Iterable[Mail],
    intents: Iterable[OpenIntent],
    read: BlobReader,
) -> Iterator[str]:
    """The mail and the open intents of a cell that the workflow cannot take.

    Raises:
        Damage: Mail cannot be read.
    """
    for mail in mails:
        problem = mail_problem(effective, workflow, mail, read)
        if problem is not None:
            yield f"the entry of record {mail.entry[0]}: {problem}"
    yield from open_problems(workflow, intents)


def open_problems(workflow: Workflow, intents: Iterable[OpenIntent]) -> Iterator[str]:
    """The open intents for whose receipts the workflow has no arm."""
    for intent in intents:
        if settled_arm(workflow, intent, "ok") is None:
            yield (
                f"it waits for {intent.effect.name} of record {intent.seq}: {workflow.name} has "
                "no arm for its receipt"
            )


def mail_problem(
    effective: Effective, workflow: Workflow, mail: Mail, read: BlobReader
) -> str | None:
    if isinstance(mail, EventMail):
        return event_problem(effective, workflow, mail.schema, slot_bytes(mail.value, read))
    if not isinstance(mail, ReceiptMail):
        return None if takes(workflow, STREAM) else f"{workflow.name} takes no {STREAM}"
    if mail.receipt.outcome == "rejected":
        return None if takes(workflow, REJECTED) else f"{workflow.name} takes no {REJECTED}"
    if settled_arm(workflow, mail.intent, mail.receipt.status) is None:
        return f"{workflow.name} has no arm for a receipt of {mail.intent.effect.name}"
    return None


def event_problem(
    effective: Effective, workflow: Workflow, schema: str, value: bytes
) -> str | None:
    """The reason why ``workflow`` of ``effective`` cannot take an event of this schema."""
    known = effective.schemas.get(schema)
    if known is None or not takes(workflow, schema):
        return f"{workflow.name} takes no {schema}"
    try:
        known.from_record(value)
    except ValueProblem as problem:
        return f"it is no {schema}: {problem}"
    return None


def cell_problems(
    effective: Effective, workflow: Workflow, cell: Cell, read: BlobReader, *, skips: bool
) -> Iterator[str]:
    """The parts of a failed cell that do not fit; ``skips`` drops the entry that failed."""
    for problem in (
        key_problem(workflow, cell.id[1]),
        state_problem(workflow, cell.state, read),
    ):
        if problem is not None:
            yield problem
    mails = iter(cell.mailbox)
    if skips:
        next(mails)
    yield from work_problems(effective, workflow, mails, (), read)
