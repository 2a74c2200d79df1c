"""The pages of a world at a router, in a real browser (spec/page.md, PG-134, PG-135)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.conftest import template, trips
from tests.copies import copied
from tests.node.nodes import Node, event, front, running_kernel
from tests.page.form_browser import made
from tests.page.in_browser.chromium import Chromium, Sight
from tests.page.in_browser.page_shots import FORMS, HEIGHT, Form, PageShot
from tests.page.in_browser.test_live_pages import RECORD
from tests.page.in_browser.test_looks import problems
from tests.run_seed import rotated

__all__ = ["template", "trips"]

STYLED = "() => getComputedStyle(document.querySelector('.brand')).fontWeight"
LOADED = "() => performance.getEntriesByType('resource').map(each => new URL(each.name).pathname)"


@pytest.fixture(scope="module")
def world(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(template, tmp_path_factory.mktemp("mounted") / "alpha")


@pytest.fixture(scope="module")
def secret(world: Path) -> str:
    return made(world, "ann", "read", "send")


@pytest.fixture(scope="module")
def node(world: Path, secret: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("front")
    assert secret
    with (
        running_kernel(world) as kernel,
        front(
            world, folder, kernel, module="aos.page.node_page", mount={}, has_tcp_door=True
        ) as found,
    ):
        assert found.owner().post("/v1/events?wait=ran", json=event("t-1")).status_code == 200
        yield found


@pytest.mark.long
@pytest.mark.parametrize("form", rotated(FORMS), ids=str)
def test_a_mounted_world_is_opened_read_and_sent_an_event_to(
    chromium: Chromium, node: Node, secret: str, tmp_path: Path, form: Form
) -> None:
    """PG-82, PG-83, too."""
    chromium.window(form.width, HEIGHT, is_dark=form.is_dark)

    def check(kind: str, sight: Sight, path: str) -> None:
        assert sight.url.startswith(f"{node.url}/w/alpha/{path}"), sight.url
        shot = PageShot(kind, form, sight, tmp_path / f"{kind}.png")
        chromium.shot(shot.file)
        assert chromium.evaluate(STYLED) == "800"
        assert problems(chromium, shot) == []

    refused = chromium.visit(f"{node.url}/w/alpha/cells")
    assert refused.status == 401
    check("open", chromium.follow('main a[href$="/open"]'), "open")
    chromium.click("input[type=password]")
    chromium.type(secret)
    first = chromium.follow()
    assert first.url == f"{node.url}/w/alpha/"
    assert "All worlds" in first.text
    check("first", first, "")
    assert {each for each in chromium.evaluate(LOADED) if "/static/" in each} <= {
        f"/w/alpha/static/{name}" for name in ("page.css", "page.js", "icon.svg")
    }
    check("cells", chromium.follow('nav a[href$="/cells"]'), "cells")
    chromium.visit(f"{node.url}/w/alpha/send?schema=trip/Requested@1")
    sent = chromium.follow("form[method=post] button")
    check("sent", sent, "record/")
    assert chromium.follow('a[href="/"]:not(.brand)').url == f"{node.url}/"


@pytest.mark.long
def test_a_page_of_a_mounted_world_stays_as_the_world_is_now(
    chromium: Chromium, node: Node, secret: str
) -> None:
    """PG-125"""
    chromium.window()
    chromium.visit(f"{node.url}/w/alpha/open")
    chromium.click("input[type=password]")
    chromium.type(secret)
    chromium.follow()
    before = chromium.evaluate(RECORD)

    assert node.owner().post("/v1/events?wait=ran", json=event("t-live")).status_code == 200

    changed = f"() => new Promise((done) => {{ const look = () => ({RECORD})() !== "
    changed += f"{before!r} ? done(true) : setTimeout(look, 50); look(); }})"
    assert chromium.evaluate(changed) is True
