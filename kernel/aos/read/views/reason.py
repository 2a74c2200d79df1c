"""One fact about a cell that does not advance, and what to do about it (spec/audit.md, A-50)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from aos.read.lens.words import key_text
from aos.shell_text import has_hidden, shell_text

TIMER_WORD: Final = "timer"
EVENT: Final = "event"
MAIL: Final = "mail"
WAITS: Final = (TIMER_WORD, EVENT, MAIL)
"""The words for what a cell waits for, other than the names of effects: a timer, an event from
outside, or a process that runs its mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One fact about a cell: what it waits for, or why it ended.

    ``kind`` is one of ``absent``, ``fault``, ``declared``, ``ready``, ``timer``, ``effect``,
    ``held``, ``parked``, ``core``, ``message``, ``child``, ``stuck``, ``idle``; ``is_stuck`` says
    that the cell does not continue without help; ``next`` is what to do.
    """

    kind: str
    text: str
    is_stuck: bool
    next: str | None = None

    def to_document(self) -> dict[str, object]:
        return asdict(self)


def command_words(workflow: str, key: object) -> str:
    """Return ``WORKFLOW KEY`` as a user types it, so that a shell and ``find_cell`` read this cell
    from it."""
    words = [workflow] if key is None else [workflow, _key_word(key)]
    return shell_text(words)


def _key_word(key: object) -> str:
    """Return a key as plain text, where that is neither an option nor the JSON of another key, nor
    has characters that no one can type. Else return it as JSON, of which spaces are no part."""
    word = key_text(key)
    if isinstance(key, str) and (word.startswith("-") or word.lstrip().startswith('"')):
        return json.dumps(key)
    if has_hidden(word):
        return json.dumps(key)
    return f" {word}" if word.startswith("-") else word


def at_path(issuer_ref: str | None) -> str:
    """Return `` at PATH`` for an effect that an operation of a flow requested, else nothing."""
    if issuer_ref is None:
        return ""
    # A small command need not import this.
    from aos.flow.operation import IssuerRef  # noqa: PLC0415

    ref = IssuerRef.read(issuer_ref)
    return "" if ref is None else f" at {ref.path}"
