"""The facts known at the current record while a journal is checked, the list of findings, and the
values in records: read, and checked for blobs, sizes and schemas (spec/audit.md, A-26).

One ``Checking`` is shared by all parts of a pass over the records: ``contents``, ``open_work`` and
``RecordedValues``.

Rule 1: a value whose bytes are missing is damage, unless it was erased: its reader reports so, and
a later record erases it. Which of the two it is remains open until that record is read.

Rule 2: the values that a manifest needs, its own document and its modules, are never erased
(K-104).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Fork, Genesis, Slot
from aos.core.journal.signing import Executors, is_signed
from aos.errors import Damage, Erased, sentence
from aos.manifest.effective import Effective
from aos.prove.verify.findings import FindingKind
from aos.values.cbor import INGRESS_BYTES_MAX
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.schema import Schema

SIGNATURES_KEPT: Final = 256
"""How many results of signature checks are cached: the receipts of a batch share one signature."""

Add = Callable[[FindingKind, str], None]
"""Adds a finding about the current record."""


@dataclass(slots=True)
class Counts:
    records: int = 0
    events: int = 0
    receipts: int = 0
    kernel_receipts: int = 0
    streams: int = 0
    attempts: int = 0
    controls: int = 0
    manifests: int = 0
    steps: int = 0
    faults: int = 0
    intents: int = 0
    signatures: int = 0
    blob_bytes: int = 0
    modules: int = 0
    values: int = 0
    erased: int = 0
    stamps_behind: int = 0


@dataclass(slots=True)
class Checking:
    """The facts known at the current record. ``add`` reports a finding about it; ``later`` returns
    an ``Add`` that still reports on this record when others are checked.

    ``genesis`` is the record that this world begins with: its genesis, or the last fork.
    ``revoked`` holds all keys that the manifests so far have revoked, ``manifests`` the manifests
    by the record that put each in force. ``clock_ns`` is the journal clock.
    """

    world: Hash
    add: Add
    later: Callable[[], Add]
    counts: Counts = field(default_factory=Counts)
    genesis: Genesis | Fork | None = None
    effective: Effective | None = None
    manifests: dict[int, Effective] = field(default_factory=dict)
    revoked: frozenset[bytes] = frozenset()
    clock_ns: int = 0
    _is_signed: Callable[[bytes, bytes, bytes], bool] = field(
        default_factory=lambda: lru_cache(SIGNATURES_KEPT)(is_signed)
    )

    @property
    def executors(self) -> Executors:
        """Return the executors of the manifest in force."""
        return self.effective.executors if self.effective else None

    def signature(self, message: bytes, signature: bytes, key: bytes, signer: str) -> None:
        """Count a signature, and report it if it is not ``key``'s over ``message``."""
        self.counts.signatures += 1
        if not self._is_signed(message, signature, key):
            self.add(FindingKind.SIGNATURE_WRONG, f"the signature is not {signer}")

    def signature_of_one(
        self, message: bytes, signature: bytes, keys: Iterable[bytes], signer: str
    ) -> bool:
        """Count a signature that one of several keys may have made; report it if none has, and
        return whether one has."""
        self.counts.signatures += 1
        if any(self._is_signed(message, signature, key) for key in keys):
            return True
        self.add(FindingKind.SIGNATURE_WRONG, f"the signature is not {signer}")
        return False


