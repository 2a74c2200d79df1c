"""Values that an earlier form of a schema encoded are completed with null (V-46a), and those of a
later form lose null fields that are not known (V-46b)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aos.values.cbor import Value, encode
from aos.values.codec import FILLED_FIELDS_MAX
from aos.values.errors import ValueProblem
from aos.values.schema import Schema, compile_schemas

NAT: dict[str, Any] = {"nat": {}}
TEXT: dict[str, Any] = {"text": {}}
NEW: dict[str, Any] = {"option": TEXT}
ITEM: dict[str, Any] = {"record": {"n": NAT, "new": NEW}}
BOTH: Any = [{"n": 1, "new": None}, {"n": 2, "new": None}]


def schema(type_: object) -> Schema:
    return compile_schemas({"t/T@1": type_, "t/Item@1": ITEM, "t/New@1": NEW})["t/T@1"]


@pytest.mark.parametrize(
    ("type_", "old", "new"),
    [
        (ITEM, {"n": 1}, {"n": 1, "new": None}),
        ({"ref": "t/Item@1"}, {"n": 1}, {"n": 1, "new": None}),
        ({"record": {"n": NAT, "new": {"ref": "t/New@1"}}}, {"n": 1}, {"n": 1, "new": None}),
        (
            {"list": ITEM},
            [{"n": 1}, {"n": 2, "new": "x"}],
            [{"n": 1, "new": None}, {"n": 2, "new": "x"}],
        ),
        ({"set": ITEM}, [{"n": 1}, {"n": 2}], [{"n": 1, "new": None}, {"n": 2, "new": None}]),
        ({"map": {"key": TEXT, "value": ITEM}}, {"a": {"n": 1}}, {"a": {"n": 1, "new": None}}),
        ({"map": {"key": NAT, "value": ITEM}}, {7: {"n": 1}}, {7: {"n": 1, "new": None}}),
        ({"option": ITEM}, {"n": 1}, {"n": 1, "new": None}),
        ({"option": ITEM}, None, None),
        (
            {"variant": {"A": ITEM, "B": {"unit": {}}}},
            {"$tag": "A", "$value": {"n": 1}},
            {"$tag": "A", "$value": {"n": 1, "new": None}},
        ),
        ({"record": {"new": NEW}}, {}, {"new": None}),
        (
            {"record": {"deep": {"list": {"record": {"x": {"option": ITEM}, "y": NEW}}}}},
            {"deep": [{"x": {"n": 1}}, {}]},
            {"deep": [{"x": {"n": 1, "new": None}, "y": None}, {"x": None, "y": None}]},
        ),
    ],
)  # fmt: skip
def test_absent_options_become_null_at_any_depth(type_: Any, old: Value, new: Value) -> None:
    found = schema(type_)

    completed = found.completed(encode(old))

    assert completed == encode(new)
    assert found.from_record(completed) == new
    assert found.completed(completed) is completed
    assert found.completed_value(encode(old)) == found.completed_value(completed) == new


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ({"record": {"n": NAT}}, {}),
        ({"record": {"n": NAT}}, {"n": 1, "more": 1}),
        (ITEM, {"new": "x"}),
        (ITEM, {"n": 1, "new": 2}),
        (ITEM, {"n": -1}),
        ({"variant": {"A": NEW}}, {"$tag": "A"}),
        ({"list": NEW}, [[]]),
        ({"set": ITEM}, [{"n": 2}, {"n": 1}]),
        ({"record": {"h": {"hash": {}}, "new": NEW}}, {"h": "BLAKE3:" + "0" * 64}),
    ],
)  # fmt: skip
def test_anything_else_that_differs_does_not_fit(type_: Any, value: Value) -> None:
    with pytest.raises(ValueProblem):
        schema(type_).completed(encode(value))
    with pytest.raises(ValueProblem):
        schema(type_).completed_value(encode(value))


@pytest.mark.parametrize("data", [b"", b"\xa1\x61n", b"\xa1\x61n\x18\x01", b"\xbf\x61n\x01\xff"])
def test_bytes_that_are_not_canonical_do_not_fit(data: bytes) -> None:
    with pytest.raises(ValueProblem):
        schema(ITEM).completed(data)
    with pytest.raises(ValueProblem):
        schema(ITEM).completed_value(data)


@pytest.mark.parametrize(
    ("type_", "later", "here"),
    [
        ({"record": {"n": NAT}}, {"n": 1, "more": None}, {"n": 1}),
        ({"record": {}}, {"a": None, "b": None}, {}),
        (ITEM, {"n": 1, "more": None}, {"n": 1, "new": None}),
        (ITEM, {"n": 1, "new": "x", "more": None}, {"n": 1, "new": "x"}),
        ({"list": ITEM}, [{"n": 1, "a": None}, {"n": 2}], BOTH),
        ({"set": ITEM}, [{"n": 1, "a": None}, {"n": 2, "a": None}], BOTH),
        ({"map": {"key": TEXT, "value": NEW}}, {"a": None}, {"a": None}),
        ({"map": {"key": NAT, "value": ITEM}}, {7: {"n": 1, "a": None}}, {7: BOTH[0]}),
        ({"option": {"ref": "t/Item@1"}}, {"n": 1, "a": None}, {"n": 1, "new": None}),
        (
            {"variant": {"A": ITEM, "B": {"unit": {}}}},
            {"$tag": "A", "$value": {"n": 1, "a": None}},
            {"$tag": "A", "$value": {"n": 1, "new": None}},
        ),
    ],
)  # fmt: skip
def test_an_event_of_a_later_form_loses_its_unknown_nulls_at_any_depth(
    type_: Any, later: Value, here: Value
) -> None:
    found = schema(type_)

    fitted = found.fitted(encode(later))

    assert fitted == encode(here)
    assert found.from_record(fitted) == here
    assert found.fitted(fitted) is fitted


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (ITEM, {"n": 1, "more": 0}),
        (ITEM, {"more": None}),
        (ITEM, {"n": None, "more": None}),
        ({"record": {"n": NAT, "new": ITEM}}, {"n": 1, "old": None}),
        ({"variant": {"A": NEW}}, {"$tag": "A", "$value": "x", "more": None}),
        ({"variant": {"A": NEW}}, {"$tag": "B", "$value": None}),
        ({"map": {"key": TEXT, "value": NAT}}, {"a": None}),
        ({"list": NEW}, [None, {"more": None}]),
    ],
)  # fmt: skip
def test_an_event_of_a_later_form_may_differ_in_nothing_else(type_: Any, value: Value) -> None:
    with pytest.raises(ValueProblem):
        schema(type_).fitted(encode(value))


def test_only_events_lose_unknown_nulls() -> None:
    later = encode({"n": 1, "more": None})

    with pytest.raises(ValueProblem, match="unknown field"):
        schema(ITEM).completed(later)
    with pytest.raises(ValueProblem, match="unknown field"):
        schema(ITEM).from_ingress(later)


def test_a_value_that_lacks_nothing_is_the_same_object() -> None:
    data = encode({"n": 1, "new": None})

    assert schema(ITEM).completed(data) is data


def test_a_value_may_lack_as_many_fields_as_one_from_outside() -> None:
    """V-46."""
    found = schema({"list": {"record": {"new": NEW}}})

    found.completed(encode([{}] * FILLED_FIELDS_MAX))
    with pytest.raises(ValueProblem, match="too many absent fields"):
        found.completed(encode([{}] * (FILLED_FIELDS_MAX + 1)))


def test_dropping_the_new_fields_of_any_value_and_completing_it_gives_it_back() -> None:
    type_ = {"record": {"a": ITEM, "b": {"list": ITEM}, "c": NEW, "d": {"option": {"list": ITEM}}}}
    found, chance = schema(type_), random.Random(7)

    def item(*, is_old: bool) -> Any:
        new = {} if is_old and chance.random() < 0.5 else {"new": None}
        return {"n": chance.randrange(300), **new}

    for _ in range(100):
        whole: Any = {
            "a": item(is_old=True),
            "b": [item(is_old=True) for _ in range(chance.randrange(4))],
            "d": chance.choice([None, [item(is_old=True)]]),
            **chance.choice([{}, {"c": None}, {"c": "x"}]),
        }
        assert found.completed(encode(whole)) == found.from_ingress(encode(whole))
        assert found.fitted(encode({**whole, "later": None})) == found.completed(encode(whole))
