"""Dropped stream frames are counted, and told once for each effect and reason (X-74)."""

from __future__ import annotations

import asyncio

from aos.core.decide.answers import Answer, Rule
from aos.host.executors.outbox import JournalOutbox
from aos.host.executors.task import Loss, Lost
from aos.worker.outcome import StreamFrame
from tests.answers import DUPLICATE, QUOTING, TAKEN, refused
from tests.worker.stage import Journal, intent_of


def frame(effect: str) -> StreamFrame:
    return StreamFrame(
        intent=intent_of(1), effect=effect, attempt=1, frame_seq=1, frame_kind="k", payload=b"\xf6"
    )


def told(*answers: Answer | Lost, effects: tuple[str, ...] = ("test/echo@1",)) -> tuple[int, int]:
    """How many frames were counted as dropped, and how many lines were printed."""
    journal = Journal()

    async def scene() -> int:
        outbox = JournalOutbox("x", journal, journal.report)
        for answer in answers:
            journal.frame_answer = answer
            for effect in effects:
                outbox.tell(frame(effect))
        await asyncio.sleep(0)
        return outbox.dropped

    return asyncio.run(scene()), len(journal.lines)


def test_a_frame_that_the_journal_took_is_not_dropped() -> None:
    assert told(TAKEN, DUPLICATE) == (0, 0)


def test_each_reason_is_told_once_for_each_effect_whatever_the_message_says() -> None:
    answers: list[Answer | Lost] = []
    for number in range(3):
        answers += [refused(rule, f"{number}: {QUOTING}") for rule in Rule]
        answers += [Lost(loss, f"{number}: {QUOTING}") for loss in Loss]
    reasons = len(Rule) + len(Loss)

    assert told(*answers) == (3 * reasons, reasons)
    assert told(*answers, effects=("test/echo@1", "test/other@1")) == (6 * reasons, 2 * reasons)
