"""Every exception that AOS raises on purpose, and the exit code that each kind means.

AosError
├── Refused        understood and declined by a rule; nothing has changed      exit 1
│   └── Pruned     the record that is asked for is in an archive, not here     exit 1
├── BadUsage       the caller's words cannot be understood                     exit 2
├── Damage         stored bytes disagree with themselves, or a replay differs  exit 3
│   └── Erased     the bytes of a value were erased, as a record says          exit 3
└── Unavailable    the world is busy, locked or unreachable; try again         exit 4

An error is one sentence of what, where, expected, found and what to do, made by ``sentence``.
Anything else that escapes is our own bug (exit 70).
"""

from __future__ import annotations

from typing import ClassVar, Final

EXCERPT_CHARACTERS_MAX: Final = 200


class AosError(Exception):
    """Base of the tree. ``exit_code`` is what the command line ends with."""

    exit_code: ClassVar[int] = 70


class Refused(AosError):
    """A rule said no. Nothing has changed."""

    exit_code = 1


class Pruned(Refused):
    """The record that is asked for was pruned: the world goes on from a later snapshot."""


class BadUsage(AosError):
    """The caller's words cannot be understood: an unknown name, a malformed value. No change."""

    exit_code = 2


class Damage(AosError):
    """Stored bytes disagree with themselves, or replay computed other than what was recorded."""

    exit_code = 3


class Erased(Damage):
    """The bytes that are asked for were erased by a record of the journal, which stays whole.

    Damage to whoever cannot go on without them; who only shows them says so instead.
    """


class Unavailable(AosError):
    """The world is busy, held by another process, or out of room; the same may pass later."""

    exit_code = 4


def excerpt(text: str, *, most: int = EXCERPT_CHARACTERS_MAX) -> str:
    """The first ``most`` characters of text from outside, for a message that quotes it."""
    return text if len(text) <= most else f"{text[:most]}…"


def sentence(
    what: str,
    *,
    where: str | None = None,
    expected: str | None = None,
    found: str | None = None,
    hint: str | None = None,
) -> str:
    """Join the parts of an error into one line: ``where: what: expected X, found Y (hint)``."""
    text = f"{where}: {what}" if where else what
    if expected is not None and found is not None:
        text += f": expected {expected}, found {found}"
    elif expected is not None:
        text += f": expected {expected}"
    elif found is not None:
        text += f": found {found}"
    return f"{text} ({hint})" if hint else text
