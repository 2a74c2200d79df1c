"""Send one command of an operator for each of several cells (spec/cli.md, C-26 to C-26c)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from aos.core.decide.answers import Answer
from aos_cli.cell_names import NamedCell
from aos_cli.node_option import client_of
from aos_cli.open_writing import writing_to
from aos_cli.progress import progress

Command: TypeAlias = Callable[[NamedCell], Answer]


@dataclass(frozen=True, slots=True)
class Answered:
    """A cell, and the world's answer to its command."""

    cell: NamedCell
    answer: Answer


def command_each(
    world: Path,
    node: str | None,
    action: str,
    cells: Sequence[NamedCell],
    *,
    doing: str,
    status: str | None = None,
    reason: str | None = None,
) -> list[Answered]:
    """Send the command for each cell, to ``node`` or else to the world of a folder: one record
    each. A refusal does not stop the others.

    ``doing`` names the work on the progress line, such as ``retrying``. Without a cell, the world
    is not opened.
    """
    if not cells:
        return []
    way = (
        _in_folder(world, action, status, reason) if node is None
        else _on_node(node, action, status, reason)
    )  # fmt: skip
    with way as command, progress(doing) as advance:
        answered = []
        for cell in cells:
            answered.append(Answered(cell, command(cell)))
            advance(len(answered), len(cells))
    return answered


@contextmanager
def _in_folder(
    world: Path, action: str, status: str | None, reason: str | None
) -> Iterator[Command]:
    with writing_to(world) as writer:
        yield lambda cell: writer.control(action, cell=cell.id, status=status, reason=reason)


@contextmanager
def _on_node(node: str, action: str, status: str | None, reason: str | None) -> Iterator[Command]:
    with client_of(node) as client:
        yield lambda cell: client.command(
            action, workflow=cell.workflow, key=cell.key, status=status, why=reason
        )
