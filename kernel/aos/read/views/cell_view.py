"""The documents of ``aos inspect cells``, ``cell`` and ``faults`` (spec/audit.md, A-63 to A-65),
and answers of cells to events: the annotations of their steps.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aos.core.decide.left_behind import next_under
from aos.core.journal.faults import Fault
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Control, Step, slot_bytes
from aos.core.state.cell import Cell, EventMail, Mail, ReceiptMail
from aos.core.state.version import manifest_under, workflow_of
from aos.errors import BadUsage
from aos.read.lens.lens import Lens
from aos.read.lens.lookup import find_cell
from aos.read.lens.ports import Journal
from aos.read.lens.record_finding import ending
from aos.read.views.cell_selection import (
    BY_KEY,
    ORDERS,
    CellSelection,
    place_text,
    rank_of,
    read_place,
    reasons_of,
    subject,
    waits_for,
)
from aos.read.views.diagnosis import advice_on, diagnose, is_flow, resume_commands
from aos.read.views.intent_view import open_row
from aos.read.views.reason import command_words
from aos.read.views.record_view import Document, document, fault_document
from aos.read.views.view import LIMIT, View, check_word, page, page_end, paged
from aos.read.views.world_view import version
from aos.values.cbor import decode_record
from aos.values.digests import hash_text

if TYPE_CHECKING:
    from aos.read.where.matching import Rank


MAIL_SHOWN: Final = 20

SCANNED_MAX: Final = 4_096
"""Records that are read after an event for the step that answers it."""


class NoSuchCell(BadUsage):
    """The words name a workflow and a key that fits it, but there is no cell with this key."""


def cells(
    view: View,
    selection: CellSelection | None = None,
    *,
    order: str = BY_KEY,
    with_state: bool = False,
    limit: int = LIMIT,
    offset: int = 0,
    after_place: str | None = None,
) -> Document:
    """List cells by workflow, then key, or in another of ``ORDERS`` (A-63). With ``after_place``,
    the ``next_after`` of a page, the list continues after that page.

    Every cell that a filter could select is read, one after the other, unless the view has an index
    that answers. The identities of those up to the end of the page are kept, and only the rows of
    the page are made, with their states if ``with_state`` is true.

    Raises:
        BadUsage: A filter or the order names nothing that is known.
    """
    check_word("order of cells", order, ORDERS)
    selected = (selection or CellSelection()).resolved(view.state)
    by = selected.search if selected.search is not None and selected.search.is_ordered else None
    if by is not None and (order != BY_KEY or after_place is not None):
        second_order = (
            "another one"
            if after_place is None
            else "after, which needs one of " + ", ".join(ORDERS)
        )
        raise BadUsage(f"expected one order, found order by in the condition and {second_order}")
    start = None if after_place is None else read_place(after_place)
    end = page_end(limit, offset)

    def cells_document(ids: list[CellId], total: int, reasons: Counter[str]) -> Document:
        """Make the document. ``ids`` has one cell more than the page if another page follows."""
        is_last = len(ids) <= limit
        page_cells = view.listed_cells(ids[:limit])
        page_document = paged("cells", page_cells, total, offset, row)
        last = None if is_last or by is not None else page_cells[-1]
        return {
            **page_document,
            "next_offset": None if is_last else offset + limit,
            "next_after": None if last is None else place_text(rank_of(last, order), last.id),
            "by_reason": dict(sorted(reasons.items())),
            "looked_at": selected.candidates_count(view.state),
        }

    def row(cell: Cell) -> Document:
        cell_row = _cell_row(view, cell)
        return {**cell_row, "state": _state(view, view.lens, cell)} if with_state else cell_row

    if view.finder is not None:
        query = selected.query(view.now_ns, order, start)
        page = None if query is None else view.finder.page(query, limit=limit + 1, offset=offset)
        if page is not None:
            return cells_document(list(page.cells), page.total, page.reasons)
    reasons: Counter[str] = Counter()
    total = 0

    def placed_cells() -> Iterator[tuple[int | Rank, CellId]]:
        nonlocal total
        for cell in selected.candidates(view.state):
            view.check_time()
            if selected.has(view, cell):
                total += 1
                reasons.update(reasons_of(view.state, cell))
                at = rank_of(cell, order) if by is None else by.rank_of(subject(view, cell))
                if start is None or (at, cell.id) > start:
                    yield at, cell.id

    ids = [id for _, id in heapq.nsmallest(end + 1, placed_cells())[offset:]]
    return cells_document(ids, total, reasons)


def _cell_row(view: View, cell: Cell) -> Document:
    state = cell.state
    size = None if state is None else len(state) if isinstance(state, bytes) else state.size
    fault = None
    if cell.fault is not None:
        fault = _fault(view, cell, cell.fault)
    return {
        "workflow": cell.id[0],
        "key": view.lens.key(cell.id, hash=cell.workflow_hash),
        "key_cbor": cell.id[1].hex(),
        "status": cell.status,
        "is_idle": cell.is_idle,
        "declared": cell.declared,
        "fault": fault,
        "in_flight": len(cell.inflight),
        "mailbox": len(cell.mailbox),
        "mail_uncounted": cell.mail_uncounted,
        "last_record": cell.last_seq,
        "last_active_ns": cell.last_active_ns,
        "state_size": size,
        "version": version(view.state, cell, view.journal.blob),
        "waits_for": waits_for(view.state, cell),
    }


def cell(view: View, workflow: str, key: str | None = None) -> Document:
    """Return one cell with everything that is known about it (A-64).

    Raises:
        NoSuchCell: There is none with this key.
        BadUsage: There is no such workflow, or the key does not fit it.
    """
    id = find_cell(view.state, workflow, key)
    cell = view.state.cells.get(id)
    if cell is None:
        raise NoSuchCell(
            "there is no such cell",
            location=" ".join(word for word in (id[0], key) if word),
            hint="nothing has reached it, or it was deleted; `aos trace` has its past",
        )
    shown_key = view.lens.key(id, hash=cell.workflow_hash)
    mailbox = list(cell.mailbox)[:MAIL_SHOWN]
    ended_by = declared_by(view, cell)
    return {
        **_cell_row(view, cell),
        "workflow_hash": hash_text(cell.workflow_hash),
        "module_hash": hash_text(cell.module_hash),
        "state": _state(view, view.full_lens, cell),
        "intents": [open_row(view, intent, "open") for intent in view.state.intents.of(cell)],
        "mail": [mail_document(view, mail) for mail in mailbox],
        "reasons": [
            reason.to_document()
            for reason in diagnose(
                view.state,
                id,
                shown_key,
                view.journal.blob,
                now_ns=view.now_ns,
                records=view.records,
                running=view.running,
                ended_by=ended_by,
            )
        ],
        "ended_by": None if ended_by is None else document(ended_by, view.lens),
    }


def declared_by(view: View, cell: Cell) -> Control | None:
    """Return the operator's command that gave the cell its status; None if its module did, or if
    the command was pruned."""
    if cell.declared is None:
        return None
    last = view.state.next_seq - 1
    last_command, first = None, cell.last_seq + 1
    while command := ending(view.journal, cell.id, first=first, last=last, index=view.index):
        last_command, first = command, command.seq + 1
    return last_command


def _state(view: View, lens: Lens, cell: Cell) -> object:
    if cell.state is None:
        return None
    if workflow_of(view.state, cell) is None:
        manifest = view.manifests.with_workflow(cell.id[0], cell.workflow_hash)
    else:
        manifest = manifest_under(view.state, next_under(view.state, cell, view.journal.blob))
    return lens.state_of(cell.id[0], manifest, cell.state)


def mail_document(view: View, mail: Mail) -> Document:
    """Return an entry of a mailbox (A-64)."""
    seq, index = mail.entry
    entry: Document = {
        "record": seq,
        "index": index,
        "root": mail.root.seq,
        "depth": mail.depth,
    }
    if isinstance(mail, EventMail):
        value = view.lens.event(mail.schema, mail.value, seq=seq)
        return {**entry, "kind": "event", "schema": mail.schema, "value": value}
    entry |= {"effect": mail.intent.effect.name, "intent": hash_text(mail.intent.intent)}
    if isinstance(mail, ReceiptMail):
        return {**entry, "kind": "receipt", "status": mail.receipt.status}
    frame = mail.frame
    return {
        **entry,
        "kind": "stream",
        "frame_seq": frame.frame_seq,
        "frame_kind": frame.frame_kind,
        "payload": view.lens.payload(frame),
    }


def faults(
    view: View,
    selection: CellSelection | None = None,
    *,
    limit: int = LIMIT,
    offset: int = 0,
) -> Document:
    """List cells that the kernel failed, the latest first, or in the order of the condition (A-65).

    Raises:
        BadUsage: A filter names nothing that is known.
    """
    selected = (selection or CellSelection()).resolved(view.state)
    failed_cells = [
        cell
        for cell in view.state.cells.active.values()
        if cell.fault is not None
        and selected.workflow in (None, cell.id[0])
        and selected.has(view, cell)
    ]
    failed_cells.sort(key=lambda cell: -(cell.fault_seq or 0))
    search = selected.search
    if search is not None and search.is_ordered:
        failed_cells.sort(key=lambda cell: search.rank_of(subject(view, cell)))
    return page("faults", failed_cells, limit, offset, partial(_fault_row, view))


def _fault(view: View, cell: Cell, fault: Fault) -> Document:
    seq = cell.fault_seq
    note = None if seq is None else view.journal.note(seq)
    return {**fault_document(fault), "record": seq, "engine_text": note}


def _fault_row(view: View, cell: Cell) -> Document:
    assert cell.fault is not None
    key = view.lens.key(cell.id, hash=cell.workflow_hash)
    retry, skip = resume_commands(
        cell.fault, command_words(cell.id[0], key), is_flow=is_flow(view.state, cell)
    )
    return {
        "workflow": cell.id[0],
        "key": key,
        **_fault(view, cell, cell.fault),
        "mailbox": len(cell.mailbox),
        "mail_uncounted": cell.mail_uncounted,
        "advice": advice_on(cell.fault),
        "retry": retry,
        "skip": skip,
    }


class Annotation(NamedTuple):
    """The annotation of the step ``seq``, a variant, which the event ``root`` caused."""

    tag: str
    value: Any
    seq: int
    root: int


def annotation_of(step: Step, store: Journal) -> Annotation | None:
    """The annotation of a step; None if it has none."""
    if step.ann is None:
        return None
    variant: Any = decode_record(slot_bytes(step.ann, store.blob))
    return Annotation(variant["$tag"], variant.get("$value", {}), step.seq, step.root)


def annotation_in_journal(store: Journal, seq: int, cell: CellId, last: int) -> Annotation | None:
    """The first annotation of ``cell`` among the consequences of the event ``seq``, up to record
    ``last``; None if there is none yet."""
    for frame in store.frames(seq, min(last, seq + SCANNED_MAX)):
        for data in frame.records:
            if cell[0].encode() not in data:
                continue
            record = from_bytes(data)
            if isinstance(record, Step) and record.cell == cell and record.root == seq:
                return annotation_of(record, store)
    return None
