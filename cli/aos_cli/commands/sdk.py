"""``aos sdk update``: replace a project's copy of the SDK (spec/cli.md, C-63)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from aos import __version__
from aos.author.project import find_project
from aos.author.sdk import Updated, update_sdk
from aos.read.lens.words import count
from aos_cli.options import Json, ProjectPath, flag
from aos_cli.output import line, note, print_json

PACKAGE: Final = "package.json"
"""File of the AssemblyScript SDK; ``npm ci`` compares it with the project's lock file."""


def update(
    path: ProjectPath = Path(),
    *,
    force: Annotated[
        bool, flag("--force", "Replace the copy even if it was edited or its release is unknown.")
    ] = False,
    json: Json = False,
) -> None:
    project = find_project(path)
    updated = update_sdk(project, force=force)
    if json:
        print_json(
            {
                "project": project.name,
                "before": updated.previous_release,
                "aos": __version__,
                "added": list(updated.added),
                "changed": list(updated.changed),
                "removed": list(updated.removed),
            }
        )
    elif updated.is_same:
        line(f"sdk/ is already the one of aos {__version__}")
    else:
        _show(updated)


def _show(updated: Updated) -> None:
    was = (
        "of no recorded release"
        if updated.previous_release is None
        else f"of aos {updated.previous_release}"
    )
    line(f"sdk/ is of aos {__version__} now, and was {was}", style="bold")
    for sign, word, names, style in (
        ("+", "added", updated.added, "green"),
        ("~", "changed", updated.changed, "yellow"),
        ("-", "removed", updated.removed, "red"),
    ):
        if names:
            line(f"{count(len(names), 'file')} {word}")
        for name in names:
            line(f"  {sign} {name}", style=style)
    if PACKAGE in updated.changed:
        note(f"run npm install: sdk/{PACKAGE} has changed, and package-lock.json must follow")
    note("next: aos build")
