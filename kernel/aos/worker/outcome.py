"""The statement of an executor about an intent: how it ended, or how far it is (X-3, X-4, X-70).

An outcome is one value from the function to the receipt. Between processes it is a map, in which a
field with its default is left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aos.core.journal.records import Batch
from aos.errors import BadUsage
from aos.manifest.names import NODE
from aos.message_fields import Message, blobs_by_hash
from aos.message_fields import field as field_of
from aos.values.cbor import Value
from aos.values.digests import HASH_BYTES, Hash, is_hash
from aos.worker.failure import CANCELED, TIMEOUT, AttemptFailure

BLOBS_MAX: Final = 1024
"""Blobs that may come with one outcome."""

PATH_MAX: Final = 64
"""Hashes in the path of a receipt to the root of its batch."""

NO_BLOBS: Final[Mapping[Hash, bytes]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an intent ended, or one attempt of it (X-3, X-4). It becomes a receipt.

    ``payload`` is canonical CBOR of the effect's receipt schema for ``ok`` and of
    ``sys/EffectError@1`` otherwise. ``executor``, ``key_id`` and ``signature`` (with a ``batch`` if
    it is of several receipts) are all of the executor that signed; unsigned, ``executor`` is
    ``node`` and the others are None. ``blobs`` are the blobs that the payload refers to; they are
    stored in the transaction of the receipt.

    Until another attempt is ruled out, ``failure`` is why the attempt has no result, and
    ``is_final`` says that its call may still run, so that no other attempt may begin (X-45).
    """

    intent: Hash
    effect: str
    attempt: int
    status: str
    payload: bytes
    started_ns: int
    finished_ns: int
    cost_cents: int | None = None
    executor: str = NODE
    key_id: bytes | None = None
    signature: bytes | None = None
    batch: Batch | None = None
    blobs: Mapping[Hash, bytes] = field(default_factory=lambda: NO_BLOBS)
    failure: AttemptFailure | None = None
    is_final: bool = False

    @classmethod
    def failed(
        cls,
        failure: AttemptFailure,
        *,
        intent: Hash,
        effect: str,
        attempt: int,
        started_ns: int,
        status: str = "error",
    ) -> Outcome:
        """An attempt that fails now; not before ``started_ns``, even if the wall clock was set
        back."""
        return cls(
            intent=intent,
            effect=effect,
            attempt=attempt,
            status=status,
            payload=failure.payload(),
            started_ns=started_ns,
            finished_ns=max(started_ns, time.time_ns()),
            failure=failure,
        )

    @property
    def may_be_retried(self) -> bool:
        """Whether another attempt may follow, as far as the policy allows (X-44)."""
        failure = self.failure
        return (
            failure is not None
            and failure.retryable
            and failure.end != "hold"
            and self.status in ("error", TIMEOUT)
            and not self.is_final
        )

    @property
    def halts(self) -> bool:
        """Whether the task stays open, held or parked, unless another attempt follows."""
        return self.failure is not None and self.failure.end != "settle"

    def canceled(self, failure: AttemptFailure) -> Outcome:
        """The same end, of a task that was canceled meanwhile: its failure becomes ``failure``."""
        return replace(
            self, status=CANCELED, payload=failure.payload(), failure=failure, blobs=NO_BLOBS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFrame:
    """Progress of a running intent. It becomes a stream frame of the journal (K-90).

    ``frame_seq`` ascends within the intent (X-71). ``blob`` is stored with it. Signed as an Outcome
    is.
    """

    intent: Hash
    effect: str
    attempt: int
    frame_seq: int
    frame_kind: str
    payload: bytes
    blob: bytes | None = None
    executor: str = NODE
    key_id: bytes | None = None
    signature: bytes | None = None

    @property
    def size(self) -> int:
        """The bytes of payload and blob."""
        return len(self.payload) + len(self.blob or b"")


def outcome_fields(outcome: Outcome) -> dict[str | int, Value]:
    """Encode an outcome, without its ``failure``, which its payload has, and without
    ``is_final``."""
    fields: dict[str | int, Value] = {
        "intent": outcome.intent,
        "effect": outcome.effect,
        "attempt": outcome.attempt,
        "status": outcome.status,
        "payload": outcome.payload,
        "started_ns": outcome.started_ns,
        "finished_ns": outcome.finished_ns,
        **_signed_fields(outcome),
    }
    if outcome.cost_cents is not None:
        fields["cost_cents"] = outcome.cost_cents
    if outcome.batch is not None:
        fields["batch"] = [outcome.batch.index, outcome.batch.size, list(outcome.batch.path)]
    if outcome.blobs:
        fields["blobs"] = list(outcome.blobs.values())
    return fields


def read_outcome(item: Message) -> Outcome:
    """Decode an outcome. Raises: BadUsage: A field is missing, unknown or of another type."""
    check_names(item, _OUTCOME_FIELDS)
    executor, key_id, signature = _read_signed(item)
    batch = _read_batch(item) if "batch" in item else None
    if batch is not None and signature is None:
        raise BadUsage("batch: expected a signature with it")
    return Outcome(
        intent=read_hash(item, "intent"),
        effect=field_of(item, "effect", str),
        attempt=field_of(item, "attempt", int),
        status=field_of(item, "status", str),
        payload=field_of(item, "payload", bytes),
        started_ns=field_of(item, "started_ns", int),
        finished_ns=field_of(item, "finished_ns", int),
        cost_cents=field_of(item, "cost_cents", int) if "cost_cents" in item else None,
        executor=executor,
        key_id=key_id,
        signature=signature,
        batch=batch,
        blobs=_read_blobs(item) if "blobs" in item else NO_BLOBS,
    )


def _read_batch(item: Message) -> Batch:
    match item["batch"]:
        case [index, size, list(path)] if (
            type(index) is int
            and type(size) is int
            and len(path) <= PATH_MAX
            and all(map(is_hash, path))
        ):
            return Batch(index=index, size=size, path=tuple(map(Hash, path)))
    raise BadUsage(f"batch: expected [index, size, at most {PATH_MAX} hashes]")


def _read_blobs(item: Message) -> Mapping[Hash, bytes]:
    blobs = item["blobs"]
    if isinstance(blobs, list) and len(blobs) <= BLOBS_MAX:
        named_blobs = blobs_by_hash(blobs)
        if named_blobs is not None:
            return named_blobs
    raise BadUsage(f"blobs: expected at most {BLOBS_MAX} byte strings")


def frame_fields(frame: StreamFrame) -> dict[str | int, Value]:
    """Encode a stream frame."""
    fields: dict[str | int, Value] = {
        "intent": frame.intent,
        "effect": frame.effect,
        "attempt": frame.attempt,
        "frame_seq": frame.frame_seq,
        "frame_kind": frame.frame_kind,
        "payload": frame.payload,
        **_signed_fields(frame),
    }
    if frame.blob is not None:
        fields["blob"] = frame.blob
    return fields


def read_frame(item: Message) -> StreamFrame:
    """Decode a stream frame. Raises as ``read_outcome``."""
    check_names(item, _FRAME_FIELDS)
    executor, key_id, signature = _read_signed(item)
    return StreamFrame(
        intent=read_hash(item, "intent"),
        effect=field_of(item, "effect", str),
        attempt=field_of(item, "attempt", int),
        frame_seq=field_of(item, "frame_seq", int),
        frame_kind=field_of(item, "frame_kind", str),
        payload=field_of(item, "payload", bytes),
        blob=field_of(item, "blob", bytes) if "blob" in item else None,
        executor=executor,
        key_id=key_id,
        signature=signature,
    )


_SIGNED: Final = frozenset({"executor", "key_id", "signature"})
_OUTCOME_FIELDS: Final = _SIGNED | {
    "intent", "effect", "attempt", "status", "payload", "started_ns", "finished_ns", "cost_cents",
    "batch", "blobs",
}  # fmt: skip
_FRAME_FIELDS: Final = _SIGNED | {
    "intent", "effect", "attempt", "frame_seq", "frame_kind", "payload", "blob",
}  # fmt: skip


def check_names(item: Mapping[Any, Any], field_names: frozenset[str]) -> None:
    """Raises: BadUsage: ``item`` has a field that is none of these."""
    if not item.keys() <= field_names:
        unknown = min(str(name) for name in item if name not in field_names)
        raise BadUsage(f"{unknown:.40}: expected one of {', '.join(sorted(field_names))}")


def _signed_fields(statement: Outcome | StreamFrame) -> dict[str | int, Value]:
    """The signature of an executor with a key of its own; nothing without one."""
    if statement.key_id is None or statement.signature is None:
        return {}
    return {
        "executor": statement.executor,
        "key_id": statement.key_id,
        "signature": statement.signature,
    }


def _read_signed(item: Message) -> tuple[str, bytes | None, bytes | None]:
    if _SIGNED.isdisjoint(item):
        return NODE, None, None
    return (
        field_of(item, "executor", str),
        field_of(item, "key_id", bytes),
        field_of(item, "signature", bytes),
    )


def read_hash(item: Message, name: str) -> Hash:
    """A field that is a hash. Raises: BadUsage: It is something else."""
    value = field_of(item, name, bytes)
    if not is_hash(value):
        raise BadUsage(f"{name}: expected a hash of {HASH_BYTES} bytes")
    return Hash(value)
