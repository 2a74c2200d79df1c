"""The documents of ``aos inspect journal``: records in either direction, also while the journal
grows, and their number by minute (spec/audit.md, A-38, A-39; spec/page.md, PG-104); and of ``aos
inspect value``: one value that is stored outside its records (A-68).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from aos.core.journal.journal_clock import clock_after
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Control, Event, Manifest, Record, Step
from aos.errors import BadUsage
from aos.manifest.effective import Effective
from aos.read.lens.lens import IS_MANIFEST, Lens, manifest_records
from aos.read.lens.lookup import find_cell, find_workflow
from aos.read.lens.ports import Journal, RecordIndex, first_kept
from aos.read.lens.record_finding import Records, references
from aos.read.views.record_view import Document, cell_document, document, summary
from aos.read.views.view import LIMIT, View, check_limit
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text
from aos.values.sha256 import SHA256_PREFIX, parse_sha256

KIND: Final = encode("kind")
KINDS: Final = (
    "genesis", "start", "manifest", "event", "step", "fault", "receipt", "kernel_receipt", "stream",
    "attempt", "control", "governance", "snapshot", "fork",
)  # fmt: skip

MINUTES: Final = 60
MINUTE_NS: Final = 60 * 10**9

RECORDS_SHOWN: Final = 100

_HASH: Final = re.compile(r"(?:blake3:)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selects records; a field that is None selects all."""

    kinds: Collection[str] | None = None
    workflow: str | None = None
    key: bytes | None = None

    def __post_init__(self) -> None:
        for kind in self.kinds or ():
            if kind not in KINDS:
                raise BadUsage(f"no record is a {kind!r}", expected="one of " + ", ".join(KINDS))

    @property
    def cell(self) -> CellId | None:
        """The cell that selected records name; None if they may name any."""
        return None if self.workflow is None or self.key is None else (self.workflow, self.key)

    def may_have(self, data: bytes) -> bool:
        """Return False only if these bytes cannot be a selected record. True is not certain: use
        ``has``."""
        if self.workflow is not None and self.workflow.encode() not in data:
            return False
        return self.kinds is None or any(KIND + encode(kind) in data for kind in self.kinds)

    def has(self, record: Record) -> bool:
        if self.kinds is not None and record.KIND not in self.kinds:
            return False
        if self.workflow is None:
            return True
        return any(
            cell[0] == self.workflow and self.key in (None, cell[1]) for cell in cells_of(record)
        )


def cells_of(record: Record) -> Iterator[tuple[str, bytes]]:
    """Yield every cell that a record names: the one it is about, and those that its events name."""
    cell = getattr(record, "cell", None)
    if cell is not None:
        yield cell
    events = record.events if isinstance(record, Step) else ()
    for event in (record,) if isinstance(record, Event) else events:
        yield from event.to
        yield from event.overloaded
    for emitted in events:
        yield from emitted.unknown


class RecordReader:
    """Reads records as documents, each with its ``summary``.

    With an ``index``, which must have all records that are asked for, those that name a selected
    cell are read and no others.

    Each manifest record that the reader meets is in force for later records, so that one view can
    follow a growing journal.
    """

    def __init__(self, journal: Journal, lens: Lens, index: RecordIndex | None = None) -> None:
        self._journal = journal
        self._lens = lens
        self._index = index

    def forward(
        self, first: int = 1, last: int | None = None, *, selection: Selection | None = None
    ) -> Iterator[Document]:
        """Yield the records from ``first`` to ``last``, oldest first. The default ``last`` is
        the head when the first item is requested."""
        selection = selection or Selection()
        if self._index is not None and selection.cell is not None and last is not None:
            if first > last:
                return
            self._journal.frame_at(first)  # refuses records that were pruned, as frames does
            seqs = self._index.naming(selection.cell, first=first, last=last)
            for data in map(Records(self._journal).data_at, seqs):
                yield from self._documents_of(data, selection)
            return
        for frame in self._journal.frames(first, last):
            for seq, data in enumerate(frame.records, frame.header.first):
                if seq < first or (last is not None and seq > last):
                    continue
                yield from self._documents_of(data, selection)

    def newest(
        self, limit: int, *, last: int, selection: Selection | None = None
    ) -> list[Document]:
        """Return the ``limit`` newest selected records up to ``last``, oldest first."""
        selection = selection or Selection()
        documents: list[Document] = []
        seq, first = last, first_kept(self._journal)
        if self._index is not None and selection.cell is not None:
            seqs = self._index.naming(selection.cell, first=first, last=last, is_reversed=True)
            for data in map(Records(self._journal).data_at, seqs):
                documents += self._documents_of(data, selection)
                if len(documents) == limit:
                    break
            return documents[::-1]
        while seq >= first and len(documents) < limit:
            frame = self._journal.frame_at(seq)
            assert frame is not None, "the journal reaches so far"
            for data in reversed(frame.records[: seq - frame.header.first + 1]):
                documents += self._documents_of(data, selection)
                if len(documents) == limit:
                    break
            seq = frame.header.first - 1
        return documents[::-1]

    def _documents_of(self, data: bytes, selection: Selection) -> Iterator[Document]:
        if not selection.may_have(data) and IS_MANIFEST not in data:
            return
        record = from_bytes(data)
        if selection.has(record):
            record_document = document(record, self._lens)
            yield {**record_document, "summary": summary(record_document)}
        if isinstance(record, Manifest):
            manifest = Effective.from_document(self._journal.blob(record.document.hash))
            self._lens.manifests.add(record.seq, manifest)


