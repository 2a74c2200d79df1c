"""The requests of C2SP tlog-witness, and their answers (spec/proofs.md, PF-80 to PF-86).

POST URL/add-checkpoint
old SIZE
hash of the consistency proof, base64        0 to 63 lines
(an empty line)
checkpoint
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aos.errors import Damage
from aos.prove.headerlog.checkpoint import Checkpoint, parse_checkpoint
from aos.prove.headerlog.header_tree import EMPTY, HASH_BYTES, is_consistent
from aos.prove.headerlog.signed_note import (
    NOTE_BYTES_MAX,
    Note,
    NoteKey,
    parse_note,
    strict_base64,
)

ADD_CHECKPOINT: Final = "add-checkpoint"
SIZE_TYPE: Final = "text/x.tlog.size"
LINES_MAX: Final = 63
REQUEST_BYTES_MAX: Final = NOTE_BYTES_MAX + 16 * 1024

OK: Final = 200
MALFORMED: Final = 400
NOT_SIGNED: Final = 403
UNKNOWN_LOG: Final = 404
CONFLICT: Final = 409
NOT_CONSISTENT: Final = 422

_OLD: Final = re.compile(r"old (0|[1-9][0-9]{0,18})")
_SIZE: Final = re.compile(r"(0|[1-9][0-9]{0,18})\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCheckpoint:
    """One request."""

    old: int
    path: tuple[bytes, ...]
    note: Note
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a request that is refused. ``latest`` is the size of the last checkpoint that
    the witness cosigned, if the request is about another one."""

    status: int
    reason: str
    latest: int | None = None


def format_request(old: int, path: Sequence[bytes], note: str) -> bytes:
    """The body of a request."""
    lines = "".join(f"{base64.b64encode(digest).decode()}\n" for digest in path)
    return f"old {old}\n{lines}\n{note}".encode()


def parse_request(body: bytes) -> AddCheckpoint:
    """Read the body of a request.

    Raises:
        Damage: It is malformed.
    """
    if len(body) > REQUEST_BYTES_MAX:
        raise Damage(f"expected at most {REQUEST_BYTES_MAX} bytes")
    try:
        head, gap, note = body.decode().partition("\n\n")
    except UnicodeDecodeError:
        raise Damage("expected UTF-8 text") from None
    first, *lines = head.split("\n")
    match = _OLD.fullmatch(first)
    path = [strict_base64(line) for line in lines]
    if not gap or match is None or len(lines) > LINES_MAX:
        raise Damage("expected a line 'old SIZE', at most 63 hashes, an empty line, a checkpoint")
    hashes = [digest for digest in path if digest is not None and len(digest) == HASH_BYTES]
    if len(hashes) != len(lines):
        raise Damage("expected hashes of 32 bytes in base64")
    parsed_note = parse_note(note.encode())
    return AddCheckpoint(
        old=int(match[1]),
        path=tuple(hashes),
        note=parsed_note,
        checkpoint=parse_checkpoint(parsed_note.text),
    )


def trusted_origin(request: AddCheckpoint, logs: Sequence[NoteKey]) -> Answer | None:
    """Check that a known log signed the checkpoint (PF-82); None if one did."""
    keys = [key for key in logs if key.name == request.checkpoint.origin]
    if not keys:
        return Answer(status=UNKNOWN_LOG, reason="this witness does not know the log")
    try:
        signed = [key for key in keys if request.note.is_signed_by(key)]
    except Damage as problem:
        return Answer(status=NOT_SIGNED, reason=str(problem))
    if not signed:
        return Answer(status=NOT_SIGNED, reason="no trusted key of the log signed the checkpoint")
    return None


def follows(request: AddCheckpoint, latest: Checkpoint | None) -> Answer | None:
    """Check that the checkpoint continues the last one that was cosigned (PF-83); None if so."""
    new, old = request.checkpoint, 0 if latest is None else latest.size
    if request.old > new.size:
        return Answer(status=MALFORMED, reason="the old size is larger than the checkpoint's")
    if request.old != old:
        return Answer(status=CONFLICT, reason="another checkpoint was cosigned last", latest=old)
    old_root = EMPTY if latest is None else latest.root
    if old == new.size and old_root != new.root:
        return Answer(status=CONFLICT, reason="another root of this size was cosigned")
    if not is_consistent(old, old_root, new.size, new.root, request.path):
        return Answer(status=NOT_CONSISTENT, reason="the consistency proof does not hold")
    return None


def parse_size(body: bytes) -> int | None:
    """The size that an answer 409 names; None if it names none."""
    match = _SIZE.fullmatch(body.decode(errors="replace"))
    return None if match is None else int(match[1])
