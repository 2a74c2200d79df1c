"""The timeline of a cell, as data and as a picture (spec/page.md, PG-40, PG-41)."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aos.page.cell_timeline import (
    FOLDED_FROM,
    LEFT,
    RIGHT,
    WIDTH,
    TimeAxis,
    cell_timeline,
    timeline_picture,
)
from tests.page.browser import Browser, read_page

GOLDEN = Path(__file__).parent / "timeline.json"
SECOND = 1_000_000_000
NOW = 1_795_710_000 * SECOND


def node(kind: str, seq: int, at: float, status: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind, "seq": seq, "index": None, "cell": None, "subject": None, "status": status,
        "at_ns": NOW + int(at * SECOND), "took_ns": None, "value": None, "intent": None,
        "flow": None, "note": None, "logs": [], "is_target": False, "left_out": 0, "children": [],
        **more,
    }  # fmt: skip


def intent(seq: int, at: float, status: str, name: str, *, effect: str, value: Any = None) -> Any:
    hash = f"blake3:{name * 64}"
    return node("intent", seq, at, status, subject=effect, intent=hash, value=value)


def about(kind: str, seq: int, at: float, status: str, name: str, *runs: Any) -> dict[str, Any]:
    return node(
        kind, seq, at, status, subject="shop/pay@1", intent=f"blake3:{name * 64}", children=[*runs]
    )


TRACE = {
    "target": "shop/order@1 o-1",
    "earlier": 3,
    "cases": [],
    "roots": [
        node(
            "event", 10, 0, "delivered", subject="shop/Placed@1",
            children=[
                node(
                    "step", 11, 0, "waiting",
                    children=[
                        intent(11, 0, "error", "a", effect="shop/pay@1"),
                        intent(11, 0, "ok", "b", effect="shop/pay@1"),
                        node("emitted", 11, 0, "delivered", subject="shop/Accepted@1"),
                        intent(11, 0, "open", "c", effect="sys/timer.set@1",
                               value={"deliver_at_ns": NOW + 90 * SECOND, "key": None}),
                    ],
                )
            ],
        ),
        about("attempt", 12, 0.5, "begun", "a"),
        about("stream", 13, 0.7, "delivered", "a"),
        about("receipt", 14, 1, "delivered", "b",
              node("step", 15, 1, "waiting", note="paid",
                   children=[intent(15, 1, "open", "d", effect="shop/pay@1")])),
        about("kernel_receipt", 16, 2, "delivered", "a",
              node("fault", 17, 2, "failed"), node("step", 21, 2, "completed")),
        node("control", 20, 4000, "recorded", subject="retry"),
    ],
}  # fmt: skip


def test_a_timeline_has_inputs_steps_and_bars_of_effects() -> None:
    """PG-40. To write the file again: REWRITE=1."""
    found = json.dumps(cell_timeline(TRACE).to_document(), indent=1) + "\n"

    if os.environ.get("REWRITE"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_bars_of_a_row_are_of_one_effect_and_do_not_overlap() -> None:
    """PG-40"""
    rows: dict[int, list[Any]] = {}
    for bar in cell_timeline(TRACE).bars:
        rows.setdefault(bar.row, []).append(bar)

    assert sorted(rows) == [*range(len(rows))]
    for bars in rows.values():
        assert len({each.effect for each in bars}) == 1
        for before, after in itertools.pairwise(bars):
            assert before.end_ns is not None
            assert before.end_ns < after.begin_ns


def test_only_the_newest_inputs_are_shown_and_the_others_counted() -> None:
    """PG-40"""
    found = cell_timeline(TRACE, inputs_max=2)

    assert (found.earlier, len(found.inputs), len(found.steps)) == (7, 1, 2)


def test_a_cell_without_a_past_has_an_empty_timeline() -> None:
    """PG-40"""
    found = cell_timeline({"roots": [], "earlier": 0})

    assert found.is_empty
    assert timeline_picture(found).bars == ()


def test_a_picture_is_inside_its_frame_and_folds_the_long_gap() -> None:
    """PG-40, PG-41"""
    picture = timeline_picture(cell_timeline(TRACE))

    assert picture == timeline_picture(cell_timeline(TRACE))
    assert [round(each.span_ns / SECOND) for each in picture.folds] == [88, 3910]
    for mark in (*picture.inputs, *picture.steps):
        assert LEFT <= mark.x <= WIDTH - RIGHT
    for bar in picture.bars:
        assert LEFT <= bar.x <= WIDTH - RIGHT
        if bar.bar.end_ns is None and bar.due_x is None:
            assert bar.x + bar.width == WIDTH
        else:
            assert bar.x + bar.width <= WIDTH - RIGHT + 3
        assert bar.y + 16 <= picture.height


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60))
def test_an_axis_keeps_the_order_of_times(times: list[int]) -> None:
    """PG-41"""
    axis = TimeAxis.over(times, 800.0)
    places = [axis.position_of(each) for each in sorted(times)]

    assert places == sorted(places)
    assert all(0 <= each <= 800.1 for each in places)
    if len(set(times)) > 1:
        assert axis.position_of(max(times)) >= 799.9
    gaps = [after - before for before, after in zip(axis.times, axis.times[1:], strict=False)]
    for fold in axis.folds:
        assert fold.span_ns > FOLDED_FROM * sorted(gaps)[(len(gaps) - 1) // 2]


def test_the_page_of_a_cell_has_its_timeline_with_a_table(page: Browser, base: str) -> None:
    """PG-40: also where keys and effects are hostile, which ``read_page`` would find."""
    found = read_page(page.get(f"{base}cell/host/puppet@1/ZHdhaXQ"))

    assert "svg" in found.tags
    assert "The timeline as a table" in found.text
    assert found.text.count("host/echo@1") > 1