def record(view: View, seq: int) -> Document:
    """Return one record in full, and the values that are stored outside it (A-31 to A-37d)."""
    journal_record = view.records.at(seq)
    return document(journal_record, view.full_lens) | {
        "values": [
            {"where": path, "value": hash_text(ref.hash), "size": ref.size}
            for path, ref in references(journal_record)
        ]
    }


def journal(
    view: View,
    *,
    first: int | None = None,
    last: int | None = None,
    kinds: tuple[str, ...] | None = None,
    workflow: str | None = None,
    key: str | None = None,
    limit: int = LIMIT,
) -> Document:
    """List records from ``first`` on; without ``first`` the newest ones (A-38)."""
    check_limit(limit)
    end = view.state.next_seq - 1 if last is None else min(last, view.state.next_seq - 1)
    selected = selection(view, kinds=kinds, workflow=workflow, key=key)
    if view.index is not None and kinds == (Manifest.KIND,) and workflow is None and first is None:
        return {"records": _newest_manifests(view, view.index, limit, last=end), "next": None}
    reader = RecordReader(view.journal, view.lens, view.index)
    if first is None:
        return {"records": reader.newest(limit, last=end, selection=selected), "next": None}
    documents: list[Document] = []
    for record_document in reader.forward(first, end, selection=selected):
        if len(documents) == limit:
            return {"records": documents, "next": record_document["seq"]}
        documents.append(record_document)
    return {"records": documents, "next": None}


def _newest_manifests(view: View, index: RecordIndex, limit: int, *, last: int) -> list[Document]:
    """Return the ``limit`` newest records of manifests up to ``last``, oldest first."""
    manifests = list(manifest_records(view.journal, first_kept(view.journal), last, index))
    documents = [document(view.records.at(seq), view.lens) for seq, _ in manifests[-limit:]]
    return [{**manifest, "summary": summary(manifest)} for manifest in documents]


def selection(
    view: View,
    *,
    kinds: tuple[str, ...] | None = None,
    workflow: str | None = None,
    key: str | None = None,
) -> Selection:
    """Build a selection from the caller's words."""
    if workflow is None:
        if key is not None:
            raise BadUsage("a key names a cell only with its workflow (give the workflow, too)")
        return Selection(kinds=kinds)
    if key is None:
        return Selection(kinds=kinds, workflow=find_workflow(view.state, workflow))
    name, key_bytes = find_cell(view.state, workflow, key)
    return Selection(kinds=kinds, workflow=name, key=key_bytes)


def minutes(view: View) -> Document:
    """Return ``{minutes: [{at_ns, records, by_kind}]}`` of the last hour of the journal's clock
    (PG-104); a minute without a record is left out. Without an index, the whole journal is read."""
    last = view.state.clock_ns // MINUTE_NS
    first = last - MINUTES + 1
    counts_by_minute = (
        _count_by_minute(view) if view.index is None else view.index.minutes(MINUTES, last)
    )
    return {
        "minutes": [
            {
                "at_ns": minute * MINUTE_NS,
                "records": sum(counts.values()),
                "by_kind": dict(sorted(counts.items())),
            }
            for minute, counts in sorted(counts_by_minute.items())
            if first <= minute <= last
        ]
    }


