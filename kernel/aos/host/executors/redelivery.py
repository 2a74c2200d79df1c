"""Find the intents that a start publishes again, and those that must not run again (H-42, K-97)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.host.executors.attempts import Attempts
from aos.host.executors.task import AttemptJournal, Report

LOST_PROBLEM: Final = "the process that ran it ended before its receipt was durable"
SLICE: Final = 1000
"""Losses that are journaled before the loop does something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery:
    """An intent that the last process left open.

    ``attempt`` is the number under which it runs, or, where it ``is_lost``, ran. ``next_frame`` is
    the lowest number that a stream frame of it may have.
    """

    intent: OpenIntent
    attempt: int
    next_frame: int
    is_lost: bool


def left_open(state: State) -> Iterator[Redelivery]:
    """All that executors had to do, in the order of opening; not what the core itself ends next,
    and not what was opened in a world that this one was forked of."""
    owed = {each.intent for each in state.owed}
    for intent in state.intents.values():
        if intent.intent in owed or state.is_inherited(intent):
            continue
        last, stream = state.attempt(intent), state.streams.get(intent.intent)
        yield Redelivery(
            intent=intent,
            attempt=max(1, last),
            next_frame=0 if stream is None else stream.last + 1,
            is_lost=intent.effect.delivery == "at_most_once" and last > 0,
        )


@contextlib.asynccontextmanager
async def telling_losses(
    lost: Sequence[Redelivery], journal: AttemptJournal, report: Report
) -> AsyncIterator[None]:
    """Journal losses in the background. The next start journals those that remain at the end."""
    attempts = Attempts("node", journal, report)

    async def tell() -> None:
        for at in range(0, len(lost), SLICE):
            for each in lost[at : at + SLICE]:
                attempts.lose(each.intent, each.attempt, LOST_PROBLEM)
            await attempts.drain(None)

    telling = asyncio.get_running_loop().create_task(tell())
    try:
        yield
    finally:
        telling.cancel()
        await attempts.drain(0)
        await asyncio.gather(telling, return_exceptions=True)
