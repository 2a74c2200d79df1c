"""Sign the outcomes and stream frames of executors for the core (spec/host.md, H-32, H-33)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from nacl.signing import SigningKey

from aos.core.journal.inputs import AttemptInput, Input, ReceiptInput, StreamInput
from aos.core.journal.statements import receipt_message, stream_message
from aos.host.executors.task import Outcome, StreamFrame
from aos.host.world.signatures import Signatures
from aos.manifest.names import NODE
from aos.values.digests import Hash, content_hash
from aos.worker.executor_key import Signed, Signer

Said: TypeAlias = Outcome | StreamFrame | AttemptInput


class Signing:
    """Signs for executors without a key of their own, as ``node`` with the world's key.

    ``signatures`` remembers them, so that the core need not check them again.
    """

    def __init__(self, signatures: Signatures, *, world: Hash, key: SigningKey) -> None:
        self._signatures = signatures
        self._world = world
        self._signer = Signer(NODE, key)
        self._key_id = self._signer.public_key

    def inputs(self, statements: Sequence[Said]) -> list[Input]:
        """Return the inputs, in order. Outcomes without a signature are signed together."""
        unsigned = [
            statement
            for statement in statements
            if isinstance(statement, Outcome) and statement.signature is None
        ]
        messages = [self._message(outcome) for outcome in unsigned]
        signed = self._signer.sign_receipts(self._world, messages)
        trusted: bytes | None = None
        for signed_receipt in signed:
            if signed_receipt.signature is not trusted:  # those of a batch share it
                trusted = signed_receipt.signature
                self._signatures.trust(
                    signed_receipt.message, signed_receipt.signature, self._key_id
                )
        remaining = iter(signed)
        return [self._input(statement, remaining) for statement in statements]

    def _input(self, statement: Said, signed: Iterator[Signed]) -> Input:
        match statement:
            case Outcome(signature=None):
                return self._receipt(statement, next(signed))
            case Outcome():
                return _as_signed(statement)
            case StreamFrame():
                return self._frame(statement)
            case _:
                return statement

    def _message(self, outcome: Outcome) -> bytes:
        return receipt_message(
            self._world,
            outcome,
            payload=content_hash(outcome.payload),
            executor=NODE,
            key_id=self._key_id,
        )

    def _receipt(self, outcome: Outcome, signed: Signed) -> ReceiptInput:
        return ReceiptInput.of(
            outcome,
            payload=outcome.payload,
            executor=NODE,
            key_id=self._key_id,
            signature=signed.signature,
            batch=signed.batch,
        )

    def _frame(self, frame: StreamFrame) -> StreamInput:
        blob = None if frame.blob is None else content_hash(frame.blob)
        executor, key_id, signature = frame.executor, frame.key_id, frame.signature
        if key_id is None or signature is None:
            executor, key_id = NODE, self._key_id
            message = stream_message(
                self._world,
                frame,
                payload=content_hash(frame.payload),
                payload_ref=blob,
                executor=executor,
                key_id=key_id,
            )
            signature = self._signer.sign(message)
            self._signatures.trust(message, signature, key_id)
        return StreamInput.of(
            frame,
            payload=frame.payload,
            payload_ref=blob,
            executor=executor,
            key_id=key_id,
            signature=signature,
        )


def _as_signed(outcome: Outcome) -> ReceiptInput:
    """The receipt that an executor signed with a key of its own."""
    assert outcome.key_id is not None, "a signature comes with its key"
    assert outcome.signature is not None, "asked for an outcome without a signature"
    return ReceiptInput.of(
        outcome,
        payload=outcome.payload,
        executor=outcome.executor,
        key_id=outcome.key_id,
        signature=outcome.signature,
        batch=outcome.batch,
    )
