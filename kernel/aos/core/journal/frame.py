"""Make frames of records, and check that frames form a chain (spec/journal.md, J-20 to J-39).

    frame  = {"header": header, "records": [record bytes, ...], "salt": 32 bytes}
    header = {"first", "last", "log_root", "prev", "root", "version": 1, "world"}

A leaf is a hash over a salt and a record's bytes; each record's salt is derived from the frame's.
The salt is random and in no record, so that one record can be shown with its proof without
revealing its neighbours. ``root`` is the tree over the leaves, ``log_root`` the tree over the
roots of all frames so far including this one, and the frame's hash is over its header alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from nacl.signing import SigningKey

from aos.core.journal.identity import world_id
from aos.core.journal.merkle import Tree
from aos.core.journal.merkle import root as merkle_root
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Record
from aos.core.journal.signing import SIGNATURE_BYTES, is_signed
from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode, is_nat
from aos.values.digests import HASH_BYTES, Hash, derive, digest
from aos.values.errors import ValueProblem

VERSION: Final = 1
NO_FRAME: Final = Hash(bytes(32))
"""``prev`` of the first frame."""

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest frame that a reader accepts. A host seals at 256 KiB, but the last record may be long."""

SALT_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The hashed part of a frame: its place in the chain, the root of its records and the root of
    all frames before it."""

    world: Hash
    first: int
    last: int
    prev: Hash
    root: Hash
    log_root: Hash

    def value(self) -> dict[str | int, Value]:
        return {
            "version": VERSION,
            "world": self.world,
            "first": self.first,
            "last": self.last,
            "prev": self.prev,
            "root": self.root,
            "log_root": self.log_root,
        }

    def hash(self) -> Hash:
        return digest("aos/frame/1", self.value())


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The records of one round, with the header that fixes them."""

    header: Header
    hash: Hash
    salt: bytes
    records: tuple[bytes, ...]
    _stored: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The bytes that it was read from: they are canonical."""

    def to_bytes(self) -> bytes:
        return self._stored or encode(
            {"header": self.header.value(), "records": list(self.records), "salt": self.salt}
        )


def frame_of_bytes(
    header: Header, hash: Hash, salt: bytes, records: tuple[bytes, ...], data: bytes
) -> Frame:
    """Return a frame that another kernel has made, with its bytes ``data``. Nothing is checked."""
    frame = Frame(header=header, hash=hash, salt=salt, records=records)
    object.__setattr__(frame, "_stored", data)
    return frame


class StoredFrame(NamedTuple):
    """The bytes of a frame, of which only the places of its first and last record were read."""

    first: int
    last: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """The end of a chain, which the next frame follows."""

    world: Hash
    seq: int = 0
    frame: Hash = NO_FRAME
    log: Tree = field(default_factory=Tree)


def leaf(salt: bytes, seq: int, record: bytes) -> Hash:
    """The leaf of the record with sequence ``seq`` in the frame that has this salt."""
    return digest("aos/leaf/1", record_salt(salt, seq), record)


def record_salt(salt: bytes, seq: int) -> bytes:
    return derive("aos/record-salt/1", salt + seq.to_bytes(8, "big"), SALT_BYTES)


def log_leaf(root: Hash) -> Hash:
    return digest("aos/log-leaf/1", root)


def seal(tip: Tip, records: Sequence[bytes], salt: bytes) -> tuple[Frame, Tip]:
    """Make the frame that follows ``tip`` out of at least one record."""
    assert records
    assert len(salt) == SALT_BYTES
    first = tip.seq + 1
    root = merkle_root([leaf(salt, first + i, record) for i, record in enumerate(records)])
    log = tip.log.append(log_leaf(root))
    header = Header(
        world=tip.world,
        first=first,
        last=tip.seq + len(records),
        prev=tip.frame,
        root=root,
        log_root=log.root(),
    )
    frame = Frame(header=header, hash=header.hash(), salt=salt, records=tuple(records))
    return frame, Tip(world=tip.world, seq=header.last, frame=frame.hash, log=log)


def read_frame(data: bytes) -> Frame:
    """Read a stored frame and check its shape; ``follow`` checks its contents.

    Raises:
        Damage: The bytes are not a frame.
    """
    try:
        value = decode_record(data, max_bytes=FRAME_BYTES_MAX)
    except ValueProblem as error:
        raise Damage(f"a frame is not canonical CBOR: {error}") from error
    match value:
        case {
            "header": {
                "version": version,
                "world": bytes(world),
                "first": first,
                "last": last,
                "prev": bytes(prev),
                "root": bytes(root),
                "log_root": bytes(log_root),
                **more_header,
            },
            "records": list(records),
            "salt": bytes(salt),
            **more,
        } if not more and not more_header:
            pass
        case _:
            raise Damage("a frame is not {header, records, salt}")
    if not (is_nat(version) and is_nat(first) and is_nat(last)):
        raise Damage("a frame's header holds a version or sequence that is not a natural number")
    if version != VERSION:
        raise Damage(
            f"frame version: expected {VERSION}, found {version} (a newer release wrote it)"
        )
    if not all(isinstance(record, bytes) for record in records) or len(salt) != SALT_BYTES:
        raise Damage("a frame's records are not byte strings, or its salt is not 32 bytes")
    if not all(len(hash_bytes) == HASH_BYTES for hash_bytes in (world, prev, root, log_root)):
        raise Damage("a frame's header holds a hash that is not 32 bytes")
    if first < 1 or last - first + 1 != len(records) or not records:
        raise Damage(f"frame {first}: expected {last - first + 1} records, found {len(records)}")
    header = Header(
        world=Hash(world), first=first, last=last, prev=Hash(prev), root=Hash(root),
        log_root=Hash(log_root),
    )  # fmt: skip
    encoded_records = tuple(record for record in records if isinstance(record, bytes))
    return frame_of_bytes(header, header.hash(), salt, encoded_records, data)


_NAT: Final = rb"([\x00-\x17]|\x18.|\x19.{2}|\x1a.{4}|\x1b.{8})"
_BEGINNING: Final = re.compile(
    rb"\xa3dsaltX .{32}fheader\xa7dlast" + _NAT + rb"dprevX .{32}drootX .{32}efirst" + _NAT,
    re.DOTALL,
)
"""The bytes of a frame up to its first record's sequence: map keys are shortest first."""


