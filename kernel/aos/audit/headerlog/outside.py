"""The last checkpoint of a world that was kept outside of its folder (spec/proofs.md, PF-29b).

    DIR/log/.outside    a JSON object: checkpoint (the note), seq, file, time

Only a checkpoint that someone else holds shows later that the journal was rolled back or
rewritten. This file says which one that is; it proves nothing by itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, NoReturn

from aos.audit.headerlog.checkpoint import Checkpoint, open_checkpoint
from aos.audit.headerlog.signed_note import Note, NoteKey
from aos.audit.headerlog.stored_log import OUTSIDE_BYTES_MAX
from aos.errors import Damage, excerpt
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

_FIELDS: Final = {"checkpoint", "seq", "file", "time"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideCheckpoint:
    """A checkpoint that someone else holds. ``seq`` is the last record that it covers. ``file`` is
    the file that it was written to; None if only the witnesses under ``note`` hold it. ``time`` is
    when it was made, in seconds since 1970."""

    note: Note
    checkpoint: Checkpoint
    seq: int
    file: str | None
    time: int

    @property
    def cosigned(self) -> tuple[tuple[str, int], ...]:
        return cosigners(self.note)

    def to_bytes(self) -> bytes:
        """The content of the file."""
        document = {
            "checkpoint": self.note.full_text, "seq": self.seq, "file": self.file,
            "time": self.time,
        }  # fmt: skip
        return (json.dumps(document, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes, key: NoteKey) -> OutsideCheckpoint:
        """Read the file. ``key`` is the key of the log.

        Raises:
            Damage: It has another form, or the log's key did not sign the checkpoint.
        """
        try:
            document = parse_json(data.decode(), max_bytes=OUTSIDE_BYTES_MAX, max_depth=4)
        except (UnicodeDecodeError, ValueProblem) as problem:
            raise Damage(_problem(excerpt(str(problem)))) from None
        if not isinstance(document, dict) or document.keys() != _FIELDS:
            _refuse("other fields")
        note, seq, file, time = (document[name] for name in ("checkpoint", "seq", "file", "time"))
        if not isinstance(note, str) or not (file is None or isinstance(file, str)):
            _refuse("a field of another type")
        if type(seq) is not int or type(time) is not int or seq < 1 or time < 0:
            _refuse("a field of another type")
        checkpoint, signed_note = open_checkpoint(note.encode(), key)
        return cls(note=signed_note, checkpoint=checkpoint, seq=seq, file=file, time=time)


def cosigners(note: Note) -> tuple[tuple[str, int], ...]:
    """The names and times of the cosignatures under a note, which are not checked by a key."""
    return tuple(
        (signature.name, signature.time)
        for signature in note.signatures
        if signature.time is not None
    )


def _problem(reason: str) -> str:
    return (
        f"log/.outside is not {{checkpoint, seq, file, time}}: {reason} (remove the file; the next "
        "aos checkpoint that is kept outside of the folder writes it again)"
    )


def _refuse(reason: str) -> NoReturn:
    raise Damage(_problem(reason))
