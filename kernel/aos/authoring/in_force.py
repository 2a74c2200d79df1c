"""What was built -> in force in the scratch world, or why not (spec/authoring.md, AU-83 to
AU-84b)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aos.authoring.assemblyscript import migration_class
from aos.authoring.build import Built
from aos.authoring.project import RUST
from aos.authoring.screen import Screen
from aos.core.decide.answers import Admitted, Answer, Blocker, Refusal, Rule
from aos.core.decide.quiescence import FAILED_MIGRATION, MISFIT
from aos.core.journal.inputs import MIGRATE, PIN, STRICT
from aos.errors import Refused
from aos.host.door.writer import open_writer
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded, load
from aos.manifest.shapes import Shapes

FRESH: Final = "type `fresh`, or begin again with --fresh, for an empty world"


def put_in_force(world: Path, built: Built, screen: Screen) -> None:
    """Apply a build: with its migrations where it declares one of a state in force; otherwise with
    nothing in flight, or else beside what is.

    Raises:
        Refused: It cannot be; what stands in the way has been told. Nothing has changed.
    """
    loaded = for_scratch(built)
    with open_writer(world) as writer:
        before = writer.about().manifest
        taken_over = taking_over(before, loaded.effective)
        applied = writer.apply(loaded, mode=MIGRATE if taken_over else STRICT)
        if not taken_over and _is(applied.answer, Rule.WORLD_IS_NOT_QUIESCENT):
            applied = writer.apply(loaded, mode=PIN)
            if isinstance(applied.answer, Admitted):
                screen.say(
                    "what is in flight ends on the version that it began with; everything else "
                    f"runs the new one ({FRESH})"
                )
    match applied.answer:
        case Admitted():
            screen.changed(applied.difference)
            for name in taken_over:
                screen.say(f"{name}: its migration has taken the old states over")
        case Refusal(rule=Rule.MANIFEST_IS_IN_FORCE):
            pass
        case Refusal(message=message):
            screen.blockers(applied.blockers)
            ways = _ways_out(built.project.lang, before, loaded.effective, applied.blockers)
            raise Refused(f"{message} ({ways})")


def taking_over(before: Effective | None, after: Effective) -> tuple[str, ...]:
    """The workflows whose migration begins at the state schema in force and ends at another. One
    that declares the schema that it has already has been taken over."""
    return tuple(
        name
        for name, workflow in after.workflows.items()
        if before is not None
        and workflow.migrate is not None
        and name in before.workflows
        and workflow.migrate.source == before.workflows[name].state.name != workflow.state.name
    )


def _ways_out(
    lang: str, before: Effective | None, after: Effective, blockers: Sequence[Blocker]
) -> str:
    """What helps against what stands in the way."""
    kinds = {each.kind for each in blockers}
    if FAILED_MIGRATION in kinds:
        return f"mend the migration; or undo the change; or {FRESH}"
    ways = f"{FRESH}; or undo the change"
    for name in sorted({each.cell[0] for each in blockers if each.kind == MISFIT}):
        old, new = before and before.workflows.get(name), after.workflows[name]
        if before and old and not Shapes(before, after).same(old.state, new.state):
            made = migration_class(after.workflows, name)
            return f"{ways}; or {_take_over(lang, old.state.name, made)}"
    return ways


def _take_over(lang: str, schema: str, made: str) -> str:
    """How a migration is declared; the new state needs a name of its own, since it is another.
    ``made`` is the class that AssemblyScript has for it then."""
    if lang == RUST:
        return (
            "take the old states over: migrate(from = …, by = …) in #[workflow], from a type that "
            f"is {schema} as it was to a state of another name"
        )
    return (
        f'take the old states over: "migrate": {{"from": "{schema}", "entrypoint": …}} in the '
        f"defworkflow, {schema} in air/ as it was and the state as it is now under another name, "
        f"and in the module's entry file a class that extends {made} and the function of that "
        "entrypoint, which runs it by migrate<…>(pointer, length)"
    )


def for_scratch(built: Built) -> Loaded:
    """The manifest for a world with keys of its own: without a list of who may sign, the world's
    key signs for all."""
    if built.loaded.effective.executors is None:
        return built.loaded
    files = {
        name: _without_executors(data) if name.endswith(".json") else data
        for name, data in built.inputs.items()
    }
    return load(files)


def _without_executors(data: bytes) -> bytes:
    found = json.loads(data)
    nodes = found if isinstance(found, list) else [found]
    for node in nodes:
        if node.get("$kind") == "manifest":
            node.pop("executors", None)
    return json.dumps(nodes).encode()


def _is(answer: Answer | None, rule: Rule) -> bool:
    return isinstance(answer, Refusal) and answer.rule is rule
