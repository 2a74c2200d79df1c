"""Check that each frame follows the one before it, and find the part, or the one bit, that was
altered (spec/audit.md, A-22, A-23).

Rule 1: the next frame's ``prev``, or the signed head, is a witness of a frame's hash. If a header
fits its witness but not the records, the records were altered. If the header computed from the
records and neighbours fits the witness, the stored header was altered.

Rule 2: after a damaged frame the check continues from the hash that the witnesses give, so that it
finds every damaged frame and blames no intact one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from blake3 import blake3

from aos.core.journal.frame import NO_FRAME, Frame, Head, Header, leaf, log_leaf, record_salt
from aos.core.journal.merkle import Tree
from aos.core.journal.merkle import root as merkle_root
from aos.errors import sentence
from aos.prove.verify.findings import FindingKind
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text

SEARCH_SECONDS: Final = 20.0
"""Maximum search time for one frame, in seconds. A frame of 256 KiB, the largest that a host
makes, takes less."""

_NODE: Final = encode(["aos/node/1", bytes(32), bytes(32)])
_LEFT: Final = _NODE[:-66]
_RIGHT: Final = _NODE[-34:-32]

Problem = tuple[FindingKind, str]


@dataclass(slots=True, kw_only=True)
class Chain:
    """The position of a chain after the frames so far.

    ``prev`` is the hash that the next frame follows, ``log`` the tree over the roots; each is None
    if earlier damage leaves it unknown.
    """

    world: Hash
    next_seq: int = 1
    prev: Hash | None = NO_FRAME
    log: Tree | None

    def skip_to(self, seq: int) -> None:
        """Continue with the frame that begins with record ``seq``; earlier ones are lost."""
        self.next_seq, self.prev, self.log = seq, None, None

    def check(self, frame: Frame, witness: Hash | None) -> tuple[bool, list[Problem]]:
        """Return whether ``frame`` holds the records that its hash commits to, and all other
        problems.

        The chain then moves past the frame.
        """
        header = frame.header
        problems: list[Problem] = []
        if header.first != self.next_seq:
            problems.append((FindingKind.FRAME_MISSING, _missing(self.next_seq, header.first)))
            self.skip_to(header.first)
        expected = self._expected(frame)
        is_whole = True
        if header != expected:
            is_header = witness is not None and expected.hash() == witness
            is_whole = is_header or header.root == expected.root
            if is_header:
                problems.append((FindingKind.FRAME_ALTERED, _altered(header, expected)))
            else:
                problems += _breaks(header, expected)
        self._move_on(frame, expected, witness)
        return is_whole, problems

    def _expected(self, frame: Frame) -> Header:
        """Return the header computed from the frame's records and the frames before it."""
        header = frame.header
        root = merkle_root(
            [leaf(frame.salt, header.first + i, data) for i, data in enumerate(frame.records)]
        )
        log = None if self.log is None else self.log.append(log_leaf(root))
        return Header(
            world=self.world,
            first=header.first,
            last=header.first + len(frame.records) - 1,
            prev=header.prev if self.prev is None else self.prev,
            root=root,
            log_root=header.log_root if log is None else log.root(),
        )

    def _move_on(self, frame: Frame, expected: Header, witness: Hash | None) -> None:
        header = frame.header
        self.next_seq = expected.last + 1
        valid_header = header
        if header != expected and expected.hash() == witness:
            valid_header = expected
        self.prev = valid_header.hash()
        if self.log is not None:
            log = self.log.append(log_leaf(valid_header.root))
            self.log = log if log.root() == valid_header.log_root else None

    def head_problem(self, head: Head) -> str | None:
        """Return why ``head`` is not the end of this chain; None if it is."""
        field_pairs: dict[str, tuple[object, object]] = {
            "world": (head.world, self.world),
            "seq": (head.seq, self.next_seq - 1),
            "frame": (head.frame, self.prev),
        }
        if self.log is not None:
            field_pairs["log_root"] = (head.log_root, self.log.root())
            field_pairs["frames"] = (head.frames, self.log.size)
        odd = [name for name, (claimed, has) in field_pairs.items() if claimed != has]
        if not odd:
            return None
        return sentence(
            f"the head is not the journal's end: {', '.join(odd)}",
            expected=f"record {head.seq}",
            actual=f"record {self.next_seq - 1}",
            hint="frames were lost, added or replaced after it was signed",
        )


