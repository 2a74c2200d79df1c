"""The answers that the index should give, read by the landed views from state and journal."""

from __future__ import annotations

import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    CellId,
    Control,
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
from aos.errors import Pruned
from aos.read.index.index_reader import IndexReader
from aos.read.index.opened_index import OpenedIndex
from aos.read.index.world_index import use_index
from aos.read.lens.ports import Journal, first_kept
from aos.read.trace.timeline import inputs_by_cell, reaching
from aos.read.trace.trace import trace
from aos.read.views import cell_view, count_view, intent_view, world_view
from aos.read.views.cell_selection import BY_KEY, ORDERS, CellSelection
from aos.read.views.intent_view import intents as intents_document
from aos.read.views.journal_view import Selection, cells_of, minutes
from aos.read.views.journal_view import journal as journal_document
from aos.read.views.view import View
from aos.read.where.attributes import OF_EVERY_CELL
from aos.store.store import Store
from aos.values.digests import Hash, hash_text
from tests.run_seed import run_seed
from tests.tools import long_form

MANY = 1000
OFFSET_MAX = 2**63 - 1
"""The largest offset of a query (node-api.md, N-114)."""

SOME = 4
FEW = 4
"""Cells, records and effects of which the traces are compared at once."""

SELECTIONS = MANY if long_form() else 5
LISTS = MANY if long_form() else 16
"""Selections of cells, and lists of effects, that one check compares: others at the next record,
and others each day."""


@contextlib.contextmanager
def read_at_head(folder: Path, journal: Journal, state: State) -> Iterator[IndexReader | None]:
    """The index in ``folder``, opened for one document."""
    with OpenedIndex() as index, index.at_head(folder, journal, state) as reader:
        yield reader


def cell_row(reader: IndexReader, id: CellId) -> tuple[str, int] | None:
    """Status and last activity of a cell, as its row has them."""
    rows = reader._file.rows(
        "SELECT status, last_active FROM cells JOIN names ON id = workflow "
        "WHERE name = ? AND key = ? AND status IS NOT NULL",
        id,
    )
    return next(((CELL_STATUSES[status], last_active) for status, last_active in rows), None)


