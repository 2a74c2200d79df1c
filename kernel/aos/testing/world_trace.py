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
    lens = Lens(desk.manifests, desk.read, spelled=True)
    lines = list(_lines(desk, [document(each, lens) for each in records[-last:]]))
    if len(records) > last:
        lines.insert(0, f"… {count(len(records) - last, 'record')} before")
    return "\n".join(lines)


def _lines(desk: Desk, documents: list[Document]) -> Iterator[str]:
    clock = None
    for found in documents:
        at = found.get("at_ns")
        if at is not None and at != clock:
            moved = "" if clock is None else f" (+{span_text(at - clock)})"
            yield f"      {time_text(at)}{moved}"
            clock = at
        yield f"{found['seq']:5} {found['kind']:8} {summary(found)}"
        if found["kind"] == "step":
            yield from _step(found)
        if found["kind"] == "fault" and found["seq"] in desk.notes:
            yield from (f"      │ {line}" for line in desk.notes[found["seq"]].splitlines()[:20])


def _step(found: Document) -> Iterator[str]:
    if found["state"] is not None:
        yield f"      │ state {short(found['state'], STATE_CHARACTERS)}"
    if found["annotations"] is not None:
        yield f"      │ annotation {short(found['annotations'], STATE_CHARACTERS)}"
    for event in found["events"]:
        yield f"      │ emits {event['schema']} {short(event['value'], STATE_CHARACTERS)}"
    for asked in found["intents"]:
        ref = f" ({asked['issuer_ref']})" if asked["issuer_ref"] else ""
        yield f"      │ asks {asked['effect']} {short(asked['params'], STATE_CHARACTERS)}{ref}"
