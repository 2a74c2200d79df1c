"""How ``aos dev`` was asked for, and where it tells what happens."""

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
    """``over`` is set when it is to end; ``stdin`` is a file descriptor, or None for no lines."""

    fresh: bool = False
    until_idle: bool = False
    allow_http: tuple[str, ...] = ()
    secrets: Path | None = None
    stdin: int | None = None
    over: threading.Event = field(default_factory=threading.Event)


class Screen(Protocol):
    """The command line has the real one."""

    def say(self, text: str) -> None:
        """What it does now."""
        ...

    def note(self, text: str) -> None:
        """Something on the side, as the world's process says it."""
        ...

    def problem(self, problem: AosError) -> None:
        """Something did not go; the old version goes on."""
        ...

    def built(self, built: Built) -> None: ...

    def changed(self, difference: Difference) -> None: ...

    def blockers(self, blockers: Sequence[Blocker]) -> None: ...

    def trace(self, branches: tuple[Branch, ...]) -> None: ...
