"""The options of ``aos dev``, and the interface of its output."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aos.audit.trace.render import Branch
from aos.authoring.build import Built
from aos.core.decide.answers import Blocker
from aos.errors import AosError
from aos.manifest.difference import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options. Set ``over`` to end it; ``stdin`` is a file descriptor, or None for no typed
    lines."""

    fresh: bool = False
    until_idle: bool = False
    allow_http: tuple[str, ...] = ()
    secrets: Path | None = None
    host_root: Path | None = None
    stdin: int | None = None
    over: threading.Event = field(default_factory=threading.Event)


class Screen(Protocol):
    """The output of ``aos dev``, implemented by the command line."""

    def say(self, text: str) -> None:
        """Print what ``aos dev`` does now."""
        ...

    def note(self, text: str) -> None:
        """Print a note, such as those of the world's process."""
        ...

    def problem(self, problem: AosError) -> None:
        """Print a problem, after which ``aos dev`` continues."""
        ...

    def built(self, built: Built) -> None: ...

    def changed(self, difference: Difference) -> None: ...

    def blockers(self, blockers: Sequence[Blocker]) -> None: ...

    def trace(self, branches: tuple[Branch, ...]) -> None: ...
