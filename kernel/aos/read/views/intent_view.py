"""The documents of ``aos inspect intents`` and ``intent`` (spec/audit.md, A-66, A-67)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aos.core.journal.identity import idempotency_key
from aos.core.journal.inputs import CANCEL
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    EntryId,
    KernelReceipt,
    Receipt,
    Record,
    Step,
    Stream,
    slot_hash,
)
from aos.core.journal.vocabulary import STATUSES
from aos.core.state.cell import OpenIntent
from aos.errors import BadUsage, Damage, Pruned
from aos.read.lens.lookup import find_effect, find_intent, find_workflow
from aos.read.lens.ports import RecordIndex, first_kept
from aos.read.lens.record_finding import ending, records_after
from aos.read.lens.words import compact
from aos.read.views.cell_selection import CellSelection, subject
from aos.read.views.diagnosis import open_intent
from aos.read.views.receipts import ReceiptSelection, code_of
from aos.read.views.record_view import Document, document, issuer_document
from aos.read.views.view import LIMIT, View, check_word, page, page_end, paged
from aos.store.rows import IntentRow
from aos.values.digests import Hash, hash_text
from aos.values.schema import untyped_to_json

if TYPE_CHECKING:
    from aos.read.where.matching import Rank

FRAMES_SHOWN: Final = 10
"""How many frames of an intent's stream are shown, counted from the latest."""

_NO_ENTRIES: Final[dict[EntryId, None]] = {}

INTENT_STATUSES: Final = ("open", "abandoned", "settled")


def intents(
    view: View,
    *,
    status: str | None = "open",
    code: str | None = None,
    workflow: str | None = None,
    effect: str | None = None,
    key_prefix: str | None = None,
    halted: bool = False,
    condition: str | None = None,
    aliases: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    limit: int = LIMIT,
    offset: int = 0,
) -> Document:
    """List intents in the order of their opening; ``status`` None lists all of them (A-66). With
    the status of a receipt, or a code, list the intents that it settled, the latest first (A-66a).
    With ``halted``, list the open ones that are held or parked; with ``code``, those of them with
    this code. With ``condition``, list those whose cells pass this condition (SE-11); ``aliases``
    are as in ``CellSelection``.

    Open and abandoned intents are in the state. Settled ones are read from the journal; with a
    filter, every one of them is read. If the view has an index, it has all, the open ones and
    those with a status of a receipt, and those of one effect.

    Raises:
        BadUsage: A filter names nothing that is known, or a code is given for intents that have
            none, or held and parked intents, or a condition, come with a status other than open.
    """
    check_word("intent status", status, (*INTENT_STATUSES, *STATUSES))
    name = None if workflow is None else find_workflow(view.state, workflow)
    _check_filters(status, halted=halted, condition=condition)
    if not halted and (code is not None or status in STATUSES):
        _check_code(status)
        selection = ReceiptSelection(
            status=status,
            code=code,
            workflow=name,
            effect=None if effect is None else find_effect(view.state, effect, ()),
            key_prefix=key_prefix,
        )
        return _settled(view, selection, limit, offset)
    if (
        view.index is not None
        and status in (None, "open")
        and (name, key_prefix, condition) == (None, None, None)
        and not halted
    ):
        return _indexed(view, view.index, effect, status, page=(limit, offset))
    intent_rows = _intents_with(view, status)
    if halted:
        intent_rows = [
            intent_row for intent_row in intent_rows if _is_halted(view, intent_row[0], code)
        ]
    if condition is not None:
        of_cells = CellSelection(workflow=name, condition=condition, aliases=aliases)
        intent_rows = _of_cells(view, intent_rows, of_cells.resolved(view.state))
    return _page_of(view, intent_rows, name, effect, key_prefix, limits=(limit, offset))