def _count_by_minute(view: View) -> dict[int, Counter[str]]:
    """A record counts in the minute of the journal clock after it (IX-25)."""
    counts_by_minute: dict[int, Counter[str]] = defaultdict(Counter)
    clock_ns = 0
    for frame in view.journal.frames(first_kept(view.journal), view.state.next_seq - 1):
        for data in frame.records:
            record = from_bytes(data)
            clock_ns = clock_after(clock_ns, record)
            counts_by_minute[clock_ns // MINUTE_NS][record.KIND] += 1
    return counts_by_minute


def read_value_hash(word: str) -> Hash:
    """Return the content hash of a value, with or without ``blake3:``. A prefix is not accepted,
    because an erase command must name the whole hash.

    Raises:
        BadUsage: The word is not a content hash.
    """
    match = _HASH.fullmatch(word)
    if match is None:
        raise BadUsage(
            "not the hash of a value",
            location=repr(word),
            expected="blake3: and 64 lower-case hex digits",
            hint="aos inspect record SEQ names the values of a record",
        )
    return Hash(bytes.fromhex(match[1]))


def value_bytes(view: View, word: str) -> bytes:
    """Return the bytes of a value that is stored outside its records, or that another value names.

    Raises:
        BadUsage: The word is no hash, or this world has no such value.
        Erased: The value was erased.
        Damage: The bytes cannot be read, or do not have this hash.
    """
    value_hash = _content_hash(view, word)
    if not view.journal.has_blob(value_hash) and view.journal.erased(value_hash) is None:
        raise _unknown(value_hash)
    return view.journal.blob(value_hash)


def value(view: View, word: str) -> Document:
    """Return where a value is stored, its size, and the record that erased it (A-68).

    Raises:
        BadUsage: The word is no hash, or the world has never stored the value outside of a record.
    """
    value_hash = _content_hash(view, word)
    reference_rows, erased_by, size = _records_with(view, value_hash)
    row = view.journal.erased(value_hash)
    is_there = view.journal.has_blob(value_hash)
    if not reference_rows and not erased_by and not is_there:
        raise _unknown(value_hash)
    return {
        "value": hash_text(value_hash),
        "size": size if size is not None else row.size if row else None,
        "is_there": is_there,
        "erased_by": erased_by,
        "records": reference_rows[:RECORDS_SHOWN],
        "total": len(reference_rows),
    }


def _content_hash(view: View, word: str) -> Hash:
    """Return the content hash of the value that a word names: its content hash, or the SHA-256 name
    of a blob (AG-30).

    Raises:
        BadUsage: The word is neither, or no blob of this world has this SHA-256 name.
    """
    if not word.startswith(SHA256_PREFIX):
        return read_value_hash(word)
    name = parse_sha256(word)
    if name is None:
        raise BadUsage(
            "not the name of a blob",
            location=repr(word),
            expected="sha256: and 64 lower-case hex digits",
        )
    blob_hash = view.journal.hash_by_sha256(name)
    if blob_hash is None:
        raise BadUsage(
            "no blob of this world has this name",
            location=word,
            hint="only the blobs that modules of the AgentOS SDK use have SHA-256 names",
        )
    return blob_hash


def _unknown(value_hash: Hash) -> BadUsage:
    return BadUsage(
        "the world holds no such value",
        location=hash_text(value_hash),
        hint="only values of more than 1,024 bytes lie outside their records",
    )


def _records_with(view: View, value_hash: Hash) -> tuple[list[Document], list[int], int | None]:
    """Return the places that refer to a value, the records that erase it, and its size."""
    reference_rows: list[Document] = []
    erased_by: list[int] = []
    size = None
    for frame in view.journal.frames(first_kept(view.journal), view.state.next_seq - 1):
        for data in frame.records:
            # Searching for the bytes costs a fraction of decoding.
            record = from_bytes(data) if data.find(value_hash) >= 0 else None
            if record is None:
                continue
            if isinstance(record, Control) and record.value == value_hash:
                erased_by.append(record.seq)
            cell: CellId | None = getattr(record, "cell", None)
            for path, ref in references(record):
                if ref.hash != value_hash:
                    continue
                size = ref.size
                reference_rows.append(
                    {
                        "record": record.seq,
                        "kind": record.KIND,
                        "where": path,
                        "cell": None
                        if cell is None
                        else cell_document(cell, view.lens, seq=record.seq),
                    }
                )
    return reference_rows, erased_by, size
