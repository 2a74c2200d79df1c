"""Rebuild the admitted input from its record (spec/audit.md, A-11)."""

from __future__ import annotations

from typing import TypeAlias

from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import (
    STRICT,
    AttemptInput,
    ControlInput,
    EventInput,
    Input,
    ManifestInput,
    ReceiptInput,
    SnapshotInput,
    StartInput,
    StreamInput,
)
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import (
    Attempt,
    Control,
    Event,
    Governance,
    Manifest,
    Receipt,
    Ref,
    Snapshot,
    Start,
    Stream,
    slot_bytes,
)

RecordedInput: TypeAlias = (
    Start | Manifest | Event | Receipt | Stream | Attempt | Snapshot | Control | Governance
)
"""Every record with a stamp except the genesis, which creates a world and is not an input to
one."""


def input_of(recorded: RecordedInput, read: BlobReader) -> Input:
    """Return the input that was admitted as this record.

    Raises:
        Damage: A value of the record cannot be read.
    """
    match recorded:
        case Event():
            return EventInput(
                schema=recorded.schema,
                value=slot_bytes(recorded.value, read),
                submission_id=recorded.submission_id,
            )
        case Receipt():
            return ReceiptInput.of(
                recorded,
                payload=slot_bytes(recorded.payload, read),
                executor=recorded.executor,
                key_id=recorded.key_id,
                signature=recorded.signature,
                batch=recorded.batch,
            )
        case Stream():
            return StreamInput.of(
                recorded,
                payload=slot_bytes(recorded.payload, read),
                payload_ref=recorded.payload_ref,
                executor=recorded.executor,
                key_id=recorded.key_id,
                signature=recorded.signature,
            )
        case Attempt():
            return AttemptInput(
                intent=recorded.intent,
                attempt=recorded.attempt,
                phase=recorded.phase,
                problem=recorded.problem,
                code=recorded.code,
            )
        case Snapshot():
            return SnapshotInput(
                at=recorded.at,
                frame=recorded.frame,
                document=recorded.document.hash,
                size=recorded.document.size,
            )
        case Control():
            return ControlInput(
                action=recorded.action,
                principal=recorded.principal,
                serial=recorded.serial,
                signature=recorded.signature,
                cell=recorded.cell,
                intent=recorded.intent,
                value=recorded.value,
                status=recorded.status,
                payload=None if recorded.payload is None else slot_bytes(recorded.payload, read),
                why=recorded.why,
                restamp=recorded.restamp,
            )
        case Manifest():
            return ManifestInput(
                document=read(recorded.document.hash),
                principal=recorded.principal,
                serial=recorded.serial,
                signature=recorded.signature,
                mode=recorded.mode or STRICT,
                leaves=recorded.leaves,
                proposal=recorded.proposal,
                is_recorded=True,
            )
        case Governance():
            return GovernanceInput(
                action=recorded.action,
                principal=recorded.principal,
                signature=recorded.signature,
                proposal=recorded.proposal,
                serial=recorded.serial,
                base=recorded.base,
                document=_bytes_of(recorded.document, read),
                patch=_bytes_of(recorded.patch, read),
                mode=recorded.mode or STRICT,
                leaves=recorded.leaves,
                report=_bytes_of(recorded.report, read),
                seen=recorded.seen,
                note=recorded.note,
            )
        case Start():
            return StartInput(host=recorded.host)


def _bytes_of(value: Ref | None, read: BlobReader) -> bytes | None:
    return None if value is None else read(value.hash)