def stored_frame(data: bytes) -> StoredFrame | None:
    """Read where a stored frame is, and nothing else; None if its bytes begin otherwise."""
    match = _BEGINNING.match(data)
    if match is None:
        return None
    last, first = (int.from_bytes(number[1:] or number, "big") for number in match.group(1, 2))
    return StoredFrame(first, last, data)


def forked(tip: Tip, record: Record) -> Tip:
    """The tip that a frame with ``record`` as its first record follows: ``tip``; or, if the record
    forks this world at this place, the same place in the fork's own world (K-110)."""
    if not isinstance(record, Fork):
        return tip
    if (record.parent, record.at, record.frame) != (tip.world, tip.seq, tip.frame):
        return tip
    return replace(tip, world=world_id(record.nonce, record.world_key))


def _entered(tip: Tip, frame: Frame) -> Tip:
    """As ``forked``, for a frame; reads its first record only if it names another world."""
    if frame.header.world == tip.world:
        return tip
    try:
        return forked(tip, from_bytes(frame.records[0]))
    except Damage:
        return tip  # and so it is another world's


def follow(tip: Tip, frame: Frame) -> Tip:
    """Check that ``frame`` follows ``tip`` and holds the records that its hash commits to.

    Raises:
        Damage: It does not; the text names the frame and the first part that differs.
    """
    tip = _entered(tip, frame)
    expected_frame, next_tip = seal(tip, frame.records, frame.salt)
    header, expected = frame.header, expected_frame.header
    subject = f"frame {tip.seq + 1}"
    if header.world != expected.world:
        raise Damage(
            f"{subject} is another world's: expected world {expected.world.hex()[:16]}, "
            f"found {header.world.hex()[:16]}"
        )
    if header.first != expected.first:
        raise Damage(f"{subject} is missing: the next stored frame begins at record {header.first}")
    if header.prev != expected.prev:
        raise Damage(
            f"{subject} does not follow the frame before it: expected previous hash "
            f"{expected.prev.hex()[:16]}, found {header.prev.hex()[:16]}"
        )
    if header.root != expected.root:
        raise Damage(
            f"{subject} (records {header.first} to {header.last}) is altered: expected root "
            f"{header.root.hex()[:16]}, its records give {expected.root.hex()[:16]}"
        )
    if header.log_root != expected.log_root:
        raise Damage(f"{subject} is altered: its log root is not the tree over the frames so far")
    return next_tip


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The journal's end, signed by the world's key; stored with each commit group."""

    world: Hash
    seq: int
    frame: Hash
    log_root: Hash
    frames: int
    signature: bytes = b""

    @classmethod
    def of(cls, tip: Tip) -> Head:
        return cls(
            world=tip.world,
            seq=tip.seq,
            frame=tip.frame,
            log_root=tip.log.root(),
            frames=tip.log.size,
        )

    def message(self) -> bytes:
        return encode(["aos/head/1", *self._parts()])

    def _parts(self) -> list[Value]:
        return [self.world, self.seq, self.frame, self.log_root, self.frames]

    def signed(self, key: SigningKey) -> Head:
        return Head(
            world=self.world, seq=self.seq, frame=self.frame, log_root=self.log_root,
            frames=self.frames, signature=key.sign(self.message()).signature,
        )  # fmt: skip

    def is_signed_by(self, public_key: bytes) -> bool:
        return is_signed(self.message(), self.signature, public_key)

    def to_bytes(self) -> bytes:
        return encode([*self._parts(), self.signature])

    @classmethod
    def from_bytes(cls, data: bytes) -> Head:
        """Read a stored head.

        Raises:
            Damage: The bytes are not a head.
        """
        try:
            value = decode_record(data, max_bytes=4096)
        except ValueProblem as error:
            raise Damage(f"the head is not canonical CBOR: {error}") from error
        match value:
            case [bytes(world), seq, bytes(frame), bytes(log_root), frames, bytes(signature)] if (
                is_nat(seq)
                and is_nat(frames)
                and all(len(hash_bytes) == HASH_BYTES for hash_bytes in (world, frame, log_root))
                and len(signature) == SIGNATURE_BYTES
            ):
                return cls(
                    world=Hash(world), seq=seq, frame=Hash(frame), log_root=Hash(log_root),
                    frames=frames, signature=signature,
                )  # fmt: skip
        raise Damage("the head is not [world, seq, frame, log_root, frames, signature]")
