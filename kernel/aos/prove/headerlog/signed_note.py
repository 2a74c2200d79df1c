"""Signed notes and their keys, as C2SP signed-note defines them (spec/proofs.md, PF-10 to PF-16).

    text, which ends with a newline
    (an empty line)
    — NAME BASE64(key hash, 4 bytes, then the signature)

A *verifier key* is ``NAME+KEYHASH+BASE64(type, 1 byte, then the public key)``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from nacl.signing import SigningKey

from aos.core.journal.signing import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, is_signed
from aos.errors import BadUsage, Damage, excerpt

ED25519: Final = 0x01
"""The type of a key that signs a note's text."""
COSIGNATURE: Final = 0x04
"""The type of a witness's key, which signs time and text (cosignature/v1)."""

NOTE_BYTES_MAX: Final = 64 * 1024
SIGNATURES_MAX: Final = 100
NAME_BYTES_MAX: Final = 255
KEY_HASH_BYTES: Final = 4
_TIME_BYTES: Final = 8
_DASH: Final = "\u2014 "
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_NAME: Final = re.compile(r"[^\s+\x00-\x20\x7f]+")
_KEY_HASH: Final = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteKey:
    """A key that checks the signatures of one name."""

    name: str
    kind: int
    public: bytes

    @property
    def key_hash(self) -> bytes:
        """PF-12."""
        material = self.name.encode() + b"\n" + bytes((self.kind,)) + self.public
        return sha256(material).digest()[:KEY_HASH_BYTES]

    @property
    def text(self) -> str:
        """The verifier key, as tools exchange it."""
        data = base64.b64encode(bytes((self.kind,)) + self.public).decode()
        return f"{self.name}+{self.key_hash.hex()}+{data}"

    def is_of(self, signature: NoteSignature) -> bool:
        """Whether ``signature`` says that this key made it."""
        return (signature.name, signature.key_hash) == (self.name, self.key_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSignature:
    """One line under a note: name and key hash of its signer, and the bytes of the signature."""

    name: str
    key_hash: bytes
    data: bytes

    @property
    def line(self) -> str:
        data = base64.b64encode(self.key_hash + self.data).decode()
        return f"{_DASH}{self.name} {data}\n"

    @property
    def time(self) -> int | None:
        """When a witness signed, in seconds since 1970; None for a signature of another form."""
        if len(self.data) != _TIME_BYTES + SIGNATURE_BYTES:
            return None
        return int.from_bytes(self.data[:_TIME_BYTES], "big")


@dataclass(frozen=True, slots=True)
class Note:
    """A text and its signatures, in their order. Nothing is checked by a key yet."""

    text: str
    signatures: tuple[NoteSignature, ...]

    @property
    def full_text(self) -> str:
        return self.prefix(len(self.signatures))

    def prefix(self, signatures: int) -> str:
        """The note with only so many of its signatures."""
        return (
            f"{self.text}\n{''.join(signature.line for signature in self.signatures[:signatures])}"
        )

    def with_signatures(self, signatures: Iterable[NoteSignature]) -> Note:
        """The note with ``signatures`` at its end, in place of those of keys that signed before."""
        added = tuple(signatures)
        replaced_ids = {(signature.name, signature.key_hash) for signature in added}
        remaining = (
            signature
            for signature in self.signatures
            if (signature.name, signature.key_hash) not in replaced_ids
        )
        return Note(self.text, (*remaining, *added))

    def is_signed_by(self, key: NoteKey) -> bool:
        """Whether the key signed the text.

        Raises:
            Damage: A line says that it did, and the signature is another (PF-14).
        """
        lines = [signature for signature in self.signatures if key.is_of(signature)]
        if not all(_is_by(line, key, self.text) for line in lines):
            raise Damage(f"the signature of {excerpt(key.name)} under the note is not this key's")
        return bool(lines)


def _is_by(signature: NoteSignature, key: NoteKey, text: str) -> bool:
    if key.kind == ED25519:
        return is_signed(text.encode(), signature.data, key.public)
    time = signature.time
    if time is None:
        return False
    return is_signed(cosigned(text, time), signature.data[_TIME_BYTES:], key.public)


def cosigned(text: str, time: int) -> bytes:
    """The bytes that a witness signs (PF-15)."""
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def sign(text: str, name: str, key: SigningKey) -> NoteSignature:
    """Sign a text as a log does (PF-13)."""
    public = NoteKey(name=name, kind=ED25519, public=bytes(key.verify_key))
    signature = key.sign(text.encode()).signature
    return NoteSignature(name=name, key_hash=public.key_hash, data=signature)


def cosign(text: str, name: str, key: SigningKey, time: int) -> NoteSignature:
    """Sign a text as a witness does, at ``time`` in seconds since 1970 (PF-15)."""
    public = NoteKey(name=name, kind=COSIGNATURE, public=bytes(key.verify_key))
    signature = key.sign(cosigned(text, time)).signature
    data = time.to_bytes(_TIME_BYTES, "big") + signature
    return NoteSignature(name=name, key_hash=public.key_hash, data=data)


def parse_note(data: bytes) -> Note:
    """Read a note (PF-10, PF-11).

    Raises:
        Damage: The bytes are none.
    """
    if len(data) > NOTE_BYTES_MAX:
        raise _none(f"at most {NOTE_BYTES_MAX} bytes", f"{len(data)} bytes")
    try:
        note_text = data.decode()
    except UnicodeDecodeError as problem:
        raise _none("UTF-8 text", f"byte {problem.start} that is none") from None
    if _CONTROL.search(note_text):
        raise _none("text without control characters", "one")
    text, gap, signature_lines = note_text.rpartition("\n\n")
    if not gap or not signature_lines.endswith("\n"):
        raise _none("a text, an empty line and signatures", "something else")
    lines = signature_lines[:-1].split("\n")
    if len(lines) > SIGNATURES_MAX:
        raise _none(f"at most {SIGNATURES_MAX} signatures", str(len(lines)))
    return Note(text + "\n", tuple(map(parse_signature, lines)))


def parse_signature(line: str) -> NoteSignature:
    """Read the line of a signature, without its newline (PF-11).

    Raises:
        Damage: It is none.
    """
    name, _, data = line.removeprefix(_DASH).partition(" ")
    decoded = strict_base64(data)
    if (
        not line.startswith(_DASH)
        or not is_name(name)
        or decoded is None
        or len(decoded) <= KEY_HASH_BYTES
    ):
        raise _none("lines of the form '\u2014 NAME BASE64' under the text", repr(excerpt(line)))
    return NoteSignature(
        name=name, key_hash=decoded[:KEY_HASH_BYTES], data=decoded[KEY_HASH_BYTES:]
    )


def parse_note_key(text: str) -> NoteKey:
    """Read a verifier key that a user names.

    Raises:
        BadUsage: It is none, or of a type that is not known.
    """
    name, _, hash_and_key = text.partition("+")
    key_hash, _, data = hash_and_key.partition("+")
    decoded = strict_base64(data) or b""
    if is_name(name) and _KEY_HASH.fullmatch(key_hash) and len(decoded) == 1 + PUBLIC_KEY_BYTES:
        key = NoteKey(name=name, kind=decoded[0], public=decoded[1:])
        if key.kind in (ED25519, COSIGNATURE) and key.key_hash.hex() == key_hash:
            return key
    raise BadUsage(
        "this is no verifier key",
        location=repr(excerpt(text)),
        expected="NAME+HASH+KEY, as aos key show prints it",
        actual="another form, or a hash that is not this key's",
    )


def is_name(name: str) -> bool:
    """Whether a key may have this name: no blank, no plus, no control character (PF-12)."""
    return bool(_NAME.fullmatch(name)) and len(name.encode()) <= NAME_BYTES_MAX


def strict_base64(text: str) -> bytes | None:
    """The bytes that ``text`` spells in base64, if it is their only spelling; else None."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def _none(expected: str, actual: str) -> Damage:
    return Damage("this is no signed note", expected=expected, actual=actual)
