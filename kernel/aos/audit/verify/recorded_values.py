"""Slots of records -> their bytes, checked: blobs, sizes, schemas (spec/audit.md, A-26).

Rule 1: a value whose bytes are missing is damage, unless they were erased: its reader says so, and
a later record erases it. Until that record is met it is not known which of the two it is.

Rule 2: what a manifest needs, its own document and its modules, is never erased (K-104).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aos.audit.verify.checking import Add, Checking
from aos.audit.verify.findings import FindingKind
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Slot
from aos.errors import Damage, Erased, sentence
from aos.values.cbor import INGRESS_BYTES_MAX
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.schema import Schema


@dataclass(slots=True)
class RecordedValues:
    """``blobs`` has each blob that was read: None for a whole one, else what is wrong with it."""

    checking: Checking
    read: BlobReader
    blobs: dict[Hash, str | None] = field(default_factory=dict)
    _missed: dict[Hash, list[tuple[Add, str]]] = field(default_factory=dict)
    _excused: set[Hash] = field(default_factory=set)

    def normal(self, schema: Schema | None, value: Slot, where: str) -> None:
        """A value that was journaled in normal form."""
        data = self.bytes_of(value)
        if data is None or schema is None:
            return
        try:
            schema.from_record(data)
            self.checking.counts.values += 1
        except ValueProblem as problem:
            self.checking.add(FindingKind.VALUE_INVALID, f"{where}: {schema.name}: {problem}")

    def as_it_came(self, schema: Schema | None, value: Slot, where: str) -> None:
        """A value that was kept as it came in: it fits, but need not be canonical."""
        data = self.bytes_of(value)
        if data is None or schema is None:
            return
        try:
            schema.from_ingress(data, max_bytes=max(len(data), INGRESS_BYTES_MAX))
            self.checking.counts.values += 1
        except ValueProblem as problem:
            self.checking.add(FindingKind.VALUE_INVALID, f"{where}: {schema.name}: {problem}")

    def bytes_of(self, value: Slot) -> bytes | None:
        """The bytes of a slot; None when they cannot be had, which is a finding or becomes one."""
        if isinstance(value, bytes):
            return value
        try:
            data = self._whole(value.hash)
        except Erased as problem:
            missed = self._missed.setdefault(value.hash, [])
            missed.append((self.checking.later(), str(problem)))
            return None
        if data is None:
            self.checking.add(FindingKind.BLOB_DAMAGED, str(self.blobs[value.hash]))
        else:
            self._check_size(value.hash, data, value.size)
        return data

    def needed(self, hash: Hash, what: str) -> None:
        """A blob that nothing says the size of. It may have been erased since."""
        try:
            data = self._whole(hash)
        except Erased as problem:
            missed = self._missed.setdefault(hash, [])
            missed.append((self.checking.later(), str(problem)))
            return
        if data is None:
            self.checking.add(FindingKind.BLOB_DAMAGED, f"{what}{self.blobs[hash]}")

    def held(self, value: Slot) -> bytes | None:
        """The bytes of a slot that was looked at before; None when they cannot be had."""
        if isinstance(value, bytes):
            return value
        try:
            return self.read(value.hash)
        except Damage:
            return None

    def pinned(self, hash: Hash, what: str = "", *, size: int | None = None) -> bytes | None:
        """A blob that is needed for good; None, and a finding, when it cannot be had whole."""
        try:
            data = self._whole(hash)
        except Erased as problem:
            self.blobs[hash] = str(problem)
            data = None
        if data is None:
            self.checking.add(FindingKind.BLOB_DAMAGED, f"{what}{self.blobs[hash]}")
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
                    found=f"{len(data)}",
                ),
            )

    def erase(self, value: Hash) -> None:
        """The record at hand erases ``value``: that it is missing before is right."""
        if self._missed.pop(value, None) is not None and value not in self._excused:
            self._excused.add(value)
            self.checking.counts.erased += 1

    def finish(self) -> None:
        """The last record was looked at: what no record has erased should be there."""
        for hash_, missed in self._missed.items():
            for add, why in missed:
                add(
                    FindingKind.BLOB_DAMAGED,
                    sentence(
                        f"blob {hash_text(hash_)} is missing",
                        expected="its bytes, or a later record that erases it",
                        found=f"no such record, though it is said that {why}",
                    ),
                )
        self._missed.clear()

    def _whole(self, hash: Hash) -> bytes | None:
        """A blob; None when it is missing or altered. Raises ``Erased``."""
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
