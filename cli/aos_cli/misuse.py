"""Words that the parser of the command line refuses, in the words of our other errors (C-2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from typer.exceptions import TyperException

from aos.errors import either


def parser_message(error: TyperException) -> str:
    """The parser's message as one clause, without a full stop."""
    text = error.format_message().strip().rstrip(".").replace("Value error, ", "")
    for pattern, write in _FORMS:
        match = pattern.fullmatch(text)
        if match is not None:
            return write(match) + _values_of(error, text)
    return text[:1].lower() + text[1:]


def _values_of(error: TyperException, text: str) -> str:
    """The values of a missing option that has a fixed choice."""
    metavar = getattr(getattr(error, "param", None), "metavar", None) or ""
    if not text.startswith("Missing option") or "|" not in metavar:
        return ""
    return f": {either(metavar.split('|'))}"


def _choices(text: str) -> str:
    return either(text.replace("'", "").split(", "))


def _near(match: re.Match[str]) -> str:
    names = [name for name in (match["near"] or "").split(", ") if name not in ("", "--help")]
    hint = f"; did you mean {' or '.join(names)}?" if names else ""
    return f"there is no option {match['name']}{hint}"


_Form = Callable[[re.Match[str]], str]

_PATTERNS: Final[tuple[tuple[str, Any], ...]] = (
    (r"No such option: (?P<name>\S+)(?: \(Possible options?: (?P<near>.+)\))?", _near),
    (
        r"No such command '(?P<name>.+?)'(?:\. Did you mean (?P<near>.+)\?)?",
        lambda match: (
            f"there is no command {match['name']!r}"
            + (f"; did you mean {_choices(match['near'])}?" if match["near"] else "")
        ),
    ),
    (r"Missing argument '(.+)'", lambda match: f"expected {match[1]}"),
    (r"Missing option '(.+)'", lambda match: f"{match[1]} is required"),
    (r"Missing command", lambda _: "expected a command"),
    (r"Option '(.+)' requires an argument", lambda match: f"{match[1]} needs a value"),
    (r"Option '(.+)' does not take a value", lambda match: f"{match[1]} takes no value"),
    (
        r"Got unexpected extra arguments?(?:\(s\))? \((.+)\)",
        lambda match: f"too many words: {match[1]}",
    ),
    (
        r"Invalid value for '(.+?)': (.+) is not one of (.+)",
        lambda match: f"{match[1]}: expected {_choices(match[3])}, found {match[2]}",
    ),
    (r"Invalid value for '(.+?)': (.+)", lambda match: f"{match[1]}: {match[2]}"),
)
_FORMS: Final[tuple[tuple[re.Pattern[str], _Form], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), write) for pattern, write in _PATTERNS
)
