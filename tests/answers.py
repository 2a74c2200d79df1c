"""Answers as tests give and compare them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, assert_never

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.errors import AosError
from aos.host.executors.task import Lost, OnAnswer

SETTLED: Final = Admitted(seq=9, outcome="delivered")
ABANDONED: Final = Admitted(seq=9, outcome="abandoned")
TAKEN: Final = Admitted(seq=9)
"""An attempt, or a stream frame."""
DUPLICATE: Final = Duplicate(seq=9)
LATE: Final = Refusal(rule=Rule.RECEIPT_INTENT_IS_SETTLED, message="record 9 settled it")

QUOTING: Final = " ".join(rule.value for rule in Rule)
"""A message that names every rule, as a hostile or unlucky one may."""


def refused(rule: Rule = Rule.RECEIPT_EFFECT_DIFFERS, message: str = QUOTING) -> Refusal:
    return Refusal(rule=rule, message=message)


_WAITING: Final[set[asyncio.Future[None]]] = set()


def pass_on(answer: Awaitable[Answer | Lost], on_answer: OnAnswer) -> None:
    """Pass on an answer, or the error of a world that took nothing, as ``WorkJournal`` does."""

    async def wait() -> None:
        try:
            result: Answer | Lost | AosError = await answer
        except AosError as problem:
            result = problem
        on_answer(result)

    waiting = asyncio.ensure_future(wait())
    _WAITING.add(waiting)
    waiting.add_done_callback(_WAITING.discard)


def word(answer: Answer | Lost) -> str:
    """An answer in one word: its rule, where it is a refusal."""
    match answer:
        case Admitted(outcome=None):
            return "taken"
        case Admitted(outcome="abandoned"):
            return "abandoned"
        case Admitted():
            return "settled"
        case Duplicate():
            return "duplicate"
        case Refusal():
            return answer.rule.value
        case Lost():
            return answer.loss.value
        case _:
            assert_never(answer)
