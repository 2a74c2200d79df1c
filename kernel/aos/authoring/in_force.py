"""What was built -> in force in the scratch world, or why not (spec/authoring.md, AU-83, AU-84)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from aos.authoring.build import Built
from aos.authoring.screen import Screen
from aos.core.answers import Admitted, Answer, Refusal, Rule
from aos.core.inputs import PIN, STRICT
from aos.errors import Refused
from aos.host.client import open_writer
from aos.manifest.load import Loaded, load

FRESH: Final = "type `fresh`, or begin again with --fresh, for an empty world"


def put_in_force(world: Path, built: Built, screen: Screen) -> None:
    """Apply a build: with nothing in flight, or else beside what is.

    Raises:
        Refused: Neither can be; what stands in the way has been told. Nothing has changed.
    """
    loaded = for_scratch(built)
    with open_writer(world) as writer:
        applied = writer.apply(loaded, mode=STRICT)
        if _is(applied.answer, Rule.WORLD_IS_NOT_QUIESCENT):
            applied = writer.apply(loaded, mode=PIN)
            if isinstance(applied.answer, Admitted):
                screen.say(
                    "what is in flight ends on the version that it began with; everything else "
                    f"runs the new one ({FRESH})"
                )
    match applied.answer:
        case Admitted():
            screen.changed(applied.difference)
        case Refusal(rule=Rule.MANIFEST_IS_IN_FORCE):
            pass
        case Refusal(message=message):
            screen.blockers(applied.blockers)
            raise Refused(
                f"{message} ({FRESH}; or undo the change, or declare a migration of the states)"
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
