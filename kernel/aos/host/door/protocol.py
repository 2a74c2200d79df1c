"""The protocol between a running world and its clients on the Unix socket (H-50 to H-59).

    message = length (4 bytes, big-endian), canonical CBOR of a map
    request = {"v": 1, "op": …, …}
    answer  = {"v": 1, …} or {"v": 1, "error": {"kind": …, "message": …}}

A connection carries one request at a time; its answers come in the order of the requests.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from aos.core.decide.answers import Admitted, Answer, Blocker, Duplicate, Refusal, Rule
from aos.core.journal.inputs import ControlInput, EventInput
from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import OUTCOMES, word_of
from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable
from aos.host.errors import Busy
from aos.message_fields import Message, field
from aos.store.rows import Forget
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import HASH_BYTES, Hash, is_hash
from aos.values.errors import ValueProblem

PATH_BYTES_MAX: Final = 107
"""The size of ``sun_path`` on Linux without its final zero; other systems have a bit less."""

VERSION: Final = 1
LENGTH_BYTES: Final = 4
MIB: Final = 1024 * 1024

MESSAGE_BYTES_MAX: Final = 65 * MIB
"""Room for the largest event, module or manifest of a world, and the fields around it (H-51)."""

BLOB_BYTES_MAX: Final = 64 * MIB
"""The longest value that one answer has."""

SEND_ITEMS_MAX: Final = 1024
STAGED_BYTES_MAX: Final = 128 * MIB
STAGED_MODULES_MAX: Final = 64
"""Modules that one connection may stage before it applies a manifest."""

STAGED_TOGETHER_MAX: Final = 2 * STAGED_BYTES_MAX
"""Bytes of modules that all connections together may have staged."""

FORGET_ITEMS_MAX: Final = 16_384
RETRY_ITEMS_MAX: Final = 1024

ANSWER_BYTES_MAX: Final = 4 * MIB
"""Maximum bytes of cell keys in one answer."""

ANSWER_CELLS_MAX: Final = 25_000
"""Maximum cells in one answer: each is three items of CBOR."""

BLOCKERS_MAX: Final = 1000
"""Maximum number of blockers in one answer. Its message has the full count."""

TEXT_MAX: Final = 4096
"""Maximum characters of one message for people."""

SIGNED_FIELDS: Final = frozenset({"principal", "serial", "signature"})
"""The fields of a command that its signer adds."""

_ITEMS_MAX: Final = 100_000
_RULES: Final = frozenset(rule.value for rule in Rule)

T = TypeVar("T")


class ManifestChanged(Unavailable):
    """Events were encoded for a manifest that is no longer in force. Nothing was admitted."""

    is_unsent = True


_KINDS: Final[Mapping[str, type[AosError]]] = {
    "manifest_changed": ManifestChanged,
    "busy": Busy,
    "refused": Refused,
    "usage": BadUsage,
    "damage": Damage,
    "unavailable": Unavailable,
}


# The socket


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A name for the path of a socket that Linux accepts, valid inside the block (H-52).

    A longer path is reached through a descriptor of its folder, if the system has ``/proc``.

    Raises:
        Unavailable: The path is too long, and there is no ``/proc``.
    """
    size = len(os.fsencode(path))
    if size <= PATH_BYTES_MAX:
        yield os.fspath(path)
        return
    if not Path("/proc/self/fd").is_dir():
        raise Unavailable(
            f"{path}: a socket's path may have {PATH_BYTES_MAX} bytes here, this one has {size} "
            "(move the world to a shorter path)"
        )
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


# Messages


def pack(fields: Mapping[str, Value]) -> bytes:
    """Encode one message. Raises OverflowError if it is longer than the other side accepts."""
    message: dict[str | int, Value] = {"v": VERSION}
    message.update(fields)
    body = encode(message)
    if len(body) > MESSAGE_BYTES_MAX:
        raise OverflowError(f"a message of {len(body)} bytes")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def length(header: bytes) -> int:
    """Return how many bytes follow a header.

    Raises:
        BadUsage: More than a message may have.
    """
    size = int.from_bytes(header, "big")
    if size > MESSAGE_BYTES_MAX:
        raise BadUsage(f"a message has at most {MESSAGE_BYTES_MAX} bytes, this one says {size}")
    return size


def unpack(body: bytes) -> Message:
    """Decode the body of a message.

    Raises:
        BadUsage: It is not canonical CBOR of a map, or has another version.
    """
    try:
        value = decode_record(body, max_bytes=MESSAGE_BYTES_MAX, max_items=_ITEMS_MAX)
    except ValueProblem as problem:
        raise BadUsage(f"a message is not canonical CBOR: {problem}") from problem
    if not isinstance(value, dict) or value.get("v") != VERSION:
        raise BadUsage(
            f"a message is a map with v = {VERSION} (the other side may be of another release)"
        )
    return {str(key): item for key, item in value.items()}


