"""Whether two schemas hold the same values (spec/manifest.md, M-61)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.manifest.shapes import Shapes
from tests.core.cases import CASE, COUNTED, LOG, PAY, TEXT, loaded

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