def _page_of(
    view: View,
    intent_rows: list[tuple[Hash, IntentRow]],
    workflow: str | None,
    effect: str | None,
    key_prefix: str | None,
    *,
    limits: tuple[int, int],
) -> Document:
    """A page of the intents in memory that pass the filters of their document."""
    if (workflow, effect, key_prefix) == (None, None, None):
        return page("intents", intent_rows, *limits, partial(_intent_row, view))
    rows = [_intent_row(view, intent_row) for intent_row in intent_rows]
    if effect is not None:
        effect_name = find_effect(view.state, effect, {row["effect"] for row in rows})
        rows = [row for row in rows if row["effect"] == effect_name]
    rows = [row for row in rows if _is_of_cell(row, workflow, key_prefix)]
    return page("intents", rows, *limits, lambda row: row)


def _check_filters(status: str | None, *, halted: bool, condition: str | None) -> None:
    """Raise BadUsage if a filter that only open intents can pass comes with another status."""
    if status == "open":
        return
    if halted:
        problem = "held and parked intents are open"
    elif condition is not None:
        problem = "a condition selects open intents, by their cells"
    else:
        return
    raise BadUsage(problem, expected="status open", actual=f"status {status or 'all'}")


def _check_code(status: str | None) -> None:
    """Raise BadUsage if intents of this status have no receipt, which a code would select."""
    if status in INTENT_STATUSES:
        raise BadUsage(
            "a code selects intents by their receipts",
            expected="one of " + ", ".join(STATUSES) + ", or all",
            actual=f"status {status}",
            hint="for open ones, select those that are held or parked: --parked",
        )


def _is_of_cell(row: Document, workflow: str | None, key_prefix: str | None) -> bool:
    """Whether the row's cell is of this workflow, with a key of this prefix."""
    key = row["key"] if isinstance(row["key"], str) else compact(row["key"])
    return (workflow is None or row["workflow"] == workflow) and (
        key_prefix is None or key.startswith(key_prefix)
    )


def _indexed(
    view: View, index: RecordIndex, effect: str | None, status: str | None, *, page: tuple[int, int]
) -> Document:
    """The list from the index: all intents or the open ones, or those of one effect. ``page`` is
    the limit and the offset."""
    limit, offset = page
    page_end(limit, offset)
    effect_name = None if effect is None else find_effect(view.state, effect, index.effects(status))
    hashes, total = index.opened_intents(
        effect=effect_name, is_open=status == "open", limit=limit, offset=offset
    )

    def row(intent: Hash) -> Document:
        stored_row = view.journal.intent(intent)
        if stored_row is None:
            name = hash_text(intent)
            raise Damage(f"the intent {name} has no row (aos rebuild makes it again)")
        return _intent_row(view, (intent, stored_row))

    return paged("intents", hashes, total, offset, row)


def _of_cells(
    view: View, intent_rows: list[tuple[Hash, IntentRow]], selection: CellSelection
) -> list[tuple[Hash, IntentRow]]:
    """The open intents of the cells that a selection has, in the order of its condition."""
    positions: dict[CellId, Rank | None] = {}
    search = selection.search
    assert search is not None
    for intent, _ in intent_rows:
        id = view.state.intents[intent].cell
        if id not in positions:
            cell = view.state.cells[id]
            is_in = selection.workflow in (None, id[0]) and selection.has(view, cell)
            positions[id] = search.rank_of(subject(view, cell)) if is_in else None
    placed = [
        (position, intent_row)
        for intent_row in intent_rows
        if (position := positions[view.state.intents[intent_row[0]].cell]) is not None
    ]
    if search.is_ordered:
        placed.sort(key=lambda pair: pair[0])
    return [intent_row for _, intent_row in placed]


