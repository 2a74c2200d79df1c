"""``aos unpin``: move pinned instances to the manifest in force (spec/cli.md, C-26a)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aos.audit.lens.lookup import find_workflow
from aos.core.journal.inputs import UNPIN
from aos.core.journal.records import CellId
from aos.core.state.cell import Cell
from aos.core.state.version import is_pinned
from aos.errors import BadUsage
from aos.manifest.effective import Effective
from aos_cli.cell_commands import command_cells, one_cell
from aos_cli.open_view import looking_at
from aos_cli.options import DEFAULT_WORLD, Json, World


def unpin(
    name: Annotated[
        str | None,
        typer.Argument(metavar="WORKFLOW", help="The workflow's name, or a unique part of it."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="The instance's key, as JSON or as plain text."),
    ] = None,
    *,
    all_pinned: Annotated[
        bool, typer.Option("--all-pinned", help="Unpin every pinned cell.")
    ] = False,
    workflow: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --all-pinned: only cells of this workflow."),
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if all_pinned == (name is not None) or (workflow is not None and not all_pinned):
        raise BadUsage(
            "unpin: expected WORKFLOW KEY, or --all-pinned with an optional --workflow NAME "
            "(see aos unpin --help)"
        )
    cells, manifest = _pinned(world, workflow) if name is None else one_cell(world, name, key)
    return command_cells(world, UNPIN, cells, manifest, is_one=name is not None, json=json)


def _pinned(world: Path, workflow: str | None) -> tuple[list[CellId], Effective | None]:
    """Every pinned cell, by workflow."""
    with looking_at(world) as view:
        state = view.state
        names = sorted(state.cells.shelves)
        if workflow is not None:
            names = [find_workflow(state, workflow)]
        found: list[Cell] = [
            cell for name in names for cell in state.cells.of(name) if is_pinned(state, cell)
        ]
        return [cell.id for cell in found], state.manifest
