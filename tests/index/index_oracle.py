"""What the index should answer, read from the state and the whole journal by the landed views."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from aos.audit.lens.ports import first_kept
from aos.audit.views import cell_view, world_view
from aos.audit.views.cell_selection import CellSelection
from aos.audit.views.intent_view import intents as intents_document
from aos.audit.views.journal_view import Selection, cells_of
from aos.audit.views.view import View
from aos.core.journal.faults import FaultKind
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    CellId,
    EntryId,
    Faulted,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Step,
)
from aos.core.journal.vocabulary import CELL_STATUSES, STATUSES
from aos.core.state.state import State
from aos.index.index_layout import message_hash
from aos.index.index_reader import BY_ACTIVITY, IndexReader
from aos.store.store import Store
from aos.values.digests import hash_text

MANY = 1000


def check_index(reader: IndexReader, state: State, store: Store, *, prefixes: Any = ()) -> None:
    """Compare every answer of the index with a scan."""
    view = View(state, store)
    records = records_of(store, state.next_seq - 1)
    assert reader.as_of == state.next_seq - 1
    check_records(reader, records)
    check_cells(reader, view, prefixes)
    check_intents(reader, view, records)
    check_faults(reader, view)
    check_pages(reader)


def records_of(store: Store, last: int) -> list[Record]:
    first = first_kept(store)
    return [
        from_bytes(data)
        for frame in store.frames(first, last)
        for data in frame.records
    ]  # fmt: skip


def check_records(reader: IndexReader, records: list[Record]) -> None:
    named: dict[CellId, list[int]] = defaultdict(list)
    took: dict[EntryId, dict[CellId, int]] = defaultdict(dict)
    minutes: dict[int, Counter[str]] = defaultdict(Counter)
    clock_ns = 0
    for record in records:
        for id in set(cells_of(record)):
            named[id].append(record.seq)
            assert Selection(workflow=id[0], key=id[1]).has(record)
        if isinstance(record, Step | Faulted):
            took[record.entry][record.cell] = record.seq
        stamp = getattr(record, "stamp", None)
        clock_ns = max(clock_ns, 0 if stamp is None else stamp.ns)
        if clock_ns:
            minutes[clock_ns // (60 * 10**9)][record.KIND] += 1
    for id, seqs in named.items():
        assert reader.records_of(id, limit=MANY * 10) == seqs[::-1]
        middle = seqs[len(seqs) // 2]
        assert (
            reader.records_of(id, before=middle, limit=2)
            == [each for each in seqs[::-1] if each < middle][:2]
        )
    for entry, takers in took.items():
        assert reader.takers(entry) == takers
        for id, seq in takers.items():
            assert reader.taker(entry, id) == seq
    found = {each.minute: each.records for each in reader.minutes(last=MANY)}
    if records and records[0].seq == 1:
        assert found == {minute: dict(counts) for minute, counts in minutes.items()}
        versions = [
            (each.seq, each.document.hash) for each in records if isinstance(each, Manifest)
        ]
        assert reader.versions() == versions
    else:
        assert sum(sum(counts.values()) for counts in found.values()) == len(records)


def check_cells(reader: IndexReader, view: View, prefixes: Any) -> None:
    def listed(**given: Any) -> list[tuple[str, str, str, int]]:
        document = cell_view.cells(view, CellSelection(**given), limit=MANY)
        return [
            (row["workflow"], row["key_cbor"], row["status"], row["last_active_ns"])
            for row in document["cells"]
        ]

    def indexed(**given: Any) -> list[tuple[str, str, str, int]]:
        return [
            (each.id[0], each.id[1].hex(), each.status, each.last_active_ns)
            for each in reader.cells(limit=MANY, **given)
        ]

    assert indexed() == listed()
    for status in CELL_STATUSES:
        assert indexed(status=status) == listed(status=status)
    for prefix in prefixes:
        assert indexed(prefix=prefix) == listed(key_prefix=prefix), prefix
    active = indexed(order=BY_ACTIVITY)
    assert sorted(active) == sorted(listed())
    assert all(one[3] >= other[3] for one, other in pairwise(active))
    counts = {
        name: {status: counts[status] for status in CELL_STATUSES if counts[status]}
        for name, counts in world_view.cell_counts(view.state)["by_workflow"].items()
    }
    assert reader.tallies() == counts
    for id, cell in view.state.cells.items():
        found = reader.cell(id)
        assert found is not None
        assert (found.status, found.last_active_ns) == (cell.status, cell.last_active_ns)


def check_intents(reader: IndexReader, view: View, records: list[Record]) -> None:
    def rows(**given: Any) -> list[tuple[str, int, int, str, str]]:
        document = intents_document(view, limit=MANY, **given)
        return [
            (row["intent"], row["record"], row["index"], row["effect"], row["workflow"])
            for row in document["intents"]
        ]

    def indexed(**given: Any) -> list[tuple[str, int, int, str, str]]:
        return [
            (hash_text(each.intent), *each.place, each.effect, each.cell[0])
            for each in reader.intents(limit=MANY, **given)
        ]

    assert indexed(status="open") == rows(status="open")
    assert indexed(status="abandoned") == sorted(
        rows(status="abandoned"), key=lambda row: (row[1], row[2])
    )
    first = next(iter(view.state.intents.values()), None)
    if first is not None:
        opened = [each for each in indexed(status="open") if each[3] == first.effect.name]
        assert indexed(status="open", effect=first.effect.name) == opened
        oldest = reader.oldest_open(effect=first.effect.name)
        assert oldest is not None
        assert oldest.intent == first.intent
    if records and records[0].seq == 1:
        assert indexed() == rows(status=None)
        for status in STATUSES:
            assert sorted(indexed(status=status)) == sorted(rows(status=status)), status
    by_cell: dict[CellId, list[Any]] = defaultdict(list)
    settled = {each.intent: each for each in records if isinstance(each, Receipt | KernelReceipt)}
    for each in reader.intents(limit=MANY):
        assert reader.intent(each.intent) == each
        by_cell[each.cell].insert(0, each)
        receipt = settled.get(each.intent)
        assert each.settled == (None if receipt is None else receipt.seq)
        assert receipt is None or each.status == receipt.status
    if records and records[0].seq == 1:
        for id, found in by_cell.items():
            assert reader.intents_of(id, limit=MANY) == sorted(
                found, key=lambda each: each.place, reverse=True
            )


def check_faults(reader: IndexReader, view: View) -> None:
    rows = cell_view.faults(view, limit=MANY)["faults"]
    found = reader.faults(limit=MANY)
    assert Counter((each.kind.value, each.message, each.seq) for each in found) == Counter(
        (row["kind"], message_hash(row["message"]), row["record"]) for row in rows
    )
    assert [each.seq for each in found] == [row["record"] for row in rows]
    groups = Counter((row["kind"], message_hash(row["message"])) for row in rows)
    assert {
        (each.newest.kind.value, each.newest.message): each.count for each in reader.fault_groups()
    } == groups
    for kind, message in groups:
        like = reader.faults_like(FaultKind(kind), message, limit=MANY)
        assert like == [
            each for each in found if (each.kind.value, each.message) == (kind, message)
        ]


def check_pages(reader: IndexReader) -> None:
    """Pages of two rows are together what one page is."""
    for given in ({}, {"order": BY_ACTIVITY}, {"status": "running"}, {"prefix": "a"}):
        whole, pages, after = reader.cells(limit=MANY, **given), [], None  # type: ignore[arg-type]
        while page := reader.cells(after=after, limit=2, **given):
            pages += page
            after = page[-1]
        assert pages == whole
    for given in ({}, {"status": "open"}):
        all_, found, place = reader.intents(limit=MANY, **given), [], None  # type: ignore[arg-type]
        while some := reader.intents(after=place, limit=2, **given):
            found += some
            place = some[-1].place
        assert found == all_
    faults, failed, last = reader.faults(limit=MANY), [], None
    while few := reader.faults(after=last, limit=1):
        failed += few
        last = few[-1]
    assert failed == faults
