"""The documents of ``aos inspect intents`` and ``intent`` (spec/audit.md, A-66, A-67)."""

from __future__ import annotations

from functools import partial
from typing import Final

from aos.audit.lens.lookup import find_effect, find_intent, find_workflow
from aos.audit.lens.ports import first_kept
from aos.audit.lens.scan import records_after
from aos.audit.lens.words import compact
from aos.audit.views.diagnosis import open_intent
from aos.audit.views.record_view import Document, document
from aos.audit.views.view import LIMIT, View, check_word, page
from aos.core.journal.identity import idempotency_key
from aos.core.journal.records import (
    Attempt,
    Control,
    KernelReceipt,
    Receipt,
    Step,
    Stream,
    slot_hash,
)
from aos.core.state.cell import OpenIntent
from aos.errors import Pruned
from aos.store.rows import IntentRow
from aos.values.digests import Hash, hash_text
from aos.values.schema import untyped_to_json

FRAMES_SHOWN: Final = 10
"""How many frames of an intent's stream are shown, counted from the latest."""

INTENT_STATUSES: Final = ("open", "abandoned", "settled")


def intents(
    view: View,
    *,
    status: str | None = "open",
    workflow: str | None = None,
    effect: str | None = None,
    key_prefix: str | None = None,
    limit: int = LIMIT,
    offset: int = 0,
) -> Document:
    """List intents in the order of their opening; ``status`` None lists all of them (A-66).

    Open and abandoned intents are in the state. Settled ones are read from the journal; with a
    filter, every one of them is read.
    """
    check_word("intent status", status, INTENT_STATUSES)
    name = None if workflow is None else find_workflow(view.state, workflow)

    def is_asked(row: Document) -> bool:
        key = row["key"] if isinstance(row["key"], str) else compact(row["key"])
        return (name is None or row["workflow"] == name) and (
            key_prefix is None or key.startswith(key_prefix)
        )

    found = _intents_with(view, status)
    if (name, effect, key_prefix) == (None, None, None):
        return page("intents", found, limit, offset, partial(_intent_row, view))
    rows = [_intent_row(view, each) for each in found]
    if effect is not None:
        called = find_effect(view.state, effect, {row["effect"] for row in rows})
        rows = [row for row in rows if row["effect"] == called]
    rows = [row for row in rows if is_asked(row)]
    return page("intents", rows, limit, offset, lambda row: row)


def _intents_with(view: View, status: str | None) -> list[tuple[Hash, IntentRow]]:
    if status in ("open", "abandoned"):
        held = view.state.intents if status == "open" else view.state.abandoned
        return [
            (each.intent, IntentRow(opened_seq=each.seq, index=each.index))
            for each in held.values()
        ]
    first = first_kept(view.journal)
    found = [
        (intent, row)
        for intent, row in view.journal.intents()
        if row.opened_seq < view.state.next_seq
        and max(row.opened_seq, row.settled_seq or view.state.next_seq) >= first
        and (status is None or _status(view, intent, row) == status)
    ]
    return sorted(found, key=lambda each: (each[1].opened_seq, each[1].index))


def _status(view: View, intent: Hash, row: IntentRow) -> str:
    """Return the status in the state of the view, which may be older than the row."""
    if intent in view.state.intents:
        return "open"
    if row.abandoned:
        return "abandoned"
    return "settled"


def _intent_row(view: View, found: tuple[Hash, IntentRow]) -> Document:
    intent, row = found
    opened = view.state.intents.get(intent)
    if opened is not None:
        return open_row(view, opened, "open")
    opened = view.state.abandoned.get(intent)
    if opened is not None:
        return open_row(view, opened, "abandoned")
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
        "settled_record": None,
        "receipt_status": None,
    }


def _settled_row(view: View, intent: Hash, row: IntentRow) -> Document:
    try:
        step = view.records.at(row.opened_seq)
    except Pruned:
        return _row_of_pruned(view, intent, row)
    assert isinstance(step, Step), "a row names the step that opened it"
    asked = step.intents[row.index]
    manifest = view.manifests.at(step.seq)
    effect = manifest.effects.get(asked.effect) if manifest else None
    key = hash_text(intent)
    if asked.key is not None and effect is not None:
        key = idempotency_key(
            world=view.state.world, cell=step.cell, effect=asked.effect, key=asked.key,
            scope=effect.idempotency_scope,
        )  # fmt: skip
    receipt = None if row.settled_seq is None else view.records.at(row.settled_seq)
    return {
        "intent": hash_text(intent),
        "status": _status(view, intent, row),
        "effect": asked.effect,
        "executor": effect.executor if effect else None,
        "workflow": step.cell[0],
        "key": view.lens.key(step.cell, seq=step.seq),
        "record": step.seq,
        "index": row.index,
        "opened_ns": None,
        "age_ns": None,
        "idempotency_key": key,
        "requested_key": untyped_to_json(asked.key),
        "issuer_ref": asked.issuer_ref,
        "settled_record": row.settled_seq,
        "receipt_status": receipt.status if isinstance(receipt, Receipt | KernelReceipt) else None,
    }


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
        "settled_record": row.settled_seq,
        "receipt_status": receipt.status,
    }


