"""The derived rows: what the records say of one intent, one submission, one value that was erased
(spec/store.md, ST-30), and which of them one transaction removes (spec/state.md, RT-6, RT-24).

They hold nothing that the records do not: readers find by them what they would else search for.
Numbers are big end first:

    IntentRow       opened_seq u64, index u32, settled_seq u64 or 0, abandoned u8, receipt digest 32
    SubmissionRow   seq u64, payload hash 32
    ErasedRow       seq u64, size u64
    SnapshotRow     seq u64, document hash 32
    PackedRow       size u64
    PutRow          (blob hash 32, seq u64) -> workflow and key, canonical CBOR
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aos.errors import Damage
from aos.values.cbor import decode_record, encode
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem

KEY_BYTES_MAX: Final = 511
"""The longest key that LMDB allows. The core admits submission ids of up to 256 bytes."""

FORGET_MAX: Final = 512
"""Rows that one transaction removes at most, so that another writer waits a few milliseconds."""

_INTENT: Final = struct.Struct(">QIQB32s")
_SUBMISSION: Final = struct.Struct(">Q32s")
_ERASED: Final = struct.Struct(">QQ")
_SEQ_BYTES: Final = 8
_SNAPSHOT: Final = struct.Struct(">Q32s")
_PACKED: Final = struct.Struct(">Q")
_NO_RECEIPT: Final = bytes(HASH_BYTES)


class IntentRow(NamedTuple):
    """Where an intent was opened and how it ended.

    ``opened_seq`` is the step's sequence and ``index`` its place among the step's intents;
    ``settled_seq`` the receipt's; ``receipt_digest`` tells one receipt from another; ``abandoned``
    says that its instance does not wait for it any more, whether or not a receipt came since.
    """

    opened_seq: int
    index: int  # type: ignore[assignment]  # hides a tuple's method
    settled_seq: int | None = None
    receipt_digest: Hash | None = None
    abandoned: bool = False

    def to_bytes(self) -> bytes:
        """Return the row's value, 53 bytes (ST-30). Its key is the intent's hash."""
        return _INTENT.pack(
            self.opened_seq,
            self.index,
            self.settled_seq or 0,
            self.abandoned,
            self.receipt_digest or _NO_RECEIPT,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> IntentRow:
        """Raises: Damage."""
        if len(data) != _INTENT.size:
            raise Damage(f"an intent's row: expected {_INTENT.size} bytes, found {len(data)}")
        opened_seq, index, settled, abandoned, receipt = _INTENT.unpack(data)
        if abandoned > 1 or not (settled or receipt == _NO_RECEIPT):
            raise Damage("an intent's row is none that is written")
        return cls(
            opened_seq=opened_seq,
            index=index,
            settled_seq=settled or None,
            receipt_digest=Hash(receipt) if settled else None,
            abandoned=bool(abandoned),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRow:
    """The newest event that came under ``submission_id``, and what it was."""

    submission_id: str
    seq: int
    payload: Hash

    @property
    def key(self) -> bytes:
        """The id itself: ids that count up fill one page after the other, hashes would fill all."""
        key = submission_key(self.submission_id)
        assert key is not None, f"a submission id of {len(self.submission_id)} characters"
        return key

    def to_bytes(self) -> bytes:
        """Return the row's value, 40 bytes (ST-30). Its key is ``key``."""
        return _SUBMISSION.pack(self.seq, self.payload)

    @classmethod
    def from_bytes(cls, key: bytes, data: bytes) -> SubmissionRow:
        """Raises: Damage."""
        try:
            name = key.decode()
        except UnicodeDecodeError as error:
            raise Damage("a submission's row: the id is not UTF-8") from error
        if len(data) != _SUBMISSION.size:
            raise Damage(
                f"a submission's row: expected {_SUBMISSION.size} bytes, found {len(data)}"
            )
        seq, payload = _SUBMISSION.unpack(data)
        return cls(submission_id=name, seq=seq, payload=Hash(payload))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRow:
    """A value whose bytes are gone: ``seq`` is the record that erased them, the newest if there are
    several, ``size`` how many bytes were there; 0 if there never were any."""

    seq: int
    size: int

    def to_bytes(self) -> bytes:
        """Return the row's value, 16 bytes (ST-30). Its key is the content hash of the value."""
        return _ERASED.pack(self.seq, self.size)

    @classmethod
    def from_bytes(cls, data: bytes) -> ErasedRow:
        """Raises: Damage."""
        if len(data) != _ERASED.size:
            raise Damage(f"an erased value's row: expected {_ERASED.size} bytes, found {len(data)}")
        seq, size = _ERASED.unpack(data)
        return cls(seq=seq, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """A snapshot of the world as it was after record ``at``: the record that says so, and the
    content hash of its document."""

    at: int
    seq: int
    document: Hash

    def to_bytes(self) -> bytes:
        """Return the row's value, 40 bytes. Its key is ``seq_key(at)``, so rows ascend by
        ``at``."""
        return _SNAPSHOT.pack(self.seq, self.document)

    @classmethod
    def from_bytes(cls, key: bytes, data: bytes) -> SnapshotRow:
        """Raises: Damage."""
        if len(data) != _SNAPSHOT.size or len(key) != _SEQ_BYTES:
            raise Damage(f"a snapshot's row: expected {_SNAPSHOT.size} bytes, found {len(data)}")
        seq, document = _SNAPSHOT.unpack(data)
        return cls(at=int.from_bytes(key, "big"), seq=seq, document=Hash(document))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRow:
    """A blob of ``size`` bytes that lies in a file of its own."""

    size: int

    def to_bytes(self) -> bytes:
        """Return the row's value, 8 bytes (ST-60). Its key is the content hash of the blob."""
        return _PACKED.pack(self.size)

    @classmethod
    def from_bytes(cls, data: bytes) -> PackedRow:
        """Raises: Damage."""
        if len(data) != _PACKED.size:
            raise Damage(f"a packed blob's row: expected {_PACKED.size} bytes, found {len(data)}")
        return cls(size=_PACKED.unpack(data)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRow:
    """Record ``seq``, which was pruned, named ``blob`` to the cell ``cell``: the blob stays
    while that instance is not terminal. ``key`` is the row's key, so the rows of one blob are
    next to each other."""

    blob: Hash
    seq: int
    cell: tuple[str, bytes]

    @property
    def key(self) -> bytes:
        return self.blob + self.seq.to_bytes(_SEQ_BYTES, "big")

    def to_bytes(self) -> bytes:
        """Return the row's value, canonical CBOR ``[workflow, key]`` (ST-10)."""
        return encode([*self.cell])

    @classmethod
    def from_bytes(cls, key: bytes, data: bytes) -> PutRow:
        """Raises: Damage."""
        try:
            value = decode_record(data)
        except ValueProblem as problem:
            raise Damage(f"a put's row is not canonical CBOR: {problem}") from problem
        match value:
            case [str(workflow), bytes(of)] if len(key) == HASH_BYTES + _SEQ_BYTES:
                return cls(
                    blob=Hash(key[:HASH_BYTES]),
                    seq=int.from_bytes(key[HASH_BYTES:], "big"),
                    cell=(workflow, of),
                )
        raise Damage("a put's row is none that is written")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Rows to remove in one transaction. Rows that are not there are skipped.

    ``blobs`` are no longer needed: their bytes are removed and no row remembers them. ``puts`` are
    the keys of rows.
    """

    blobs: Sequence[Hash] = ()
    intents: Sequence[Hash] = ()
    submissions: Sequence[str] = ()
    erased: Sequence[Hash] = ()
    snapshots: Sequence[int] = ()
    puts: Sequence[bytes] = ()

    def __len__(self) -> int:
        return (
            len(self.blobs) + len(self.intents) + len(self.submissions) + len(self.erased)
            + len(self.snapshots) + len(self.puts)
        )  # fmt: skip


def seq_key(seq: int) -> bytes:
    """The key of a row that is found by a record's sequence."""
    return seq.to_bytes(_SEQ_BYTES, "big")


def submission_key(submission_id: str) -> bytes | None:
    """The key of a submission's row; None for text that no row can have."""
    try:
        key = submission_id.encode()
    except UnicodeEncodeError:
        return None
    return key if 0 < len(key) <= KEY_BYTES_MAX else None
