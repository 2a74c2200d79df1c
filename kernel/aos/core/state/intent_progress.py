"""The open intents of a world with the progress of each, for a host (H-42, K-95)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from aos.core.state.cell import Halt, OpenIntent
from aos.core.state.state import State, first_attempt
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentProgress:
    """An intent that takes a receipt, and how far executors are with it.

    ``attempt`` is the last one that began; 0 if its first must still be journaled. ``halt`` is why
    that attempt does not run, if so, and ``halted`` the last attempt that was ever held or parked,
    0 for none. The next stream frame has a number from ``next_frame`` on.

    If it ``is_owed``, the core itself is about to end it. If it ``is_inherited``, it was opened in
    a world from which this one was forked, and executors do not run it here (K-113). If it
    ``is_abandoned``, no cell waits for its receipt: it is not open.
    """

    intent: OpenIntent
    attempt: int
    halt: Halt | None
    halted: int
    next_frame: int
    is_owed: bool
    is_inherited: bool
    is_abandoned: bool


class OpenTimer(NamedTuple):
    """An open timer. ``place`` is its key in the order of SN-16: the time at which it is due, in 8
    bytes, and the start of its intent's hash."""

    place: Hash
    progress: IntentProgress


def open_intents(state: State, *, but: str | None = None) -> Iterator[IntentProgress]:
    """Yield all open intents in the order of opening, ``but`` those of one effect. Nothing may
    change ``state`` meanwhile."""
    owed = {owed_receipt.intent for owed_receipt in state.owed}
    for intent, last_attempt in state.intents.in_order(but=but):
        is_owed = intent.intent in owed
        yield _work(state, intent, last_attempt, is_owed=is_owed, is_abandoned=False)


def open_timers(state: State, after: Hash | None, count: int) -> tuple[OpenTimer, ...]:
    """Return ``count`` open timers whose places are greater than ``after``, by place."""
    owed = {owed_receipt.intent for owed_receipt in state.owed}
    rows = islice(state.intents.timers_after(after), count)
    return tuple(
        OpenTimer(
            place, _work(state, timer, last, is_owed=timer.intent in owed, is_abandoned=False)
        )
        for place, timer, last in rows
    )


def progress_of(state: State, hash: Hash) -> IntentProgress | None:
    """Return an intent that is open or abandoned; None if there is no such one."""
    intent = state.intents.get(hash)
    if intent is not None:
        is_owed = any(owed_receipt.intent == hash for owed_receipt in state.owed)
        last_attempt = state.attempts.get(hash)
        return _work(state, intent, last_attempt, is_owed=is_owed, is_abandoned=False)
    abandoned = state.abandoned.get(hash)
    if abandoned is None:
        return None
    last_attempt = state.attempts.get(hash)
    return _work(state, abandoned, last_attempt, is_owed=False, is_abandoned=True)


def _work(
    state: State,
    intent: OpenIntent,
    last_attempt: int | None,
    *,
    is_owed: bool,
    is_abandoned: bool,
) -> IntentProgress:
    stream, halt = state.streams.get(intent.intent), state.halts.get(intent.intent)
    attempt = last_attempt or first_attempt(intent)
    return IntentProgress(
        intent=intent,
        attempt=attempt,
        halt=halt if halt is not None and halt.attempt >= attempt else None,
        halted=0 if halt is None else halt.attempt,
        next_frame=0 if stream is None else stream.last + 1,
        is_owed=is_owed,
        is_inherited=state.is_inherited(intent),
        is_abandoned=is_abandoned,
    )
