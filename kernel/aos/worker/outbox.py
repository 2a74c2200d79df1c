"""Sign results and stream frames, send them, and keep results until acknowledged (X-48, X-55)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

from aos.core.journal.statements import receipt_message, stream_message
from aos.values.digests import Hash, content_hash
from aos.worker.executor_key import Signer
from aos.worker.outcome import Outcome, StreamFrame, frame_fields, outcome_fields
from aos.worker.wire import Message


class Outbox:
    """Queue of results. ``send`` sends a message to the node; a ``signer`` requires a ``world``.

    A result is kept until the node has acknowledged it. The results of one turn of the event loop
    share one signature (J-40).
    """

    def __init__(
        self, *, world: Hash | None, signer: Signer | None, send: Callable[[Message], None]
    ) -> None:
        self._world = world
        self._signer = signer
        self._send = send
        self._results: dict[Hash, Message] = {}
        self._unsigned: dict[Hash, tuple[Outcome, int]] = {}

    def put(self, outcome: Outcome, *, dropped: int = 0) -> None:
        """Send a result; ``dropped`` counts the stream frames that were not sent before it."""
        if self._signer is None:
            self._keep(outcome, dropped)
            return
        if not self._unsigned:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unsigned[outcome.intent] = (outcome, dropped)

    def _keep(self, outcome: Outcome, dropped: int) -> None:
        message = cast("Message", {"op": "done", **outcome_fields(outcome)})
        if dropped:
            message["dropped"] = dropped
        if outcome.is_final:
            message["is_final"] = True
        self._results[outcome.intent] = message
        self._send(message)

    def send_again(self, intent: Hash) -> bool:
        """Send a kept result again; return False if there is none."""
        if intent in self._unsigned:
            return True  # it is sent at the end of this turn of the loop
        message = self._results.get(intent)
        if message is not None:
            self._send(message)
        return message is not None

    def acknowledged(self, intents: Iterable[Hash]) -> None:
        """Drop the results that the journal has answered (X-55). A task that comes again after
        this runs again. Unknown intents are ignored."""
        for intent in intents:
            self._results.pop(intent, None)
            self._unsigned.pop(intent, None)

    def __contains__(self, intent: Hash) -> bool:
        return intent in self._results or intent in self._unsigned

    def flush(self) -> None:
        """Sign and send the results of this turn of the loop now."""
        unsigned = list(self._unsigned.values())
        self._unsigned.clear()
        signer = self._signer
        if signer is None or not unsigned:
            return
        assert self._world is not None, "a signer without a world"
        key_id = signer.public_key
        receipts = [
            receipt_message(
                self._world,
                outcome,
                payload=content_hash(outcome.payload),
                executor=signer.name,
                key_id=key_id,
            )
            for outcome, _ in unsigned
        ]
        signed = signer.sign_receipts(self._world, receipts)
        for (outcome, dropped), receipt in zip(unsigned, signed, strict=True):
            signed_outcome = replace(
                outcome,
                executor=signer.name,
                key_id=key_id,
                signature=receipt.signature,
                batch=receipt.batch,
            )
            self._keep(signed_outcome, dropped)

    def tell(self, frame: StreamFrame) -> None:
        """Send a stream frame, signed alone (J-41). It is not kept: a frame that is lost is not
        sent again."""
        if self._signer is not None:
            frame = self._signed_frame(frame, self._signer)
        self._send(cast("Message", {"op": "progress", **frame_fields(frame)}))

    def _signed_frame(self, frame: StreamFrame, signer: Signer) -> StreamFrame:
        assert self._world is not None, "a signer without a world"
        message = stream_message(
            self._world,
            frame,
            payload=content_hash(frame.payload),
            payload_ref=None if frame.blob is None else content_hash(frame.blob),
            executor=signer.name,
            key_id=signer.public_key,
        )
        return replace(
            frame, executor=signer.name, key_id=signer.public_key, signature=signer.sign(message)
        )
