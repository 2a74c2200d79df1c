"""How far something has come: a bar on a terminal, else a line now and then (spec/cli.md, C-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from aos_cli.output import errors, note

PLAIN_EVERY_S: Final = 2.0
"""How often a plain line tells the progress. What is over sooner tells none."""

SHOWN_AFTER_S: Final = 0.3
"""A bar for what is over at once would only flicker."""

Advance = Callable[[int, int], None]
"""(done, of how many; 0 when that is not known)."""


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """Tell how far ``what`` has come, for as long as the block takes."""
    with _bar(what) if errors().is_terminal else _lines(what) as advance:
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


@contextmanager
def _bar(what: str) -> Iterator[Advance]:
    began = monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors(),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = bar.add_task(what, total=None)

    def advance(done: int, total: int) -> None:
        if not bar.live.is_started and monotonic() - began > SHOWN_AFTER_S:
            bar.start()
        bar.update(task, completed=done, total=total or None)

    try:
        yield advance
    finally:
        bar.stop()
