"""Carry out built-in effects that need nothing but blobs, without an executor (spec/shadow.md,
SH-23)."""

from __future__ import annotations

from collections.abc import Mapping

from aos.core.journal.ports import BlobReader
from aos.core.journal.vocabulary import STATUSES, ReceiptStatus, word_of
from aos.host.executors import cron
from aos.host.executors.blob import GET, PUT
from aos.host.executors.blob import carry_out as carry_out_blob
from aos.manifest.names import CRON
from aos.values.digests import Hash


def carry_out(
    effect: str, params: bytes, read: BlobReader, bytes_max: int
) -> tuple[ReceiptStatus, bytes, Mapping[Hash, bytes]] | None:
    """Return the status, the payload and the new blobs of such an effect; None for any other.
    ``bytes_max`` bounds the payload."""
    if effect in (PUT, GET):
        word, payload, blobs = carry_out_blob(effect, params, read, bytes_max=bytes_max)
    elif effect == CRON:
        task_end = cron.carry_out(params)
        word, payload, blobs = task_end.status, task_end.payload, {}
    else:
        return None
    status = word_of(STATUSES, word)
    assert status is not None, "it is one of a receipt"
    return status, payload, blobs
