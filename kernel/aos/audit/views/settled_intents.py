"""Find settled intents by the status and code of their receipts (spec/audit.md, A-66a).

The journal is read once. Receipts are found by their bytes, and only those with the right status
are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.audit.lens.lens import Lens
from aos.audit.lens.ports import Journal, first_kept
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import KernelReceipt, Receipt
from aos.core.journal.vocabulary import STATUSES
from aos.values.cbor import encode

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
        """Find the selected receipts up to record ``last``. Only their numbers are kept."""
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
