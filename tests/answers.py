"""Answers as tests give and compare them."""

from __future__ import annotations

from typing import Final, assert_never

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.host.executors.task import Lost

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