def bodies_of(messages: bytes) -> Iterator[bytes]:
    """Yield the bodies of packed messages that follow one another. Raises: BadUsage: They do not
    end where the bytes do."""
    start = 0
    while start < len(messages):
        begin = start + LENGTH_BYTES
        start = begin + length(messages[start:begin])
        if start > len(messages):
            raise BadUsage("a message ends early: its length is more than the bytes that follow")
        yield messages[begin:start]


def error_fields(problem: AosError) -> dict[str, Value]:
    """Encode an exception as an answer, as the nearest kind that the other side knows."""
    kind = next((name for name, cls in _KINDS.items() if isinstance(problem, cls)), "damage")
    error: dict[str | int, Value] = {"kind": kind, "message": str(problem)[:TEXT_MAX]}
    if isinstance(problem, Unavailable) and problem.is_unsent:
        error["unsent"] = True
    return {"error": error}


def raise_error(answer: Message) -> None:
    """Raise the error of an answer, if it has one."""
    error = answer.get("error")
    if error is None:
        return
    match error:
        case {"kind": str(kind), "message": str(message)} if kind in _KINDS:
            problem = _KINDS[kind](message)
            if isinstance(problem, Unavailable) and error.get("unsent") is True:
                problem.is_unsent = True
            raise problem
    raise BadUsage(f"the world answered an error of an unknown kind: {error!r:.200}")


# Events


def event_fields(event: EventInput) -> dict[str | int, Value]:
    """Encode one event."""
    fields: dict[str | int, Value] = {"schema": event.schema, "value": event.value}
    if event.submission_id is not None:
        fields["id"] = event.submission_id
    return fields


def read_events(items: Sequence[object]) -> list[EventInput]:
    """Decode events. Raises: BadUsage: One is not {schema, value, id?}, or there are too many."""
    if len(items) > SEND_ITEMS_MAX:
        raise BadUsage(f"items: expected at most {SEND_ITEMS_MAX}, found {len(items)}")
    return [_read_event(index, item) for index, item in enumerate(items)]


def _read_event(index: int, item: object) -> EventInput:
    match item:
        case {"schema": str(schema), "value": bytes(value), **more}:
            submission_id = more.pop("id", None)
            if not more and (submission_id is None or isinstance(submission_id, str)):
                return EventInput(schema=schema, value=value, submission_id=submission_id)
    raise BadUsage(f"items[{index}]: expected {{schema: text, value: bytes, id?: text}}")


# Commands of operators


def control_fields(control: ControlInput) -> dict[str, Value]:
    """Encode a command of an operator; fields that are None are left out."""
    fields: dict[str, Value] = {
        "action": control.action,
        "principal": control.principal,
        "serial": control.serial,
        "signature": control.signature,
    }
    if control.cell is not None:
        fields["cell"] = list(control.cell)
    if control.intent is not None:
        fields["intent"] = control.intent
    if control.value is not None:
        fields["value"] = control.value
    if control.status is not None:
        fields["status"] = control.status
    if control.payload is not None:
        fields["payload"] = control.payload
    if control.why is not None:
        fields["why"] = control.why
    if control.restamp is not None:
        fields["restamp"] = control.restamp
    return fields


def read_control(request: Message) -> ControlInput:
    """Decode a command of an operator, for the core to check.

    Raises:
        BadUsage: A field is missing or of another type.
    """
    return ControlInput(
        action=field(request, "action", str),
        principal=field(request, "principal", str),
        serial=field(request, "serial", int),
        signature=field(request, "signature", bytes),
        cell=_read_cell(request.get("cell")),
        intent=_optional_hash(request, "intent"),
        value=_optional_hash(request, "value"),
        status=_optional(request, "status", str),
        payload=_optional(request, "payload", bytes),
        why=_optional(request, "why", str),
        restamp=True if _optional(request, "restamp", bool) else None,
    )


# Rows to remove


def forget_fields(rows: Forget) -> dict[str, Value]:
    """Encode rows to remove."""
    return {
        "blobs": list(rows.blobs),
        "snapshots": list(rows.snapshots),
        "puts": list(rows.puts),
    }


def read_forget(request: Message) -> Forget:
    """Decode rows to remove. Raises: BadUsage: A list is missing, too long or of other values."""
    blobs = _list_field(request, "blobs", bytes)
    if any(len(blob) != HASH_BYTES for blob in blobs):
        raise BadUsage(f"blobs: expected hashes of {HASH_BYTES} bytes")
    return Forget(
        blobs=[Hash(blob) for blob in blobs],
        snapshots=_list_field(request, "snapshots", int),
        puts=_list_field(request, "puts", bytes),
    )


