"""The steps of a cell one by one (spec/page.md, PG-44)."""

from __future__ import annotations

import pytest

from aos.errors import BadUsage
from aos.page.cell_timeline import cell_step
from tests.page.browser import Browser, read_page
from tests.page.test_timeline import node


def trace(*runs: object, earlier: int = 0) -> dict[str, object]:
    roots = [node("event", 2 * i, i, "delivered", children=[run]) for i, run in enumerate(runs)]
    return {"roots": roots, "earlier": earlier}


def step(seq: int, state: object) -> dict[str, object]:
    return node("step", seq, seq, "running", value=state)


def test_a_step_names_the_places_in_which_its_state_differs() -> None:
    found = trace(
        step(1, {"paid": 0, "items": [{"qty": 1}]}),
        node("fault", 3, 3, "failed", value={"kind": "trap"}),
        step(5, {"paid": 7, "items": [{"qty": 1}, {"qty": 2}]}),
    )

    last = cell_step(found, None)

    assert last is not None
    assert (last.number, last.count, last.seq) == (3, 3, 5)
    assert [(place.path, place.recorded, place.recomputed) for place in last.differences] == [
        ("$.items[1]", None, {"qty": 2}), ("$.paid", 0, 7),
    ]  # fmt: skip
    fault = cell_step(found, 2)
    assert fault is not None
    assert (fault.state_after, fault.differences, fault.state_before) == (
        None, (), {"paid": 0, "items": [{"qty": 1}]},
    )  # fmt: skip


def test_a_state_without_parts_differs_as_a_whole() -> None:
    found = cell_step(trace(step(1, 1), step(3, 2)), 2)

    assert found is not None
    assert [
        (difference.path, difference.recorded, difference.recomputed)
        for difference in found.differences
    ] == [("$", 1, 2)]


def test_the_first_step_has_no_state_before_unless_earlier_ones_are_left_out() -> None:
    for earlier, is_known in ((0, True), (3, False)):
        found = cell_step(trace(step(1, 1), earlier=earlier), 1)
        assert found is not None
        assert (found.differences, found.has_before) == ((), is_known)


def test_a_large_state_is_not_compared() -> None:
    found = cell_step(trace(step(1, 1), step(3, {"$large": "blake3:00", "size": 9000})), 2)

    assert found is not None
    assert not found.is_whole


def test_a_step_that_is_not_there_is_refused() -> None:
    assert cell_step(trace(), None) is None
    with pytest.raises(BadUsage, match="step: expected 1 to 1, found 2"):
        cell_step(trace(step(1, 1)), 2)


def test_the_page_walks_through_the_steps(page: Browser, base: str) -> None:
    address = f"{base}steps/host/puppet@1/Y2FkYQ"
    last = read_page(page.get(address))
    assert "Step 2 of 2" in last.text
    [before] = [link for link in last.links if "step=" in link]

    first = read_page(page.get(before))

    assert "Step 1 of 2" in first.text
    assert "This is its first state." in first.text
    assert page.get(f"{address}?step=3").status_code == 404
    assert page.get(f"{address}.json?step=1").content == page.get(f"{address}.json").content
