"""Answers from the index: which records and intents (spec/index.md, IX-40, IX-68)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from aos.core.journal.records import CellId, EntryId
from aos.core.journal.vocabulary import STATUSES
from aos.read.index.cell_pages import ARMS_MAX, CellPages, KeptValues, TextOfKey
from aos.read.index.index_file import IndexFile, IndexHead
from aos.read.index.index_schema import INTENT_STATUSES, place_of
from aos.read.views.journal_view import KINDS
from aos.values.digests import Hash

OFFSET_MAX: Final = 2**63 - 1


class IndexReader:
    """The index at one moment, that of the record ``as_of``. ``values`` are the workflows whose
    values it has. ``is_above``: newer rows are in memory."""

    def __init__(
        self, file: IndexFile, head: IndexHead, values: KeptValues, *, is_above: bool = False
    ) -> None:
        self.as_of = head.at
        self._cells_at = head.cells_at or 0
        self._is_above = is_above
        self._file = file
        self._values = values
        self._names: dict[int, str] = dict(file.rows("SELECT id, name FROM names"))

    def cell_pages(self, text_of: TextOfKey, check_time: Callable[[], None]) -> CellPages:
        """Lists of cells. ``text_of`` returns the text of a key that is no text; ``check_time`` is
        called while a list is made."""
        return CellPages(
            self._file, self._names, self._values, text_of, check_time, cells_at=self._cells_at,
            is_above=self._is_above,
        )  # fmt: skip

    # Records

    def naming(
        self, cell: CellId, *, first: int, last: int, is_reversed: bool = False
    ) -> Iterator[int]:
        """The records from ``first`` to ``last`` that name a cell (A-38), in ascending order, or
        ``is_reversed``."""
        way = "DESC" if is_reversed else "ASC"
        for (record,) in self._file.select(
            "SELECT record FROM touches WHERE cell = ? AND record BETWEEN ? AND ? "
            f"ORDER BY record {way}",
            (self._number(cell), first, last),
        ):
            yield record

    def latest_inputs(self, cell: CellId, limit: int) -> tuple[int, int]:
        """The record with which the latest ``limit`` inputs of a cell begin (A-45), and the number
        of the inputs in the records before it."""
        first, total = 1, None
        for record, inputs in self._file.select(
            "SELECT record, inputs FROM touches WHERE cell = ? ORDER BY record DESC",
            (self._number(cell),),
        ):
            if total is None:
                total = inputs
            elif total - inputs >= limit:
                return first, inputs
            first = record
        return first, 0

    def taking(self, entry: EntryId) -> list[int]:
        """The steps and faults that took an entry of a mailbox, in ascending order."""
        return self._numbers(
            "SELECT record FROM takes WHERE entry = ? ORDER BY record", place_of(entry)
        )

    def versions(self) -> list[tuple[int, Hash]]:
        """The records of manifests with the hashes of their documents, the oldest first. Of a
        journal that was pruned, those in force at its beginning, and the later ones."""
        rows = self._file.rows("SELECT record, document FROM versions ORDER BY record")
        return [(record, Hash(document)) for record, document in rows]

    def minutes(self, limit: int, last: int) -> dict[int, Counter[str]]:
        """The records of the latest ``limit`` minutes up to ``last`` that have some, by kind
        (IX-25)."""
        counts_by_minute: dict[int, Counter[str]] = {}
        for minute, kind, count in self._file.select(
            "SELECT minute, kind, count FROM minutes WHERE minute <= ? ORDER BY minute DESC",
            (last,),
        ):
            if minute not in counts_by_minute and len(counts_by_minute) == limit:
                break
            counts_by_minute.setdefault(minute, Counter())[KINDS[kind]] = count
        return counts_by_minute

    def _number(self, id: CellId) -> int | None:
        rows = self._file.rows(
            "SELECT number FROM cells WHERE key = ? AND workflow = "
            "(SELECT id FROM names WHERE name = ?)", (id[1], id[0])
        )  # fmt: skip
        number: int | None = rows[0][0] if rows else None
        return number

    # Intents

    def records_about(self, intent: Hash) -> list[int]:
        """The attempts, stream frames, commands and the receipt of an intent, in ascending order;
        none if no record here opened it."""
        return self._numbers(
            "SELECT record FROM abouts JOIN intents USING (place) WHERE hash = ?1 UNION ALL "
            "SELECT settled FROM intents WHERE hash = ?1 AND settled IS NOT NULL ORDER BY 1",
            intent,
        )

    def opened_intents(
        self, *, effect: str | None, is_open: bool, limit: int, offset: int
    ) -> tuple[list[Hash], int]:
        """A page of intents in the order of their opening, and how many there are."""
        status = "open" if is_open else None
        arms = [
            f"SELECT hash, place FROM intents WHERE {term}" for term in self._groups(status, effect)
        ]
        hashes = map(Hash, self._page(arms, limit=limit, offset=offset))
        return list(hashes), self.intents_count(status=status, effect=effect)

    def settled(
        self, *, status: str, effect: str | None, limit: int, offset: int
    ) -> tuple[list[int], int]:
        """A page of the receipts with a status, ``ok``, ``error``, ``timeout`` or ``canceled``, the
        latest first, and how many there are."""
        arms = [
            f"SELECT settled, settled FROM intents WHERE {term} AND settled IS NOT NULL"
            for term in self._groups(status, effect)
        ]
        seqs = self._page(arms, limit=limit, offset=offset, is_reversed=True)
        return seqs, self.intents_count(status=status, effect=effect)

    def receipts(self) -> int:
        """The number of receipts. Each settles one intent."""
        return sum(self.intents_count(status=status) for status in STATUSES)

    def effects(self, status: str | None) -> list[str]:
        """The effects of the intents with a status, or of all."""
        return sorted({self._names[effect] for _, effect, _ in self._intent_counts(status, None)})

    def intents_count(self, *, status: str | None = None, effect: str | None = None) -> int:
        """The number of intents of a status and effect."""
        return sum(count for _, _, count in self._intent_counts(status, effect))

    def _page(
        self,
        arms: list[str],
        *,
        limit: int,
        offset: int,
        is_reversed: bool = False,
    ) -> list[Any]:
        """A page of the first column of the rows of all ``arms``, in the order of the second."""
        if not arms or offset > OFFSET_MAX - limit:
            return []
        way = "DESC" if is_reversed else "ASC"
        rows = self._file.rows(
            f"{' UNION ALL '.join(arms)} ORDER BY 2 {way} LIMIT ? OFFSET ?", (limit, offset)
        )
        return [row[0] for row in rows]

    def _groups(self, status: str | None, effect: str | None) -> list[str]:
        """The terms for the intents of a status and effect, each of which the index has sorted."""
        if status is None and effect is None:
            return ["1"]
        groups = {group[:2] for group in self._intent_counts(status, effect)}
        if len(groups) > ARMS_MAX:
            return [f"status = {number}" for number in {number for number, _ in groups}]
        return [f"status = {number} AND effect = {name}" for number, name in sorted(groups)]

    def _intent_counts(self, status: str | None, effect: str | None) -> list[tuple[int, int, int]]:
        return [
            (number, name, count)
            for number, name, count in self._file.rows(
                "SELECT status, effect, count FROM intent_counts WHERE count > 0"
            )
            if status in (None, INTENT_STATUSES[number]) and effect in (None, self._names[name])
        ]

    def _numbers(self, sql: str, value: object) -> list[int]:
        return [number for (number,) in self._file.rows(sql, (value,))]
