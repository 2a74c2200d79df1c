"""Each question of an operator is answered within three clicks from the first page: by mouse, by
keyboard alone, and without scripts (spec/page.md, PG-85)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest

from tests.page.in_browser.chromium import Chromium, Sight
from tests.page.shop import PANIC, SCORING
from tests.run_seed import rotated

CLICKS_MAX: Final = 3
TABS_MAX: Final = 120
IS_FOCUSED: Final = "selector => document.activeElement.matches(selector)"
HAS_MARK: Final = """() => {
  const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
}"""
"""Whether a reader sees which element has the focus."""

FIELD: Final = "input[type=search]"
ORDER: Final = "ord-00020"


@dataclass(frozen=True, slots=True)
class Question:
    """``clicks`` are the elements to click. After a click into a field, ``types`` is typed and sent
    with Enter. ``answers`` are texts of the last page."""

    name: str
    clicks: tuple[str, ...]
    answers: tuple[str, ...]
    types: str = ""


CELL: Final = 'main a[href*="/cell/shop/order"]'
QUESTIONS: Final = (
    Question(
        "the newest fault with its remedy",
        ('main a[href$="/faults"]',),
        (
            PANIC,
            "Remedy: fix its module",
            f"aos cells retry {SCORING} cus-004",
            "newest first",
        ),
    ),
    Question(
        "the oldest open effect with its executor, age and attempt",
        ('main a[href$="/intents"]', 'main tbody a[href*="/intent/"]'),
        ("The executor node should answer it", "It is open since 20", "in attempt 1"),
    ),
    Question(
        "the oldest effect of an executor that is down",
        ('main a[href^="/w/"]', 'main a[href*="effect=shop"]', 'main tbody a[href*="/intent/"]'),
        (
            "The executor shop should answer it",
            "It is open since 20",
            "in attempt 1",
            "--executors",
        ),
    ),
    Question(
        "a timer that waits",
        (FIELD, 'main a[href*="/cell/shop/deadline"]'),
        ("timer due at 20",),
        ORDER,
    ),
    Question(
        "everything about one order by its id",
        (FIELD, CELL, 'main a[href*="/trace/shop/order"]'),
        ("shop/OrderPlaced@1", "shop/stock.reserve@1", "shop/card.charge@1", "no answer for"),
        ORDER,
    ),
    Question(
        "the last change of its state",
        (FIELD, CELL),
        ("Its last step", "receipt", "shop/card.charge@1", "$.charge.$tag", "Asked", "Done"),
        ORDER,
    ),
    Question(
        "its version",
        (FIELD, CELL),
        ("shop/orders.module@1", "manifest of record"),
        ORDER,
    ),
    Question(
        "the operator of that version",
        (FIELD, CELL, 'dl a[href*="/record/"]'),
        (": manifest", "Principal\noperator", "Mode\npin"),
        ORDER,
    ),
)


def by_mouse(chromium: Chromium, question: Question) -> Sight:
    for selector in question.clicks:
        if selector == FIELD:
            chromium.click(selector)
            chromium.type(question.types)
        sight = chromium.follow(None if selector == FIELD else selector)
    return sight


def by_keyboard(chromium: Chromium, question: Question) -> Sight:
    for selector in question.clicks:
        for _ in range(TABS_MAX):
            chromium.press("Tab")
            if chromium.evaluate(IS_FOCUSED, selector):
                break
        else:
            pytest.fail(f"{question.name}: Tab does not reach {selector}")
        assert chromium.evaluate(HAS_MARK), selector
        if selector == FIELD:
            chromium.type(question.types)
        sight = chromium.follow()
    return sight


@pytest.mark.long
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.name)
@pytest.mark.parametrize("way", rotated(["mouse", "keyboard", "without scripts"]))
def test_three_clicks_answer(
    chromium: Chromium, shop_origin: str, way: str, question: Question
) -> None:
    """PG-85"""
    assert len(question.clicks) <= CLICKS_MAX
    chromium.window(has_scripts=way != "without scripts")
    chromium.visit(f"{shop_origin}/")

    sight = (by_keyboard if way == "keyboard" else by_mouse)(chromium, question)

    for text in question.answers:
        assert text in sight.text, sight.text
    assert sight.happened == []
