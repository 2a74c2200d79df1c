"""Random programs of all operations: the engine and ``model.py`` ask the same effects with the same
params in the same order, and come to the same outcome, compensations and states, with failures,
messages, timers and cancels in any order and a crash after any frame (FL-1 to FL-8)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from aos.sandbox.stack import run_on_big_stack
from tests.flow.programs import Action, Modelled, programs, schedules
from tests.tools import long_form


def play(modelled: Modelled, program: dict[str, Any], schedule: list[Action]) -> None:
    """Run a program and its model in a world, then answer whatever is open until both end."""
    try:
        modelled.begin(program)
        modelled.go_on()
        for action in schedule:
            modelled.act(action)
        modelled.finish()
    finally:
        modelled.world.abandon()


@settings(max_examples=3_000 if long_form() else 60)
@given(programs(), schedules())
def test_a_program_does_what_its_model_does(
    program: dict[str, Any], schedule: list[Action]
) -> None:
    run_on_big_stack(lambda: play(Modelled(), program, schedule))
