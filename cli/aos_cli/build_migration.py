"""``aos build --migration``: write the skeleton of a migration (spec/cli.md, C-61a)."""

from __future__ import annotations

from pathlib import Path

from aos.authoring import build as builds
from aos.authoring.migration.skeleton import Skeleton, write_skeleton
from aos.authoring.project import Project
from aos.authoring.running import Console
from aos.errors import BadUsage, sentence
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.folder.folder import WORLD_FILE
from aos.host.folder.reader import open_reader
from aos.manifest.effective import Effective
from aos_cli.output import line, print_json


def build_migration(
    project: Project,
    workflow: str,
    *,
    source: Path | None,
    world: Path | None,
    console: Console,
    json: bool,
) -> None:
    """Build the project, compare it with the manifest in force, and write the skeleton.

    Args:
        source: The manifest in force; None: that of the world.
        world: None: the project's scratch world.
    """
    manifest_in_force = _in_force(project, source, world)
    written = write_skeleton(builds.build(project, console=console), manifest_in_force, workflow)
    if json:
        print_json(_document(written))
    else:
        _show(written)


def _in_force(project: Project, source: Path | None, world: Path | None) -> Effective:
    if source is not None:
        return load_manifest_files(source).effective
    folder = project.folder / project.world if world is None else world
    if world is None and not (folder / WORLD_FILE).is_file():
        raise BadUsage(
            sentence(
                f"{project.name} has no scratch world",
                location="--migration",
                expected="the manifest in force",
                hint="--world DIR is a world that has it, --from PATH the manifest itself",
            )
        )
    with open_reader(folder) as reader:
        if reader.manifest is None:
            raise BadUsage(f"{folder}: no manifest was ever applied to this world")
        return reader.manifest


def _show(written: Skeleton) -> None:
    line(f"{written.workflow}: from {written.source} to {written.target}", style="bold")
    for file in written.files:
        line(f"wrote {file}")
    steps = [f"{file}: {todo}" for file in written.files[-1:] for todo in written.todos]
    steps += written.next_steps
    for number, step in enumerate(steps, 1):
        line(f"  {number}. {step}")
    line("then run aos build, and aos apply --mode migrate")


def _document(written: Skeleton) -> dict[str, object]:
    return {
        "workflow": written.workflow,
        "from": written.source,
        "to": written.target,
        "files": list(written.files),
        "todos": list(written.todos),
        "entry": dict(written.entry),
        "next_steps": list(written.next_steps),
    }
