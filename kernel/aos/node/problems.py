"""A request that the node does not carry out, as a problem document of RFC 9457
(spec/node-api.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aos.errors import AosError
from aos.shell_text import shell_word

TYPE_PREFIX: Final = "urn:aos:"


class Problem(Exception):
    """Why a request, or one item of a batch, has no other answer.

    Args:
        status: The HTTP status of the answer.
        rule: The broken rule in snake_case, for programs. A rule of the core keeps its name.
        detail: The sentence of the command line: expected, found, where, what to do.
        pointer: JSON pointer of the value in the body that the problem is about, if there is one.
        retry_after_s: Seconds after which the same request may succeed (429, 503).
        blockers: Why a manifest cannot be applied now, one object for each reason.
        headers: Further headers of the answer.
    """

    def __init__(
        self,
        status: int,
        rule: str,
        detail: str,
        *,
        pointer: str | None = None,
        retry_after_s: int | None = None,
        blockers: Sequence[Mapping[str, object]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.rule = rule
        self.detail = detail
        self.pointer = pointer
        self.retry_after_s = retry_after_s
        self.blockers = blockers
        self.headers = dict(headers or {})

    def document(self) -> dict[str, object]:
        """The body of the answer."""
        fields: dict[str, object] = {
            "type": TYPE_PREFIX + self.rule,
            "status": self.status,
            "detail": self.detail,
            "rule": self.rule,
        }
        if self.pointer is not None:
            fields["pointer"] = self.pointer
        if self.blockers is not None:
            fields["blockers"] = list(self.blockers)
        return fields


def text_for_clients(error: AosError, world: Path) -> str:
    """The text of an error, with DIR for the path of the world's folder: clients do not learn where
    it is on the machine of the node (N-120)."""
    path = str(world)
    in_command = shell_word(path).removeprefix("$").strip("'")
    names = "|".join(map(re.escape, dict.fromkeys((path, in_command))))
    return re.sub(rf"(?<![^\s('])(?:{names})(?![^\s/:),'])", "DIR", str(error))
