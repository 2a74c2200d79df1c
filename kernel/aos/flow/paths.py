"""The path of an operation: the names from the root of a flow to it (spec/flow.md, FL-11, FL-13).

    process-items/~10/fetch      step ``fetch`` in iteration 10 of the loop ``process-items``

In a name, ``%`` is written ``%25``, ``/`` ``%2F``, and a leading ``~`` ``%7E``, so that no name of
an author is mistaken for an iteration or for two names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Self

UNDO: Final = "~undo"
"""The last part of the path of a compensation."""

PREFIX: Final = "flow:"
"""How the issuer reference of every effect of a flow begins."""

ROLES: Final = ("sleep", "retry", "timeout", "listen", "continue", "cancel")

_REF: Final = re.compile(
    rf"{PREFIX}(?P<path>.*)#(?P<attempt>[0-9]{{1,19}})(?::(?P<role>{'|'.join(ROLES)}))?", re.DOTALL
)


def escaped(name: str) -> str:
    """Write an author's name as one part of a path."""
    text = name.replace("%", "%25").replace("/", "%2F")
    return f"%7E{text[1:]}" if text.startswith("~") else text


def joined(parent: str, part: str) -> str:
    """Return the path of a part (an escaped name, ``~N`` or ``~undo``) under ``parent``; the root
    has the empty path."""
    return f"{parent}/{part}" if parent else part


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerRef:
    """The issuer reference of an effect: which attempt of which operation requested it.

    ``role`` is that of a timer, one of ``ROLES``; None for the effect of a step or compensation.
    """

    path: str
    attempt: int
    role: str | None

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Read an issuer reference; None for one that no flow wrote."""
        match = None if text is None else _REF.fullmatch(text)
        if match is None:
            return None
        return cls(path=match["path"], attempt=int(match["attempt"]), role=match["role"])

    def to_document(self) -> dict[str, Any]:
        """The same as JSON: ``{path, attempt, role}``."""
        return {"path": self.path, "attempt": self.attempt, "role": self.role}