def _settled(view: View, selection: ReceiptSelection, limit: int, offset: int) -> Document:
    if view.index is not None and selection.status is not None and selection.is_by_status:
        page_end(limit, offset)
        seqs, total = view.index.settled(
            status=selection.status, effect=selection.effect, limit=limit, offset=offset
        )
        looked_at = view.index.receipts()
    else:
        selected = selection.find(view.journal, view.full_lens, last=view.state.next_seq - 1)
        end = page_end(limit, offset)
        seqs, total = selected.seqs[offset:end], len(selected.seqs)
        looked_at = selected.looked_at

    def row(seq: int) -> Document:
        receipt = view.records.at(seq)
        assert isinstance(receipt, Receipt | KernelReceipt), "found as one"
        stored_row = view.journal.intent(receipt.intent)
        if stored_row is None:
            raise Damage(
                f"record {seq} settles an intent that has no row (aos rebuild makes it again)"
            )
        return _settled_row(view, receipt.intent, stored_row)

    return paged("intents", seqs, total, offset, row) | {"looked_at": looked_at}


def _is_halted(view: View, intent: Hash, code: str | None) -> bool:
    opened_intent = view.state.intents.get(intent)
    halt = None if opened_intent is None else view.state.halt(opened_intent)
    return halt is not None and code in (None, halt.code)


def _halt_document(view: View, intent: OpenIntent) -> Document | None:
    halt = view.state.halt(intent)
    if halt is None:
        return None
    return {
        "phase": halt.phase,
        "code": halt.code,
        "problem": halt.problem,
        "attempt": halt.attempt,
        "record": halt.seq,
        "since_ns": halt.since_ns,
    }


def _intents_with(view: View, status: str | None) -> list[tuple[Hash, IntentRow]]:
    if status in ("open", "abandoned"):
        unsettled = view.state.intents if status == "open" else view.state.abandoned
        return [
            (intent.intent, IntentRow(opened_seq=intent.seq, index=intent.index))
            for intent in unsettled.values()
        ]
    first = first_kept(view.journal)
    intent_rows = [
        (intent, row)
        for intent, row in view.journal.intents()
        if row.opened_seq < view.state.next_seq
        and max(row.opened_seq, row.settled_seq or view.state.next_seq) >= first
        and (status is None or _status(view, intent, row) == status)
    ]
    return sorted(
        intent_rows, key=lambda intent_row: (intent_row[1].opened_seq, intent_row[1].index)
    )


def _status(view: View, intent: Hash, row: IntentRow) -> str:
    """Return the status in the state of the view, which may be older than the row."""
    if intent in view.state.intents:
        return "open"
    if row.abandoned:
        return "abandoned"
    return "settled"


def _intent_row(view: View, intent_row: tuple[Hash, IntentRow]) -> Document:
    intent, row = intent_row
    opened_intent = view.state.intents.get(intent)
    if opened_intent is not None:
        return open_row(view, opened_intent, "open")
    opened_intent = view.state.abandoned.get(intent)
    if opened_intent is not None:
        return open_row(view, opened_intent, "abandoned")
    return _settled_row(view, intent, row)


def open_row(view: View, intent: OpenIntent, status: str) -> Document:
    """Return the row of an intent that is not settled (A-66)."""
    return {
        "intent": hash_text(intent.intent),
        "status": status,
        "effect": intent.effect.name,
        "executor": intent.effect.executor,
        "workflow": intent.cell[0],
        "key": view.lens.key(intent.cell, seq=intent.seq),
        "record": intent.seq,
        "index": intent.index,
        "opened_ns": intent.opened_ns,
        "age_ns": max(0, view.now_ns - intent.opened_ns),
        "idempotency_key": intent.idempotency_key,
        "requested_key": untyped_to_json(intent.key),
        "issuer_ref": intent.issuer_ref,
        "flow": issuer_document(intent.issuer_ref),
        "settled_record": None,
        "receipt_status": None,
        "code": None,
        "halt": _halt_document(view, intent),
    }


