"""Checkpoints of a world's header log, as C2SP tlog-checkpoint defines them (PF-17 to PF-19).

aos/<world id, 64 hex digits>
<number of frames>
<root of the header log, base64>
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Final

from nacl.signing import SigningKey

from aos.errors import Damage
from aos.prove.headerlog.header_tree import HASH_BYTES
from aos.prove.headerlog.signed_note import ED25519, Note, NoteKey, parse_note, sign, strict_base64
from aos.values.digests import Hash

_ORIGIN: Final = re.compile(r"aos/([0-9a-f]{64})")
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A tree: its origin, the number of its leaves, and its root."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @property
    def world(self) -> Hash | None:
        """The world whose log it is; None if it is another program's."""
        match = _ORIGIN.fullmatch(self.origin)
        return None if match is None else Hash(bytes.fromhex(match[1]))

    def signed(self, key: SigningKey) -> Note:
        """The note, signed as the log ``origin`` signs."""
        return Note(self.text, (sign(self.text, self.origin, key),))


def origin_of(world: Hash) -> str:
    """PF-17."""
    return f"aos/{world.hex()}"


def log_key(world: Hash, public: bytes) -> NoteKey:
    """The key that signs the checkpoints of a world (PF-18)."""
    return NoteKey(name=origin_of(world), kind=ED25519, public=public)


def parse_checkpoint(text: str) -> Checkpoint:
    """Read the text of a checkpoint, of any log. Lines after the third are extensions, which
    checkpoints of a world do not have.

    Raises:
        Damage: It is none.
    """
    lines = text.split("\n")
    if len(lines) >= 4 and lines[0] and lines[-1] == "" and _SIZE.fullmatch(lines[1]):
        root = strict_base64(lines[2])
        if root is not None and len(root) == HASH_BYTES and all(lines[3:-1]):
            return Checkpoint(origin=lines[0], size=int(lines[1]), root=root)
    raise Damage(
        "this is no checkpoint: expected an origin, a number of frames and a root, each in a line"
    )


def open_checkpoint(data: bytes, key: NoteKey) -> tuple[Checkpoint, Note]:
    """Read the checkpoint of the log that ``key`` signs, and check the signature (PF-19).

    Raises:
        Damage: It is none, is another log's, or the key did not sign it.
    """
    note = parse_note(data)
    checkpoint = parse_checkpoint(note.text)
    if checkpoint.origin != key.name:
        raise Damage(
            "the checkpoint is of another log", expected=key.name, actual=checkpoint.origin[:80]
        )
    if checkpoint.text != note.text:
        raise Damage("the checkpoint has extension lines, which no checkpoint of a world has")
    if not note.is_signed_by(key):
        raise Damage(
            "the log's own key did not sign the checkpoint",
            expected=f"a signature of {key.name} with key hash {key.key_hash.hex()}",
            actual=f"{len(note.signatures)} of others",
        )
    return checkpoint, note
