"""The reader's tables of attributes are those of the interpreter (PF-34)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import aos.flow
from aos.author.python.interpreter_modules import LACKING_NAMES, MODULES, UNLISTED
from aos.author.python.lacking_attributes import (
    CALLED,
    CONSTANTS,
    LACKING_ATTRIBUTES,
    TYPE_ATTRIBUTES,
)
from tests.flow.interpreter_attributes import TYPES, State, expressions, names_under_cpython, states

SKIPPED = ("Context",)
"""Types whose methods have names that files use for their own, such as ``divide``."""

NOT_REFUSED = {"from_iterable", "step", "value", "now", "today", "utcnow"}
"""Names of ``itertools.chain``, of ``cx``, of ``Break``, and of the clock, whose row is another."""


@cache
def all_states() -> Mapping[tuple[str, str], State]:
    return states(lambda text: [*names_under_cpython(text), *hidden_names(text)])


def hidden_names(text: str) -> list[str]:
    """Names with underscores of the table, which are asked of some values alone."""
    is_asked = text in ("7", "'a'", "[1]", "ValueError('x')", "Start('a')", "state")
    return [name for name in LACKING_ATTRIBUTES if name.startswith("_") and is_asked]


def with_state(state: State, *kinds: str) -> set[str]:
    """The attributes that have a state in a value, a type or a module."""
    return {
        name
        for (title, name), probed in all_states().items()
        if probed == state and title.split()[1] in kinds and title.split()[0] not in SKIPPED
    }


def test_the_attributes_that_are_refused_are_those_that_no_built_in_value_has() -> None:
    there = with_state("called", "value", "type") | with_state("value", "value", "type")
    lacking = with_state("lacking", "value") - there

    assert set(LACKING_ATTRIBUTES) == lacking - NOT_REFUSED


def test_the_names_of_flows_are_not_among_them() -> None:
    of_flows = {"value"}
    for name in (MODULES["aos.flow"] or "").split():
        item = getattr(aos.flow, name)
        of_flows |= {*dir(item), *getattr(item, "__annotations__", ())}

    public = {name for name in of_flows if not name.startswith("_")} - {
        "with_traceback",
        "add_note",
    }
    assert public & {*LACKING_ATTRIBUTES, *CALLED} <= {"join"}  # of a name with cx


def test_the_methods_that_are_refused_without_a_call_are_those_that_are_no_values() -> None:
    called, values = with_state("called", "value"), with_state("value", "value", "type")

    assert called - values == CALLED


def test_the_attributes_of_types_are_those_that_types_have() -> None:
    for kind in TYPES:
        title = f"{kind.__name__} type"
        probed = {name: state for (of, name), state in all_states().items() if of == title}
        there = {name for name, state in probed.items() if state != "lacking"}
        assert there == set(TYPE_ATTRIBUTES.get(kind.__name__, "").split()), title
        assert {name for name in there if probed[name] == "value"} == there & set(CONSTANTS), title


def test_the_names_of_modules_are_those_that_modules_lack() -> None:
    for title in expressions():
        if not title.endswith(" module"):
            continue
        module = title.split()[0]
        names = MODULES[module]
        probed = {name: state for (of, name), state in all_states().items() if of == title}
        if names is None:
            lacking = {name for name, state in probed.items() if state != "value"}
            assert lacking == set(LACKING_NAMES.get(module, "").split()), title
        else:
            there = {name for name, state in probed.items() if state == "value"}
            assert there == {*names.split(), *UNLISTED.get(module, "").split()}, title
