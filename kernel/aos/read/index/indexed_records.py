"""Record → the rows of the index that it makes, without a state (spec/index.md, IX-12 to IX-18)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aos.core.journal.journal_clock import clock_after
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    EntryId,
    Event,
    Faulted,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Step,
    Stream,
)
from aos.core.state.state import State
from aos.errors import Damage
from aos.read.index.index_layout import (
    ASKED_STATUSES,
    INPUTS_BYTES,
    INTENT_BYTES,
    MINUTE_BYTES,
    MINUTE_NS,
    NS_MAX,
    OF_INTENTS,
    OF_MINUTES,
    WORD_BYTES,
    IndexTable,
    StoredIntent,
    number_key,
    number_of,
    place_key,
    record_key,
    status_key,
)
from aos.read.index.index_rows import prefixed
from aos.read.index.index_tables import IndexTables
from aos.read.trace.timeline import inputs_by_cell
from aos.read.views.journal_view import KINDS, cells_of
from aos.values.digests import Hash

OPEN: Final = ASKED_STATUSES.index("open")
ABANDONED: Final = ASKED_STATUSES.index("abandoned")


class IndexedRecords:
    """Writes the rows of records, one after the other, within one transaction.

    ``clock_ns`` is the journal clock. ``named_cells`` are the numbers of all cells that these
    records name.
    """

    def __init__(self, tables: IndexTables, clock_ns: int) -> None:
        self.clock_ns = clock_ns
        self.named_cells: dict[int, CellId] = {}
        self._tables = tables
        self._inputs: dict[int, int] = {}

    def take(self, record: Record) -> None:
        """Write the rows of a record.

        Raises:
            Damage: It settles an intent that no record opened.
        """
        self.clock_ns = min(clock_after(self.clock_ns, record), NS_MAX)
        minute = (self.clock_ns // MINUTE_NS).to_bytes(MINUTE_BYTES, "big")
        self._tables.count(OF_MINUTES + minute + bytes([KINDS.index(record.KIND)]), 1)
        rows, seq = self._tables.rows, record_key(record.seq)
        inputs = inputs_by_cell(record)
        for id in dict.fromkeys(cells_of(record)):
            number = self._tables.number(id)
            self.named_cells[number] = id
            self._touch(number, seq, inputs.get(id, 0))
        match record:
            case Event():
                pass
            case Step():
                self._write_took_row(record.entry, record.cell, seq)
                for index, intent in enumerate(record.intents):
                    position = (record.seq, index)
                    self._open(intent.intent, position, record.cell, intent.effect, OPEN)
                self._abandon(record.abandoned, record.seq)
            case Faulted():
                self._write_took_row(record.entry, record.cell, seq)
            case Receipt() | KernelReceipt():
                status = ASKED_STATUSES.index(record.status)
                self._change(record.intent, status, record.seq)
                self._abandon(record.abandoned, record.seq)
            case Manifest():
                rows.put(IndexTable.VERSIONS, seq, record.document.hash)
            case Attempt() | Stream() | Control(intent=bytes()):
                self._write_about_row(record.intent, seq)
            case _:
                self._abandon(getattr(record, "abandoned", ()), record.seq)

    def begin(self, state: State) -> None:
        """Write what the records up to a state have left open: its intents, and its manifest."""
        for status, intents in ((OPEN, state.intents), (ABANDONED, state.abandoned)):
            for intent in intents.values():
                position = (intent.seq, intent.index)
                self._open(intent.intent, position, intent.cell, intent.effect.name, status)
        for era in state.eras.all:
            self._tables.rows.put(IndexTable.VERSIONS, record_key(era.seq), era.manifest)

    def _touch(self, number: int, seq: bytes, inputs: int) -> None:
        key = number_key(number)
        earlier_inputs = self._inputs.get(number)
        if earlier_inputs is None:
            earlier_inputs = 0
            if not self._tables.is_new(number):
                touches = prefixed(self._tables.rows, IndexTable.TOUCH, key, is_reversed=True)
                earlier_inputs = number_of(next(touches, (b"", b""))[1])
        total_inputs = self._inputs[number] = earlier_inputs + inputs
        self._tables.rows.put(
            IndexTable.TOUCH, key + seq, total_inputs.to_bytes(INPUTS_BYTES, "big")
        )

    def _write_took_row(self, entry: EntryId, cell: CellId, seq: bytes) -> None:
        """A fault that is retried is followed by the step that takes the entry in its place."""
        key = place_key(entry) + number_key(self._tables.number(cell)) + seq
        self._tables.rows.put(IndexTable.TOOK, key)

    def _write_about_row(self, intent: Hash | None, seq: bytes) -> None:
        """An intent that was settled before the pruned records ended has no place here."""
        assert intent is not None, "the record is about one"
        key = self._tables.rows.get(IndexTable.INTENTS, intent[:INTENT_BYTES])
        if key is not None:
            self._tables.rows.put(IndexTable.ABOUT, key + seq)

    def _open(
        self, intent: Hash, position: EntryId, cell: CellId, effect: str, status: int
    ) -> None:
        rows, key, word = self._tables.rows, place_key(position), self._tables.word(effect)
        row = StoredIntent(intent, self._tables.number(cell), word, status, 0)
        rows.put(IndexTable.ASKED, key, row.to_bytes())
        rows.put(IndexTable.INTENTS, intent[:INTENT_BYTES], key)
        rows.put(IndexTable.BY_STATUS, status_key(status, word, key))
        self._count(status, word, 1)

    def _count(self, status: int, word: int, change: int) -> None:
        key = OF_INTENTS + bytes([status]) + word.to_bytes(WORD_BYTES, "big")
        self._tables.count(key, change)

    def _abandon(self, intents: Iterable[Hash], seq: int) -> None:
        for intent in intents:
            self._change(intent, ABANDONED, seq)

    def _change(self, intent: Hash, status: int, seq: int) -> None:
        rows = self._tables.rows
        key = rows.get(IndexTable.INTENTS, intent[:INTENT_BYTES])
        data = None if key is None else rows.get(IndexTable.ASKED, key)
        if key is None or data is None:
            raise Damage(f"record {seq} ends an intent that no record before it opened")
        row = StoredIntent.from_bytes(data)
        rows.delete(IndexTable.BY_STATUS, status_key(row.status, row.word, key))
        rows.put(IndexTable.BY_STATUS, status_key(status, row.word, key))
        self._count(row.status, row.word, -1)
        self._count(status, row.word, 1)
        settled = 0
        if status != ABANDONED:
            settled = seq
            rows.put(IndexTable.SETTLED, status_key(status, row.word, record_key(seq)), key)
        updated = StoredIntent(row.intent, row.number, row.word, status, settled)
        rows.put(IndexTable.ASKED, key, updated.to_bytes())
