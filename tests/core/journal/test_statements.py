"""A statement has the same signed bytes in each type that holds it (spec/kernel.md, K-51, K-90)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from aos.core.journal.inputs import ReceiptInput, StreamInput
from aos.core.journal.records import Batch, Receipt, Stream
from aos.core.journal.statements import (
    BATCH_MAX,
    batch_message,
    receipt_leaf,
    receipt_message,
    signed_receipt_message,
    stream_message,
)
from aos.prove.replay.recorded_inputs import input_of
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from aos.worker.outcome import Outcome, StreamFrame
from tests.core.record_values import CELL, STAMP

WORLD: Final = Hash(b"w" * 32)
KEY: Final = bytes(32)
PAYLOAD: Final = encode({"ref": "payment 7"})
END: Final[dict[str, Any]] = {
    "intent": Hash(b"i" * 32),
    "effect": "t/pay@1",
    "attempt": 3,
    "status": "ok",
    "started_ns": 1_000,
    "finished_ns": 2_000,
    "cost_cents": 12,
}
FRAME: Final[dict[str, Any]] = {
    "intent": Hash(b"i" * 32),
    "effect": "t/pay@1",
    "attempt": 3,
    "frame_seq": 7,
    "frame_kind": "part",
}
SIGNED: Final[dict[str, Any]] = {"executor": "bank", "key_id": KEY}
RECEIPT: Final = ReceiptInput(payload=PAYLOAD, signature=bytes(64), **END, **SIGNED)


def test_all_types_that_hold_the_end_of_an_intent_give_the_same_message() -> None:
    record = Receipt(
        seq=9, stamp=STAMP, cell=CELL, payload=PAYLOAD, payload_schema=None, signature=bytes(64),
        outcome="abandoned", problem=None, abandoned=(), **END, **SIGNED,
    )  # fmt: skip

    for each in (Outcome(payload=PAYLOAD, **END), record):
        message = receipt_message(WORLD, each, payload=content_hash(PAYLOAD), **SIGNED)
        assert message == RECEIPT.message(WORLD)
    assert input_of(record, lambda _: b"") == RECEIPT


def test_all_types_that_hold_a_stream_frame_give_the_same_message() -> None:
    blob = content_hash(b"a picture")
    given = StreamInput(payload=PAYLOAD, payload_ref=blob, signature=bytes(64), **FRAME, **SIGNED)
    record = Stream(
        seq=9, stamp=STAMP, cell=CELL, payload=PAYLOAD, payload_ref=blob, signature=bytes(64),
        **FRAME, **SIGNED,
    )  # fmt: skip

    for each in (StreamFrame(payload=PAYLOAD, **FRAME), record):
        message = stream_message(
            WORLD, each, payload=content_hash(PAYLOAD), payload_ref=blob, **SIGNED
        )
        assert message == given.signed_message(WORLD)
    assert input_of(record, lambda _: b"") == given


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cost_cents": None},
        {"cost_cents": 0},
        {"attempt": 2**32, "started_ns": 0, "finished_ns": 2**63, "cost_cents": 2**63 - 1},
        {"effect": "", "status": "canceled", "executor": "ü" * 300, "key_id": b""},
    ],
)
def test_a_receipts_message_is_the_canonical_encoding_of_its_fields(
    changes: dict[str, Any],
) -> None:
    """J-40, K-51."""
    receipt = replace(RECEIPT, **changes)
    body: dict[str | int, Value] = {name: getattr(receipt, name) for name in (*END, *SIGNED)}
    if receipt.cost_cents is None:
        del body["cost_cents"]
    body |= {"world": WORLD, "payload": content_hash(receipt.payload)}
    assert receipt.message(WORLD) == encode(["aos/receipt/1", body])


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("intent", Hash(b"j" * 32)), ("effect", "t/pay@2"), ("attempt", 4), ("status", "error"),
        ("payload", encode(None)), ("started_ns", 999), ("finished_ns", 2_001),
        ("cost_cents", None), ("cost_cents", 0), ("executor", "node"), ("key_id", b"k" * 32),
    ],
)  # fmt: skip
def test_no_field_of_a_receipt_changes_without_its_message(field: str, other: object) -> None:
    changes: dict[str, Any] = {field: other}
    changed = replace(RECEIPT, **changes)
    assert changed.message(WORLD) != RECEIPT.message(WORLD)


def test_a_receipt_of_a_batch_is_signed_by_the_root_that_its_path_leads_to() -> None:
    """J-40."""
    leaf = receipt_leaf(RECEIPT.message(WORLD))
    one = replace(RECEIPT, batch=Batch(index=0, size=1, path=()))

    assert one.signed_message(WORLD) == batch_message(world=WORLD, root=leaf, size=1, **SIGNED)
    assert RECEIPT.signed_message(WORLD) == RECEIPT.message(WORLD)


@pytest.mark.parametrize(
    "batch",
    [
        Batch(index=1, size=1, path=()),
        Batch(index=-1, size=1, path=()),
        Batch(index=0, size=1, path=(WORLD,)),
        Batch(index=0, size=2, path=()),
        Batch(index=0, size=0, path=()),
        Batch(index=0, size=BATCH_MAX + 1, path=(WORLD,) * 17),
        Batch(index=0, size=2, path=(WORLD,) * 100_000),
    ],
)
def test_a_batch_whose_path_leads_to_no_root_has_no_message(batch: Batch) -> None:
    """J-40."""
    message = signed_receipt_message(
        WORLD, RECEIPT, payload=content_hash(PAYLOAD), batch=batch, **SIGNED
    )
    assert message is None
