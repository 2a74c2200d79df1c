"""Whether two schemas hold the same values (spec/manifest.md, M-61)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.manifest.shapes import Shapes
from tests.core.cases import CASE, COUNTED, LOG, PAY, TEXT, loaded, nodes
from tests.memory_world import air, route

OPTION: dict[str, Any] = {"list": {"option": TEXT}}
NAT: dict[str, Any] = {"nat": {}}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (LOG, LOG, True),
        (LOG, {"$comment": "lines", "list": {"text": {}, "$comment": "a line"}}, True),
        (LOG, {"list": {"ref": "c/Id@1"}}, True),
        (LOG, OPTION, False),
        (LOG, COUNTED, False),
        (COUNTED, {"record": {"count": NAT, "log": LOG}}, True),
        (COUNTED, {"record": {"log": LOG}}, False),
        ({"map": {"key": TEXT, "value": NAT}}, {"map": {"key": NAT, "value": NAT}}, False),
        ({"variant": {"A": NAT}}, {"variant": {"B": NAT}}, False),
    ],
)
def test_schemas_are_the_same_by_their_values_alone(one: Any, other: Any, is_same: bool) -> None:
    old, new = loaded(state=one).effective, loaded(2, state=other).effective
    before, after = old.workflows[CASE], new.workflows[CASE]
    shapes = Shapes(old, new)
    assert shapes.same(before.state, after.state) is is_same
    assert Shapes(new, old).same(after.state, before.state) is is_same
    assert shapes.same(before.key, after.key)
    assert not shapes.same(before.key, None)
    assert shapes.same(None, None)


def test_one_name_may_mean_two_types_in_two_manifests() -> None:
    """The types that the name refers to are looked up in each manifest separately."""
    old = loaded(state={"list": {"ref": "c/Pay@1"}}).effective
    nodes: Any = {"list": {"ref": "c/Paid@1"}}
    new = loaded(state=nodes).effective
    assert not Shapes(old, new).same(old.workflows[CASE].state, new.workflows[CASE].state)


def test_an_effect_is_the_same_for_who_asks_for_it() -> None:
    old = loaded().effective
    for new, is_same in ((loaded(2), True), (loaded(2, receipt=NAT), False)):
        found = new.effective
        assert Shapes(old, found).same_effect(old.effects[PAY], found.effects[PAY]) is is_same


@pytest.mark.parametrize(
    ("old", "new", "is_extended"),
    [
        (COUNTED, COUNTED, True),
        (COUNTED, {"record": {**COUNTED["record"], "by": {"option": TEXT}}}, True),
        (COUNTED, {"record": {**COUNTED["record"], "by": {"ref": "c/Id@1"}}}, False),
        (COUNTED, {"record": {**COUNTED["record"], "by": TEXT}}, False),
        ({"record": {**COUNTED["record"], "by": {"option": TEXT}}}, COUNTED, False),
        (
            {"list": COUNTED},
            {"list": {"record": {**COUNTED["record"], "by": {"option": NAT}}}},
            True,
        ),
        ({"variant": {"A": NAT}}, {"variant": {"A": NAT, "B": {"option": NAT}}}, False),
        ({"record": {"a": {"option": NAT}}}, {"record": {"a": {"option": TEXT}}}, False),
    ],
)
def test_a_schema_is_extended_by_optional_fields_alone(
    old: Any, new: Any, is_extended: bool
) -> None:
    """M-62."""
    one, two = loaded(state=old).effective, loaded(2, state=new).effective
    before, after = one.workflows[CASE].state, two.workflows[CASE].state

    assert Shapes(one, two).extends(before, after) is is_extended


def test_an_effect_whose_params_are_extended_is_the_same_and_one_with_another_receipt_is_not() -> (
    None
):
    """K-72b."""
    one = loaded().effective
    params = nodes()
    next(each for each in params if each["name"] == "c/Pay@1")["type"] = {
        "record": {"n": NAT, "memo": {"option": TEXT}}
    }
    receipt = nodes(receipt={"option": TEXT})
    more, other = (air(each, [route("c/Go@1", CASE, "id")]).effective for each in (params, receipt))

    assert Shapes(one, more).same_effect(one.effects[PAY], more.effects[PAY])
    assert not Shapes(more, one).same_effect(more.effects[PAY], one.effects[PAY])
    assert not Shapes(one, other).same_effect(one.effects[PAY], other.effects[PAY])