def _missing(expected: int, actual: int) -> str:
    return sentence(
        "a frame is missing before it" if actual > expected else "it overlaps the frame before it",
        expected=f"record {expected} first",
        actual=f"record {actual}",
        hint="restore a backup",
    )


def _altered(header: Header, expected: Header) -> str:
    stored, expected_fields = header.value(), expected.value()
    odd = [str(name) for name in stored if stored[name] != expected_fields[name]]
    return f"its header was altered: {', '.join(odd)} (the chain continues from another header)"


def _breaks(header: Header, expected: Header) -> Iterator[Problem]:
    """Yield the header fields that do not fit the frames before. A root that does not fit the
    records is not among them."""
    if header.world != expected.world:
        yield (
            FindingKind.CHAIN_BROKEN,
            sentence(
                "it belongs to another world",
                expected=hash_text(expected.world),
                actual=hash_text(header.world),
            ),
        )
    if header.prev != expected.prev:
        yield (
            FindingKind.CHAIN_BROKEN,
            sentence(
                "it does not follow the frame before it",
                expected=f"previous hash {hash_text(expected.prev)}",
                actual=hash_text(header.prev),
                hint="one of the two was replaced",
            ),
        )
    elif header.log_root != expected.log_root and header.root == expected.root:
        yield (
            FindingKind.CHAIN_BROKEN,
            sentence(
                "its log root is not the tree over all frames so far",
                expected=hash_text(expected.log_root),
                actual=hash_text(header.log_root),
                hint="an earlier frame was replaced",
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One flipped bit: in the record at ``index`` of the frame, or in its salt (None)."""

    index: int | None
    byte: int
    bit: int


def find_flip(frame: Frame, *, seconds: float = SEARCH_SECONDS) -> Flip | None:
    """Return the bit whose flipping makes ``frame`` fit the root in its header; None if none was
    found (A-23).

    A frame's root commits to all of its records together, so it does not show which one was
    altered. If one bit was flipped, as by failing memory or a failing disk, trying each bit finds
    it: hashing a leaf and its path to the root takes a few short hashes.
    """
    deadline = time.monotonic() + seconds
    return _flip_in_salt(frame, deadline) or _flip_in_records(frame, deadline)


def flipped(data: bytes, flip: Flip) -> bytes:
    """Return ``data`` with the bit inverted."""
    changed = bytearray(data)
    changed[flip.byte] ^= 1 << flip.bit
    return bytes(changed)


def _leaf_hashes(frame: Frame) -> list[Hash]:
    first = frame.header.first
    return [leaf(frame.salt, first + i, record) for i, record in enumerate(frame.records)]


def _flip_in_salt(frame: Frame, deadline: float) -> Flip | None:
    for byte in range(len(frame.salt)):
        if time.monotonic() > deadline:
            return None
        for bit in range(8):
            salt = bytearray(frame.salt)
            salt[byte] ^= 1 << bit
            if merkle_root(_leaf_hashes(replace(frame, salt=bytes(salt)))) == frame.header.root:
                return Flip(index=None, byte=byte, bit=bit)
    return None


def _flip_in_records(frame: Frame, deadline: float) -> Flip | None:
    leaves = _leaf_hashes(frame)
    for index, record in enumerate(frame.records):
        salt = record_salt(frame.salt, frame.header.first + index)
        buffer = bytearray(encode(["aos/leaf/1", salt, record]))
        way = list(_path_to_root(leaves, index))
        for at in range(len(buffer) - len(record), len(buffer)):
            if time.monotonic() > deadline:
                return None
            for bit in range(8):
                buffer[at] ^= 1 << bit
                if _root_over(blake3(buffer).digest(), way) == frame.header.root:
                    return Flip(index=index, byte=at - len(buffer) + len(record), bit=bit)
                buffer[at] ^= 1 << bit
    return None


def _path_to_root(leaves: Sequence[Hash], index: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield, from a leaf up to the root, the bytes before and after the child's hash in each
    node's preimage."""
    if len(leaves) == 1:
        return
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if index < split:
        yield from _path_to_root(leaves[:split], index)
        yield _LEFT, _RIGHT + merkle_root(leaves[split:])
    else:
        yield from _path_to_root(leaves[split:], index - split)
        yield _LEFT + merkle_root(leaves[:split]) + _RIGHT, b""


def _root_over(leaf_hash: bytes, way: list[tuple[bytes, bytes]]) -> bytes:
    for prefix, suffix in way:
        leaf_hash = blake3(prefix + leaf_hash + suffix).digest()
    return leaf_hash
