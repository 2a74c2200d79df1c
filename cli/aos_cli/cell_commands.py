"""Send one command of an operator for each of several cells (spec/cli.md, C-26 to C-26c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aos.core.decide.answers import Answer
from aos.core.journal.records import CellId
from aos_cli.open_writing import writing_to
from aos_cli.progress import progress


@dataclass(frozen=True, slots=True)
class Answered:
    """A cell, and the world's answer to its command."""

    cell: CellId
    answer: Answer


def command_each(
    world: Path,
    action: str,
    cells: Sequence[CellId],
    *,
    doing: str,
    status: str | None = None,
    why: str | None = None,
) -> list[Answered]:
    """Send the command for each cell: one record each. A refusal does not stop the others.

    ``doing`` names the work on the progress line, such as ``retrying``. Without a cell, the world
    is not opened.
    """
    if not cells:
        return []
    with writing_to(world) as writer, progress(doing) as advance:
        answered = []
        for cell in cells:
            answer = writer.control(action, cell=cell, status=status, why=why)
            answered.append(Answered(cell, answer))
            advance(len(answered), len(cells))
    return answered
