"""Show progress: a bar on a terminal, elsewhere a line every 2 s (spec/cli.md, C-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from aos_cli.output import errors_are_on_terminal, errors_screen, note

PLAIN_EVERY_S: Final = 2.0
"""Interval of plain progress lines, in seconds. Shorter work prints none."""

Advance = Callable[[int, int], None]
"""Called with the number done and the total, which is 0 if unknown."""


@contextmanager
def progress(label: str) -> Iterator[Advance]:
    """Show the progress of ``label`` while the block runs."""
    with errors_screen().bar(label) if errors_are_on_terminal() else _lines(label) as advance:
        yield advance


@contextmanager
def _lines(label: str) -> Iterator[Advance]:
    last = monotonic()

    def advance(completed: int, total: int) -> None:
        nonlocal last
        if monotonic() - last >= PLAIN_EVERY_S:
            last = monotonic()
            note(f"{label}: {completed:,} of {total:,}" if total else f"{label}: {completed:,}")

    yield advance