def _settled_row(view: View, intent: Hash, row: IntentRow) -> Document:
    try:
        step = view.records.at(row.opened_seq)
    except Pruned:
        return _row_of_pruned(view, intent, row)
    assert isinstance(step, Step), "a row names the step that opened it"
    request = step.intents[row.index]
    manifest = view.manifests.at(step.seq)
    effect = manifest.effects.get(request.effect) if manifest else None
    key = hash_text(intent)
    if request.key is not None and effect is not None:
        key = idempotency_key(
            world=view.state.world, cell=step.cell, effect=request.effect, key=request.key,
            scope=effect.idempotency_scope,
        )  # fmt: skip
    receipt = None if row.settled_seq is None else view.records.at(row.settled_seq)
    return {
        "intent": hash_text(intent),
        "status": _status(view, intent, row),
        "effect": request.effect,
        "executor": effect.executor if effect else None,
        "workflow": step.cell[0],
        "key": view.lens.key(step.cell, seq=step.seq),
        "record": step.seq,
        "index": row.index,
        "opened_ns": None,
        "age_ns": None,
        "idempotency_key": key,
        "requested_key": untyped_to_json(request.key),
        "issuer_ref": request.issuer_ref,
        "flow": issuer_document(request.issuer_ref),
        "settled_record": row.settled_seq,
        **_ending(view, receipt),
        "halt": None,
    }


def _ending(view: View, receipt: Record | None) -> Document:
    if not isinstance(receipt, Receipt | KernelReceipt):
        return {"receipt_status": None, "code": None}
    return {"receipt_status": receipt.status, "code": code_of(receipt, view.full_lens)}


def _row_of_pruned(view: View, intent: Hash, row: IntentRow) -> Document:
    """Return the row of a settled intent whose step was pruned, from its receipt alone."""
    assert row.settled_seq is not None, "else it is open, or has no row"
    receipt = view.records.at(row.settled_seq)
    assert isinstance(receipt, Receipt | KernelReceipt), "a row names what settled it"
    return {
        "intent": hash_text(intent),
        "status": _status(view, intent, row),
        "effect": receipt.effect,
        "executor": receipt.executor if isinstance(receipt, Receipt) else None,
        "workflow": receipt.cell[0],
        "key": view.lens.key(receipt.cell, seq=receipt.seq),
        "record": row.opened_seq,
        "index": row.index,
        "opened_ns": None,
        "age_ns": None,
        "idempotency_key": None,
        "requested_key": None,
        "issuer_ref": None,
        "flow": None,
        "settled_record": row.settled_seq,
        **_ending(view, receipt),
        "halt": None,
    }


def intent(view: View, word: str) -> Document:
    """Return one intent, found by its hash or a prefix of it (A-67)."""
    target = find_intent(view.state, view.journal, word)
    row = view.journal.intent(target.intent)
    if row is None:
        row = IntentRow(opened_seq=target.opened_seq, index=target.index)
    row_document = _intent_row(view, (target.intent, row))
    try:
        step = view.records.at(target.opened_seq)
    except Pruned:
        return _pruned_intent(view, row_document, target.intent, row)
    assert isinstance(step, Step), "a row names the step that opened it"
    request = step.intents[target.index]
    receipt = None
    if row.settled_seq is not None and row.settled_seq < view.state.next_seq:
        receipt = document(view.records.at(row.settled_seq), view.full_lens)
    opened_intent = view.state.intents.get(target.intent)
    manifest = view.manifests.at(step.seq)
    effect = manifest.effects.get(request.effect) if manifest else None
    reason = None
    if opened_intent is not None:
        reason = open_intent(
            view.state, opened_intent, view.journal.blob, now_ns=view.now_ns, running=view.running
        ).to_document()
    return {
        **row_document,
        "params": view.full_lens.params(request.effect, request.params, seq=step.seq),
        "params_hash": hash_text(slot_hash(request.params)),
        "effect_hash": hash_text(request.effect_hash),
        "delivery": effect.delivery if effect else None,
        "attempt": None if opened_intent is None else view.state.attempt(opened_intent),
        "attempts_max": effect.attempts if effect else None,
        **_history(view, target.intent, opened_seq=step.seq, settled=row.settled_seq),
        "abandoned_by": _abandoned_by(view, target.intent, row, step.cell),
        "receipt": receipt,
        "signature": _signature(view, row),
        "reason": reason,
    }


