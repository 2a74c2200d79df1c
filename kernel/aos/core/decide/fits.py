"""Find the parts of a cell that a version of its workflow cannot take (K-71, K-102).

A cell was made under one manifest and may continue under another: its key, state, mail and open
intents must fit the workflow there. A state or event that lacks only fields of type option fits:
its module is given it with null for them (K-71d). An event may also have null fields that its
receiver does not know: the module is given it without them (K-73a).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Slot, slot_bytes
from aos.core.state.cell import Cell, EventMail, Mail, OpenIntent, ReceiptMail
from aos.core.state.continuation import settled_arm, takes
from aos.manifest.effective import Effective, Workflow
from aos.manifest.names import REJECTED, STREAM
from aos.values.errors import ValueProblem
from aos.values.schema import Schema


def completed(schema: Schema, data: bytes) -> bytes:
    """``data`` with null for every field of type option that an earlier form of ``schema`` lacked
    (K-71d). Bytes that do not fit stay as they are: a manifest of a release that did not compare
    stored states may have left some (K-71c)."""
    try:
        return schema.completed(data)
    except ValueProblem:
        return data


def as_received(schema: Schema, data: bytes) -> bytes:
    """An event that was recorded under another form of ``schema``, as its receiver gets it (K-73a).
    Bytes that do not fit stay as they are (K-71c)."""
    try:
        return schema.fitted(data)
    except ValueProblem:
        return data


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
        workflow.state.completed(slot_bytes(state, read))
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
    """The reason why ``workflow`` of ``effective`` cannot take an event of this schema (K-73)."""
    event_schema = effective.schemas.get(schema)
    if event_schema is None or not takes(workflow, schema):
        return f"{workflow.name} takes no {schema}"
    try:
        event_schema.fitted(value)
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
