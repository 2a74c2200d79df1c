"""Answers from the index: which intents (spec/index.md, IX-40, IX-68)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from aos.core.journal.records import CellId, EntryId
from aos.core.journal.vocabulary import STATUSES
from aos.read.index.index_layout import (
    ASKED_STATUSES,
    INTENT_BYTES,
    OF_INTENTS,
    PLACE_BYTES,
    IndexTable,
    StoredIntent,
    after_prefix,
    entry_of_key,
    number_of,
    place_key,
    status_key,
)
from aos.read.index.index_rows import IndexRows, prefixed
from aos.read.index.index_tables import IndexTables
from aos.values.digests import Hash

PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedIntent:
    """An intent that record ``position[0]`` opened as its ``position[1]``-th. ``status`` is
    ``open``, ``abandoned``, or that of the receipt in record ``settled``."""

    intent: Hash
    position: EntryId
    cell: CellId
    effect: str
    status: str
    settled: int | None


class IntentPages:
    """The intents of the index at one moment."""

    def __init__(self, rows: IndexRows) -> None:
        self._rows = rows
        self._tables = IndexTables(rows)

    def records_about(self, intent: Hash) -> list[int]:
        """The attempts, stream frames, commands and the receipt of an intent, in ascending order;
        none if no record here opened it."""
        indexed_intent = self.intent(intent)
        if indexed_intent is None:
            return []
        rows = prefixed(self._rows, IndexTable.ABOUT, place_key(indexed_intent.position))
        seqs = [number_of(key[PLACE_BYTES:]) for key, _ in rows]
        return seqs if indexed_intent.settled is None else [*seqs, indexed_intent.settled]

    def intents(
        self,
        *,
        status: str | None = None,
        effect: str | None = None,
        after_entry: EntryId | None = None,
        limit: int = PAGE,
    ) -> list[IndexedIntent]:
        """A page of intents in the order of their opening; ``after_entry`` is the place of one."""
        least = b"" if after_entry is None else place_key(after_entry) + b"\x00"
        if status is None and effect is None:
            rows = self._rows.scan(IndexTable.ASKED, least, None)
            return [self._intent(key, data) for key, data in islice(rows, limit)]
        statuses = [status_name for status_name in ASKED_STATUSES if status in (None, status_name)]
        words = [word for name, word in self._tables.words() if effect in (None, name)]
        groups = [
            status_key(ASKED_STATUSES.index(status_name), word, b"")
            for status_name in statuses
            for word in words
        ]
        return [self._at(key) for key in islice(self._merged_keys(groups, least), limit)]

    def _merged_keys(self, groups: Sequence[bytes], least: bytes) -> Iterator[bytes]:
        def keys_of(group: bytes) -> Iterator[bytes]:
            for key, _ in self._rows.scan(IndexTable.BY_STATUS, group + least, after_prefix(group)):
                yield key[len(group) :]

        return heapq.merge(*map(keys_of, groups))

    def intent(self, hash: Hash) -> IndexedIntent | None:
        """An intent; None if no record here opened it."""
        key = self._rows.get(IndexTable.INTENTS, hash[:INTENT_BYTES])
        indexed_intent = None if key is None else self._at(key)
        return (
            indexed_intent if indexed_intent is not None and indexed_intent.intent == hash else None
        )

    def opened_intents(
        self, *, effect: str | None, is_open: bool, limit: int, offset: int
    ) -> tuple[list[Hash], int]:
        """A page of intents in the order of their opening, and how many there are."""
        status = "open" if is_open else None
        total = self.intents_count(status=status, effect=effect)
        if offset >= total:  # perhaps more than can be counted
            return [], total
        intents = self.intents(status=status, effect=effect, limit=offset + limit)
        return [intent.intent for intent in intents[offset:]], total

    def settled(
        self, *, status: str, effect: str | None, limit: int, offset: int
    ) -> tuple[list[int], int]:
        """A page of the receipts with a status, ``ok``, ``error``, ``timeout`` or ``canceled``, the
        latest first, and how many there are."""
        total = self.intents_count(status=status, effect=effect)
        if offset >= total:  # perhaps more than can be counted
            return [], total

        def latest(group: bytes) -> Iterator[int]:
            for key, _ in prefixed(self._rows, IndexTable.SETTLED, group, is_reversed=True):
                yield number_of(key[len(group) :])

        words = [word for name, word in self._tables.words() if effect in (None, name)]
        groups = [status_key(ASKED_STATUSES.index(status), word, b"") for word in words]
        receipt_seqs = heapq.merge(*map(latest, groups), reverse=True)
        return list(islice(receipt_seqs, offset, offset + limit)), total

    def receipts(self) -> int:
        """The number of receipts. Each settles one intent."""
        return sum(self.intents_count(status=status) for status in STATUSES)

    def effects(self, status: str | None) -> list[str]:
        """The effects of the intents with a status, or of all."""
        rows = prefixed(self._rows, IndexTable.TALLY, OF_INTENTS)
        return sorted(
            {
                self._tables.name(number_of(key[2:]))
                for key, _ in rows
                if status in (None, ASKED_STATUSES[key[1]])
            }
        )

    def intents_count(self, *, status: str | None = None, effect: str | None = None) -> int:
        """The number of intents of a status and effect."""
        total = 0
        for key, data in prefixed(self._rows, IndexTable.TALLY, OF_INTENTS):
            name = self._tables.name(number_of(key[2:]))
            if status in (None, ASKED_STATUSES[key[1]]) and effect in (None, name):
                total += number_of(data)
        return total

    def _at(self, key: bytes) -> IndexedIntent:
        data = self._rows.get(IndexTable.ASKED, key)
        assert data is not None, "an intent has a place and no row"
        return self._intent(key, data)

    def _intent(self, key: bytes, data: bytes) -> IndexedIntent:
        row = StoredIntent.from_bytes(data)
        return IndexedIntent(
            intent=row.intent,
            position=entry_of_key(key),
            cell=self._id(row.number),
            effect=self._tables.name(row.word),
            status=ASKED_STATUSES[row.status],
            settled=row.settled or None,
        )

    def _id(self, number: int) -> CellId:
        row = self._tables.cell(number)
        return self._tables.name(row.word), row.key
