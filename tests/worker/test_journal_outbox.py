"""An outcome is kept until the journal has it (X-5)."""

from __future__ import annotations

import asyncio

import pytest

from aos.core.decide.answers import Answer, Rule
from aos.errors import Damage, Unavailable
from aos.host.executors import outbox
from aos.host.executors.outbox import JournalOutbox
from aos.host.executors.task import Halted
from aos.values.digests import hash_text
from aos.worker.outcome import Outcome
from tests.answers import ABANDONED, DUPLICATE, LATE, QUOTING, SETTLED, TAKEN, refused
from tests.worker.stage import Attempt, Journal, intent_of, task


def outcome(number: int) -> Outcome:
    return Outcome(
        intent=intent_of(number),
        effect="test/echo@1",
        attempt=1,
        status="ok",
        payload=b"\xf6",
        started_ns=1,
        finished_ns=2,
    )


@pytest.fixture(autouse=True)
def quick_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "RETRY_S", 0.001)


def settled(
    *answers: Answer | Exception, count: int = 1
) -> tuple[list[Answer | None], list[str], int]:
    """Settle ``count`` outcomes; return their ends, the printed lines, and how many are done."""
    waiting = list(answers)

    async def answer(_: Outcome) -> Answer:
        answer = waiting.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def scene() -> tuple[list[Answer | None], list[str], int]:
        lines: list[str] = []
        ends: list[Answer | None] = []
        box = JournalOutbox("x", Journal(answer), lines.append)
        for number in range(count):
            box.settle(outcome(number), lambda _, answer: ends.append(answer))
        await box.drain(60)
        assert len(box) == 0
        return ends, lines, box.settled

    return asyncio.run(scene())


def test_while_the_world_is_unavailable_the_outcome_waits_and_that_is_told_once() -> None:
    ends, lines, done = settled(
        Unavailable("no room"), Unavailable("no room"), Unavailable("no room"), SETTLED
    )

    assert (ends, done) == ([SETTLED], 1)
    assert len(lines) == 1
    assert lines[0].endswith("its receipt waits: no room")


def test_another_error_leaves_the_intent_open_and_is_told_once() -> None:
    ends, lines, done = settled(Damage("stopped"), Damage("stopped"), count=2)

    assert (ends, done) == ([None, None], 0)
    assert len(lines) == 1
    assert "its receipt was not taken: Damage('stopped') (it stays open)" in lines[0]


def test_a_duplicate_is_settled_and_a_refusal_is_not() -> None:
    answers = (DUPLICATE, refused())
    assert settled(*answers, count=2) == ([*answers], [], 1)


def test_only_what_the_journal_has_counts_as_done() -> None:
    answers = (SETTLED, ABANDONED, DUPLICATE, LATE, refused())
    assert settled(*answers, count=5) == (list(answers), [], 3)


def test_one_that_came_late_is_told_calmly_and_a_refusal_with_its_reason() -> None:
    lines: list[str] = []

    async def scene() -> None:
        box = JournalOutbox("x", Journal(), lines.append)
        for answer in (SETTLED, ABANDONED, DUPLICATE, LATE, refused(message="why")):
            box.tell_answer(outcome(1), answer)

    asyncio.run(scene())
    named = f"executor x: test/echo@1 {hash_text(intent_of(1))}: its receipt"
    assert lines == [
        f"{named} came late: the intent was settled without it",
        f"{named} was refused: receipt_effect_differs: why (the intent stays open)",
    ]


def test_a_refusal_is_told_as_one_whatever_its_message_quotes() -> None:
    lines: list[str] = []

    async def scene() -> None:
        box = JournalOutbox("x", Journal(), lines.append)
        for rule in Rule:
            box.tell_answer(outcome(1), refused(rule, f"late: settled: {QUOTING}"))

    asyncio.run(scene())
    late = [line for line in lines if line.endswith("came late: the intent was settled without it")]
    assert len(lines) == len(Rule)
    assert lines.index(late[0]) == [*Rule].index(Rule.RECEIPT_INTENT_IS_SETTLED)
    assert len(late) == 1


def test_an_outcome_that_takes_too_long_is_given_up() -> None:
    async def settle(_: Outcome) -> Answer:
        await asyncio.sleep(600)
        return SETTLED

    async def scene() -> int:
        box = JournalOutbox("x", Journal(settle), lambda _: None)
        box.settle(outcome(1), lambda _, __: None)
        await box.drain(0.01)
        return len(box)

    assert asyncio.run(scene()) == 0


def test_no_attempt_begins_once_the_outbox_is_drained_and_a_halt_is_still_awaited() -> None:
    """X-12: its attempt may be in the journal, but it has not begun."""
    passed: list[bool] = []
    halts: list[str] = []

    async def attempt(_: Attempt) -> Answer:
        await asyncio.sleep(0.01)
        return TAKEN

    async def scene() -> int:
        box = JournalOutbox("x", Journal(attempt=attempt), lambda _: None)
        box.begin(task(1), 1, None, passed.append)
        box.halt(task(2), 1, Halted("held", "c", "p"), lambda: halts.append("journaled"))
        await box.drain(60)
        await asyncio.sleep(0.05)
        return len(box)

    assert asyncio.run(scene()) == 0
    assert (passed, halts) == ([], ["journaled"])


def test_outcomes_that_wait_are_submitted_again_together() -> None:
    """X-5: by one timer, however many there are."""
    tries: list[int] = []
    ends: list[Answer | None] = []

    async def answer(outcome: Outcome) -> Answer:
        tries.append(outcome.attempt)
        if len(tries) <= 3:
            raise Unavailable("no room")
        return SETTLED

    async def scene() -> None:
        box = JournalOutbox("x", Journal(answer), lambda _: None)
        for number in range(3):
            box.settle(outcome(number), lambda _, answer: ends.append(answer))
        await box.drain(60)

    asyncio.run(scene())
    assert ends == [SETTLED] * 3
    assert len(tries) == 6
