"""``sys/blob.put@1`` and ``sys/blob.get@1``: bytes in and out of the store (X-30 to X-34)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aos.core.journal.ports import BlobReader
from aos.errors import Damage
from aos.host.executors.at_once import AtOnceExecutor, TaskEnd
from aos.host.executors.naming import StoredBlobs, blob_of, documents, is_sha256, names_among
from aos.host.executors.task import Report, Task, report_to_stderr
from aos.host.stamps import now_ns
from aos.manifest.effective import Effective
from aos.manifest.limits import WorldLimits
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.sha256 import sha256_text
from aos.worker.failure import AttemptFailure

PUT: Final = "sys/blob.put@1"
GET: Final = "sys/blob.get@1"
EDGE: Final = b"aos/edge/1"
"""How an edge says that it is one."""

BLOB_MISSING: Final = "blob_missing"
BLOB_TOO_LARGE: Final = "blob_too_large"
BLOB_REF_MISMATCH: Final = "blob_ref_mismatch"
BLOB_REF_UNKNOWN: Final = "blob_ref_unknown"


class BlobExecutor(AtOnceExecutor):
    """The ``TaskExecutor`` of the blob effects.

    ``read`` reads the store: a blob by content hash, or Damage. A blob that a task puts becomes
    durable in the transaction of its receipt, or not at all (X-3).
    """

    def __init__(
        self,
        read: BlobReader,
        *,
        clock: Callable[[], int] = now_ns,
        report: Report = report_to_stderr,
    ) -> None:
        super().__init__("blob", frozenset({PUT, GET}), clock=clock, report=report)
        self._below = read
        self._read = StoredBlobs(read, self._hash_by_sha256)
        self._fresh: dict[Hash, dict[bytes, Hash]] = {}  # intent -> names of what it puts
        self._payload_bytes_max = WorldLimits().event_bytes

    def use(self, effective: Effective) -> None:
        self._payload_bytes_max = effective.limits.event_bytes

    def carry_out(self, task: Task) -> TaskEnd:
        task_end = TaskEnd(
            *carry_out(task.effect.name, task.params, self._read, bytes_max=self._payload_bytes_max)
        )
        self._fresh[task.intent] = names_among(task_end.blobs)
        return task_end

    def settled(self, intent: Hash) -> None:
        self._fresh.pop(intent, None)

    def _hash_by_sha256(self, sha256: bytes) -> Hash | None:
        """A name in the store, or of what is on its way there."""
        for names in self._fresh.values():
            if sha256 in names:
                return names[sha256]
        return self._below.hash_by_sha256(sha256) if isinstance(self._below, StoredBlobs) else None


def carry_out(
    effect: str, params: bytes, read: BlobReader, *, bytes_max: int
) -> tuple[str, bytes, Mapping[Hash, bytes]]:
    """(status, payload, what to store) of ``blob.put`` or ``blob.get``. ``bytes_max`` bounds the
    payload."""
    fields: Any = decode_record(params)
    blobs: Mapping[Hash, bytes] = {}
    try:
        if effect == PUT:
            value, blobs = put(fields["bytes"], fields["blob_ref"], fields["refs"] or [], read)
        else:
            value = _get(fields["blob_ref"], read)
        return "ok", _payload(value, bytes_max), blobs
    except _Failed as failed:
        return "error", failed.failure.payload(), {}


def _get(ref: str, read: BlobReader) -> Value:
    """Return the receipt of ``sys/blob.get@1`` (X-32, X-33)."""
    try:
        data = read(_blob_hash(ref, read, BLOB_MISSING if is_sha256(ref) else BLOB_REF_UNKNOWN))
    except Damage as error:
        raise _Failed(BLOB_MISSING, str(error)) from error
    return {"blob_ref": ref, "size": len(data), "bytes": data}


def _payload(value: Value, bytes_max: int) -> bytes:
    """Encode a receipt, unless it is too large (X-34)."""
    payload = encode(value)
    if len(payload) > bytes_max:
        raise _Failed(
            BLOB_TOO_LARGE,
            f"the blob makes a receipt of {len(payload)} bytes: expected at most {bytes_max} "
            "(limits.world.event_bytes in the manifest)",
        )
    return payload


def _no_names(hash: Hash, /) -> bytes:
    raise Damage(f"blob {hash_text(hash)} is not here")


def put(
    data: bytes, ref: str | None, refs: Sequence[str], read: BlobReader = _no_names
) -> tuple[Value, Mapping[Hash, bytes]]:
    """Return the receipt and the blobs to store: the data, and the edge to the blobs it refers to
    (X-30).

    If ``ref`` is a SHA-256 name, the receipt has such names too (AG-31); ``read`` resolves them.
    """
    blob = content_hash(data)
    spell = sha256_text if ref is not None and is_sha256(ref) else _content_text
    if ref is not None and spell is _content_text:
        _blob_hash(ref, read, BLOB_REF_UNKNOWN)
    if ref not in (None, spell(data)):
        raise _Failed(
            BLOB_REF_MISMATCH,
            f"blob_ref: expected {spell(data)}, the content hash of bytes, found {ref}",
        )
    document = edge(blob, [_blob_hash(target_ref, read, BLOB_REF_UNKNOWN) for target_ref in refs])
    receipt: Value = {"blob_ref": spell(data), "edge_ref": spell(document), "size": len(data)}
    blobs = {blob: data, content_hash(document): document}
    return receipt, blobs | documents(data, document) if spell is sha256_text else blobs


def _content_text(data: bytes) -> str:
    return hash_text(content_hash(data))


def edge(blob: Hash, refs: Sequence[Hash]) -> bytes:
    """The edge document (X-31): keeping it keeps the blob and everything that the blob refers to.

    Its content hash is ``digest("aos/edge/1", blob, *refs)``; refs are sorted, each of them once.
    """
    return encode([EDGE.decode(), blob, *sorted(set(refs))])


def _blob_hash(ref: str, read: BlobReader, code: str) -> Hash:
    try:
        return blob_of(ref, read)
    except ValueProblem as error:
        raise _Failed(code, error.message) from error


class _Failed(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.failure = AttemptFailure(code=code, message=message, retryable=False)
