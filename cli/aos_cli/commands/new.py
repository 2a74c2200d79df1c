"""``aos new NAME``: create a project that builds, passes its tests and runs (C-60)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aos.authoring.new import NewProject, new_project
from aos.authoring.project import LANGUAGES
from aos.shell_text import shell_word
from aos_cli.options import Json
from aos_cli.output import line, print_json


def new(
    name: Annotated[
        Path,
        typer.Argument(
            metavar="NAME",
            help="Folder of the new project; new or empty. Its last part is the project's name.",
        ),
    ],
    *,
    lang: Annotated[
        str,
        typer.Option(
            metavar="|".join(LANGUAGES), help="Language of the workflow: rust or assemblyscript."
        ),
    ],
    flow: Annotated[
        bool,
        typer.Option(
            "--flow",
            help="Create a flow: an async function that survives crashes. Only with --lang rust.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    made = new_project(name, lang=lang, is_flow=flow)
    if json:
        print_json(
            {
                "name": made.name,
                "lang": made.lang,
                "path": str(made.folder),
                "files": list(made.files),
            }
        )
    else:
        _show(made)


def _show(made: NewProject) -> None:
    line(f"new project in {made.folder}", style="bold")
    for command, what in commands(made):
        line(f"  {command:<11} {what}" if what else f"  {command}")
    line(f"its README.md continues from there; the workflow is in {made.workflow}")


def commands(made: NewProject) -> list[tuple[str, str]]:
    """The commands to run next, in this order."""
    return [
        (f"cd {shell_word(made.folder)}", ""),
        ("aos build", f"the module, build/{made.name}.wasm, and its definitions"),
        ("aos test", "the scenario and the tests in Python"),
        ("aos dev", "run it: an event is typed as below, and a change of a file is taken up"),
        (f'    {made.name}/Placed@1 {{"order_id": "o-1", "cents": 1250}}', ""),
    ]
