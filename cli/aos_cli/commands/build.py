"""``aos build``: build a project's modules and its AIR, and with ``--migration`` write the skeleton
of a migration (spec/cli.md, C-61, C-61a).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

from aos.author import build as builds
from aos.author.build import Built, Checked, StaleFile
from aos.author.build_record import RECORD
from aos.author.errors import BuildFailed
from aos.author.migration_skeleton import Skeleton, check_has_migrations, write_skeleton
from aos.author.project import Project, find_project
from aos.author.sdk import outdated
from aos.author.toolchain import Console
from aos.errors import BadUsage, Unavailable
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.folder.folder import WORLD_FILE
from aos.host.folder.reader import open_reader
from aos.manifest.effective import Effective
from aos.manifest.load import ManifestProblems
from aos.values.digests import hash_text
from aos_cli.options import Json, ProjectPath, flag, option
from aos_cli.output import line, note, print_json

SECOND_NS = 1_000_000_000


def build(
    path: ProjectPath = Path(),
    *,
    check: Annotated[
        bool, flag("--check", "Write nothing; exit 1 if the files on disk differ from a new build.")
    ] = False,
    migration: Annotated[
        str | None,
        option(
            "WORKFLOW",
            "Build, then write the skeleton of a migration of this workflow's stored states, "
            "from the manifest in force to this build.",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        option(
            "PATH",
            "With --migration: the manifest in force (default: that of the world).",
            "--from",
        ),
    ] = None,
    world: Annotated[
        Path | None,
        option(
            "DIR",
            "With --migration: the world whose manifest is in force (default: the project's "
            "scratch world).",
            "--world",
            "-w",
            envvar="AOS_WORLD",
        ),
    ] = None,
    json: Json = False,
) -> int:
    if source is not None and migration is None:
        raise BadUsage("--from: expected --migration with it")
    if check and migration is not None:
        raise BadUsage(
            "--check writes nothing, and --migration writes a file: expected one of them"
        )
    project = find_project(path)
    tell_outdated(project)
    if migration is not None:
        with stopping() as console:
            build_migration(
                project, migration, source=source, world=world, console=console, json=json
            )
        return 0
    with stopping() as console:
        try:
            if check:
                checked = builds.check(project, console=console)
            else:
                checked = Checked(built=builds.build(project, console=console), differing=())
        except ManifestProblems as error:
            number = len(error.problems)
            problems = f"{number} problems" if number > 1 else "1 problem"
            note(f"aos: the manifest of {project.name} has {problems}", style="red")
            raise
    if json:
        print_json(document(project.name, checked))
    elif checked.built is not None:
        show(checked.built)
    if checked.differing:
        _differ(checked.differing, is_told=not json)
    if checked.by_another:
        raise Unavailable(
            "the modules on disk were made by another compiler, and are not compared",
            location=RECORD,
            hint="everything else is as it should be; use that compiler, or build and commit",
        )
    return 0


def tell_outdated(project: Project) -> None:
    """Print a one-line note if the project uses the SDK of another release (AU-27)."""
    message = outdated(project)
    if message is not None:
        note(message, style="yellow")


@contextmanager
def stopping() -> Iterator[Console]:
    """A build's console; SIGTERM or SIGHUP ends the build and its compiler."""
    console = Console(report=note)

    def stop(_number: int, _frame: FrameType | None) -> None:
        console.given_up.set()

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield console
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def show(built: Built) -> None:
    duration = f"{built.took_ns / SECOND_NS:.1f} s"
    for module in built.modules:
        line(
            f"{module.artifact}  {len(module.wasm):,} bytes  {hash_text(module.hash)}", style="bold"
        )
    effective = built.loaded.effective
    line(f"manifest {hash_text(effective.hash)}  ({duration})")


def _differ(differing: Sequence[StaleFile], *, is_told: bool) -> None:
    """Print the differing lines if ``is_told``, then raise ``BuildFailed`` in any case."""
    for stale_file in differing if is_told else ():
        for text in stale_file.lines:
            line(text, style={"+": "green", "-": "red"}.get(text[:1]))
    names = ", ".join(stale_file.file for stale_file in differing)
    raise BuildFailed(
        f"{names}: not what the sources make (aos build writes it; commit it with them)"
    )


def document(name: str, checked: Checked) -> dict[str, object]:
    built = checked.built
    return {
        "project": name,
        "manifest": None if built is None else hash_text(built.loaded.effective.hash),
        "modules": []
        if built is None
        else [
            {
                "name": module.name,
                "file": module.artifact,
                "bytes": len(module.wasm),
                "hash": hash_text(module.hash),
            }
            for module in built.modules
        ],
        "took_ns": None if built is None else built.took_ns,
        "differ": [stale_file.file for stale_file in checked.differing],
        "by_another_compiler": checked.by_another,
    }


def build_migration(
    project: Project,
    workflow: str,
    *,
    source: Path | None,
    world: Path | None,
    console: Console,
    json: bool,
) -> None:
    """Build the project, compare it with the manifest in force, and write the skeleton of a
    migration (C-61a).

    Args:
        source: The manifest in force; None: that of the world.
        world: None: the project's scratch world.
    """
    check_has_migrations(project)
    manifest_in_force = _manifest_in_force(project, source, world)
    written = write_skeleton(builds.build(project, console=console), manifest_in_force, workflow)
    if json:
        print_json(_skeleton_document(written))
    else:
        _show_skeleton(written)


def _manifest_in_force(project: Project, source: Path | None, world: Path | None) -> Effective:
    if source is not None:
        return load_manifest_files(source).effective
    folder = project.folder / project.world if world is None else world
    if world is None and not (folder / WORLD_FILE).is_file():
        raise BadUsage(
            f"{project.name} has no scratch world",
            location="--migration",
            expected="the manifest in force",
            hint="--world DIR is a world that has it, --from PATH the manifest itself",
        )
    with open_reader(folder) as reader:
        if reader.manifest is None:
            raise BadUsage(f"{folder}: no manifest was ever applied to this world")
        return reader.manifest


def _show_skeleton(written: Skeleton) -> None:
    line(f"{written.workflow}: from {written.source} to {written.target}", style="bold")
    for file in written.files:
        line(f"wrote {file}")
    steps = [f"{file}: {todo}" for file in written.files[-1:] for todo in written.todos]
    steps += written.next_steps
    for number, step in enumerate(steps, 1):
        line(f"  {number}. {step}")
    line("then run aos build, and aos apply --mode migrate")


def _skeleton_document(written: Skeleton) -> dict[str, object]:
    return {
        "workflow": written.workflow,
        "from": written.source,
        "to": written.target,
        "files": list(written.files),
        "todos": list(written.todos),
        "entry": dict(written.entry),
        "next_steps": list(written.next_steps),
    }
