"""The documents of ``aos inspect cells``, ``cell`` and ``faults`` (spec/audit.md, A-63 to A-65)."""

from __future__ import annotations

from functools import partial
from typing import Final

from aos.audit.lens.lookup import find_cell, find_workflow
from aos.audit.lens.words import compact
from aos.audit.views.diagnosis import ADVICE, command_words, diagnose, retry_words
from aos.audit.views.intent_view import open_row
from aos.audit.views.record_view import Document, fault_document
from aos.audit.views.version_view import version
from aos.audit.views.view import LIMIT, View, check_word, page
from aos.core.journal.faults import Fault
from aos.core.journal.records import CellId
from aos.core.state.cell import Cell, EventMail, Mail, ReceiptMail
from aos.core.state.version import manifest_under, runs_under, workflow_of
from aos.errors import BadUsage, sentence
from aos.values.digests import Hash, hash_text

CELL_STATUSES: Final = ("running", "waiting", "completed", "failed")
MAIL_SHOWN: Final = 20


def cells(
    view: View,
    *,
    workflow: str | None = None,
    status: str | None = None,
    key_prefix: str | None = None,
    limit: int = LIMIT,
    offset: int = 0,
) -> Document:
    """List cells by workflow, then key (A-63)."""
    check_word("cell status", status, CELL_STATUSES)
    listed = view.state.cells
    every = listed.values() if workflow is None else listed.of(find_workflow(view.state, workflow))
    # Keep only the identities of the cells: there may be a million cells.
    found = sorted(
        cell.id
        for cell in every
        if (status is None or cell.status == status)
        and (key_prefix is None or _key_begins(view, cell.id, cell.workflow_hash, key_prefix))
    )
    return page("cells", found, limit, offset, lambda each: _cell_row(view, listed[each]))


def _key_begins(view: View, id: CellId, workflow_hash: Hash, prefix: str) -> bool:
    key = view.lens.key(id, hash=workflow_hash)
    return (key if isinstance(key, str) else compact(key)).startswith(prefix)


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
        "declared": cell.declared,
        "fault": fault,
        "in_flight": len(cell.inflight),
        "mailbox": len(cell.mailbox),
        "mail_uncounted": cell.mail_uncounted,
        "last_record": cell.last_seq,
        "last_active_ns": cell.last_active_ns,
        "state_size": size,
        "version": version(view.state, cell),
    }


def cell(view: View, workflow: str, key: str | None = None) -> Document:
    """Return one cell with everything that is known about it (A-64)."""
    id = find_cell(view.state, workflow, key)
    cell = view.state.cells.get(id)
    if cell is None:
        raise BadUsage(
            sentence(
                "there is no such cell",
                where=" ".join(each for each in (id[0], key) if each),
                hint="nothing has reached it, or its module deleted it; `aos trace` has its past",
            )
        )
    shown_key = view.lens.key(id, hash=cell.workflow_hash)
    mailbox = list(cell.mailbox)[:MAIL_SHOWN]
    return {
        **_cell_row(view, cell),
        "workflow_hash": hash_text(cell.workflow_hash),
        "module_hash": hash_text(cell.module_hash),
        "state": _state(view, cell),
        "intents": [open_row(view, view.state.intents[each], "open") for each in cell.inflight],
        "mail": [_mail(view, mail) for mail in mailbox],
        "reasons": [
            each.to_document()
            for each in diagnose(view.state, id, shown_key, view.journal.blob, now_ns=view.now_ns)
        ],
    }


def _state(view: View, cell: Cell) -> object:
    if cell.state is None:
        return None
    if workflow_of(view.state, cell) is None:
        manifest = view.manifests.with_workflow(cell.id[0], cell.workflow_hash)
    else:
        manifest = manifest_under(view.state, runs_under(view.state, cell))
    return view.whole.state_of(cell.id[0], manifest, cell.state)


def _mail(view: View, mail: Mail) -> Document:
    seq, index = mail.entry
    found: Document = {
        "record": seq,
        "index": index,
        "root": mail.root.seq,
        "depth": mail.depth,
    }
    if isinstance(mail, EventMail):
        value = view.lens.event(mail.schema, mail.value, seq=seq)
        return {**found, "kind": "event", "schema": mail.schema, "value": value}
    found |= {"effect": mail.intent.effect.name, "intent": hash_text(mail.intent.intent)}
    if isinstance(mail, ReceiptMail):
        return {**found, "kind": "receipt", "status": mail.receipt.status}
    frame = mail.frame
    return {
        **found,
        "kind": "stream",
        "frame_seq": frame.frame_seq,
        "frame_kind": frame.frame_kind,
        "payload": view.lens.payload(frame),
    }


def faults(
    view: View,
    *,
    workflow: str | None = None,
    kind: str | None = None,
    limit: int = LIMIT,
    offset: int = 0,
) -> Document:
    """List cells that the kernel failed, the latest first (A-65)."""
    check_word("fault kind", kind, [each.value for each in ADVICE])
    name = None if workflow is None else find_workflow(view.state, workflow)
    found = [
        cell
        for cell in view.state.cells.active.values()
        if cell.fault is not None
        and (name is None or cell.id[0] == name)
        and (kind is None or cell.fault.kind.value == kind)
    ]
    found.sort(key=lambda cell: -(cell.fault_seq or 0))
    return page("faults", found, limit, offset, partial(_fault_row, view))


def _fault(view: View, cell: Cell, fault: Fault) -> Document:
    seq = cell.fault_seq
    note = None if seq is None else view.journal.note(seq)
    return {**fault_document(fault), "record": seq, "engine_text": note}


def _fault_row(view: View, cell: Cell) -> Document:
    assert cell.fault is not None
    key = view.lens.key(cell.id, hash=cell.workflow_hash)
    return {
        "workflow": cell.id[0],
        "key": key,
        **_fault(view, cell, cell.fault),
        "mailbox": len(cell.mailbox),
        "mail_uncounted": cell.mail_uncounted,
        "advice": ADVICE[cell.fault.kind],
        "retry": retry_words(cell.fault, command_words(cell.id[0], key)),
    }
