"""Find the record of an operator's command by its signature (spec/cluster.md, CL-127)."""

from __future__ import annotations

from typing import Final

from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control, Governance, Manifest
from aos.core.journal.signing import SIGNATURE_BYTES
from aos.errors import BadUsage
from aos.store.store import Store

RECORDS_MAX: Final = 1_000_000
"""How many of the last records are searched: more than a world journals while a client asks
again."""

_STEP: Final = 1000


def find_command(store: Store, signature: bytes) -> Admitted | None:
    """Return the answer to the command that has this signature, if it is one of the last
    ``RECORDS_MAX`` records; None if it is not. Any thread may call this.

    Raises:
        BadUsage: It is no signature.
        Damage: A record cannot be read.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise BadUsage(f"signature: expected {SIGNATURE_BYTES} bytes, found {len(signature)}")
    head, cut = store.head(), store.cut()
    end = 0 if head is None else head.seq
    first = max(1 if cut is None else cut.seq + 1, end - RECORDS_MAX + 1)
    while end >= first:
        start = max(first, end - _STEP + 1)
        for frame in store.frames(start, end):
            for data in frame.records:
                if signature in data:
                    answer = _answer(data, signature)
                    if answer is not None:
                        return answer
        end = start - 1
    return None


def _answer(data: bytes, signature: bytes) -> Admitted | None:
    match from_bytes(data):
        case Control(seq=seq, dropped=dropped, abandoned=abandoned) as record if (
            record.signature == signature
        ):
            return Admitted(seq=seq, dropped=dropped or 0, abandoned=len(abandoned))
        case Manifest() | Governance() as record if record.signature == signature:
            return Admitted(seq=record.seq)
    return None
