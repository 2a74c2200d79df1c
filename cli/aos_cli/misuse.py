"""Words that the parser of the command line refuses, in the words of our other errors (C-2)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from typer.exceptions import TyperException

from aos.errors import either


def said(error: TyperException) -> str:
    """The parser's message as one clause, without a full stop."""
    text = error.format_message().strip().rstrip(".").replace("Value error, ", "")
    for pattern, write in _FORMS:
        found = pattern.fullmatch(text)
        if found is not None:
            return write(found) + _values_of(error, text)
    return text[:1].lower() + text[1:]


def _values_of(error: TyperException, text: str) -> str:
    """The values of a missing option that has a fixed choice."""
    metavar = getattr(getattr(error, "param", None), "metavar", None) or ""
    if not text.startswith("Missing option") or "|" not in metavar:
        return ""
    return f": {either(metavar.split('|'))}"


def _choices(text: str) -> str:
    return either(text.replace("'", "").split(", "))


def _near(found: re.Match[str]) -> str:
    names = [each for each in (found["near"] or "").split(", ") if each not in ("", "--help")]
    more = f"; did you mean {' or '.join(names)}?" if names else ""
    return f"there is no option {found['name']}{more}"


_Form = Callable[[re.Match[str]], str]

_PATTERNS: Final[tuple[tuple[str, Any], ...]] = (
    (r"No such option: (?P<name>\S+)(?: \(Possible options?: (?P<near>.+)\))?", _near),
    (
        r"No such command '(?P<name>.+?)'(?:\. Did you mean (?P<near>.+)\?)?",
        lambda found: (
            f"there is no command {found['name']!r}"
            + (f"; did you mean {_choices(found['near'])}?" if found["near"] else "")
        ),
    ),
    (r"Missing argument '(.+)'", lambda found: f"expected {found[1]}"),
    (r"Missing option '(.+)'", lambda found: f"{found[1]} is required"),
    (r"Missing command", lambda _: "expected a command"),
    (r"Option '(.+)' requires an argument", lambda found: f"{found[1]} needs a value"),
    (r"Option '(.+)' does not take a value", lambda found: f"{found[1]} takes no value"),
    (
        r"Got unexpected extra arguments?(?:\(s\))? \((.+)\)",
        lambda found: f"too many words: {found[1]}",
    ),
    (
        r"Invalid value for '(.+?)': (.+) is not one of (.+)",
        lambda found: f"{found[1]}: expected {_choices(found[3])}, found {found[2]}",
    ),
    (r"Invalid value for '(.+?)': (.+)", lambda found: f"{found[1]}: {found[2]}"),
)
_FORMS: Final[tuple[tuple[re.Pattern[str], _Form], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), write) for pattern, write in _PATTERNS
)
