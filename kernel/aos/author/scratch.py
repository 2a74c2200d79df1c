"""The scratch world of ``aos dev``: created if it is missing, removed on request (AU-82), and
builds applied to it (spec/authoring.md, AU-83 to AU-84b).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aos.author.assemblyscript import migration_class
from aos.author.build import Built
from aos.author.project import PROJECT_FILE, PYTHON, RUST
from aos.author.screen import Screen
from aos.core.decide.answers import Admitted, Answer, Blocker, Refusal, Rule
from aos.core.decide.quiescence import FAILED_MIGRATION, MISFIT
from aos.core.journal.inputs import MIGRATE, PIN, STRICT
from aos.errors import Refused
from aos.host.door.writer import open_writer
from aos.host.folder.folder import UNFINISHED_FILE, WORLD_FILE
from aos.host.folder.making import init_world
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded, load
from aos.manifest.shapes import Shapes
from aos.store.lock import WorldLock
from aos.store.plain_files import PlainFolder

MARKER: Final = "scratch"
"""A file that marks a scratch world: ``aos dev`` neither runs nor removes any other world."""

SAID: Final = "A scratch world of `aos dev`. It is thrown away with --fresh.\n"

FRESH: Final = "type `fresh`, or restart with --fresh, for an empty world"


def prepare(path: Path, *, fresh: bool) -> None:
    """Create the scratch world at ``path`` if it is missing; with ``fresh`` replace it by an empty
    one.

    Raises:
        Refused: There is something other than a scratch world. Nothing has changed.
        Unavailable: Another process runs it, or it cannot be created.
    """
    is_there = path.is_dir() and next(path.iterdir(), None) is not None
    if is_there and not _is_ours(path):
        raise Refused(
            "this is not a scratch world of aos dev, so it is not changed",
            location=str(path),
            expected="a new or empty folder, or a world that aos dev has created",
            hint=f"choose another folder: world = … in {PROJECT_FILE}",
        )
    if is_there and (fresh or not (path / WORLD_FILE).exists()):
        with WorldLock(path):  # no other process runs it
            throw_away(path)
        is_there = False
    if not is_there:
        init_world(path, operator="dev")
        with (
            PlainFolder.at_user_path(path) as folder,
            os.fdopen(folder.create(MARKER, 0o644), "w") as marker,
        ):
            marker.write(SAID)


def _is_ours(path: Path) -> bool:
    """Whether aos dev created it; also true if it was killed while it did."""
    is_finished = (path / WORLD_FILE).exists()
    return (path / MARKER).is_file() or (not is_finished and (path / UNFINISHED_FILE).exists())


def throw_away(path: Path) -> None:
    """Remove a scratch world. The marker is removed last, so an interrupted removal can resume."""
    for entry in path.iterdir():
        if entry.name == MARKER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (path / MARKER).unlink(missing_ok=True)


def put_in_force(world: Path, built: Built, screen: Screen) -> None:
    """Apply a build: with ``migrate`` if it declares a migration from a state in force, otherwise
    with ``strict``, or with ``pin`` if work is in flight.

    Raises:
        Refused: It cannot be applied; the blockers have been printed. Nothing has changed.
    """
    loaded = for_scratch(built)
    with open_writer(world) as writer:
        old_manifest = writer.signed_state().manifest
        taken_over = taking_over(old_manifest, loaded.effective)
        applied = writer.apply(loaded, mode=MIGRATE if taken_over else STRICT)
        if not taken_over and _is_refused_by(applied.answer, Rule.WORLD_IS_NOT_QUIESCENT):
            applied = writer.apply(loaded, mode=PIN)
            if isinstance(applied.answer, Admitted):
                screen.say(
                    "instances in flight finish on the version that they began with; all others "
                    f"run the new one ({FRESH})"
                )
    match applied.answer:
        case Admitted():
            screen.changed(applied.difference)
            for name in taken_over:
                screen.say(f"{name}: its migration has converted the old states")
        case Refusal(rule=Rule.MANIFEST_IS_IN_FORCE):
            pass
        case Refusal(message=message):
            screen.blockers(applied.blockers)
            ways = _ways_out(built.project.lang, old_manifest, loaded.effective, applied.blockers)
            raise Refused(f"{message} ({ways})")


def taking_over(old_manifest: Effective | None, new_manifest: Effective) -> tuple[str, ...]:
    """The workflows whose migration leads from the state schema in force to a different one. One
    whose old and new schema are equal has been migrated before."""
    return tuple(
        name
        for name, workflow in new_manifest.workflows.items()
        if old_manifest is not None
        and workflow.migrate is not None
        and name in old_manifest.workflows
        and workflow.migrate.source
        == old_manifest.workflows[name].state.name
        != workflow.state.name
    )


def _ways_out(
    lang: str, old_manifest: Effective | None, new_manifest: Effective, blockers: Sequence[Blocker]
) -> str:
    """Advice on how to remove the blockers."""
    kinds = {blocker.kind for blocker in blockers}
    if FAILED_MIGRATION in kinds:
        return f"fix the migration; or undo the change; or {FRESH}"
    ways = f"{FRESH}; or undo the change"
    for name in sorted({blocker.cell[0] for blocker in blockers if blocker.kind == MISFIT}):
        old, new = old_manifest and old_manifest.workflows.get(name), new_manifest.workflows[name]
        if (
            lang != PYTHON  # its flows have one state schema
            and old_manifest
            and old
            and not Shapes(old_manifest, new_manifest).same(old.state, new.state)
        ):
            class_name = migration_class(new_manifest.workflows, name)
            written = f"aos build --migration {name} writes most of it"
            return f"{ways}; or {_migration_advice(lang, old.state.name, class_name)}; {written}"
    return ways


def _migration_advice(lang: str, schema: str, class_name: str) -> str:
    """How to declare a migration. The new state is another schema, so it needs another name.
    ``class_name`` is the class that is then generated for AssemblyScript."""
    if lang == RUST:
        return (
            "migrate the old states: migrate(from = …, by = …) in #[workflow], from a type equal "
            f"to the old {schema} to a state with another name"
        )
    return (
        f'migrate the old states: "migrate": {{"from": "{schema}", "entrypoint": …}} in the '
        f"defworkflow; in air/ the old {schema} unchanged and the new state under another name; "
        f"in the module's entry file a class that extends {class_name} and the function of that "
        "entrypoint, which runs it with migrate<…>(pointer, length)"
    )


def for_scratch(built: Built) -> Loaded:
    """The manifest for a scratch world, which has keys of its own: without its list of executors,
    so that the world's key may sign for all effects, and without its approvers, so that each build
    comes into force by itself."""
    effective = built.loaded.effective
    if effective.executors is None and effective.governance is None:
        return built.loaded
    files = {
        name: _without_keys(data) if name.endswith(".json") else data
        for name, data in built.inputs.items()
    }
    return load(files, abi=built.project.abi)


def _without_keys(data: bytes) -> bytes:
    document = json.loads(data)
    nodes = document if isinstance(document, list) else [document]
    for node in nodes:
        if node.get("$kind") == "manifest":
            node.pop("executors", None)
            node.pop("governance", None)
    return json.dumps(nodes).encode()


def _is_refused_by(answer: Answer | None, rule: Rule) -> bool:
    return isinstance(answer, Refusal) and answer.rule is rule
