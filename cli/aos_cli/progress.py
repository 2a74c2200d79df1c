"""How far something has come: a bar on a terminal, else a line now and then (spec/cli.md, C-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from aos_cli.output import errors_are_on_terminal, errors_screen, note

PLAIN_EVERY_S: Final = 2.0
"""How often a plain line tells the progress. What is over sooner tells none."""

Advance = Callable[[int, int], None]
"""(done, of how many; 0 when that is not known)."""


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """Tell how far ``what`` has come, for as long as the block takes."""
    with errors_screen().bar(what) if errors_are_on_terminal() else _lines(what) as advance:
        yield advance


@contextmanager
def _lines(what: str) -> Iterator[Advance]:
    last = monotonic()

    def advance(done: int, total: int) -> None:
        nonlocal last
        if monotonic() - last >= PLAIN_EVERY_S:
            last = monotonic()
            note(f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}")

    yield advance
