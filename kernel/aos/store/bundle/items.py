"""The items of a bundle and their bytes (spec/bundle.md, B-10 to B-18).

A bundle is a sequence of canonical CBOR items, each ``[kind: text, body: bytes]``:

    aos-bundle   Header                              first
    frame        a frame (J-24)                      in their order, from the genesis
    blob         the bytes of a value
    erased       [hash, seq, record bytes]           a value that is gone, and the command
    head         the signed head (J-33)              one, behind all of those
    index        rows of 40 bytes, ascending         hash, position of its item (u64, big end first)
    end          positions of head and index (u64), 32-byte hash of every byte before this item

So a reader knows the length of an item before its body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from aos.core.journal.frame import FRAME_BYTES_MAX
from aos.core.journal.inputs import ERASE
from aos.core.journal.merkle import Tree
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control, Fork, Principal
from aos.core.journal.signing import PUBLIC_KEY_BYTES
from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode, encode_text, head
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem

FORMAT: Final = 1

HEADER: Final = "aos-bundle"
FRAME: Final = "frame"
BLOB: Final = "blob"
ERASED: Final = "erased"
HEAD: Final = "head"
INDEX: Final = "index"
END: Final = "end"

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

BYTES_MAX: Final[Mapping[str, int]] = {
    HEADER: _MIB,
    FRAME: FRAME_BYTES_MAX,
    BLOB: 1024 * _MIB,
    ERASED: 64 * _KIB,
    HEAD: 4 * _KIB,
    INDEX: 1 << 48,
    END: 8 + 8 + HASH_BYTES,
}
"""The longest body of each kind. An index is never read whole."""

ROW_BYTES: Final = HASH_BYTES + 8

_PAIR: Final = b"\x82"
_KINDS: Final = {_PAIR + encode_text(kind): kind for kind in BYTES_MAX}
_OPENING_BYTES_MAX: Final = max(map(len, _KINDS))
OPENING_BYTES_MAX: Final = _OPENING_BYTES_MAX + 9
"""The longest opening of an item, in bytes."""

MAGIC: Final = _PAIR + encode_text(HEADER)
"""The first bytes of a bundle."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The bytes before an item's body: its kind, and the sizes of this opening and of the body.
    ``item_size`` is the size of the item with both. All sizes are in bytes."""

    kind: str
    size: int
    body: int

    @property
    def item_size(self) -> int:
        return self.size + self.body


def opening(kind: str, body: int) -> bytes:
    """Return the opening for a body of ``body`` bytes.

    Raises:
        Damage: Readers would refuse an item of this kind and size.
    """
    _check_length(kind, body)
    return _PAIR + encode_text(kind) + head(0x40, body)


def item(kind: str, body: bytes) -> bytes:
    """A whole item. Raises as ``opening``."""
    return opening(kind, len(body)) + body


def read_opening(data: bytes) -> Opening:
    """Read the opening of an item at the start of ``data``. Bytes after it are ignored.

    Raises:
        Damage: There is none, or its body is longer than its kind allows.
    """
    prefix = next((candidate for candidate in _KINDS if data.startswith(candidate)), None)
    if prefix is None:
        raise Damage("expected an item of a bundle, found something else")
    kind, body = _KINDS[prefix], _length(data, len(prefix))
    _check_length(kind, body)
    expected = opening(kind, body)
    if not data.startswith(expected):
        raise Damage(f"{kind}: its length is not canonical")
    return Opening(kind, len(expected), body)


def _check_length(kind: str, body: int) -> None:
    if body > BYTES_MAX[kind]:
        raise Damage(f"{kind}: expected at most {BYTES_MAX[kind]} bytes, found {body}")


def _length(data: bytes, at: int) -> int:
    """The length that the head of a byte string says."""
    initial = data[at] if at < len(data) else 0
    info = initial & 31
    if initial & 0xE0 != 0x40 or info > 27:
        raise Damage("an item of a bundle holds something else than bytes")
    if info < 24:
        return info
    end = at + 1 + (1 << info - 24)
    if end > len(data):
        raise Damage("the length of an item is cut short")
    return int.from_bytes(data[at + 1 : end], "big")


END_BYTES: Final = len(opening(END, BYTES_MAX[END])) + BYTES_MAX[END]
"""The last item, whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveBase:
    """The place that the frames of an archive follow: record ``seq``, the last one of ``frame``,
    and ``log``, the tree over all frames up to it. ``document`` is the snapshot of the world as it
    was then, whose parts are among the values; ``genesis`` are the bytes of record 1."""

    seq: int
    frame: Hash
    log: Tree
    document: Hash
    genesis: bytes

    def value(self) -> Value:
        """Return the header's field ``after``, which ``of`` reads."""
        return [
            self.seq, self.frame, self.log.size, list(self.log.peaks), self.document, self.genesis,
        ]  # fmt: skip

    @classmethod
    def of(cls, value: object) -> ArchiveBase:
        """Raises: Damage."""
        match value:
            case [int(seq), bytes(frame), int(size), list(peaks), bytes(document), bytes(genesis)]:
                hashes = [
                    hash_bytes
                    for hash_bytes in (frame, document, *peaks)
                    if isinstance(hash_bytes, bytes)
                ]
                if (
                    seq > 0
                    and len(hashes) == 2 + size.bit_count() == 2 + len(peaks)
                    and all(len(hash_bytes) == HASH_BYTES for hash_bytes in hashes)
                ):
                    return cls(
                        seq=seq,
                        frame=Hash(frame),
                        log=Tree(size, tuple(map(Hash, hashes[2:]))),
                        document=Hash(document),
                        genesis=genesis,
                    )
        raise Damage(
            "the header does not say what its frames follow: expected [seq, frame, size of the "
            "log, its peaks, document, genesis]"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleHeader:
    """The first item of a bundle: which world and records it holds.

    ``executors`` are the public keys of executors whose keys were made with the world, by name;
    ``created`` is UTC, RFC 3339.
    """

    world: Hash
    created: str
    world_key: bytes
    operators: tuple[Principal, ...]
    executors: Mapping[str, bytes]
    after: ArchiveBase | None = None
    """None where the frames begin at the genesis."""

    def to_bytes(self) -> bytes:
        """Return the body of the header's item: one canonical CBOR map, without ``after`` where
        the frames begin at the genesis."""
        operators: list[Value] = [[operator.name, operator.key] for operator in self.operators]
        executors: dict[str | int, Value] = {}
        executors.update(self.executors)
        fields: dict[str | int, Value] = {
            "format": FORMAT,
            "world": self.world,
            "created": self.created,
            "world_key": self.world_key,
            "operators": operators,
            "executors": executors,
        }
        if self.after is not None:
            fields["after"] = self.after.value()
        return encode(fields)

    @classmethod
    def from_bytes(cls, data: bytes) -> BundleHeader:
        """Raises: Damage."""
        try:
            value = decode_record(data, max_bytes=BYTES_MAX[HEADER])
        except ValueProblem as problem:
            raise Damage(f"the header is not canonical CBOR: {problem}") from problem
        match value:
            case {"format": int(number)} if number != FORMAT:
                raise Damage(
                    f"the bundle's format: expected {FORMAT}, found {number} "
                    "(a newer release wrote it)"
                )
            case {
                "format": 1,
                "world": bytes(world),
                "created": str(created),
                "world_key": bytes(world_key),
                "operators": list(operators),
                "executors": dict(executors),
                **more,
            } if (
                more.keys() <= {"after"}
                and len(world) == HASH_BYTES
                and len(world_key) == PUBLIC_KEY_BYTES
            ):
                return cls(
                    world=Hash(world),
                    created=created,
                    world_key=world_key,
                    operators=tuple(map(_operator, operators)),
                    executors=MappingProxyType(
                        {_name(name): _key(key) for name, key in executors.items()}
                    ),
                    after=ArchiveBase.of(more["after"]) if more else None,
                )
        raise Damage("the header is not {format, world, created, world_key, operators, executors}")


def _operator(value: Value) -> Principal:
    match value:
        case [str(name), bytes(key)]:
            return Principal(name, _key(key))
    raise Damage("the header holds an operator that is not [name, key]")


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise Damage("the header holds an executor whose name is not text")
    return value


def _key(value: object) -> bytes:
    if not isinstance(value, bytes) or len(value) != PUBLIC_KEY_BYTES:
        raise Damage("the header holds a key that is not 32 bytes")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedValue:
    """A value that the journal refers to and whose bytes are gone. ``record`` are the bytes of the
    command that erased it, record ``seq``, which may come after the bundle's end."""

    value: Hash
    seq: int
    record: bytes

    def to_bytes(self) -> bytes:
        """Return the body of its item: the canonical CBOR array ``[value, seq, record]``."""
        return encode([self.value, self.seq, self.record])

    @classmethod
    def from_bytes(cls, data: bytes) -> ErasedValue:
        """Raises: Damage."""
        try:
            value = decode_record(data, max_bytes=BYTES_MAX[ERASED])
        except ValueProblem as problem:
            raise Damage(f"an erased value is not canonical CBOR: {problem}") from problem
        match value:
            case [bytes(hash_), int(seq), bytes(record)] if (
                len(hash_) == HASH_BYTES and type(seq) is int and seq > 0
            ):
                erased_value = cls(value=Hash(hash_), seq=seq, record=record)
                erased_value.check()
                return erased_value
        raise Damage("an erased value is not [hash, record's sequence, record]")

    def check(self) -> None:
        """Raises: Damage: The record is none that erases this value."""
        record = from_bytes(self.record)
        if isinstance(record, Fork) and record.seq == self.seq and self.value in record.erased:
            return
        self.command()

    def command(self) -> Control:
        """The command that erased it; its signature is not checked.

        Raises:
            Damage: The record is none that erases this value.
        """
        record = from_bytes(self.record)
        if isinstance(record, Control) and (record.action, record.value, record.seq) == (
            ERASE,
            self.value,
            self.seq,
        ):
            return record
        raise Damage(f"record {self.seq} is said to erase a value, and does not")


def row(value: Hash, at: int) -> bytes:
    """A row of the index: a value and the position of its item."""
    return value + at.to_bytes(8, "big")


def read_row(data: bytes) -> tuple[Hash, int]:
    """Read a row of the index, the reverse of ``row``. ``data`` has at least ``ROW_BYTES``
    bytes; neither hash nor position is checked."""
    return Hash(data[:HASH_BYTES]), int.from_bytes(data[HASH_BYTES:ROW_BYTES], "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The positions of head and index, and the hash of every byte before this item."""

    head_at: int
    index_at: int
    digest: bytes

    def to_bytes(self) -> bytes:
        """Return the body of the last item: both positions with 8 bytes, big-endian, then the
        digest."""
        return self.head_at.to_bytes(8, "big") + self.index_at.to_bytes(8, "big") + self.digest

    @classmethod
    def from_bytes(cls, data: bytes) -> End:
        """Raises: Damage."""
        if len(data) != BYTES_MAX[END]:
            raise Damage(f"the last item: expected {BYTES_MAX[END]} bytes, found {len(data)}")
        return cls(
            head_at=int.from_bytes(data[:8], "big"),
            index_at=int.from_bytes(data[8:16], "big"),
            digest=data[16:],
        )
