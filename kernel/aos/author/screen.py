"""The terminal of ``aos dev``: its options, its output, and the lines typed into it
(spec/authoring.md, AU-87).
"""

from __future__ import annotations

import enum
import os
import select
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from aos.author.build import Built
from aos.core.decide.answers import Blocker
from aos.errors import AosError, BadUsage
from aos.host.door.writer import Item
from aos.manifest.difference import Difference
from aos.read.trace.render import Branch
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

CHUNK_BYTES: Final = 64 * 1024
LINE_BYTES_MAX: Final = 16 * 1024 * 1024


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

    def note(self, text: str) -> None:
        """Print a note, such as those of the world's process."""

    def problem(self, problem: AosError) -> None:
        """Print a problem, after which ``aos dev`` continues."""

    def built(self, built: Built) -> None: ...

    def changed(self, difference: Difference) -> None: ...

    def blockers(self, blockers: Sequence[Blocker]) -> None: ...

    def trace(self, branches: tuple[Branch, ...]) -> None: ...


class Command(enum.Enum):
    """The commands that may be typed into ``aos dev``."""

    FRESH = "fresh"
    QUIT = "quit"
    HELP = "help"


def parse_line(line: str) -> Item | Command | None:
    """Read one typed line: ``SCHEMA JSON`` or a command (AU-87). Return None if it is empty.

    Raises:
        BadUsage: It is neither an event nor a command.
    """
    words = line.strip().split(maxsplit=1)
    if not words:
        return None
    if len(words) == 1:
        try:
            return Command(words[0])
        except ValueError:
            commands = ", ".join(command.value for command in Command)
            raise BadUsage(
                "a line",
                expected=f"SCHEMA JSON, such as shop/Placed@1 {{…}}, or {commands}",
                actual=repr(words[0][:80]),
            ) from None
    schema, text = words
    try:
        value = parse_json(text, max_bytes=LINE_BYTES_MAX)
    except ValueProblem as problem:
        raise BadUsage(f"{schema}: {problem}") from problem
    return Item(schema=schema, value=value)


class Typed:
    """Lines of a file descriptor as they arrive; none without a descriptor."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._partial_line = b""

    def lines(self, wait_s: float, over: threading.Event) -> Iterator[str]:
        """The lines that have arrived. Waits for them up to ``wait_s`` or until ``over`` is set."""
        if self._fd is None or not self._is_ours(self._fd):
            over.wait(wait_s)
            return
        ready, _, _ = select.select([self._fd], [], [], wait_s)
        if ready:
            yield from self._read(self._fd)

    def all(self) -> Iterator[str]:
        """All lines up to the end of the input."""
        while self._fd is not None:
            yield from self._read(self._fd)

    def _is_ours(self, fd: int) -> bool:
        """Whether it may be read: a terminal stops a background process that reads from it."""
        try:
            return not os.isatty(fd) or os.tcgetpgrp(fd) == os.getpgrp()
        except OSError:
            return False

    def _read(self, fd: int) -> Iterator[str]:
        data = os.read(fd, CHUNK_BYTES)
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        if not data:
            self._fd = None
            lines, self._partial_line = [self._partial_line] if self._partial_line else [], b""
        if len(self._partial_line) > LINE_BYTES_MAX:
            # It is too long; ``parse_line`` refuses it.
            lines, self._partial_line = [*lines, self._partial_line], b""
        for line in lines:
            yield line.decode(errors="replace")
