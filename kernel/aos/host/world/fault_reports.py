"""Report failed instances on the terminal: one line for each cause, with a count (H-85a)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.journal.records import CellId
from aos.host.world.unit import FaultNote

GATHER_S: Final = 2.0
"""Time during which further faults of one cause are counted instead of printed, in seconds."""

Later: TypeAlias = Callable[[float, Callable[[], None]], object]
"""Calls a function after this many seconds, as ``loop.call_later`` does."""

_Cause: TypeAlias = tuple[str, str, str]
"""Workflow, kind of the fault, and text."""


@dataclass(slots=True)
class _Repeats:
    """Faults that were counted and not printed yet."""

    number: int = 0
    seq: int = 0


class FaultReports:
    """Prints the first fault of a cause immediately, and then how many more there were.

    Call ``flush`` at the end of the run.
    """

    def __init__(
        self, report: Callable[[str], None], later: Later, cell_text: Callable[[CellId], str]
    ) -> None:
        self._report = report
        self._later = later
        self._cell_text = cell_text
        self._repeats: dict[_Cause, _Repeats] = {}

    def add(self, faults: Iterable[FaultNote]) -> None:
        for note in faults:
            text = (
                note.message if note.engine_text is None else f"{note.message}: {note.engine_text}"
            )
            cause = (note.cell[0], note.kind, text)
            repeats = self._repeats.get(cause)
            if repeats is not None:
                repeats.number += 1
                repeats.seq = note.seq
                continue
            if not self._repeats:
                self._later(GATHER_S, self.flush)
            self._repeats[cause] = _Repeats()
            cell = self._cell_text(note.cell)
            self._report(f"{cell} failed at record {note.seq}: {note.kind}: {text}")

    def flush(self) -> None:
        """Print the counts since the last call."""
        repeats_by_cause, self._repeats = self._repeats, {}
        for (workflow, kind, text), repeats in repeats_by_cause.items():
            if repeats.number:
                instances = "1 more instance" if repeats.number == 1 else f"{repeats.number:,} more"
                self._report(
                    f"{workflow}: {instances} failed with the same fault, the last at record "
                    f"{repeats.seq}: {kind}: {text} (aos inspect faults lists them)"
                )
