"""``aos help``: like ``aos COMMAND --help`` (spec/cli.md, C-47)."""

from __future__ import annotations

from typing import Annotated

from aos_cli.options import argument


def show_help(
    command: Annotated[
        list[str] | None, argument("[COMMAND]...", "Words of the command (default: list all).")
    ] = None,
) -> None:
    from aos_cli.main import app  # noqa: PLC0415  # it imports the registry, which names this file

    app(args=[*(command or ()), "--help"], prog_name="aos", standalone_mode=False)
