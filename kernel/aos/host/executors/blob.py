"""``sys/blob.put@1`` and ``sys/blob.get@1``: bytes in and out of the store (X-30 to X-34)."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aos.core.ports import BlobReader
from aos.errors import Damage
from aos.host.executors.settling import Settling
from aos.host.executors.task import Outcome, Report, Settle, Stats, Task, report_to_stderr
from aos.manifest.effective import Effective
from aos.manifest.limits import WorldLimits
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.worker.failure import CANCELED, Failure

PUT: Final = "sys/blob.put@1"
GET: Final = "sys/blob.get@1"
DRAIN_S: Final = 2.0
BURST: Final = 16
"""Tasks that are done before the loop does something else."""

EDGE: Final = b"aos/edge/1"
"""How an edge says that it is one."""

BLOB_MISSING: Final = "blob_missing"
BLOB_TOO_LARGE: Final = "blob_too_large"
BLOB_REF_MISMATCH: Final = "blob_ref_mismatch"
BLOB_REF_UNKNOWN: Final = "blob_ref_unknown"


class BlobExecutor:
    """``read`` reads the store: a blob by content hash, or Damage. ``clock`` is wall time in ns."""

    name: Final = "blob"
    effects: Final = frozenset({PUT, GET})
    signer: Final = None

    def __init__(
        self,
        read: BlobReader,
        *,
        clock: Callable[[], int] = time.time_ns,
        report: Report = report_to_stderr,
    ) -> None:
        self._read = read
        self._clock = clock
        self._report = report
        self._payload_bytes_max = WorldLimits().event_bytes
        self._queue: deque[Task] = deque()
        self._here: dict[Hash, bool] = {}  # intent -> it was canceled
        self._settling: Settling | None = None
        self._turn: asyncio.Handle | None = None

    async def start(self, settle: Settle) -> None:
        self._settling = Settling(self.name, settle, self._report)

    def use(self, effective: Effective) -> None:
        self._payload_bytes_max = effective.limits.event_bytes

    def publish(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.intent not in self._here:
                self._here[task.intent] = False
                self._queue.append(task)
        self._plan()

    def cancel(self, intents: Sequence[Hash]) -> None:
        for intent in intents:
            if intent in self._here:
                self._here[intent] = True

    async def stop(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
        self._queue.clear()
        if self._settling is not None:
            await self._settling.drain(DRAIN_S)

    def stats(self) -> Stats:
        settling = 0 if self._settling is None else len(self._settling)
        done = 0 if self._settling is None else self._settling.done
        return Stats(running=settling, queued=len(self._queue), done=done)

    def _plan(self) -> None:
        if self._turn is None and self._queue:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        for _ in range(min(BURST, len(self._queue))):
            self._run(self._queue.popleft())
        self._plan()

    def _run(self, task: Task) -> None:
        assert self._settling is not None, "published before start"
        started = self._clock()
        blobs: Mapping[Hash, bytes] = {}
        if self._here[task.intent]:
            status, payload = CANCELED, _canceled().payload()
        else:
            try:
                value, blobs = self._done(task)
                status, payload = "ok", self._payload(value)
            except _Failed as failed:
                status, payload = "error", failed.failure.payload()
        outcome = Outcome(
            intent=task.intent,
            effect=task.effect.name,
            attempt=task.attempt,
            status=status,
            payload=payload,
            started_ns=started,
            finished_ns=max(started, self._clock()),
            blobs=blobs,
        )
        self._settling.begin(outcome, self._ended)

    def _ended(self, outcome: Outcome, answer: str | None) -> None:
        is_canceled = self._here.pop(outcome.intent)
        if answer is not None and not is_canceled and self._settling is not None:
            self._settling.tell(outcome, answer)

    def _done(self, task: Task) -> tuple[Value, Mapping[Hash, bytes]]:
        params: Any = decode_record(task.params)
        if task.effect.name == PUT:
            return put(params["bytes"], params["blob_ref"], params["refs"] or [])
        return self._get(params["blob_ref"]), {}

    def _get(self, ref: str) -> Value:
        try:
            data = self._read(_known(ref))
        except Damage as error:
            raise _Failed(BLOB_MISSING, str(error)) from error
        return {"blob_ref": ref, "size": len(data), "bytes": data}

    def _payload(self, value: Value) -> bytes:
        payload = encode(value)
        if len(payload) > self._payload_bytes_max:
            raise _Failed(
                BLOB_TOO_LARGE,
                f"the blob makes a receipt of {len(payload)} bytes: expected at most "
                f"{self._payload_bytes_max} (limits.world.event_bytes in the manifest)",
            )
        return payload


def put(data: bytes, ref: str | None, refs: Sequence[str]) -> tuple[Value, Mapping[Hash, bytes]]:
    """(receipt, what to store): the blob, and the edge from it to what it refers to."""
    blob = content_hash(data)
    if ref is not None and _known(ref) != blob:
        raise _Failed(
            BLOB_REF_MISMATCH,
            f"blob_ref: expected {hash_text(blob)}, the content hash of bytes, found {ref}",
        )
    document = edge(blob, [_known(each) for each in refs])
    at = content_hash(document)
    receipt: Value = {
        "blob_ref": hash_text(blob),
        "edge_ref": hash_text(at),
        "size": len(data),
    }
    return receipt, {blob: data, at: document}


def edge(blob: Hash, refs: Sequence[Hash]) -> bytes:
    """The edge document: who keeps it keeps the blob and all that the blob refers to.

    Its content hash is ``digest("aos/edge/1", blob, *refs)``; refs are sorted, each of them once.
    """
    return encode([EDGE.decode(), blob, *sorted(set(refs))])


def _known(ref: str) -> Hash:
    try:
        return parse_hash(ref)
    except ValueProblem as error:
        raise _Failed(BLOB_REF_UNKNOWN, error.message) from error


def _canceled() -> Failure:
    return Failure(code=CANCELED, message="canceled before it ran", retryable=False)


class _Failed(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(code=code, message=message, retryable=False)
