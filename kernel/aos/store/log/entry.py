"""The entries of a log, and the messages that carry them (spec/log.md, LG-1 to LG-8).

    ["aos/log/1", "frames", [frame bytes, …], head bytes, [blob, …], {seq: note}]
    ["aos/log/1", "blobs", hash of a frame, [blob, …], signature]

An entry of frames is one call of ``Store.append``, one of blobs a call of ``Store.put_blobs``.
Entries are canonical CBOR, so one entry has one form and one hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from nacl.signing import SigningKey

from aos.core.journal.frame import Frame, Head, read_frame
from aos.core.journal.signing import SIGNATURE_BYTES, is_signed
from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode, is_nat
from aos.values.digests import HASH_BYTES, Hash, content_hash
from aos.values.errors import ValueProblem

FORM: Final = "aos/log/1"
FRAMES: Final = "frames"
BLOBS: Final = "blobs"
BLOBS_SIGNED: Final = "aos/log-blobs/1"

ENTRY_BYTES_MAX: Final = 512 * 1024 * 1024
"""The longest entry that a reader accepts: a frame and its blobs."""

PARTS_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FramesEntry:
    """Frames that follow one another, the signed head over the last of them, the blobs that they
    need, and notes on their records."""

    frames: tuple[Frame, ...]
    head: Head
    blobs: tuple[bytes, ...] = ()
    notes: Mapping[int, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The entry as the log has it."""
        frames: list[Value] = [frame.to_bytes() for frame in self.frames]
        blobs: list[Value] = list(self.blobs)
        notes: dict[str | int, Value] = {seq: note for seq, note in self.notes.items()}  # noqa: C416  # a wider type of key
        return encode([FORM, FRAMES, frames, self.head.to_bytes(), blobs, notes])


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobsEntry:
    """Blobs outside of a frame, for the world whose journal ends with the frame ``after``. Its key
    signs their hashes: a program that can only publish cannot fill the disks of all nodes, and a
    late copy brings no erased value back."""

    after: Hash
    blobs: tuple[bytes, ...]
    signature: bytes

    @classmethod
    def signed(
        cls, world: Hash, after: Hash, blobs: Sequence[bytes], key: SigningKey
    ) -> BlobsEntry:
        """Make an entry, signed with the key of the world."""
        message = _blobs_message(world, after, blobs)
        return cls(after=after, blobs=tuple(blobs), signature=key.sign(message).signature)

    def is_signed_by(self, world: Hash, public_key: bytes) -> bool:
        """Whether the key of the world has signed these blobs for this place."""
        return is_signed(_blobs_message(world, self.after, self.blobs), self.signature, public_key)

    def to_bytes(self) -> bytes:
        """The entry as the log has it."""
        return encode([FORM, BLOBS, self.after, list[Value](self.blobs), self.signature])


LogEntry: TypeAlias = FramesEntry | BlobsEntry


def _blobs_message(world: Hash, after: Hash, blobs: Sequence[bytes]) -> bytes:
    hashes: list[Value] = [content_hash(blob) for blob in blobs]
    return encode([BLOBS_SIGNED, world, after, hashes])


def read_entry(data: bytes) -> LogEntry:
    """Read an entry and check its shape. Whether it counts is for the reader to decide.

    Raises:
        Damage: The bytes are no entry.
    """
    try:
        value = decode_record(data, max_bytes=ENTRY_BYTES_MAX)
    except ValueProblem as error:
        raise Damage(f"an entry is not canonical CBOR: {error}") from error
    match value:
        case [str(form), str(kind), *fields] if form == FORM:
            entry = _frames(fields) if kind == FRAMES else _blobs(fields) if kind == BLOBS else None
            if entry is not None:
                return entry
    raise Damage("an entry is neither of frames nor of blobs")


def _frames(fields: Sequence[Value]) -> FramesEntry | None:
    match fields:
        case [list(frames), bytes(head), list(blobs), dict(notes)] if frames:
            pass
        case _:
            return None
    data = [frame for frame in frames if isinstance(frame, bytes)]
    blob_bytes = [blob for blob in blobs if isinstance(blob, bytes)]
    texts = {
        seq: note for seq, note in notes.items() if isinstance(seq, int) and isinstance(note, str)
    }
    if (len(data), len(blob_bytes), len(texts)) != (len(frames), len(blobs), len(notes)):
        return None
    if not all(map(is_nat, texts)):
        return None
    return FramesEntry(
        frames=tuple(map(read_frame, data)),
        head=Head.from_bytes(head),
        blobs=tuple(blob_bytes),
        notes=texts,
    )


def _blobs(fields: Sequence[Value]) -> BlobsEntry | None:
    match fields:
        case [bytes(after), list(blobs), bytes(signature)] if blobs:
            pass
        case _:
            return None
    blob_bytes = [blob for blob in blobs if isinstance(blob, bytes)]
    if len(blob_bytes) != len(blobs):
        return None
    if len(after) != HASH_BYTES or len(signature) != SIGNATURE_BYTES:
        return None
    return BlobsEntry(after=Hash(after), blobs=tuple(blob_bytes), signature=signature)


class EntryPart(NamedTuple):
    """The content of a message: part ``number`` of ``total``, from 1 on, of the entry whose bytes
    have this hash."""

    entry: Hash
    number: int
    total: int
    data: bytes

    @property
    def header(self) -> str:
        """The place of the part as a header of the message: ``2/3``."""
        return f"{self.number}/{self.total}"

    @classmethod
    def read(cls, entry: str, part: str, data: bytes) -> EntryPart | None:
        """Read the headers of a message, the hash in hex; None if they are not those of a part."""
        number_text, _, total_text = part.partition("/")
        if len(entry) != 2 * HASH_BYTES or entry != entry.lower():
            return None
        try:
            hash = Hash(bytes.fromhex(entry))
        except ValueError:
            return None
        numbers = (_number(number_text), _number(total_text))
        match numbers:
            case (int(number), int(total)) if 1 <= number <= total <= PARTS_MAX:
                return cls(hash, number, total, data)
        return None


def _number(text: str) -> int | None:
    is_plain = text.isascii() and text.isdigit() and len(text) <= 7 and text[0] != "0"
    return int(text) if is_plain else None


def parts_of(data: bytes, part_bytes: int) -> list[EntryPart]:
    """Cut an entry into parts of at most ``part_bytes`` bytes."""
    entry = content_hash(data)
    total = max(1, -(-len(data) // part_bytes))
    return [
        EntryPart(entry, index + 1, total, data[index * part_bytes : (index + 1) * part_bytes])
        for index in range(total)
    ]
