"""``aos retry``: resume instances that failed on a fault (spec/cli.md, C-26)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aos.audit.lens.lookup import find_workflow
from aos.core.journal.inputs import RETRY, SKIP
from aos.core.journal.records import CellId
from aos.errors import BadUsage
from aos.manifest.effective import Effective
from aos_cli.cell_commands import command_cells, one_cell
from aos_cli.open_view import looking_at
from aos_cli.options import DEFAULT_WORLD, Json, World


def retry(
    name: Annotated[
        str | None,
        typer.Argument(metavar="WORKFLOW", help="The workflow's name, or a unique part of it."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="The instance's key, as JSON or as plain text."),
    ] = None,
    *,
    skip: Annotated[
        bool, typer.Option("--skip", help="Drop the failed entry and resume with the next one.")
    ] = False,
    all_failed: Annotated[
        bool,
        typer.Option("--all-failed", help="Retry every failed cell, the earliest failure first."),
    ] = False,
    workflow: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --all-failed: only cells of this workflow."),
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if all_failed == (name is not None) or (workflow is not None and not all_failed):
        raise BadUsage(
            "retry: expected WORKFLOW KEY, or --all-failed with an optional --workflow NAME "
            "(see aos retry --help)"
        )
    cells, manifest = _failed(world, workflow) if name is None else one_cell(world, name, key)
    return command_cells(
        world, SKIP if skip else RETRY, cells, manifest, is_one=name is not None, json=json
    )


def _failed(world: Path, workflow: str | None) -> tuple[list[CellId], Effective | None]:
    """Every failed cell, the one that failed first at the beginning."""
    with looking_at(world) as view:
        name = None if workflow is None else find_workflow(view.state, workflow)
        found = [
            cell
            for cell in view.state.cells.active.values()
            if cell.fault is not None and (name is None or cell.id[0] == name)
        ]
        found.sort(key=lambda cell: cell.fault_seq or 0)
        return [cell.id for cell in found], view.state.manifest