def check_index(reader: IndexReader, state: State, store: Store, *, prefixes: Any = ()) -> None:
    """Compare every answer of the index with a scan; of lists and traces, chosen ones."""
    chosen = random.Random(f"oracle {run_seed()} {state.next_seq}")
    view = View(state, store)
    records = records_of(store, state.next_seq - 1)
    assert reader.as_of == state.next_seq - 1
    by_index = View(state, store)
    use_index(by_index, reader)
    check_records(reader, records)
    check_inputs(reader, records)
    assert minutes(by_index) == minutes(view)
    check_cells(reader, view, by_index, chosen.sample(prefixes, min(2, len(prefixes))), chosen)
    check_intents(reader, view, records)
    check_intent_lists(view, by_index, chosen)
    check_journals(view, by_index, records, chosen)
    check_traces(view, by_index, records, chosen)
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
    took: dict[EntryId, list[int]] = defaultdict(list)
    minutes: dict[int, Counter[str]] = defaultdict(Counter)
    clock_ns = 0
    for record in records:
        for id in set(cells_of(record)):
            named[id].append(record.seq)
            assert Selection(workflow=id[0], key=id[1]).has(record)
        if isinstance(record, Step | Faulted):
            took[record.entry].append(record.seq)
        stamp = getattr(record, "stamp", None)
        if isinstance(record, Control) and record.action == "clock":
            clock_ns = record.stamp.ns
        else:
            clock_ns = max(clock_ns, 0 if stamp is None else stamp.ns)
        if clock_ns:
            minutes[clock_ns // (60 * 10**9)][record.KIND] += 1
    for id, seqs in named.items():
        assert list(reader.naming(id, first=1, last=seqs[-1])) == seqs
        middle = seqs[len(seqs) // 2]
        backwards = reader.naming(id, first=1, last=middle, is_reversed=True)
        assert list(backwards) == [seq for seq in seqs[::-1] if seq <= middle]
    for entry, seqs in took.items():
        assert reader.taking(entry) == seqs
    found = {minute: dict(counts) for minute, counts in reader.minutes(MANY, MANY * 10**6).items()}
    if records and records[0].seq == 1:
        assert found == {minute: dict(counts) for minute, counts in minutes.items()}
        versions = [
            (each.seq, each.document.hash) for each in records if isinstance(each, Manifest)
        ]
        assert reader.versions() == versions
    else:
        assert sum(sum(counts.values()) for counts in found.values()) == len(records)


def check_cells(
    reader: IndexReader, view: View, by_index: View, prefixes: Any, chosen: random.Random
) -> None:
    counts = {
        name: {status: counts[status] for status in CELL_STATUSES if counts[status]}
        for name, counts in world_view.cell_counts(view.state)["by_workflow"].items()
    }
    for id, cell in view.state.cells.items():
        assert cell_row(reader, id) == (cell.status, cell.last_active_ns)
    selections: list[dict[str, Any]] = [
        {},
        *({"status": status} for status in CELL_STATUSES),
        *({"workflow": name} for name in counts),
        *({"key_prefix": prefix} for prefix in prefixes),
        {"key_prefix": "a", "status": "running"},
        {"condition": "order by last_active desc"},
        {"condition": 'key ^= "a" order by last_active'},
        {"condition": 'key ^= "a"'},
        {"waits_for": "event"},
        {"pinned": True},
    ]
    for given in chosen.sample(selections, min(SELECTIONS, len(selections))):
        orders = ORDERS if "condition" not in given else (BY_KEY,)
        for order in chosen.sample(orders, min(2, len(orders))):
            check_cell_pages(view, by_index, CellSelection(**given), order)
        if "order" not in given.get("condition", ""):
            check_counts(view, by_index, CellSelection(**given))
        assert by_index.finder is not None
        query = CellSelection(**given).resolved(view.state).query(view.now_ns)
        is_indexed = (
            query is not None and by_index.finder.page(query, limit=1, offset=0) is not None
        )
        assert is_indexed == (not given.keys() & {"waits_for", "pinned"}), given


def check_counts(view: View, by_index: View, selection: CellSelection) -> None:
    """Numbers of cells, and by status."""
    found = count_view.cell_counts(by_index, selection, group_by="status")
    assert found == count_view.cell_counts(view, selection, group_by="status")
    whole = count_view.cell_counts(by_index, selection)
    assert (whole["count"], whole["groups"]) == (found["count"], [])
    assert by_index.finder is not None
    query = selection.resolved(view.state).query(view.now_ns)
    is_indexed = query is not None and by_index.finder.page(query, limit=1, offset=0) is not None
    for by in (None, OF_EVERY_CELL["status"]):
        is_counted = query is not None and by_index.finder.count(query, by, MANY) is not None
        assert is_counted == is_indexed, "IX-41"


def check_cell_pages(view: View, by_index: View, selection: CellSelection, order: str) -> None:
    """One page, and pages of a few rows by their offset and by the last row before them."""
    whole = cell_view.cells(view, selection, order=order, limit=MANY)
    beyond = cell_view.cells(by_index, selection, order=order, offset=OFFSET_MAX)
    assert beyond == {**whole, "cells": [], "offset": OFFSET_MAX}
    assert cell_view.cells(by_index, selection, order=order, limit=MANY) == whole
    assert whole["looked_at"] == len(list(selection.resolved(view.state).candidates(view.state)))
    offset, after, rows = 0, None, []
    while True:
        page = cell_view.cells(by_index, selection, order=order, limit=FEW, offset=offset)
        assert page == cell_view.cells(view, selection, order=order, limit=FEW, offset=offset)
        if selection.condition is None:
            found = [
                cell_view.cells(each, selection, order=order, limit=FEW, after_place=after)
                for each in (view, by_index)
            ]
            assert found[0] == found[1]
            assert found[0]["cells"] == page["cells"]
            after = found[0]["next_after"]
            assert (after is None) == (page["next_offset"] is None)
        rows += page["cells"]
        if page["next_offset"] is None:
            break
        offset = page["next_offset"]
    assert rows == whole["cells"]


def check_traces(view: View, by_index: View, records: list[Record], chosen: random.Random) -> None:
    """Timelines, trees and single effects are the same documents."""
    cells = list(view.state.cells.items())
    for id, cell in chosen.sample(cells, min(SOME, len(cells))):
        words = [id[0], view.lens.key_text(id, hash=cell.workflow_hash)]
        for follow_events in (False, True):
            found = trace(by_index, words, follow_events=follow_events).to_document()
            assert found == trace(view, words, follow_events=follow_events).to_document()
        assert cell_view.cell(by_index, *words) == cell_view.cell(view, *words)
    for record in chosen.sample(records, min(SOME, len(records))):
        words = [str(record.seq)]
        assert trace(by_index, words).to_document() == trace(view, words).to_document(), words
    held = {*view.state.intents, *view.state.abandoned}
    held |= {asked.intent for each in records if isinstance(each, Step) for asked in each.intents}
    for intent in chosen.sample(sorted(held), min(SOME, len(held))):
        word = intent.hex()
        assert intent_view.intent(by_index, word) == intent_view.intent(view, word)
        try:
            expected = trace(view, [word]).to_document()
        except Pruned:
            continue
        assert trace(by_index, [word]).to_document() == expected


def check_intent_lists(view: View, by_index: View, chosen: random.Random) -> None:
    """The same documents, also of other filters with a status of a receipt, which no index has."""
    effects = {each.effect.name for each in view.state.intents.values()}
    lists = [
        (status, effect, limit, offset)
        for status in ("open", "abandoned", "settled", *STATUSES, None)
        for effect in (None, *effects)
        for limit, offset in ((MANY, 0), (2, 1), (3, 1000), (3, OFFSET_MAX))
    ]
    for status, effect, limit, offset in chosen.sample(lists, min(LISTS, len(lists))):
        given: Any = {"status": status, "effect": effect, "limit": limit, "offset": offset}
        assert intents_document(by_index, **given) == intents_document(view, **given), given
    workflow = chosen.choice([id[0] for id in view.state.cells])
    for more in ({"code": "declined"}, {"key_prefix": "a"}, {"workflow": workflow}):
        given = {"status": "error", **more}
        assert intents_document(by_index, **given) == intents_document(view, **given), given


def check_journals(
    view: View, by_index: View, records: list[Record], chosen: random.Random
) -> None:
    """The records that name a cell: the newest, and from a record on, with and without kinds."""
    first, last = (records[0].seq, records[-1].seq) if records else (1, 1)
    some = chosen.sample(list(view.state.cells.items()), min(SOME, len(view.state.cells)))
    for id, cell in some:
        words: Any = {"workflow": id[0], "key": view.lens.key_text(id, hash=cell.workflow_hash)}
        middle = chosen.randint(first, last)
        for where in ({}, {"last": middle}, {"first": first}, {"first": middle, "last": last}):
            kinds = chosen.choice([None, ("step",), ("event", "receipt", "fault")])
            for limit in (FEW, MANY):
                given: Any = {**words, **where, "kinds": kinds, "limit": limit}
                assert journal_document(by_index, **given) == journal_document(view, **given), given
        if first > 1:
            for each in (view, by_index):
                with pytest.raises(Pruned):
                    journal_document(each, **words, first=first - 1)


def check_inputs(reader: IndexReader, records: list[Record]) -> None:
    """The latest inputs of each cell are counted as a timeline counts them."""
    inputs: dict[CellId, list[int]] = defaultdict(list)
    for record in records:
        for id in set(cells_of(record)):
            inputs[id] += [record.seq for _ in reaching(record, id)]
        assert {id: sum(1 for _ in reaching(record, id)) for id in set(cells_of(record))} == {
            id: inputs_by_cell(record).get(id, 0) for id in set(cells_of(record))
        }
    for id, seqs in inputs.items():
        for most in (1, 3, MANY):
            first, before = reader.latest_inputs(id, most)
            assert before == sum(seq < first for seq in seqs)
            assert before == 0 or len(seqs) - before >= most
            assert sum(seq > first for seq in seqs) < most


def check_intents(reader: IndexReader, view: View, records: list[Record]) -> None:
    def rows(**filters: Any) -> list[str]:
        document = intents_document(view, limit=MANY, **filters)
        return [row["intent"] for row in document["intents"]]

    def opened(*, is_open: bool, effect: str | None = None) -> list[str]:
        hashes, total = reader.opened_intents(effect=effect, is_open=is_open, limit=MANY, offset=0)
        assert total == len(hashes)
        return [hash_text(hash) for hash in hashes]

    assert opened(is_open=True) == rows(status="open")
    assert reader.intents_count(status="abandoned") == len(rows(status="abandoned"))
    effects = {intent.effect.name for intent in view.state.intents.values()}
    assert reader.effects("open") == sorted(effects)
    for effect in effects:
        assert opened(is_open=True, effect=effect) == rows(status="open", effect=effect)
    if records and records[0].seq == 1:
        assert opened(is_open=False) == rows(status=None)
    settled = [receipt for receipt in records if isinstance(receipt, Receipt | KernelReceipt)]
    for status in STATUSES:
        expected = [receipt.seq for receipt in reversed(settled) if receipt.status == status]
        page = reader.settled(status=status, effect=None, limit=MANY, offset=0)
        assert page == (expected, len(expected))
    for receipt in settled:
        assert reader.records_about(receipt.intent)[-1] == receipt.seq
    assert reader.receipts() == len(settled)


def check_pages(reader: IndexReader) -> None:
    """Pages of two rows are together what one page is."""
    for is_open in (True, False):
        filters: Any = {"effect": None, "is_open": is_open}
        all_, _ = reader.opened_intents(**filters, limit=MANY, offset=0)
        paged: list[Hash] = []
        while some := reader.opened_intents(**filters, limit=2, offset=len(paged))[0]:
            paged += some
        assert paged == all_
