"""Rebuild the admitted input from its record (spec/audit.md, A-11)."""

from __future__ import annotations

from typing import TypeAlias

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
    Manifest,
    Receipt,
    Snapshot,
    Start,
    Stream,
    slot_bytes,
)

RecordedInput: TypeAlias = (
    Start | Manifest | Event | Receipt | Stream | Attempt | Snapshot | Control
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
            return _receipt(recorded, read)
        case Stream():
            return _stream(recorded, read)
        case Attempt():
            return AttemptInput(
                intent=recorded.intent,
                attempt=recorded.attempt,
                phase=recorded.phase,
                problem=recorded.problem,
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
            )
        case Manifest():
            return ManifestInput(
                document=read(recorded.document.hash),
                principal=recorded.principal,
                serial=recorded.serial,
                signature=recorded.signature,
                mode=recorded.mode or STRICT,
                leaves=recorded.leaves,
                is_recorded=True,
            )
        case Start():
            return StartInput(host=recorded.host)


def _receipt(recorded: Receipt, read: BlobReader) -> ReceiptInput:
    return ReceiptInput(
        intent=recorded.intent,
        effect=recorded.effect,
        attempt=recorded.attempt,
        status=recorded.status,
        payload=slot_bytes(recorded.payload, read),
        started_ns=recorded.started_ns,
        finished_ns=recorded.finished_ns,
        executor=recorded.executor,
        key_id=recorded.key_id,
        signature=recorded.signature,
        cost_cents=recorded.cost_cents,
        batch=recorded.batch,
    )


def _stream(recorded: Stream, read: BlobReader) -> StreamInput:
    return StreamInput(
        intent=recorded.intent,
        effect=recorded.effect,
        attempt=recorded.attempt,
        frame_seq=recorded.frame_seq,
        frame_kind=recorded.frame_kind,
        payload=slot_bytes(recorded.payload, read),
        executor=recorded.executor,
        key_id=recorded.key_id,
        signature=recorded.signature,
        payload_ref=recorded.payload_ref,
    )
