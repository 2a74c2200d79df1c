"""Every kind of page fits its window, is not blank, and follows WCAG 2.2 AA, as axe-core finds
(spec/page.md, PG-82, PG-83)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.page.in_browser.chromium import AXE, ROOT, Chromium
from tests.page.in_browser.page_shots import (
    FORMS,
    README,
    README_WIDTH,
    Form,
    PageShot,
    page_shots,
    readme_shots,
)
from tests.tools import long_form

STATIC = ROOT / "kernel" / "aos" / "page" / "static"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = "tags => axe.run(document, {runOnly: tags, resultTypes: ['violations']})"
DOUBLE = """() => {
  document.documentElement.style.fontSize = '175%';
  return [document.documentElement.scrollWidth, document.documentElement.clientWidth];
}"""
"""Twice the size that the style sheet gives the root."""

ALIKE = frozenset(
    f"{kind}-{status}"
    for kind, statuses in {
        "cell": ["running"], "steps": ["waiting", "failed", "running"],
        "trace": ["failed", "running", "ok", "open"], "intent": ["error"],
        "record": ["step", "receipt"],
    }.items()
    for status in statuses
)  # fmt: skip
"""Kinds of pages whose templates another kind has, too."""

WIDE = 640
"""Pixels of a window in which text of twice the size must fit (WCAG 1.4.4)."""

LEAST_BYTES = 4_000
"""A picture of a page with text has more; a blank one of 320 by 800 pixels has 1,500."""


@pytest.mark.long
def test_every_kind_of_page_fits_and_can_be_read_by_everyone(
    chromium: Chromium, shop_origin: str, tmp_path: Path
) -> None:
    """PG-82, PG-83"""
    forms = FORMS if long_form() else (Form(320, is_dark=True), Form(1280, is_dark=False))
    axe = AXE.read_text("utf-8")
    found = list[str]()
    kinds = set[str]()
    left_out = () if long_form() else ALIKE
    for shot in page_shots(chromium, shop_origin, tmp_path, forms, left_out=left_out):
        kinds.add(shot.kind)
        found += (f"{shot.kind} {shot.form}: {problem}" for problem in _problems(shot))
        chromium.evaluate(axe)
        for each in chromium.evaluate(RUN, TAGS)["violations"]:
            found.append(f"{shot.kind} {shot.form}: {_sentence(each)}")
        if shot.form.width < WIDE:
            continue
        width, view = chromium.evaluate(DOUBLE)
        if width > view:
            found.append(f"{shot.kind} {shot.form}: with text of 200 % it is {width} wide")

    assert not found, "\n".join(found)
    assert len(kinds) > 20


def _problems(shot: PageShot) -> list[str]:
    sight = shot.sight
    found = []
    if sight.width > sight.view:
        found.append(f"the page is {sight.width} wide, and its window {sight.view}")
    if len(sight.text) < 80:
        found.append(f"there is no text but {sight.text!r}")
    if shot.file.stat().st_size < LEAST_BYTES:
        found.append("its picture is blank")
    return [*found, *sight.happened]


def _sentence(violation: Any) -> str:
    places = [each["html"][:160] for each in violation["nodes"][:2]]
    return f"{violation['id']}: {violation['help']} ({len(violation['nodes'])}): {places}"


def test_style_and_script_are_small() -> None:
    """PG-84"""
    sizes = {path.name: path.stat().st_size for path in STATIC.iterdir()}

    assert sum(size for name, size in sizes.items() if name.endswith((".css", ".js"))) <= 60 * 1024


def test_the_readme_has_pictures_of_the_page() -> None:
    """PG-86"""
    text = (ROOT / "README.md").read_text("utf-8")

    for name in README:
        file = ROOT / "spec" / "pictures" / name
        data = file.read_bytes()
        assert f"(spec/pictures/{name})" in text
        assert data.startswith(b"\x89PNG\r\n")
        assert int.from_bytes(data[16:20]) == README_WIDTH
        assert len(data) <= 150 * 1024


def test_the_pictures_of_the_readme_are_made_from_the_shop(
    chromium: Chromium, shop_origin: str, tmp_path: Path
) -> None:
    """PG-86"""
    assert readme_shots(chromium, shop_origin, tmp_path) == len(README)
    for name in README:
        assert LEAST_BYTES * 5 < (tmp_path / name).stat().st_size <= 150 * 1024
