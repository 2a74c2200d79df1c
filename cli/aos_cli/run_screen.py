"""The status of a world that this process runs, on a terminal or as plain lines (C-25, C-25a)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final, Protocol

from aos.audit.lens.words import count
from aos.host.process import STATUS_S, Status
from aos_cli.output import errors_are_on_terminal, errors_screen, note

PLAIN_EVERY_S: Final = 10.0
"""Interval of plain status lines without a terminal, in seconds."""


class RunScreen(Protocol):
    """Shows how far a world is."""

    def fold(self, records_read: int, total: int) -> None:
        """So many records of the journal were read."""
        ...

    def status(self, status: Status) -> None:
        """This is the status now."""
        ...


@contextmanager
def run_screen() -> Iterator[RunScreen]:
    """A live status line on a terminal; elsewhere a plain line every ``PLAIN_EVERY_S``."""
    if not errors_are_on_terminal():
        yield _Plain()
        return
    with errors_screen().status_line() as show:
        yield _Terminal(show)


class _Terminal:
    def __init__(self, show: Callable[[str, str], None]) -> None:
        self._show = show

    def fold(self, records_read: int, total: int) -> None:
        self._show(_folding(records_read, total), "dim")

    def status(self, status: Status) -> None:
        self._show(_status(status, status.steps_per_s), "cyan")


class _Plain:
    """A line every ``PLAIN_EVERY_S`` while something happens, with the mean since the one before
    or since something happened again."""

    def __init__(self) -> None:
        self._last = self._since = monotonic()
        self._steps = 0
        self._noted_seq = -1

    def fold(self, records_read: int, total: int) -> None:
        if self._is_time():
            note(_folding(records_read, total))

    def status(self, status: Status) -> None:
        figures, since = status.stats.figures, self._since
        if figures.seq == self._noted_seq:
            self._begin(figures.steps)
        elif self._is_time():
            self._noted_seq = figures.seq
            seconds = max(monotonic() - since, STATUS_S)
            note(_status(status, (figures.steps - self._steps) / seconds))
            self._begin(figures.steps)

    def _begin(self, steps: int) -> None:
        self._since, self._steps = monotonic(), steps

    def _is_time(self) -> bool:
        now = monotonic()
        if now - self._last < PLAIN_EVERY_S:
            return False
        self._last = now
        return True


def _folding(records_read: int, total: int) -> str:
    return f"reading the journal: record {records_read:,} of {total:,}"


def _status(status: Status, steps_per_s: float) -> str:
    figures = status.stats.figures
    waiting = sum(status.waiting.values())
    parts = [
        f"record {figures.seq:,}",
        count(figures.cells, "cell"),
        f"{steps_per_s:,.0f} steps/s",
        f"{count(figures.open_intents, 'effect')} open",
    ]
    if status.parked:
        parts.append(f"{status.parked:,} parked")
    if status.held:
        parts.append(f"{status.held:,} held")
    if waiting > status.parked + status.held:
        parts.append(f"{waiting - status.parked - status.held:,} without executor")
    if figures.faults:
        parts.append(count(figures.faults, "fault"))
    if status.stats.no_room is not None:
        parts.append("no room on the disk")
    return " · ".join(parts)
