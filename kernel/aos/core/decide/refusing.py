"""Make the refusal of an input."""

from __future__ import annotations

from aos.core.decide.answers import Refusal, Rule
from aos.core.journal.faults import clipped


def refusal(rule: Rule, message: str) -> Refusal:
    """A refusal whose message fits an answer."""
    return Refusal(rule=rule, message=clipped(message))
