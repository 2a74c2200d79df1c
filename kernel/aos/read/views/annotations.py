"""Answers of cells to events: the annotations of their steps."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Step, slot_bytes
from aos.read.lens.ports import Journal
from aos.values.cbor import decode_record

SCANNED_MAX: Final = 4_096
"""Records that are read after an event for the step that answers it."""


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