@dataclass(slots=True)
class RecordedValues:
    """``blobs`` has each blob that was read: None for an unaltered one, else the problem as
    text."""

    checking: Checking
    read: BlobReader
    blobs: dict[Hash, str | None] = field(default_factory=dict)
    _missed: dict[Hash, list[tuple[Add, str]]] = field(default_factory=dict)
    _excused: set[Hash] = field(default_factory=set)

    def normal(self, schema: Schema | None, value: Slot, path: str) -> None:
        """Check a value that was journaled in normal form."""
        data = self.bytes_of(value)
        if data is None or schema is None:
            return
        try:
            schema.from_record(data)
            self.checking.counts.values += 1
        except ValueProblem as problem:
            self.checking.add(FindingKind.VALUE_INVALID, f"{path}: {schema.name}: {problem}")

    def as_it_came(self, schema: Schema | None, value: Slot, path: str) -> None:
        """Check a value that was stored as received: it must fit, but need not be canonical."""
        data = self.bytes_of(value)
        if data is None or schema is None:
            return
        try:
            schema.from_ingress(data, max_bytes=max(len(data), INGRESS_BYTES_MAX))
            self.checking.counts.values += 1
        except ValueProblem as problem:
            self.checking.add(FindingKind.VALUE_INVALID, f"{path}: {schema.name}: {problem}")

    def bytes_of(self, value: Slot) -> bytes | None:
        """Return the bytes of a slot; None if they cannot be read. That is a finding, or becomes
        one in ``finish`` unless a later record erases the value."""
        if isinstance(value, bytes):
            return value
        try:
            data = self._unaltered_blob(value.hash)
        except Erased as problem:
            missed = self._missed.setdefault(value.hash, [])
            missed.append((self.checking.later(), str(problem)))
            return None
        if data is None:
            self.checking.add(FindingKind.BLOB_DAMAGED, str(self.blobs[value.hash]))
        else:
            self._check_size(value.hash, data, value.size)
        return data

    def check_blob(self, hash: Hash, prefix: str) -> None:
        """Check a blob whose size no record gives. A later record may have erased it."""
        try:
            data = self._unaltered_blob(hash)
        except Erased as problem:
            missed = self._missed.setdefault(hash, [])
            missed.append((self.checking.later(), str(problem)))
            return
        if data is None:
            self.checking.add(FindingKind.BLOB_DAMAGED, f"{prefix}{self.blobs[hash]}")

    def checked_bytes(self, value: Slot) -> bytes | None:
        """Return the bytes of a slot that was checked before; None if they cannot be read."""
        if isinstance(value, bytes):
            return value
        try:
            return self.read(value.hash)
        except Damage:
            return None

    def pinned(self, hash: Hash, prefix: str = "", *, size: int | None = None) -> bytes | None:
        """Return a blob that must never be erased; report it and return None if it is not there
        unaltered."""
        try:
            data = self._unaltered_blob(hash)
        except Erased as problem:
            self.blobs[hash] = str(problem)
            data = None
        if data is None:
            self.checking.add(FindingKind.BLOB_DAMAGED, f"{prefix}{self.blobs[hash]}")
        elif size is not None:
            self._check_size(hash, data, size)
        return data

    def _check_size(self, hash: Hash, data: bytes, size: int) -> None:
        if len(data) != size:
            self.checking.add(
                FindingKind.BLOB_DAMAGED,
                sentence(
                    f"blob {hash_text(hash)} has another size than its reference",
                    expected=f"{size} bytes",
                    actual=f"{len(data)}",
                ),
            )

    def erase(self, value: Hash) -> None:
        """Note that the current record erases ``value``, so that its bytes may be missing
        before."""
        if self._missed.pop(value, None) is not None and value not in self._excused:
            self._excused.add(value)
            self.checking.counts.erased += 1

    def finish(self) -> None:
        """Report, after the last record, the missing values that no record has erased."""
        for hash_, missed in self._missed.items():
            for add, reason in missed:
                add(
                    FindingKind.BLOB_DAMAGED,
                    sentence(
                        f"blob {hash_text(hash_)} is missing",
                        expected="its bytes, or a later record that erases it",
                        actual=f"no such record, though it is said that {reason}",
                    ),
                )
        self._missed.clear()

    def _unaltered_blob(self, hash: Hash) -> bytes | None:
        """Return a blob; None if it is missing or altered. Raises ``Erased``."""
        if self.blobs.get(hash) is not None:
            return None
        try:
            data = self.read(hash)
        except Erased:
            raise
        except Damage as problem:
            self.blobs[hash] = str(problem)
            return None
        if hash not in self.blobs:
            self.blobs[hash] = None
            self.checking.counts.blob_bytes += len(data)
        return data
