"""Graphs in layers: of a trace and of a manifest (spec/page.md, PG-42)."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from aos.page.page_graphs import (
    BOX_HEIGHT,
    BOX_WIDTH,
    NODES_MAX,
    GraphNode,
    graph_picture,
    trace_graph,
)
from aos.page.page_links import PageLinks
from tests.page.browser import Browser, read_page
from tests.page.test_timeline import TRACE

EDGES = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=40)


def nodes(count: int) -> list[GraphNode]:
    return [GraphNode(id=f"{i}", label=f"node {i}") for i in range(count)]


@given(st.integers(1, 15), EDGES)
def test_boxes_do_not_overlap_and_edges_go_to_the_right(
    count: int, edges: list[tuple[int, int]]
) -> None:
    """PG-42: whatever the edges are, also with circles and unknown nodes."""
    named = [(f"{a}", f"{b}") for a, b in edges]
    picture = graph_picture(nodes(count), named)
    assert picture is not None

    places = {(box.x, box.y) for box in picture.boxes}
    assert len(places) == len(picture.boxes) == count
    for box in picture.boxes:
        assert 0 <= box.x <= picture.width - BOX_WIDTH
        assert 0 <= box.y <= picture.height - BOX_HEIGHT
    for x in {box.x for box in picture.boxes}:
        column = sorted(box.y for box in picture.boxes if box.x == x)
        assert all(b - a >= BOX_HEIGHT for a, b in itertools.pairwise(column))
    for curve in picture.curves:
        x0, x1 = int(curve[1:].split(" ")[0]), int(curve.split(" ")[-2])
        assert x0 < x1
    assert picture == graph_picture(nodes(count), named)


def test_a_node_is_behind_all_that_lead_to_it() -> None:
    """PG-42: the longest path decides."""
    picture = graph_picture(nodes(4), [("0", "1"), ("1", "2"), ("0", "2"), ("2", "3")])

    assert picture is not None
    assert [box.x // BOX_WIDTH for box in picture.boxes] == [0, 1, 2, 3]
    assert len(picture.curves) == 4


def test_a_large_graph_is_not_drawn() -> None:
    """PG-42"""
    assert graph_picture(nodes(NODES_MAX), []) is not None
    assert graph_picture(nodes(NODES_MAX + 1), []) is None
    assert graph_picture([], []) is None


def test_a_receipt_is_the_box_of_its_intent() -> None:
    """PG-42"""
    step, receipt = TRACE["roots"][0]["children"][0], TRACE["roots"][3]  # type: ignore[index]
    asked = {**step["children"][1], "children": [receipt]}

    picture = trace_graph([{**step, "children": [asked]}], PageLinks("/w/0", None))

    assert picture is not None
    assert [box.node.kind for box in picture.boxes] == ["step", "intent", "step", "intent"]
    assert len(picture.curves) == 3


def test_traces_and_the_manifest_have_a_graph(page: Browser, base: str) -> None:
    """PG-42"""
    for path, word in (("trace/4", "delivered"), ("manifest", "executor"), ("manifest?at=9", "")):
        found = read_page(page.get(base + path))

        assert "svg" in found.tags, path
        assert word in found.text
