"""Outcomes, attempts and stream frames as messages on the socket (spec/host.md, H-53b).

They come from a process that runs effects for this world and is not one of its executors. Reading
checks the types of all fields; the core checks everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from aos.core.decide.answers import Answer
from aos.core.journal.inputs import AttemptInput
from aos.core.journal.records import Batch
from aos.errors import BadUsage
from aos.host.door.protocol import answer_fields, read_answer
from aos.host.executors.task import Loss, Lost, Outcome, StreamFrame
from aos.host.fields import Message, blobs_by_hash, field
from aos.manifest.names import NODE
from aos.values.cbor import Value
from aos.values.digests import HASH_BYTES, Hash, is_hash

WORK_ITEMS_MAX: Final = 256
"""Outcomes, attempts or frames in one request."""

BLOBS_MAX: Final = 1024
"""Blobs that may come with one outcome."""

PATH_MAX: Final = 64
"""Hashes in the path of a receipt to the root of its batch."""

T = TypeVar("T")


def read_items(request: Message, read: Callable[[Message], T]) -> list[T]:
    """Decode ``items`` one by one.

    Raises:
        BadUsage: It is no list of at most ``WORK_ITEMS_MAX`` maps, or one of them is malformed.
    """
    items = field(request, "items", list)
    if len(items) > WORK_ITEMS_MAX:
        raise BadUsage(f"items: expected at most {WORK_ITEMS_MAX}, found {len(items)}")
    return [_read_item(index, item, read) for index, item in enumerate(items)]


def _read_item(index: int, item: object, read: Callable[[Message], T]) -> T:
    if not isinstance(item, dict):
        raise BadUsage(f"items[{index}]: expected a map, found {type(item).__name__}")
    try:
        return read(item)
    except BadUsage as problem:
        raise BadUsage(f"items[{index}]: {problem}") from problem


# Outcomes


def outcome_fields(outcome: Outcome) -> dict[str | int, Value]:
    """Encode an outcome."""
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
    _only(item, _OUTCOME_FIELDS)
    executor, key_id, signature = _read_signed(item)
    batch = _read_batch(item)
    if batch is not None and signature is None:
        raise BadUsage("batch: expected a signature with it")
    return Outcome(
        intent=_hash(item, "intent"),
        effect=field(item, "effect", str),
        attempt=field(item, "attempt", int),
        status=field(item, "status", str),
        payload=field(item, "payload", bytes),
        started_ns=field(item, "started_ns", int),
        finished_ns=field(item, "finished_ns", int),
        cost_cents=field(item, "cost_cents", int) if "cost_cents" in item else None,
        executor=executor,
        key_id=key_id,
        signature=signature,
        batch=batch,
        blobs=_read_blobs(item),
    )


def _read_batch(item: Message) -> Batch | None:
    match item.get("batch"):
        case None:
            return None
        case [int(index), int(size), list(path)] if len(path) <= PATH_MAX and all(
            map(is_hash, path)
        ):
            return Batch(index=index, size=size, path=tuple(map(Hash, path)))
    raise BadUsage(f"batch: expected [index, size, at most {PATH_MAX} hashes]")


def _read_blobs(item: Message) -> Mapping[Hash, bytes]:
    blobs = item.get("blobs", [])
    if isinstance(blobs, list) and len(blobs) <= BLOBS_MAX:
        named_blobs = blobs_by_hash(blobs)
        if named_blobs is not None:
            return named_blobs
    raise BadUsage(f"blobs: expected at most {BLOBS_MAX} byte strings")


# Attempts


def attempt_fields(attempt: AttemptInput) -> dict[str | int, Value]:
    """Encode an attempt."""
    fields: dict[str | int, Value] = {
        "intent": attempt.intent,
        "attempt": attempt.attempt,
        "phase": attempt.phase,
    }
    if attempt.problem is not None:
        fields["problem"] = attempt.problem
    if attempt.code is not None:
        fields["code"] = attempt.code
    return fields


def read_attempt(item: Message) -> AttemptInput:
    """Decode an attempt. Raises as ``read_outcome``."""
    _only(item, _ATTEMPT_FIELDS)
    return AttemptInput(
        intent=_hash(item, "intent"),
        attempt=field(item, "attempt", int),
        phase=field(item, "phase", str),
        problem=field(item, "problem", str) if "problem" in item else None,
        code=field(item, "code", str) if "code" in item else None,
    )


# Stream frames


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
    _only(item, _FRAME_FIELDS)
    executor, key_id, signature = _read_signed(item)
    return StreamFrame(
        intent=_hash(item, "intent"),
        effect=field(item, "effect", str),
        attempt=field(item, "attempt", int),
        frame_seq=field(item, "frame_seq", int),
        frame_kind=field(item, "frame_kind", str),
        payload=field(item, "payload", bytes),
        blob=field(item, "blob", bytes) if "blob" in item else None,
        executor=executor,
        key_id=key_id,
        signature=signature,
    )


def told_fields(answer: Answer | Lost) -> dict[str | int, Value]:
    """Encode what became of a stream frame."""
    if isinstance(answer, Lost):
        return {"lost": answer.loss.value, "text": answer.text}
    return answer_fields(answer)


def read_told(fields: object) -> Answer | Lost:
    """Decode what became of a stream frame. Raises: BadUsage: It is something else."""
    match fields:
        case {"lost": str(loss), "text": str(text)} if loss in _LOSSES:
            return Lost(Loss(loss), text)
    return read_answer(fields)


# Parts of all three

_SIGNED: Final = frozenset({"executor", "key_id", "signature"})
_OUTCOME_FIELDS: Final = _SIGNED | {
    "intent", "effect", "attempt", "status", "payload", "started_ns", "finished_ns", "cost_cents",
    "batch", "blobs",
}  # fmt: skip
_ATTEMPT_FIELDS: Final = frozenset({"intent", "attempt", "phase", "problem", "code"})
_FRAME_FIELDS: Final = _SIGNED | {
    "intent", "effect", "attempt", "frame_seq", "frame_kind", "payload", "blob",
}  # fmt: skip
_LOSSES: Final = frozenset(loss.value for loss in Loss)


def _only(item: Message, known_names: frozenset[str]) -> None:
    unknown = sorted(str(name) for name in item if name not in known_names)
    if unknown:
        raise BadUsage(f"{unknown[0]:.40}: expected one of {', '.join(sorted(known_names))}")


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
    if not _SIGNED & item.keys():
        return NODE, None, None
    return (
        field(item, "executor", str),
        field(item, "key_id", bytes),
        field(item, "signature", bytes),
    )


def _hash(item: Message, name: str) -> Hash:
    value = field(item, name, bytes)
    if not is_hash(value):
        raise BadUsage(f"{name}: expected a hash of {HASH_BYTES} bytes")
    return Hash(value)
