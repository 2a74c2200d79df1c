"""Find the intents that a start publishes again, and those that must not run again (H-42, K-97)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from aos.core.state.cell import OpenIntent
from aos.core.state.intent_progress import IntentProgress
from aos.host.executors.outbox import JournalOutbox
from aos.host.executors.task import Halted, Report, WorkJournal
from aos.values.digests import Hash

LEASED: Final = (
    "a worker had it when the last process ended, and a process of this world runs it now"
)
LOST_PROBLEM: Final = "the process that ran it ended before its receipt was durable"
SLICE: Final = 1000
"""Losses that are journaled before the loop does something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery:
    """An intent that the last process left open.

    ``attempt`` is the number under which it runs, or, where it ``is_lost`` or ``is_over``, ran.
    It ``is_over`` if it may run only once and was parked: then it stays open and never runs again
    (K-97). ``spent`` attempts do not count against its policy, and ``halted`` is why it did not run
    (X-16). ``left_by`` is why an attempt in another process does not count any more (X-16b).
    ``next_frame`` is the lowest number that a stream frame of it may have.
    """

    intent: OpenIntent
    attempt: int
    next_frame: int
    is_lost: bool
    is_over: bool
    spent: int
    halted: Halted | None
    left_by: str | None = None


NO_LEASES: Final[Mapping[Hash, int]] = MappingProxyType({})


def left_open(
    open_work: Iterable[IntentProgress], leases: Mapping[Hash, int] = NO_LEASES
) -> Iterator[Redelivery]:
    """All that executors had to do of ``open_work``, in its order; not what the core itself ends
    next, and not what was opened in a world that this one was forked of.

    ``leases`` are the attempts that workers elsewhere may still run, by intent.
    """
    for work in open_work:
        if work.is_owed or work.is_inherited:
            continue
        intent, last, halt, spent = work.intent, work.attempt, work.halt, work.halted
        is_once = intent.effect.delivery == "at_most_once"
        is_over = is_once and halt is not None and halt.phase == "parked"
        halted = None
        if halt is not None:
            halted = Halted(halt.phase, halt.code, halt.problem or "")
        attempt = max(1, last) if halt is None or is_over else last + 1
        leased = 0 if is_once else leases.get(intent.intent, 0)
        left_by = None
        if leased >= attempt:
            attempt, spent, left_by = leased + 1, leased, LEASED
        yield Redelivery(
            intent=intent,
            attempt=attempt,
            next_frame=work.next_frame,
            is_lost=is_once and last > 0 and halt is None,
            is_over=is_over,
            spent=spent,
            halted=halted,
            left_by=left_by,
        )


@contextlib.asynccontextmanager
async def telling_losses(
    lost: Sequence[Redelivery], journal: WorkJournal, report: Report
) -> AsyncIterator[None]:
    """Journal losses in the background. The next start journals those that remain at the end."""
    outbox = JournalOutbox("node", journal, report)

    async def tell() -> None:
        for at in range(0, len(lost), SLICE):
            for redelivery in lost[at : at + SLICE]:
                outbox.lose(redelivery.intent, redelivery.attempt, LOST_PROBLEM)
            await outbox.all_answered()

    telling = asyncio.get_running_loop().create_task(tell())
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        await outbox.drain(0)
