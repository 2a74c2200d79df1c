"""Programs in the Python of flows give the same results in a world as under CPython (PF-30)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random
from types import ModuleType
from typing import Any

import pytest

from aos.sandbox.stack import run_on_big_stack
from tests.flow.generated_python import written
from tests.flow.python_flow import world_of
from tests.run_seed import seeds
from tests.tools import long_form

FILES = 400 if long_form() else 2
PARTS = 20 if long_form() else 1
FUNCTIONS = 25
"""Of a file; 10,000 in the long form."""


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_a_program_has_the_results_that_it_has_under_cpython(part: int) -> None:
    for seed in seeds(FILES)[part::PARTS]:
        source = written(Random(seed), FUNCTIONS)
        expected = under_cpython(source)
        assert results_in_a_world(source) == expected, f"seed {seed}"
        assert any(text.startswith("[") for text in expected), "no function has a result"


def under_cpython(source: str) -> list[str]:
    module: Any = ModuleType("generated")
    sys.modules[module.__name__] = module  # where dataclasses look for the types of fields
    try:
        exec(compile(source, "flow.py", "exec"), vars(module))  # our own text
        return [module.text_of(function) for function in module.FUNCTIONS]
    finally:
        del sys.modules[module.__name__]


def results_in_a_world(source: str) -> Sequence[object]:
    def run() -> Any:
        with world_of(source) as world:
            world.send("g/Start@1", {"id": "one"})
            world.run()
            flow = world.flow("g/run@1", "one")
            assert flow is not None
            return flow.output

    results: Sequence[object] = run_on_big_stack(run)
    return results
