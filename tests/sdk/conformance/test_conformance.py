"""Every behaviour of the ABI in each language: its definition, and that all languages share it.

A scenario is a public function of a module next to this one; it asserts the expected results. The
test then compares the traces of one scenario between the languages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any, Final

import pytest

from tests.sdk.conformance import cells, driver, effects, system, types
from tests.sdk.conformance.driver import LANGUAGES, ConformanceWorld, Seen, normal

Scenario = Callable[[ConformanceWorld], None]


def scenarios(module: ModuleType) -> Iterator[Scenario]:
    for _, found in inspect.getmembers(module, inspect.isfunction):
        takes_a_world_only = list(inspect.signature(found).parameters) == ["world"]
        if found.__module__ == module.__name__ and takes_a_world_only:
            yield found


SCENARIOS: Final = [
    pytest.param(each, id=each.__name__)
    for module in (types, cells, effects, system)
    for each in scenarios(module)
]


@pytest.fixture(scope="module", autouse=True)
def sandboxes() -> Iterator[None]:
    yield
    driver.close()


@cache
def trace(scenario: Scenario, language: str) -> list[Seen]:
    world = ConformanceWorld(language)
    scenario(world)
    return world.seen


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_behaviour(scenario: Scenario, language: str) -> None:
    trace(scenario, language)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_behaviour_is_the_same_in_every_language(scenario: Scenario) -> None:
    first, *others = (normal(trace(scenario, language)) for language in LANGUAGES)

    assert first
    for other in others:
        assert other == first


def test_traces_that_differ_are_not_the_same() -> None:
    """Else the comparison could not fail."""
    seen = trace(effects.an_answer_settles_its_handle, LANGUAGES[0])
    other = [*seen[:-1], replace(seen[-1], state={**seen[-1].state, "work": "aos:9:9"})]
    renamed = [replace(each, output=b"") for each in seen]

    assert normal(seen) != normal(other)
    assert normal(seen) != normal(seen[:-1])
    assert normal(seen) == normal(renamed)
    assert normal(seen) != normal([replace(seen[0], status="failed"), *seen[1:]])


def test_every_event_and_arm_of_the_manifest_takes_part() -> None:
    met: set[tuple[str, Any]] = set()
    for parameter in SCENARIOS:
        for seen in trace(parameter.values[0], LANGUAGES[0]):
            met.add((seen.workflow, seen.event.get("$tag")))

    effective = driver.loaded(LANGUAGES[0]).effective
    taken = {
        (name, arm)
        for name, workflow in effective.workflows.items()
        for arm in workflow.arms.values()
    }
    assert {workflow for workflow, _ in met} == set(effective.workflows)
    # Every effect that it asks is dropped with its step; the arm must be there all the same (M-36).
    assert taken - met == {("conformance/status@1", "Receipt")}