def _signature(view: View, row: IntentRow) -> Document | None:
    """Check the signature of the receipt now; None if there is none, or the kernel itself gave
    it."""
    if row.settled_seq is None or row.settled_seq >= view.state.next_seq:
        return None
    receipt = view.records.at(row.settled_seq)
    if not isinstance(receipt, Receipt):
        return None
    # Only this document checks signatures, and lists need not import what does.
    from aos.read.views.receipts import signature_document  # noqa: PLC0415

    return signature_document(view, receipt, row.opened_seq)


def _pruned_intent(view: View, row_document: Document, intent: Hash, row: IntentRow) -> Document:
    """Return an intent whose step was pruned. If it is not settled, the state still has its
    params."""
    opened_intent = view.state.intents.get(intent) or view.state.abandoned.get(intent)
    receipt = None
    if row.settled_seq is not None and row.settled_seq < view.state.next_seq:
        receipt = document(view.records.at(row.settled_seq), view.full_lens)
    request_fields: Document = dict.fromkeys(
        ("params", "params_hash", "effect_hash", "delivery", "attempt", "attempts_max")
    )
    reason = None
    if opened_intent is not None:
        effect = opened_intent.effect
        request_fields = {
            "params": view.full_lens.params(
                effect.name, opened_intent.params, seq=opened_intent.seq
            ),
            "params_hash": hash_text(opened_intent.params_hash),
            "effect_hash": hash_text(effect.hash),
            "delivery": effect.delivery,
            "attempt": view.state.attempt(opened_intent),
            "attempts_max": effect.attempts,
        }
        if intent in view.state.intents:
            reason = open_intent(
                view.state,
                opened_intent,
                view.journal.blob,
                now_ns=view.now_ns,
                running=view.running,
            ).to_document()
    cell = None if opened_intent is None else opened_intent.cell
    return {
        **row_document,
        **request_fields,
        **_history(view, intent, opened_seq=row.opened_seq, settled=row.settled_seq),
        "abandoned_by": None if cell is None else _abandoned_by(view, intent, row, cell),
        "receipt": receipt,
        "signature": _signature(view, row),
        "reason": reason,
    }


def _abandoned_by(view: View, intent: Hash, row: IntentRow, cell: CellId) -> Document | None:
    """Return the command with which an operator ended the instance that waited for the intent;
    None if no command did, or if it was pruned."""
    if not row.abandoned:
        return None
    first, last = row.opened_seq + 1, view.state.next_seq - 1
    command = ending(view.journal, cell, first=first, last=last, index=view.index)
    if command is None or intent not in command.abandoned:
        return None
    return document(command, view.lens)


def _history(view: View, intent: Hash, *, opened_seq: int, settled: int | None) -> Document:
    """Return the attempts, commands and stream frames between an intent's opening and its end."""
    last = min(settled or view.state.next_seq, view.state.next_seq - 1)
    attempts: list[Document] = []
    cancels: list[Document] = []
    settlements: list[Document] = []
    frames: list[Stream] = []
    for record in records_after(
        view.journal, opened_seq + 1, last, _NO_ENTRIES, {intent: None}, index=view.index
    ):
        match record:
            case Attempt(intent=of) if of == intent:
                attempts.append(document(record, view.lens))
            case Control(action=action, intent=of) if of == intent:
                (cancels if action == CANCEL else settlements).append(document(record, view.lens))
            case Stream(intent=of) if of == intent:
                frames.append(record)
            case _:
                pass
    return {
        "attempts": attempts,
        "cancels": cancels,
        "settlements": settlements,
        "frames": len(frames),
        "last_frames": [document(frame, view.lens) for frame in frames[-FRAMES_SHOWN:]],
    }
