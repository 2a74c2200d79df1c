"""``aos new NAME``: create a project that builds, passes its tests and runs (C-60)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from aos.author.new import NewProject, new_project
from aos.author.project import LANGUAGES
from aos.errors import BadUsage, either
from aos.shell_text import shell_word
from aos_cli.options import Json, argument, flag, option
from aos_cli.output import line, print_json


def new(
    name: Annotated[
        Path,
        argument(
            "NAME", "Folder of the new project; new or empty. Its last part is the project's name."
        ),
    ],
    *,
    lang: Annotated[
        str, option("|".join(LANGUAGES), f"Language of the workflow: {either(LANGUAGES)}.")
    ],
    flow: Annotated[
        bool,
        flag(
            "--flow",
            "Create a flow: an async function that survives crashes. In Rust or Python.",
        ),
    ] = False,
    reducer: Annotated[
        bool,
        flag(
            "--reducer",
            "Create a function that handles one event at a time (default in Rust and "
            "AssemblyScript, which have it).",
        ),
    ] = False,
    json: Json = False,
) -> None:
    if flow and reducer:
        raise BadUsage("--flow and --reducer: expected one of them")
    project = new_project(name, lang=lang, is_flow=flow if flow or reducer else None)
    if json:
        print_json(
            {
                "name": project.name,
                "lang": project.lang,
                "path": str(project.folder),
                "files": list(project.files),
            }
        )
    else:
        _show(project)


def _show(project: NewProject) -> None:
    line(f"new project in {project.folder}", style="bold")
    for command, purpose in commands(project):
        line(f"  {command:<11} {purpose}" if purpose else f"  {command}")
    line(f"its README.md continues from there; the workflow is in {project.workflow}")


def commands(project: NewProject) -> list[tuple[str, str]]:
    """The commands to run next, in this order."""
    return [
        (f"cd {shell_word(project.folder)}", ""),
        ("aos build", f"the module, build/{project.name}.wasm, and its definitions"),
        ("aos test", "the scenario and the tests in Python"),
        ("aos dev", "run it: an event is typed as below, and a change of a file is taken up"),
        (f'    {project.name}/Placed@1 {{"order_id": "o-1", "cents": 1250}}', ""),
    ]