def intent(view: View, word: str) -> Document:
    """Return one intent, found by its hash or a prefix of it (A-67)."""
    target = find_intent(view.state, view.journal, word)
    row = view.journal.intent(target.intent)
    if row is None:
        row = IntentRow(opened_seq=target.opened_seq, index=target.index)
    found = _intent_row(view, (target.intent, row))
    try:
        step = view.records.at(target.opened_seq)
    except Pruned:
        return _pruned_intent(view, found, target.intent, row)
    assert isinstance(step, Step), "a row names the step that opened it"
    asked = step.intents[target.index]
    receipt = None
    if row.settled_seq is not None and row.settled_seq < view.state.next_seq:
        receipt = document(view.records.at(row.settled_seq), view.whole)
    opened = view.state.intents.get(target.intent)
    manifest = view.manifests.at(step.seq)
    effect = manifest.effects.get(asked.effect) if manifest else None
    reason = None
    if opened is not None:
        reason = open_intent(
            view.state, opened, view.journal.blob, now_ns=view.now_ns
        ).to_document()
    return {
        **found,
        "params": view.whole.params(asked.effect, asked.params, seq=step.seq),
        "params_hash": hash_text(slot_hash(asked.params)),
        "effect_hash": hash_text(asked.effect_hash),
        "delivery": effect.delivery if effect else None,
        "attempt": None if opened is None else view.state.attempt(opened),
        "attempts_max": effect.attempts if effect else None,
        **_history(view, target.intent, after=step.seq, settled=row.settled_seq),
        "receipt": receipt,
        "reason": reason,
    }


def _pruned_intent(view: View, found: Document, intent: Hash, row: IntentRow) -> Document:
    """Return an intent whose step was pruned. If it is not settled, the state still has its
    params."""
    opened = view.state.intents.get(intent) or view.state.abandoned.get(intent)
    receipt = None
    if row.settled_seq is not None and row.settled_seq < view.state.next_seq:
        receipt = document(view.records.at(row.settled_seq), view.whole)
    asked: Document = dict.fromkeys(
        ("params", "params_hash", "effect_hash", "delivery", "attempt", "attempts_max")
    )
    reason = None
    if opened is not None:
        effect = opened.effect
        asked = {
            "params": view.whole.params(effect.name, opened.params, seq=opened.seq),
            "params_hash": hash_text(opened.params_hash),
            "effect_hash": hash_text(effect.hash),
            "delivery": effect.delivery,
            "attempt": view.state.attempt(opened),
            "attempts_max": effect.attempts,
        }
        if intent in view.state.intents:
            reason = open_intent(
                view.state, opened, view.journal.blob, now_ns=view.now_ns
            ).to_document()
    return {
        **found,
        **asked,
        **_history(view, intent, after=row.opened_seq, settled=row.settled_seq),
        "receipt": receipt,
        "reason": reason,
    }


def _history(view: View, intent: Hash, *, after: int, settled: int | None) -> Document:
    """Return the attempts, cancel commands and stream frames between an intent's opening and its
    end."""
    last = min(settled or view.state.next_seq, view.state.next_seq - 1)
    attempts: list[Document] = []
    cancels: list[Document] = []
    frames: list[Stream] = []
    for record in records_after(view.journal, after + 1, last, (), {intent}):
        match record:
            case Attempt(intent=of) if of == intent:
                attempts.append(document(record, view.lens))
            case Control(intent=of) if of == intent:
                cancels.append(document(record, view.lens))
            case Stream(intent=of) if of == intent:
                frames.append(record)
            case _:
                pass
    return {
        "attempts": attempts,
        "cancels": cancels,
        "frames": len(frames),
        "last_frames": [document(each, view.lens) for each in frames[-FRAMES_SHOWN:]],
    }
