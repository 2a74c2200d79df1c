"""The journal of a test's world as readable lines (spec/testing.md, T-33)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aos.audit.lens.lens import Lens
from aos.audit.lens.words import count, short, span_text, time_text
from aos.audit.views.record_view import Document, document, summary
from aos.testing.desk import Desk

STATE_CHARACTERS: Final = 160
LAST: Final = 60


def trace(desk: Desk, last: int = LAST) -> str:
    """One line per record, with the clock where it moved and the new state after each step."""
    records = desk.records
    lens = Lens(desk.manifests, desk.read, for_people=True)
    lines = list(_lines(desk, [document(record, lens) for record in records[-last:]]))
    if len(records) > last:
        lines.insert(0, f"… {count(len(records) - last, 'record')} before")
    return "\n".join(lines)


def _lines(desk: Desk, documents: list[Document]) -> Iterator[str]:
    clock = None
    for record in documents:
        at = record.get("at_ns")
        if at is not None and at != clock:
            moved = "" if clock is None else f" (+{span_text(at - clock)})"
            yield f"      {time_text(at)}{moved}"
            clock = at
        yield f"{record['seq']:5} {record['kind']:8} {summary(record)}"
        if record["kind"] == "step":
            yield from _step(record)
        if record["kind"] == "fault" and record["seq"] in desk.notes:
            yield from (f"      │ {line}" for line in desk.notes[record["seq"]].splitlines()[:20])


def _step(record: Document) -> Iterator[str]:
    if record["state"] is not None:
        yield f"      │ state {short(record['state'], STATE_CHARACTERS)}"
    if record["annotations"] is not None:
        yield f"      │ annotation {short(record['annotations'], STATE_CHARACTERS)}"
    for event in record["events"]:
        yield f"      │ emits {event['schema']} {short(event['value'], STATE_CHARACTERS)}"
    for intent in record["intents"]:
        ref = f" ({intent['issuer_ref']})" if intent["issuer_ref"] else ""
        yield f"      │ asks {intent['effect']} {short(intent['params'], STATE_CHARACTERS)}{ref}"
