"""How many records each minute of the last hour has (spec/page.md, PG-104)."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from aos.audit.lens.ports import first_kept
from aos.audit.views.record_view import Document
from aos.audit.views.view import View
from aos.core.journal.journal_clock import clock_after
from aos.core.journal.record_codec import from_bytes

MINUTES: Final = 60
MINUTE_NS: Final = 60 * 10**9


def minutes(view: View) -> Document:
    """Return ``{minutes: [{at_ns, records, by_kind}]}`` of the last hour of the journal's clock; a
    minute without a record is left out. Without an index, the whole journal is read."""
    last = view.state.clock_ns // MINUTE_NS
    first = last - MINUTES + 1
    counts_by_minute = _read(view) if view.index is None else view.index.minutes(MINUTES, last)
    return {
        "minutes": [
            {
                "at_ns": minute * MINUTE_NS,
                "records": sum(counts.values()),
                "by_kind": dict(sorted(counts.items())),
            }
            for minute, counts in sorted(counts_by_minute.items())
            if first <= minute <= last
        ]
    }


def _read(view: View) -> dict[int, Counter[str]]:
    """A record counts in the minute of the journal clock after it (IX-25)."""
    counts_by_minute: dict[int, Counter[str]] = defaultdict(Counter)
    clock_ns = 0
    for frame in view.journal.frames(first_kept(view.journal), view.state.next_seq - 1):
        for data in frame.records:
            record = from_bytes(data)
            clock_ns = clock_after(clock_ns, record)
            counts_by_minute[clock_ns // MINUTE_NS][record.KIND] += 1
    return counts_by_minute
