"""Statements of executors about intents, and the bytes that they sign (J-40, K-51, K-90).

A statement has the same fields in the executor's process, in the host, as an input and as a record.
``Statement`` and ``StreamStatement`` name these fields, so that one function makes the signed bytes
of all of them.
"""

from __future__ import annotations

from typing import Final, Protocol

from aos.core.journal.merkle import root_from
from aos.core.journal.records import Batch
from aos.values.cbor import Value, encode, encode_bytes, encode_integer, encode_text, head
from aos.values.digests import HASH_BYTES, Hash, digest


class Statement(Protocol):
    """How an ``intent`` of an ``effect`` ended: the ``attempt`` that ended it (from 1), its
    ``status`` (``ok``, ``error``, ``timeout`` or ``canceled``), ``started_ns`` and ``finished_ns``
    on the executor's wall clock, and ``cost_cents`` if the executor knows the cost.

    The payload is separate: some holders have its bytes, others a ``Ref``.
    """

    @property
    def intent(self) -> Hash: ...

    @property
    def effect(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    @property
    def status(self) -> str: ...

    @property
    def started_ns(self) -> int: ...

    @property
    def finished_ns(self) -> int: ...

    @property
    def cost_cents(self) -> int | None: ...


class StreamStatement(Protocol):
    """How far an open ``intent`` of an ``effect`` is: one stream frame, without its payload.

    ``attempt`` reports it, ``frame_seq`` ascends within the intent, and the executor chooses
    ``frame_kind`` (K-90).
    """

    @property
    def intent(self) -> Hash: ...

    @property
    def effect(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    @property
    def frame_seq(self) -> int: ...

    @property
    def frame_kind(self) -> str: ...


def receipt_message(
    world: Hash, statement: Statement, *, payload: Hash, executor: str, key_id: bytes
) -> bytes:
    """The bytes that an executor signs for a receipt alone, and the content of the receipt's leaf
    in a batch. ``payload`` is the content hash of the payload."""
    # Encoded by hand, for speed: ["aos/receipt/1", {…}], with the names in the canonical order.
    cost_cents = statement.cost_cents
    return b"".join(
        (
            _RECEIPT if cost_cents is None else _RECEIPT_WITH_COST,
            _WORLD, encode_bytes(world),
            _EFFECT, encode_text(statement.effect),
            _INTENT, encode_bytes(statement.intent),
            _KEY_ID, encode_bytes(key_id),
            _STATUS, encode_text(statement.status),
            _ATTEMPT, encode_integer(statement.attempt),
            _PAYLOAD, encode_bytes(payload),
            _EXECUTOR, encode_text(executor),
            b"" if cost_cents is None else _COST_CENTS + encode_integer(cost_cents),
            _STARTED_NS, encode_integer(statement.started_ns),
            _FINISHED_NS, encode_integer(statement.finished_ns),
        )
    )  # fmt: skip


_OPENING: Final = head(0x80, 2) + encode_text("aos/receipt/1")
_RECEIPT: Final = _OPENING + head(0xA0, 10)
_RECEIPT_WITH_COST: Final = _OPENING + head(0xA0, 11)
_WORLD: Final = encode_text("world")
_EFFECT: Final = encode_text("effect")
_INTENT: Final = encode_text("intent")
_KEY_ID: Final = encode_text("key_id")
_STATUS: Final = encode_text("status")
_ATTEMPT: Final = encode_text("attempt")
_PAYLOAD: Final = encode_text("payload")
_EXECUTOR: Final = encode_text("executor")
_COST_CENTS: Final = encode_text("cost_cents")
_STARTED_NS: Final = encode_text("started_ns")
_FINISHED_NS: Final = encode_text("finished_ns")


BATCH_MAX: Final = 65_536
"""Receipts under one signature."""


def receipt_leaf(message: bytes) -> Hash:
    """The leaf of a receipt in the tree of its batch (J-40)."""
    return digest("aos/receipt-leaf/1", message)


def batch_message(*, world: Hash, executor: str, key_id: bytes, root: Hash, size: int) -> bytes:
    """The bytes under the one signature of a batch of ``size`` receipts."""
    body: dict[str | int, Value] = {
        "world": world,
        "executor": executor,
        "key_id": key_id,
        "root": root,
        "size": size,
    }
    return encode(["aos/receipts/1", body])


def signed_receipt_message(
    world: Hash,
    statement: Statement,
    *,
    payload: Hash,
    executor: str,
    key_id: bytes,
    batch: Batch | None,
) -> bytes | None:
    """The bytes under a receipt's signature: ``receipt_message`` or, with a ``batch``,
    ``batch_message``. None if the path of the batch leads to no root.

    Admission and verify call this for receipts of others, so the batch may be anything.
    """
    message = receipt_message(world, statement, payload=payload, executor=executor, key_id=key_id)
    if batch is None:
        return message
    # A path has at most as many hashes as a size has bits, or it is none.
    if batch.size > BATCH_MAX or len(batch.path) > BATCH_MAX.bit_length():
        return None
    if any(len(hash) != HASH_BYTES for hash in batch.path):
        return None
    root = root_from(receipt_leaf(message), batch.index, batch.size, batch.path)
    if root is None:
        return None
    return batch_message(world=world, executor=executor, key_id=key_id, root=root, size=batch.size)


def stream_message(
    world: Hash,
    statement: StreamStatement,
    *,
    payload: Hash,
    payload_ref: Hash | None,
    executor: str,
    key_id: bytes,
) -> bytes:
    """The bytes under a stream frame's signature. ``payload`` is the content hash of the payload,
    ``payload_ref`` that of the blob that the frame names."""
    body: dict[str | int, Value] = {
        "world": world,
        "intent": statement.intent,
        "effect": statement.effect,
        "executor": executor,
        "key_id": key_id,
        "attempt": statement.attempt,
        "frame_seq": statement.frame_seq,
        "frame_kind": statement.frame_kind,
        "payload": payload,
    }
    if payload_ref is not None:
        body["payload_ref"] = payload_ref
    return encode(["aos/stream/1", body])
