"""Type expressions and why they are refused (spec/values.md, V-20 to V-27)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.values.expressions import FORMS, MAP_KEYS, SCALARS, ReadTypes, read_types
from aos.values.schema import SchemaProblems, compile_schemas
from tests.values.strategies import types


def problems(**types_: Any) -> list[str]:
    with pytest.raises(SchemaProblems) as caught:
        compile_schemas(types_)
    assert str(caught.value) == "\n".join(str(problem) for problem in caught.value.problems)
    return [str(problem) for problem in caught.value.problems]


def expression(form: str) -> Any:
    """A type of that form, about as small as there is."""
    return {
        "record": {"record": {}},
        "variant": {"variant": {"A": {"unit": {}}}},
        "list": {"list": {"nat": {}}},
        "set": {"set": {"nat": {}}},
        "map": {"map": {"key": {"text": {}}, "value": {"nat": {}}}},
        "option": {"option": {"nat": {}}},
        "ref": {"ref": "Other"},
    }.get(form, {form: {}})


@pytest.mark.parametrize("form", FORMS)
def test_each_form_compiles_with_a_comment_next_to_it(form: str) -> None:
    """V-20, V-21"""
    commented = {"$comment": ["anything", 1.5], **expression(form)}

    schemas = compile_schemas({"S": commented, "Other": {"nat": {}}})

    assert schemas["S"].name == "S"
    assert (
        schemas["S"].type
        == compile_schemas({"S": expression(form), "Other": {"nat": {}}})["S"].type
    )


PART_NAME = "1 to 256 bytes of text that does not begin with $"
TWO_THINGS = "(null would mean two things; use a variant)"
NO_END = "(a value of a cyclic type would have no end; refer to it by a key instead)"


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (None, 'S#: expected a type such as {"text": {}}, found null'),
        ("text", 'S#: expected a type such as {"text": {}}, found text "text"'),
        ({"text": None}, "S#/text: expected {}, found null"),
        ({"text": {"max": 3}}, "S#/text: expected {}, found map[1]"),
        ({"ref": 3}, "S#/ref: expected a schema name, found nat 3"),
        ({"record": []}, "S#/record: expected an object of fields, found list[0]"),
        ({"variant": {}}, "S#/variant: expected at least one arm, found none"),
        ({"map": {"key": {"text": {}}}}, 'S#/map: expected {"key": K, "value": T}'),
        ({"map": {"key": {"bytes": {}}, "value": {"nat": {}}}},
         "S#/map/key: expected a map key type: one of int, nat, text, uuid, hash"),
        ({"map": {"key": {"ref": "T"}, "value": {"nat": {}}}},
         "S#/map/key: expected a map key type: one of int, nat, text, uuid, hash"),
        ({"record": {"$tag": {"nat": {}}}},
         f'S#/record/$tag: bad field name "$tag": expected {PART_NAME}'),
        ({"variant": {"": {"nat": {}}}}, f'S#/variant/: bad arm name "": expected {PART_NAME}'),
        ({"record": {"a/b~c": {"nat": 1}}}, "S#/record/a~1b~0c/nat: expected {}, found nat 1"),
        ({"option": {"option": {"nat": {}}}}, f"S#/option: option of an option {TWO_THINGS}"),
        ({"option": {"unit": {}}}, f"S#/option: option of unit {TWO_THINGS}"),
        ({"list": {"record": {"x": {"option": {"ref": "Maybe"}}}}},
         f"S#/list/record/x/option: option of an option {TWO_THINGS}"),
        ({"option": {"ref": "AlsoUnit"}}, f"S#/option: option of unit {TWO_THINGS}"),
        ({"ref": "Nope"},
         'S#/ref: unknown ref "Nope" (define that schema, or correct its name and version)'),
        ({"list": {"ref": "S"}}, f'S#/list/ref: cyclic ref to "S" {NO_END}'),
    ],
)  # fmt: skip
def test_a_refused_expression_is_named_with_its_pointer(type_: Any, message: str) -> None:
    """V-20 to V-25"""
    others = {
        "T": {"text": {}},
        "Maybe": {"option": {"nat": {}}},
        "Unit": {"unit": {}},
        "AlsoUnit": {"ref": "Unit"},
    }
    assert problems(S=type_, **others) == [message]


@pytest.mark.parametrize(
    "type_", [{}, {"$comment": ""}, {"txt": {}}, {"text": {}, "nat": {}}, {1: {}}]
)
def test_a_type_has_exactly_one_known_form(type_: Any) -> None:
    """V-20"""
    (problem,) = problems(S=type_)

    assert "type form" in problem
    assert "a type is one of bool, int, nat, dec128, bytes, text, time" in problem


def test_every_other_map_key_is_refused() -> None:
    """V-23: each form, keys and not."""
    for form in FORMS:
        type_ = {"map": {"key": expression(form), "value": {"nat": {}}}}
        if form in MAP_KEYS:
            compile_schemas({"S": type_})
        else:
            assert len(problems(S=type_, Other={"nat": {}})) == 1
    assert set(MAP_KEYS) < set(SCALARS)


def test_all_problems_are_reported_at_once_by_schema() -> None:
    """V-27"""
    found = problems(
        b={"record": {"x": {"nope": {}}, "y": {"ref": "gone"}, "z": {"list": {"txt": {}}}}},
        a={"map": {"key": {"unit": {}}, "value": 3}},
        c={"ref": "d"},
        d={"ref": "c"},
    )

    assert [line.split(":")[0] for line in found] == [
        "a#/map/value",
        "a#/map/key",
        "b#/record/x",
        "b#/record/y/ref",
        "b#/record/z/list",
        "c#/ref",
        "d#/ref",
    ]


def test_a_schema_that_refers_to_an_unreadable_one_has_no_problem_of_its_own() -> None:
    """V-27"""
    lines = problems(a={"nope": {}}, b={"option": {"ref": "a"}}, c={"option": {"ref": "b"}})

    assert [line.split(":")[0] for line in lines] == ["a#"]


def test_only_schemas_on_a_cycle_are_called_cyclic() -> None:
    """V-24"""
    found = problems(
        before={"ref": "a"},
        a={"record": {"b": {"ref": "b"}, "leaf": {"ref": "leaf"}}},
        b={"option": {"ref": "c"}},
        c={"list": {"ref": "a"}},
        leaf={"nat": {}},
        own={"set": {"ref": "own"}},
    )

    assert [line.split(" (")[0] for line in found] == [
        'a#/record/b/ref: cyclic ref to "b"',
        'b#/option/ref: cyclic ref to "c"',
        'c#/list/ref: cyclic ref to "a"',
        'own#/set/ref: cyclic ref to "own"',
    ]


def test_values_may_nest_64_levels_through_references_and_no_more() -> None:
    """V-26: 62 lists around a record of a list."""
    chain: dict[str, Any] = {f"s{n:02}": {"list": {"ref": f"s{n + 1:02}"}} for n in range(62)}
    chain["s62"] = {"record": {"x": {"option": {"list": {"nat": {}}}}}}

    assert len(compile_schemas(chain)) == 63

    (problem,) = problems(**chain, top={"option": {"list": {"ref": "s00"}}})
    assert problem == "top#: values would nest 65 levels deep: expected at most 64"


def test_an_expression_of_any_depth_is_refused_without_overflow() -> None:
    """V-26"""
    deep: Any = {"nat": {}}
    for _ in range(100_000):
        deep = {"list": deep}

    (problem,) = problems(S=deep)

    assert problem.endswith("nested too deep: expected at most 130 levels")


def test_a_long_chain_of_references_is_no_problem() -> None:
    """V-24: no recursion over references, and no doubling where two refer to one."""
    count = 5_000
    chain: dict[str, Any] = {f"s{n}": {"ref": f"s{n + 1}"} for n in range(count)}
    chain[f"s{count}"] = {"nat": {}}
    started = time.thread_time()

    schemas = compile_schemas(chain)

    assert schemas["s0"].from_record(b"\x05") == 5
    doubled: dict[str, Any] = {
        f"s{n}": {"record": {"a": {"ref": f"s{n + 1}"}, "b": {"ref": f"s{n + 1}"}}}
        for n in range(60)
    }
    compile_schemas({**doubled, "s60": {"nat": {}}})
    assert time.thread_time() - started < 5


@given(types, st.data())
def test_one_wrong_leaf_anywhere_is_found(type_: Any, data: st.DataObject) -> None:
    """V-27: the pointer leads to it."""
    pointer = ""
    here = type_
    while True:
        ((form, argument),) = here.items()
        if form in SCALARS:
            break
        if form in ("record", "variant") and not argument:
            return
        pointer += f"/{form}"
        if form in ("record", "variant"):
            name = data.draw(st.sampled_from(sorted(argument)))
            pointer += "/" + name.replace("~", "~0").replace("/", "~1")
            here = argument[name]
        elif form == "map":
            pointer += "/value"
            here = argument["value"]
        else:
            here = argument
    here.clear()
    here["nope"] = {}

    assert problems(S=type_)[0].startswith(f"S#{pointer}: unknown type form")


def nested(levels: int, inner: Any) -> Any:
    return inner if levels == 0 else {"list": nested(levels - 1, inner)}


OTHERS: dict[str, Any] = {
    "o/Number": {"nat": {}},
    "o/Maybe": {"option": {"ref": "o/Number"}},
    "o/Nothing": {"unit": {}},
    "o/Deep": nested(60, {"ref": "o/Maybe"}),
}


@pytest.mark.parametrize(
    "expressions",
    [
        {"S": {"ref": "o/Deep"}, "T": {"list": {"ref": "S"}}},
        {"S": {"record": {"a": {"ref": "o/Number"}, "b": {"option": {"ref": "o/Number"}}}}},
        {"S": {"option": {"ref": "o/Maybe"}}, "T": {"option": {"ref": "o/Nothing"}}},
        {"S": {"ref": "T"}, "T": {"option": {"ref": "S"}}, "U": {"ref": "o/Maybe"}},
        {"S": {"ref": "o/Unknown"}, "T": {"ref": "S"}, "U": {"option": {"ref": "o/Maybe"}}},
        {"S": nested(4, {"ref": "o/Deep"}), "T": nested(5, {"ref": "o/Deep"})},
        {
            "S": {"ref": "T"},
            "T": nested(3, {"ref": "o/Deep"}),
            "U": {"list": {"list": {"ref": "S"}}},
        },
    ],
    ids=["valid", "record", "options", "cycle", "unknown", "depth", "depth by a reference"],
)
def test_types_that_refer_to_types_read_before_are_checked_as_together(expressions: Any) -> None:
    """V-20 to V-27"""

    def outcome(read: Callable[[], dict[str, Any]]) -> list[Any]:
        try:
            return [(name, type_) for name, type_ in read().items() if name not in OTHERS]
        except SchemaProblems as refused:
            return list(refused.problems)

    before = ReadTypes.of(OTHERS)

    assert outcome(lambda: read_types(expressions, before)) == outcome(
        lambda: read_types({**OTHERS, **expressions})
    )
