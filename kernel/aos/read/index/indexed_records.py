"""Record → the rows of the index that it makes, without a state (spec/index.md, IX-12 to IX-18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from aos.core.journal.inputs import ERASE
from aos.core.journal.journal_clock import clock_after
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
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
from aos.read.index.index_file import IndexChange
from aos.read.index.index_schema import COUNTS, INTENT_STATUSES, MINUTE_NS, place_of
from aos.read.trace.timeline import inputs_by_cell
from aos.read.views.journal_view import KINDS, cells_of
from aos.values.digests import Hash

OPEN: Final = INTENT_STATUSES.index("open")
ABANDONED: Final = INTENT_STATUSES.index("abandoned")

CELLS_KEPT: Final = 65_536
"""Cells whose numbers are remembered, so that not every record looks them up."""


class IndexTables:
    """Writes rows in one transaction at a time, and remembers what is looked up often.

    ``above`` is the prefix of the tables that are written: those of the file, or those in memory
    above it. The number of a cell is given once and stays, also when the cell is deleted: its past
    has rows.
    """

    def __init__(self, change: IndexChange, *, above: str = "") -> None:
        self.change = change
        self.above = above
        self._names: dict[str, int] = {
            name: id for id, name in change.execute("SELECT id, name FROM names")
        }
        self._cells: dict[CellId, list[int]] = {}
        self.last_number: int = change.execute(
            "SELECT coalesce(MAX(number), 0) FROM cells"
        ).fetchone()[0]
        self._new_cells: list[tuple[int, int, bytes]] = []
        self._counts: dict[str, Counter[tuple[int, ...]]] = {name: Counter() for name in COUNTS}

    def begin(self, change: IndexChange) -> None:
        """Write in another transaction from now on; the one before was committed."""
        self.change = change

    def name(self, text: str) -> int:
        """The number of a name, which is given now if it has none."""
        number = self._names.get(text)
        if number is None:
            number = self._names[text] = len(self._names) + 1
            self.change.execute(f"INSERT INTO {self.above}names VALUES (?, ?)", (number, text))
        return number

    def inputs_before(self, id: CellId, inputs: int) -> tuple[int, int]:
        """The number of a cell, which is given now if it has none, and its inputs so far with
        ``inputs`` more."""
        cell = self._cells.get(id)
        if cell is None:
            cell = self._look_up(id)
            if len(self._cells) >= CELLS_KEPT:
                self._cells.clear()
            self._cells[id] = cell
        cell[1] += inputs
        return cell[0], cell[1]

    def _look_up(self, id: CellId) -> list[int]:
        self.flush_cells()
        row = self.change.execute(
            "SELECT number, (SELECT inputs FROM touches WHERE cell = number ORDER BY record DESC "
            "LIMIT 1) FROM cells WHERE workflow = ? AND key = ?",
            (self.name(id[0]), id[1]),
        ).fetchone()
        if row is not None:
            return [row[0], row[1] or 0]
        return [self.add(id), 0]

    def add(self, id: CellId) -> int:
        """Give a cell the next number. It is written by ``flush_cells``."""
        self.last_number += 1
        self._new_cells.append((self.last_number, self.name(id[0]), id[1]))
        return self.last_number

    def flush_cells(self) -> None:
        """Write the numbers that were given."""
        if self._new_cells:
            self.change.write(
                f"INSERT INTO {self.above}cells (number, workflow, key) VALUES (?, ?, ?)",
                self._new_cells,
            )
            self._new_cells.clear()

    def count(self, table: str, group: tuple[int, ...], change: int) -> None:
        """Add to one of ``COUNTS``, which ``finish`` writes."""
        self._counts[table][group] += change

    def finish(self) -> None:
        """Write the counts, which many records and cells share. A count of 0 has no row."""
        self.flush_cells()
        for table, counts in self._counts.items():
            columns = COUNTS[table]
            places, names = ", ".join("?" * len(columns)), ", ".join(columns)
            rows = [(*group, change) for group, change in counts.items() if change]
            if rows:
                self.change.write(
                    f"INSERT INTO {self.above}{table} VALUES ({places}, ?) "
                    f"ON CONFLICT ({names}) DO UPDATE SET count = count + excluded.count",
                    rows,
                )
                if not self.above:
                    self.change.execute(f"DELETE FROM {table} WHERE count = 0")
            counts.clear()


class IndexedRecords:
    """Collects the rows of records, one after the other; ``finish`` writes them.

    ``clock_ns`` is the journal clock. ``named_cells`` are the numbers of all cells that these
    records name; ``migrated`` the workflows whose states a manifest has replaced. ``has_erasure``:
    a value was erased.
    """

    def __init__(self, tables: IndexTables, clock_ns: int) -> None:
        self.clock_ns = clock_ns
        self.named_cells: dict[int, CellId] = {}
        self.migrated: set[str] = set()
        self.has_manifest = False
        self.has_erasure = False
        self._tables = tables
        self._touches: list[tuple[int, int, int]] = []
        self._takes: list[tuple[int, int]] = []
        self._abouts: list[tuple[int, int]] = []
        self._opened: dict[Hash, tuple[int, int, int, int | None]] = {}

    def take(self, record: Record) -> None:
        """Add the rows of a record.

        Raises:
            Damage: It settles an intent that no record opened.
        """
        self.clock_ns = clock_after(self.clock_ns, record)
        tables, seq = self._tables, record.seq
        tables.count("minutes", (self.clock_ns // MINUTE_NS, KINDS.index(record.KIND)), 1)
        inputs = inputs_by_cell(record)
        for id in dict.fromkeys(cells_of(record)):
            number, total = tables.inputs_before(id, inputs.get(id, 0))
            self.named_cells[number] = id
            self._touches.append((number, seq, total))
        match record:
            case Event():
                pass
            case Step():
                self._takes.append((place_of(record.entry), seq))
                for position, intent in enumerate(record.intents):
                    self._open(intent.intent, place_of((seq, position)), intent.effect, OPEN)
                self._abandon(record.abandoned, seq)
            case Faulted():
                # A fault that is retried is followed by the step that takes the entry in its place.
                self._takes.append((place_of(record.entry), seq))
            case Receipt() | KernelReceipt():
                self._change(record.intent, INTENT_STATUSES.index(record.status), seq)
                self._abandon(record.abandoned, seq)
            case Manifest():
                self.has_manifest = True
                for migration in record.migrated:
                    self.migrated.add(migration.workflow)
                    tables.change.execute(
                        f"INSERT INTO {tables.above}migrations VALUES (?, ?)",
                        (tables.name(migration.workflow), seq),
                    )
                self._add_version(seq, record.document.hash)
            case Attempt() | Stream() | Control(intent=bytes()):
                self._add_about(record.intent, seq)
            case Control(action=action) if action == ERASE:
                self.has_erasure = True
            case _:
                self._abandon(getattr(record, "abandoned", ()), seq)

    def begin(self, state: State) -> None:
        """Write what the records up to a state have left open: its intents, and its manifests."""
        for status, intents in ((OPEN, state.intents), (ABANDONED, state.abandoned)):
            for intent in intents.values():
                opened_at = place_of((intent.seq, intent.index))
                self._open(intent.intent, opened_at, intent.effect.name, status)
        for era in state.eras.all:
            self._add_version(era.seq, era.manifest)

    def finish(self) -> None:
        """Write the rows."""
        tables = self._tables
        self._flush_intents()
        tables.change.write(f"INSERT INTO {tables.above}touches VALUES (?, ?, ?)", self._touches)
        tables.change.write(f"INSERT INTO {tables.above}takes VALUES (?, ?)", self._takes)
        tables.change.write(f"INSERT INTO {tables.above}abouts VALUES (?, ?)", self._abouts)
        for rows in (self._touches, self._takes, self._abouts):
            rows.clear()

    def _add_version(self, seq: int, document: Hash) -> None:
        self._tables.change.execute(
            f"INSERT INTO {self._tables.above}versions VALUES (?, ?)", (seq, document)
        )

    def _add_about(self, intent: Hash | None, seq: int) -> None:
        """An intent that was settled before the pruned records ended has no place here."""
        assert intent is not None, "the record is about one"
        row = self._opened.get(intent) or self._stored(intent)
        if row is not None:
            self._abouts.append((row[0], seq))

    def _open(self, intent: Hash, opened_at: int, effect: str, status: int) -> None:
        name = self._tables.name(effect)
        self._opened[intent] = opened_at, name, status, None
        self._tables.count("intent_counts", (status, name), 1)

    def _abandon(self, intents: Iterable[Hash], seq: int) -> None:
        for intent in intents:
            self._change(intent, ABANDONED, seq)

    def _change(self, intent: Hash, status: int, seq: int) -> None:
        row = self._opened.get(intent) or self._stored(intent)
        if row is None:
            raise Damage(f"record {seq} ends an intent that no record before it opened")
        opened_at, effect, previous, _ = row
        self._tables.count("intent_counts", (previous, effect), -1)
        self._tables.count("intent_counts", (status, effect), 1)
        self._opened[intent] = opened_at, effect, status, None if status == ABANDONED else seq

    def _stored(self, intent: Hash) -> tuple[int, int, int, int | None] | None:
        row: tuple[int, int, int, int | None] | None = self._tables.change.execute(
            "SELECT place, effect, status, settled FROM intents WHERE hash = ?", (intent,)
        ).fetchone()
        return row

    def _flush_intents(self) -> None:
        """Write the intents that were opened or changed."""
        self._tables.change.write(
            f"INSERT INTO {self._tables.above}intents VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (place) DO UPDATE SET status = excluded.status, "
            "settled = excluded.settled",
            [
                (opened_at, intent, effect, status, settled)
                for intent, (opened_at, effect, status, settled) in self._opened.items()
            ],
        )
        self._opened.clear()
