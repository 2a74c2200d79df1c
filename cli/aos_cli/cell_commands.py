"""A command of the operator for one cell or many, for ``aos retry`` and ``aos unpin``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aos.audit.lens.lookup import find_cell
from aos.audit.lens.words import count
from aos.core.decide.answers import Answer, Refusal
from aos.core.journal.inputs import RETRY, SKIP, UNPIN
from aos.core.journal.records import CellId
from aos.errors import Refused
from aos.host.door.writer import open_writer
from aos.manifest.effective import Effective
from aos_cli.cell_names import cell_document, cell_text
from aos_cli.open_view import looking_at
from aos_cli.output import line, note, print_json
from aos_cli.progress import progress

REFUSALS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class _Told:
    """A cell, and what the world answered."""

    cell: CellId
    answer: Answer


def command_cells(
    world: Path,
    action: str,
    cells: list[CellId],
    manifest: Effective | None,
    *,
    is_one: bool,
    json: bool,
) -> int:
    """Command it for each cell, print the answers, and return the exit code."""
    told = _give(world, action, cells)
    refused = [each for each in told if isinstance(each.answer, Refusal)]
    if is_one and refused:
        raise Refused(_message(refused[0].answer))
    if json:
        print_json(_document(told, manifest, action))
    elif is_one:
        _show(told[0], manifest, action)
    else:
        _show_all(told, manifest, action)
    return Refused.exit_code if refused else 0


def one_cell(world: Path, workflow: str, key: str | None) -> tuple[list[CellId], Effective | None]:
    with looking_at(world) as view:
        return [find_cell(view.state, workflow, key)], view.state.manifest


def _give(world: Path, action: str, cells: list[CellId]) -> list[_Told]:
    """Command it for each cell: one record each. A refused one does not stop the others."""
    if not cells:
        return []
    with progress("reading the journal") as advance:
        writer = open_writer(world, progress=advance)
    with writer, progress("retrying") as advance:
        told = []
        for cell in cells:
            told.append(_Told(cell, writer.control(action, cell=cell)))
            advance(len(told), len(cells))
    return told


def _document(told: list[_Told], manifest: Effective | None, action: str) -> dict[str, object]:
    refused = sum(isinstance(each.answer, Refusal) for each in told)
    return {
        "action": action,
        "admitted": len(told) - refused,
        "refused": refused,
        "cells": [
            {
                **cell_document(each.cell, manifest),
                "seq": None if isinstance(each.answer, Refusal) else each.answer.seq,
                "refused": {"rule": each.answer.rule.value, "message": each.answer.message}
                if isinstance(each.answer, Refusal)
                else None,
            }
            for each in told
        ],
    }


def _message(answer: Answer) -> str:
    assert isinstance(answer, Refusal)
    return answer.message


_HOW: Final = {
    RETRY: "with what it failed on first",
    SKIP: "without what it failed on",
    UNPIN: "under the manifest in force",
}


def _show(told: _Told, manifest: Effective | None, action: str) -> None:
    assert not isinstance(told.answer, Refusal)
    first = _HOW[action]
    line(f"{cell_text(told.cell, manifest)} goes on, {first} (record {told.answer.seq:,})")


def _show_all(told: list[_Told], manifest: Effective | None, action: str) -> None:
    if not told:
        line("no cell is pinned" if action == UNPIN else "no cell has failed")
        return
    seqs = [each.answer.seq for each in told if not isinstance(each.answer, Refusal)]
    refused = [each for each in told if isinstance(each.answer, Refusal)]
    for each in refused[:REFUSALS_SHOWN]:
        text = _message(each.answer)
        note(f"aos: {cell_text(each.cell, manifest)}: {text}", style="red")
    if len(refused) > REFUSALS_SHOWN:
        note(f"and {len(refused) - REFUSALS_SHOWN:,} more were refused (--json tells of each)")
    where = ""
    if seqs:
        where = (
            f" (record {seqs[0]:,})"
            if len(seqs) == 1
            else f" (records {seqs[0]:,} to {seqs[-1]:,})"
        )
    parts = [f"{count(len(seqs), 'cell')} of {len(told):,} {'goes' if len(seqs) == 1 else 'go'} on"]
    if refused:
        parts.append(f"{len(refused):,} refused")
    line(", ".join(parts) + where)
