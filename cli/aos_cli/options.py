"""Options that several commands share (spec/cli.md, C-5, C-8)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

DEFAULT_WORLD: Final = Path(".aos")

World = Annotated[
    Path,
    typer.Option(
        "--world",
        "-w",
        envvar="AOS_WORLD",
        help="Folder of the world.",
        metavar="DIR",
        show_default="./.aos",
    ),
]
"""Every command's world: ``--world``, else ``AOS_WORLD``, else ``.aos`` in the current folder."""


def number(text: str) -> int:
    """Parse an option's whole number. Raises ``typer.BadParameter``."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"expected a whole number, found {text!r}") from None


Json = Annotated[bool, typer.Option("--json", help="Print stable, documented JSON (spec/cli.md).")]

Bundle = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="Bundle (see aos export) to read instead of a world."),
]

At = Annotated[
    int | None,
    typer.Option(
        "--at",
        metavar="SEQ",
        parser=number,
        help="Show the world as it was after this record (default: now).",
    ),
]
