"""Whether the signature of a receipt holds, checked now (spec/audit.md, A-67a)."""

from __future__ import annotations

from aos.audit.views.record_view import Document
from aos.audit.views.view import View
from aos.core.journal.records import Fork, Genesis, Receipt, slot_hash
from aos.core.journal.signing import is_signed, may_sign
from aos.core.journal.statements import signed_receipt_message
from aos.errors import Pruned
from aos.manifest.keys import key_text
from aos.values.digests import Hash


def signature_document(view: View, receipt: Receipt, opened_seq: int) -> Document:
    """Return the key, whether it signed the receipt, and whether the manifest in force when the
    effect was requested let it sign. ``was_allowed`` is null if that manifest is not kept."""
    world, world_key = _world_at(view, receipt.seq)
    message = signed_receipt_message(
        world,
        receipt,
        payload=slot_hash(receipt.payload),
        executor=receipt.executor,
        key_id=receipt.key_id,
        batch=receipt.batch,
    )
    manifest = view.manifests.at(opened_seq)
    was_allowed = None
    if manifest is not None and world_key is not None:
        was_allowed = may_sign(
            manifest.executors,
            frozenset(),
            executor=receipt.executor,
            effect=receipt.effect,
            key_id=receipt.key_id,
            world_key=world_key,
        )
    batch = receipt.batch
    return {
        "key": key_text(receipt.key_id),
        "executor": receipt.executor,
        "is_valid": message is not None and is_signed(message, receipt.signature, receipt.key_id),
        "was_allowed": was_allowed,
        "is_revoked": receipt.key_id in view.state.revoked,
        "manifest_record": None if manifest is None else view.manifests.seq_at(opened_seq),
        "batch": None if batch is None else {"index": batch.index, "size": batch.size},
    }


def _world_at(view: View, seq: int) -> tuple[Hash, bytes | None]:
    """Return the world that a record was written in, which is another one before a fork, and its
    key; None for the key if the record that has it was pruned."""
    first = 1
    for ancestor in view.state.ancestors:
        if seq <= ancestor.at:
            return ancestor.world, _key_of(view, first)
        first = ancestor.at + 1
    return view.state.world, view.state.world_key


def _key_of(view: View, first: int) -> bytes | None:
    """Return the key of the world that begins with a record: its genesis or its fork."""
    try:
        record = view.records.at(first)
    except Pruned:
        return None
    return record.world_key if isinstance(record, Genesis | Fork) else None