def read_retry(request: Message) -> list[Hash]:
    """Decode the intents of a request to run effects again.

    Raises:
        BadUsage: ``intents`` is no list of at most ``RETRY_ITEMS_MAX`` hashes.
    """
    intents = field(request, "intents", list)
    if len(intents) > RETRY_ITEMS_MAX or not all(map(is_hash, intents)):
        raise BadUsage(f"intents: expected at most {RETRY_ITEMS_MAX} hashes of {HASH_BYTES} bytes")
    return [Hash(intent) for intent in intents]


def _list_field(request: Message, name: str, kind: type[T]) -> list[T]:
    elements = field(request, name, list)
    if len(elements) > FORGET_ITEMS_MAX or any(type(element) is not kind for element in elements):
        raise BadUsage(f"{name}: expected at most {FORGET_ITEMS_MAX} of {kind.__name__}")
    return list(elements)


def _read_cell(value: object) -> CellId | None:
    match value:
        case None:
            return None
        case [str(workflow), bytes(key)]:
            return workflow, key
    raise BadUsage("cell: expected [workflow: text, key: bytes]")


def _optional(request: Message, name: str, kind: type[T]) -> T | None:
    return field(request, name, kind) if name in request else None


def _optional_hash(request: Message, name: str) -> Hash | None:
    if name not in request:
        return None
    return hash_field(request, name)


def hash_field(request: Message, name: str) -> Hash:
    """Return a hash of a message. Raises: BadUsage: It is missing, or of another length."""
    value = field(request, name, bytes)
    if len(value) != HASH_BYTES:
        raise BadUsage(f"{name}: expected a hash of {HASH_BYTES} bytes, found {len(value)} bytes")
    return Hash(value)


# Answers


def answers_fields(answers: Sequence[Answer]) -> list[Value]:
    """Encode the answers to one batch. Cells that would make the message too long are left out."""
    room, cells_left = ANSWER_BYTES_MAX, ANSWER_CELLS_MAX
    fields: list[Value] = []
    for answer in answers:
        if isinstance(answer, Admitted):
            cells = answer.to + answer.ended
            room -= sum(len(name.encode()) + len(key) for name, key in cells)
            cells_left -= len(cells)
            has_room = room > 0 and cells_left >= 0
            fields.append(answer_fields(answer if has_room else replace(answer, to=(), ended=())))
        else:
            fields.append(answer_fields(answer))
    return fields


def answer_fields(answer: Answer) -> dict[str | int, Value]:
    """Encode one answer."""
    match answer:
        case Admitted(seq=seq, to=to, outcome=outcome):
            fields: dict[str | int, Value] = {"seq": seq, "to": [list(cell) for cell in to]}
            if answer.ended:
                fields["ended"] = [list(cell) for cell in answer.ended]
            if outcome is not None:
                fields["outcome"] = outcome
            if answer.dropped:
                fields["dropped"] = answer.dropped
            if answer.abandoned:
                fields["abandoned"] = answer.abandoned
            return fields
        case Duplicate(seq=seq):
            return {"duplicate": seq}
        case Refusal(rule=rule, message=message, blockers=blockers):
            room = ANSWER_BYTES_MAX
            standing: list[Value] = []
            for blocker in blockers[:BLOCKERS_MAX]:
                room -= len(blocker.cell[1])
                if room > 0:
                    standing.append([blocker.kind, list(blocker.cell), blocker.detail])
            return {"rule": rule.value, "message": message[:TEXT_MAX], "blockers": standing}


def read_answer(fields: object) -> Answer:
    """Decode one answer. Raises: BadUsage: It is not an answer."""
    match fields:
        case {"seq": int(seq), "to": list(to), **more}:
            outcome = word_of(OUTCOMES, more.get("outcome"))
            optional_fields = (
                more.get("ended", []),
                more.get("dropped", 0),
                more.get("abandoned", 0),
            )
            match optional_fields:
                case list(ended), int(dropped), int(abandoned) if more.get("outcome") in (
                    None,
                    outcome,
                ):
                    return Admitted(
                        seq=seq, to=tuple(map(_named_cell, to)), outcome=outcome, dropped=dropped,
                        ended=tuple(map(_named_cell, ended)), abandoned=abandoned,
                    )  # fmt: skip
        case {"duplicate": int(seq)}:
            return Duplicate(seq=seq)
        case {"rule": str(rule), "message": str(message), "blockers": list(standing)} if (
            rule in _RULES
        ):
            blockers = tuple(map(_read_blocker, standing))
            return Refusal(rule=Rule(rule), message=message, blockers=blockers)
    raise _no_answer(fields)


def _named_cell(value: object) -> CellId:
    match value:
        case [str(workflow), bytes(key)]:
            return workflow, key
    raise _no_answer(value)


def _read_blocker(value: object) -> Blocker:
    match value:
        case [str(kind), cell, str(detail)]:
            return Blocker(kind=kind, cell=_named_cell(cell), detail=detail)
    raise _no_answer(value)


def _no_answer(value: object) -> BadUsage:
    return BadUsage(f"the world answered {value!r:.200}, which is no answer")
