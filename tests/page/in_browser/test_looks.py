"""Every kind of page fits its window, is not blank, and follows WCAG 2.2 AA, as axe-core finds
(spec/page.md, PG-82, PG-83)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import here
from tests.copies import copied
from tests.node.test_node_process import started
from tests.page.form_browser import FormBrowser, made
from tests.page.in_browser.chromium import AXE, ROOT, Chromium, Sight
from tests.page.in_browser.page_kinds import operator_kinds, page_kinds
from tests.page.in_browser.page_shots import (
    FORMS,
    HEIGHT,
    README,
    README_WIDTH,
    Form,
    PageShot,
    page_shots,
    readme_shots,
)
from tests.page.operated import trigger
from tests.run_seed import rotated
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
        "record": ["step", "receipt"], "flow": ["completed", "canceled", "pending"],
        "linear": ["failed", "canceled"], "no": ["flows"], "proposal": ["applied", "withdrawn"],
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
    chromium: Chromium, kinds_origin: str, tmp_path: Path
) -> None:
    """PG-82, PG-83, PG-88"""
    found = list[str]()
    kinds = set[str]()
    left_out = () if long_form() else ALIKE
    for shot in page_shots(chromium, kinds_origin, tmp_path, rotated(FORMS), left_out=left_out):
        kinds.add(shot.kind)
        found += (f"{shot.kind} {shot.form}: {each}" for each in problems(chromium, shot))

    assert not found, "\n".join(found)
    assert len(kinds) > 30


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS if long_form() else FORMS[1:2], ids=str)
def test_the_forms_of_a_node_fit_can_be_read_by_everyone_and_work(
    chromium: Chromium, shop: Path, tmp_path: Path, form: Form
) -> None:
    """PG-52, PG-61, PG-82, PG-83: the form for a token, a list with buttons, the second page of a
    button, and the page after it."""
    world = copied(shop, tmp_path / "world")
    secret = made(world, "ann", "read", "operate")
    key = world / "keys" / "operator.key"
    with started(world, tmp_path / "log", "--operator-key", key) as node:
        chromium.window(form.width, HEIGHT, is_dark=form.is_dark)

        def check(kind: str, sight: Sight) -> None:
            shot = PageShot(kind, form, sight, tmp_path / f"{kind}.png")
            chromium.shot(shot.file)
            assert problems(chromium, shot) == []

        check("open", chromium.visit(f"{node.url}/open"))
        chromium.click("input[type=password]")
        chromium.type(secret)
        chromium.follow()
        check("faults", chromium.follow('main a[href$="/faults"]'))
        check("retry", chromium.follow('main .action[href$="/retry"]'))
        done = chromium.follow("form.order button")
        check("done", done)

    assert "/retry" not in done.url
    assert "control" in done.text


@pytest.mark.long
@pytest.mark.usefixtures("tasks")
def test_the_pages_of_an_operator_fit_and_can_be_read_by_everyone(
    chromium: Chromium,
    operated: Path,
    operator: FormBrowser,
    secrets: dict[str, str],
    tmp_path: Path,
) -> None:
    """PG-65 to PG-69, PG-82, PG-83"""
    trigger(operated)
    for id, *words in (
        ("done", "retry", "--where", "key = f-0", "--wait"),
        ("slow", "retry", "--where", "key ^= f-", "--rate", "1/h"),
        ("stopped", "retry", "--where", "key ^= f-", "--rate", "1/h"),
    ):
        assert here("batch", *words, "--id", f"looks-{id}", "-w", operated).code == 0
    assert here("batch", "stop", "looks-stopped", "-w", operated).code == 0
    kinds = operator_kinds(operator)
    found = list[str]()
    for form in rotated(FORMS):
        chromium.window(form.width, HEIGHT, is_dark=form.is_dark)
        chromium.visit(f"{operator.url}/open")
        chromium.click("input[type=password]")
        chromium.type(secrets["operator"])
        chromium.follow()
        for kind, address in kinds.items():
            sight = chromium.visit(operator.url + address)
            shot = PageShot(kind, form, sight, tmp_path / f"{kind}-{form}.png")
            chromium.shot(shot.file)
            found += (f"{kind} {form}: {each}" for each in problems(chromium, shot))

    assert not found, "\n".join(found)
    assert {"tasks", "schedule", "schedule-paused", "batch-running", "stop"} <= set(kinds)
    assert {"batch-done", "batch-stopped"} <= set(kinds)


VALUE = "() => document.querySelector('textarea').value"
FILL = "text => { document.querySelector('textarea').value = text; }"
REFUSED = "{\n  </textarea><script>window.ran=1</script><img src=x onerror=alert(1)>\u202e"
PLACED = """{"order_id": "from-the-page", "customer_id": "cus-001", "patience": "10h",
  "items": [{"sku": "rope", "quantity": 1, "price_cents": 1899}]}"""


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS if long_form() else FORMS[1:2], ids=str)
def test_the_form_of_an_event_fits_can_be_read_by_everyone_and_works(
    chromium: Chromium, shop: Path, tmp_path: Path, form: Form
) -> None:
    """PG-70, PG-71, PG-74, PG-82, PG-83: the list, the form, a refusal, and the record."""
    with started(copied(shop, tmp_path / "world"), tmp_path / "log") as node:
        kinds = page_kinds(node.url)
        own = {kind for kind in kinds if kind.startswith("send")}
        left_out = kinds.keys() - own
        for shot in page_shots(chromium, node.url, tmp_path, [form], left_out=left_out):
            own.remove(shot.kind)
            assert problems(chromium, shot) == []
        assert own == set()

        chromium.visit(node.url + kinds["world"])
        chromium.follow('nav a[href$="/send"]')
        sight = chromium.follow('main a[href$="OrderPlaced%401"]')
        assert '"order_id": "text"' in chromium.evaluate(VALUE)
        chromium.evaluate(FILL, REFUSED)
        sight = chromium.follow("form.event button")
        assert "line 2, column 3" in sight.text
        assert chromium.evaluate(VALUE) == REFUSED.replace("\u202e", "\\u202e")
        assert sight.ran is None
        refused = PageShot("refused", form, sight, tmp_path / "refused.png")
        chromium.shot(refused.file)
        assert problems(chromium, refused) == []

        chromium.evaluate(FILL, PLACED)
        done = chromium.follow("form.event button")
    assert "/record/" in done.url
    assert "from-the-page" in done.text
    assert done.happened == []


def problems(chromium: Chromium, shot: PageShot) -> list[str]:
    """Return the problems of a page that the window shows."""
    sight = shot.sight
    found = []
    if sight.width > sight.view:
        found.append(f"the page is {sight.width} wide, and its window {sight.view}")
    if len(sight.text) < 80:
        found.append(f"there is no text but {sight.text!r}")
    if shot.file.stat().st_size < LEAST_BYTES:
        found.append("its picture is blank")
    chromium.evaluate(AXE.read_text("utf-8"))
    found += map(_sentence, chromium.evaluate(RUN, TAGS)["violations"])
    if shot.form.width >= WIDE:
        width, view = chromium.evaluate(DOUBLE)
        if width > view:
            found.append(f"with text of 200 % it is {width} wide")
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
