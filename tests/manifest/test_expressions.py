"""Types walked without values."""

from __future__ import annotations

from typing import Any

import pytest

from aos.manifest.expressions import (
    closure,
    found_at,
    references,
    same,
    type_text,
    without_comments,
)

TEXT: dict[str, Any] = {"text": {}}
NAT: dict[str, Any] = {"nat": {}}


def test_comments_go_and_fields_of_any_name_stay() -> None:
    type_ = {
        "$comment": "out",
        "record": {
            "map": {"map": {"key": TEXT, "value": {"text": {}, "$comment": "out"}}},
            "ref": {"list": {"set": {"option": {"nat": {}, "$comment": "out"}}}},
        },
    }

    assert without_comments(type_) == {
        "record": {
            "map": {"map": {"key": TEXT, "value": TEXT}},
            "ref": {"list": {"set": {"option": NAT}}},
        }
    }


def test_references_are_found_with_their_place() -> None:
    type_ = {
        "variant": {
            "a/b": {"ref": "x/A@1"},
            "ref": {"map": {"key": TEXT, "value": {"ref": "x/B@1"}}},
        }
    }

    assert list(references(type_)) == [
        ("/variant/a~1b/ref", "x/A@1"),
        ("/variant/ref/map/value/ref", "x/B@1"),
    ]


@pytest.mark.parametrize("odd", [None, 5, [], {"record": 5}, {"ref": 5}, {"list": None}])
def test_an_invalid_type_has_no_references(odd: Any) -> None:
    assert list(references(odd)) == []
    assert without_comments(odd) == odd


def test_a_closure_follows_refs_around_cycles_and_past_gaps() -> None:
    types: dict[str, Any] = {
        "a": {"list": {"ref": "b"}},
        "b": {"record": {"x": {"ref": "a"}, "y": {"ref": "c"}}},
    }

    assert closure(["a", "missing"], types) == {"a", "b"}


def doubling(prefix: str, depth: int) -> dict[str, Any]:
    """Types that would be 2**depth long if their refs were written out."""
    types: dict[str, Any] = {f"{prefix}0": TEXT}
    for level in range(depth):
        below = {"ref": f"{prefix}{level}"}
        types[f"{prefix}{level + 1}"] = {"variant": {"l": below, "r": below}}
    return types


def test_two_large_types_are_compared_in_a_moment() -> None:
    types = {**doubling("a", 60), **doubling("b", 60)}

    assert same({"ref": "a60"}, {"ref": "b60"}, types)
    assert not same({"ref": "a60"}, {"ref": "b59"}, types)


def test_a_path_through_many_arms_is_walked_in_a_moment() -> None:
    types = doubling("a", 60)

    assert len(found_at({"ref": "a60"}, ".".join(["$value"] * 60), types)) == 1


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (TEXT, {"ref": "id"}, True),
        ({"ref": "id"}, {"ref": "id2"}, True),
        ({"ref": "id"}, NAT, False),
        ({"record": {"a": TEXT, "b": NAT}}, {"record": {"b": NAT, "a": {"ref": "id"}}}, True),
        ({"record": {"a": TEXT}}, {"record": {"b": TEXT}}, False),
        ({"record": {"a": TEXT}}, {"variant": {"a": TEXT}}, False),
        ({"map": {"key": TEXT, "value": NAT}}, {"map": {"key": TEXT, "value": TEXT}}, False),
        ({"option": TEXT}, TEXT, False),
    ],
)
def test_types_are_compared_with_refs_followed(one: Any, other: Any, equal: bool) -> None:
    types = {"id": TEXT, "id2": {"ref": "id"}}

    assert same(one, other, types) is equal
    assert same(other, one, types) is equal


def test_a_path_finds_every_arm_that_has_it() -> None:
    types = {"order": {"record": {"id": TEXT, "at": {"record": {"day": NAT}}}}}
    event = {
        "variant": {
            "Placed": {"ref": "order"},
            "Moved": {"record": {"id": NAT}},
            "Ended": {"unit": {}},
        }
    }

    assert found_at(event, "$value.id", types) == [("$.Placed.id", TEXT), ("$.Moved.id", NAT)]
    assert found_at(event, "$value.at.day", types) == [("$.Placed.at.day", NAT)]
    assert found_at(event, "$tag", types) == [("$.$tag", TEXT)]
    assert found_at(event, "id", types) == []
    assert found_at({"option": event}, "$value.id", types) == []


def test_a_type_is_shown_in_a_few_words() -> None:
    types = {"order": {"record": {"id": TEXT, "n": NAT}}}

    assert type_text({"list": {"ref": "order"}}, types) == "list of record {id, n}"
    assert type_text({"map": {"key": TEXT, "value": {"option": NAT}}}, types) == (
        "map from text to option of nat"
    )
