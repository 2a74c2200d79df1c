"""Sign results and stream frames, send them, and keep results until acknowledged (X-48, X-55)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from aos.core.journal.statements import receipt_message, stream_message
from aos.values.digests import Hash, content_hash
from aos.worker.executor_key import Signer
from aos.worker.job import AttemptResult
from aos.worker.progress import Progress
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
        self._unsigned: dict[Hash, tuple[AttemptResult, Message]] = {}

    def put(self, result: AttemptResult, *, dropped: int = 0) -> None:
        """Send a result; ``dropped`` counts the stream frames that were not sent before it."""
        message: Message = {
            "op": "done",
            "intent": result.intent,
            "effect": result.effect,
            "attempt": result.attempt,
            "status": result.status,
            "payload": result.payload,
            "started_ns": result.started_ns,
            "finished_ns": result.finished_ns,
            "cost_cents": result.cost_cents,
            "signature": None,
            "batch": None,
            "blobs": list(result.blobs),
            "dropped": dropped,
        }
        if result.is_final:
            message["is_final"] = True
        self._results[result.intent] = message
        if self._signer is None:
            self._send(message)
            return
        if not self._unsigned:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unsigned[result.intent] = (result, message)

    def send_again(self, intent: Hash) -> bool:
        """Send a kept result again; return False if there is none."""
        message = self._results.get(intent)
        if message is None:
            return False
        if intent not in self._unsigned:
            self._send(message)
        return True

    def acknowledged(self, intents: Iterable[Hash]) -> None:
        """Drop the results that the journal has answered (X-55). A task that comes again after
        this runs again. Unknown intents are ignored."""
        for intent in intents:
            self._results.pop(intent, None)

    def __contains__(self, intent: Hash) -> bool:
        return intent in self._results

    def flush(self) -> None:
        """Sign and send the results of this turn of the loop now."""
        unsigned = list(self._unsigned.values())
        self._unsigned.clear()
        if self._signer is None or not unsigned:
            return
        assert self._world is not None, "a signer without a world"
        receipts = [_receipt(result, self._world, self._signer) for result, _ in unsigned]
        signed = self._signer.sign_receipts(self._world, receipts)
        for (_, message), receipt in zip(unsigned, signed, strict=True):
            message["signature"] = receipt.signature
            if receipt.batch is not None:
                message["batch"] = [
                    receipt.batch.index,
                    receipt.batch.size,
                    list(receipt.batch.path),
                ]
            self._send(message)

    def tell(self, progress: Progress) -> None:
        """Send a stream frame, signed alone (J-41). It is not kept: a frame that is lost is not
        sent again."""
        self._send(
            {
                "op": "progress",
                "intent": progress.intent,
                "attempt": progress.attempt,
                "number": progress.frame_seq,
                "kind": progress.frame_kind,
                "payload": progress.payload,
                "blob": progress.blob,
                "signature": self._signed_frame(progress),
            }
        )

    def _signed_frame(self, progress: Progress) -> bytes | None:
        if self._signer is None:
            return None
        assert self._world is not None, "a signer without a world"
        message = stream_message(
            self._world,
            progress,
            payload=content_hash(progress.payload),
            payload_ref=None if progress.blob is None else content_hash(progress.blob),
            executor=self._signer.name,
            key_id=self._signer.public_key,
        )
        return self._signer.sign(message)


def _receipt(result: AttemptResult, world: Hash, signer: Signer) -> bytes:
    """The bytes of a result that are signed."""
    return receipt_message(
        world,
        result,
        payload=content_hash(result.payload),
        executor=signer.name,
        key_id=signer.public_key,
    )
