"""The document of ``aos clock``: how far the journal clock is ahead of the machine (A-61a)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from aos.core.journal.journal_clock import CLOCK_AHEAD_NS
from aos.core.journal.records import slot_bytes
from aos.core.state.cell import OpenIntent
from aos.manifest.names import TIMER
from aos.read.lens.lens import Lens
from aos.read.lens.words import span_text
from aos.read.views.diagnosis import INTENT_DIGITS
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.values.cbor import decode_record
from aos.values.digests import hash_text

TIMERS_MAX: Final = 1_000
MENDED_BY: Final = "aos clock --set"


def ahead_ns(clock_ns: int, now_ns: int) -> int:
    """Return how far a journal clock is ahead of a machine's; 0 if that is a minute or less."""
    lead_ns = clock_ns - now_ns
    return lead_ns if lead_ns > CLOCK_AHEAD_NS else 0


def ahead_text(found_ns: int) -> str:
    """Return what it means that the journal clock is so far ahead, and what to do."""
    return (
        f"the journal clock is {span_text(found_ns)} ahead of this machine's clock: sleeps and "
        f"times that workflows compute from it are that much too late (set it: {MENDED_BY})"
    )


def clock(view: View) -> Document:
    """Return ``{journal_ns, machine_ns, window_ns, ahead_ns, is_ahead, timers, timers_total}``.

    ``ahead_ns`` is negative if the journal clock is behind. ``timers`` are those that were set
    while the journal clock was ahead of the time that the machine has now, and that are due more
    than a minute from now, the earliest first: at most ``TIMERS_MAX`` rows ``{intent, workflow,
    key, opened_ns, due_ns, settle}``. ``settle`` is the command that ends one as due.
    """
    state, now_ns = view.state, view.now_ns
    late = sorted(_late_timers(view), key=itemgetter(0))
    rows = [_row(view.lens, *timer) for timer in late[:TIMERS_MAX]]
    return {
        "journal_ns": state.clock_ns,
        "machine_ns": now_ns,
        "window_ns": state.window_ns,
        "ahead_ns": state.clock_ns - now_ns,
        "is_ahead": ahead_ns(state.clock_ns, now_ns) > 0,
        "timers": rows,
        "timers_total": len(late),
    }


def _late_timers(view: View) -> Iterator[tuple[int, OpenIntent, str | None]]:
    """The timers of ``clock``: each with its due time before it, and its key."""
    least_ns = view.now_ns + CLOCK_AHEAD_NS
    for intent in view.state.intents.values():
        if intent.effect.name != TIMER or intent.opened_ns <= least_ns:
            continue
        match decode_record(slot_bytes(intent.params, view.journal.blob)):
            case {"deliver_at_ns": int(due_ns), "key": key} if due_ns > least_ns:
                yield due_ns, intent, key if isinstance(key, str) else None
            case _:
                pass


def _row(lens: Lens, due_ns: int, intent: OpenIntent, key: str | None) -> Document:
    # A workflow that compares the two must find that the timer was due.
    receipt = json.dumps({"delivered_at_ns": due_ns, "key": key})
    digits = intent.intent.hex()[:INTENT_DIGITS]
    return {
        "intent": hash_text(intent.intent),
        "workflow": intent.cell[0],
        "key": lens.key(intent.cell, seq=intent.seq),
        "opened_ns": intent.opened_ns,
        "due_ns": due_ns,
        "settle": f"aos effects settle {digits} --ok {shlex.quote(receipt)}",
    }
