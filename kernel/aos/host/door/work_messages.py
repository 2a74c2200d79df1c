"""Outcomes, attempts and stream frames as messages on the socket (spec/host.md, H-53b).

They come from a process that runs effects for this world and is not one of its executors. Reading
checks the types of all fields; the core checks everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from aos.core.decide.answers import Answer
from aos.core.journal.inputs import AttemptInput
from aos.errors import BadUsage
from aos.host.door.protocol import answer_fields, read_answer
from aos.host.executors.task import Loss, Lost
from aos.message_fields import Message, field
from aos.values.cbor import Value
from aos.worker.outcome import check_names, read_hash

WORK_ITEMS_MAX: Final = 256
"""Outcomes, attempts or frames in one request."""

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
    check_names(item, _ATTEMPT_FIELDS)
    return AttemptInput(
        intent=read_hash(item, "intent"),
        attempt=field(item, "attempt", int),
        phase=field(item, "phase", str),
        problem=field(item, "problem", str) if "problem" in item else None,
        code=field(item, "code", str) if "code" in item else None,
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


_ATTEMPT_FIELDS: Final = frozenset({"intent", "attempt", "phase", "problem", "code"})
_LOSSES: Final = frozenset(loss.value for loss in Loss)
