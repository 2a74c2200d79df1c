"""Play a story once for each of its steps, with a crash right after that step (spec/testing.md,
T-36)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aos.testing.plain import Mismatch, mismatches
from aos.testing.problems import WorldProblem
from aos.testing.sources import Source
from aos.testing.world import World

PLACES_SAID: Final = 4


def everywhere(story: Callable[[World], object], source: Source = ".", **settings: Any) -> int:
    """Play ``story`` in a world of its own without a crash, then once for each step of it, with a
    crash right after that step. Return the number of crashes.

    Args:
        story: Gets the world. It must do the same each time, and may contain assertions.
        source: The manifest, as for ``World``.
        settings: The other parameters of ``World``.

    Raises:
        WorldProblem: The states, events or effects at the end differ from those without a crash.
        Exception: Any that the story raises, with a note that names the crash.
    """
    with World(source, **settings) as world:
        world.crash_after(0)
        story(world)
        steps, expected = world.steps, outcome(world)
    for step in range(1, steps + 1):
        with World(source, **settings) as world:
            world.crash_after(step)
            try:
                story(world)
            except Exception as problem:
                problem.add_note(f"with a crash after step {step} of {steps}")
                raise
            changes = differences(expected, outcome(world))
            if changes:
                raise WorldProblem(changed(step, steps, changes))
    return steps


def outcome(world: World) -> dict[str, Any]:
    """Return what a story left: the states of all cells, the events that steps emitted, and the
    effects that they requested, each in order."""
    return {
        "states": [
            {"workflow": cell.workflow, "key": cell.key, "status": cell.status, "state": cell.state}
            for cell in world.cells()
        ],
        "events": [
            {
                "schema": event.schema,
                "value": event.value,
                "workflow": event.workflow,
                "key": event.key,
            }
            for event in world.emitted()
        ],
        "effects": [
            {
                "effect": effect.name,
                "params": effect.params,
                "workflow": effect.workflow,
                "key": effect.key,
                "issuer_ref": effect.issuer_ref,
                "requested_key": effect.requested_key,
                "status": effect.status,
            }
            for effect in world.asked()
        ],
    }


def differences(expected: dict[str, Any], actual: dict[str, Any]) -> tuple[Mismatch, ...]:
    """Return the places where two outcomes differ."""
    return tuple(mismatches(expected, actual, exactly=True))


def changed(step: int, steps: int, changes: tuple[Mismatch, ...]) -> str:
    """Return the message about a crash that changed the outcome."""
    mismatch_texts = "; ".join(str(mismatch) for mismatch in changes[:PLACES_SAID])
    suffix = f"; and {len(changes) - PLACES_SAID} places more" if len(changes) > PLACES_SAID else ""
    return (
        f"a crash after step {step} of {steps} changes what happens (expected: without a crash): "
        f"{mismatch_texts}{suffix}"
    )
