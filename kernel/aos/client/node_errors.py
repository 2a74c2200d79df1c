"""The problem documents of a node as the errors of ``aos.errors`` (spec/node-api.md, N-120)."""

from __future__ import annotations

import json
from typing import Any, Final

from aos.core.decide.answers import Refusal, Rule
from aos.errors import AosError, BadUsage, Damage, Erased, Pruned, Refused, Unavailable
from aos.retry_after import retry_after_s

_RULES: Final = {rule.value: rule for rule in Rule}
_ERRORS: Final[dict[str, type[AosError]]] = {
    "record_was_pruned": Pruned,
    "value_was_erased": Erased,
    "world_is_damaged": Damage,
}


class NodeUnavailable(Unavailable):
    """The node did not answer, or cannot answer now. ``pause_s`` is how long it asks to wait."""

    def __init__(self, text: str, pause_s: float = 0.0) -> None:
        super().__init__(text)
        self.pause_s = pause_s


class NoSuchInstance(BadUsage):
    """The world has the workflow, but no instance with this key."""


def read_json(content: bytes) -> Any:
    """Return the JSON of a body; None if it has none, as the error page of a proxy."""
    try:
        return json.loads(content)
    except ValueError:
        return None


def refusal_of(problem: object, *, may_be_busy: bool = False) -> Refusal | None:
    """Return the refusal of a problem document; None if it is about something else, or if the world
    is only busy and not ``may_be_busy``."""
    if not isinstance(problem, dict):
        return None
    rule = _RULES.get(problem.get("rule", ""))
    if rule is None or (rule is Rule.WORLD_IS_BUSY and not may_be_busy):
        return None
    return Refusal(rule=rule, message=problem.get("detail", ""))


def error_of(status: int, problem: object, *, retry_after: str = "") -> AosError:
    """Return the error of an answer that is no success.

    Its text is the sentence that the node gives, which is that of the command line.
    """
    fields = problem if isinstance(problem, dict) else {}
    rule = str(fields.get("rule", ""))
    text = str(fields.get("detail") or f"the node answered {status} without a reason")
    if rule in _ERRORS:
        return _ERRORS[rule](text)
    if rule == Rule.CELL_IS_UNKNOWN.value:
        return NoSuchInstance(text)
    match status:
        case 403 if rule == "command_is_not_signed":
            return Refused(text)
        case 401 | 403:
            return Refused(f"{text} (set AOS_TOKEN to a token that allows this: aos token create)")
        case 409 | 410:
            return Refused(text)
        case 408 | 429:
            return NodeUnavailable(text, retry_after_s(retry_after))
        case _ if status >= 500:
            return NodeUnavailable(text, retry_after_s(retry_after))
    return BadUsage(text)
