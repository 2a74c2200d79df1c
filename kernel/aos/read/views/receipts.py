"""Receipts of settled intents: found by status and code, and whether their signatures hold
(spec/audit.md, A-66a, A-67a)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis, KernelReceipt, Receipt, slot_hash
from aos.core.journal.signing import is_signed, may_sign
from aos.core.journal.statements import signed_receipt_message
from aos.core.journal.vocabulary import STATUSES
from aos.errors import Pruned
from aos.manifest.keys import key_text
from aos.read.lens.lens import Lens
from aos.read.lens.ports import Journal, first_kept
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.values.cbor import encode
from aos.values.digests import Hash

Settling: TypeAlias = Receipt | KernelReceipt

_KIND: Final = encode("kind")
_KINDS: Final = tuple(
    _KIND + encode(record_type.KIND)
    for record_type in (Receipt, KernelReceipt)
)  # fmt: skip


@dataclass(slots=True)
class SelectedReceipts:
    """The records of the receipts that were found, the latest first, and how many were looked
    at."""

    seqs: list[int]
    looked_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptSelection:
    """The filters of settled intents; one that is None selects all. ``key_prefix`` is of the cell's
    key as text."""

    status: str | None = None
    code: str | None = None
    workflow: str | None = None
    effect: str | None = None
    key_prefix: str | None = None

    @property
    def is_by_status(self) -> bool:
        """Whether a receipt is selected by its status and effect alone."""
        return (self.code, self.workflow, self.key_prefix) == (None, None, None)

    def find(self, journal: Journal, lens: Lens, *, last: int) -> SelectedReceipts:
        """Find the selected receipts up to record ``last``. Only their numbers are kept.

        The journal is read once. Receipts are found by their bytes, and only those with the right
        status are decoded.
        """
        selected = SelectedReceipts([])
        for receipt in self._read(journal, last, selected):
            if (
                self.workflow in (None, receipt.cell[0])
                and self.effect in (None, receipt.effect)
                and (self.code is None or code_of(receipt, lens) == self.code)
                and (
                    self.key_prefix is None
                    or lens.key_text(receipt.cell, seq=receipt.seq).startswith(self.key_prefix)
                )
            ):
                selected.seqs.append(receipt.seq)
        selected.seqs.reverse()
        return selected

    def _read(self, journal: Journal, last: int, selected: SelectedReceipts) -> Iterator[Settling]:
        statuses = STATUSES if self.status is None else (self.status,)
        # Without a status, a code is that of an error: no receipt that is ok has one.
        needles = [
            encode("status") + encode(status)
            for status in statuses
            if not (status == "ok" and self.code is not None)
        ]
        for frame in journal.frames(first_kept(journal), last):
            for seq, data in enumerate(frame.records, frame.header.first):
                if seq > last or not _is_settling(data):
                    continue
                selected.looked_at += 1
                if any(needle in data for needle in needles):
                    record = from_bytes(data)
                    if isinstance(record, Settling) and self.status in (None, record.status):
                        yield record


def _is_settling(data: bytes) -> bool:
    """Whether a record is a receipt. Its values may have the bytes of a kind, too."""
    if not any(kind in data for kind in _KINDS):
        return False
    return data.count(_KIND) == 1 or isinstance(from_bytes(data), Settling)


def code_of(receipt: Settling, lens: Lens) -> str | None:
    """Return the code of the error that a receipt reports; None for ``ok``, or if its payload
    cannot be read."""
    payload = None if receipt.status == "ok" else lens.payload(receipt)
    code = payload.get("code") if isinstance(payload, dict) else None
    return code if isinstance(code, str) else None


def signature_document(view: View, receipt: Receipt, opened_seq: int) -> Document:
    """Return the key, whether it signed the receipt, checked now, and whether the manifest in force
    when the effect was requested let it sign (A-67a). ``was_allowed`` is null if that manifest is
    not kept."""
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
