"""The exceptions that AOS raises on purpose, and the exit code of each kind.

AosError
├── Refused        a rule declines a valid request; nothing has changed        exit 1
│   └── Pruned     the requested record is in an archive, not here             exit 1
├── BadUsage       the input is not understood: unknown name, malformed value  exit 2
├── Damage         stored bytes are inconsistent, or a replay differs          exit 3
│   └── Erased     the bytes of a value were erased, as a record says          exit 3
└── Unavailable    the world is busy, locked or unreachable; try again         exit 4

The text of an error states the problem, its place, the expected and found values, and the remedy:
the keywords of ``AosError``. Any other exception that escapes is our own bug (exit 70).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar

EXCERPT_CHARACTERS_MAX: Final = 200


class AosError(Exception):
    """Base of the tree. ``exit_code`` is the exit code of the command line."""

    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        *args: object,
        location: str | None = None,
        expected: str | None = None,
        actual: str | None = None,
        hint: str | None = None,
    ) -> None:
        """With a keyword, the text is the ``sentence`` of the first argument and the keywords."""
        if not (location is expected is actual is hint is None):
            parts = {"location": location, "expected": expected, "actual": actual, "hint": hint}
            args = (sentence(str(args[0]), **parts),)
        super().__init__(*args)


_Error = TypeVar("_Error", bound=AosError)


class Refused(AosError):
    """A rule declines the request. Nothing has changed."""

    exit_code = 1


class Pruned(Refused):
    """The requested record was pruned: the journal now begins at a later snapshot."""


class BadUsage(AosError):
    """The input is not understood: an unknown name, a malformed value. Nothing has changed."""

    exit_code = 2


class Damage(AosError):
    """Stored bytes are inconsistent, or replay computed a result that differs from the record."""

    exit_code = 3


class Erased(Damage):
    """The requested bytes were erased by a record of the journal, which itself stays complete.

    Code that needs the bytes treats this as damage; views print "erased" instead.
    """


class Unavailable(AosError):
    """The world is busy, held by another process, or out of disk space. A retry may succeed.

    ``is_unsent`` is whether the input surely was not admitted; if not, that is not known."""

    exit_code = 4
    is_unsent: bool = False


def located(problem: _Error, location: str) -> _Error:
    """Put the place of a problem in front of its text, and return the problem."""
    problem.args = (f"{location}: {problem}",)
    return problem


def excerpt(text: str, *, characters_max: int = EXCERPT_CHARACTERS_MAX) -> str:
    """The first ``characters_max`` characters of text from outside, for a message with it."""
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"


def either(words: Sequence[str]) -> str:
    """Join the words of a choice: ``a``, ``a or b``, ``a, b or c``."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def sentence(
    problem: str,
    *,
    location: str | None = None,
    expected: str | None = None,
    actual: str | None = None,
    hint: str | None = None,
) -> str:
    """Join the parts of an error into one line: ``where: what: expected X, found Y (hint)``."""
    text = f"{location}: {problem}" if location else problem
    if expected is not None and actual is not None:
        text += f": expected {expected}, found {actual}"
    elif expected is not None:
        text += f": expected {expected}"
    elif actual is not None:
        text += f": found {actual}"
    return f"{text} ({hint})" if hint else text
