"""A browser follows every link of a world in which every text is hostile, with scripts and without
(spec/page.md, PG-20, PG-21, PG-80)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

import pytest

from tests.page.hostile import FEW, TEXTS, hostile_world
from tests.page.hostile_parts import hostile_parts
from tests.page.in_browser.chromium import Chromium
from tests.page.in_browser.page_process import served
from tests.run_seed import rotated
from tests.tools import long_form

NAME = os.fsdecode("<img src=x onerror=alert(1)>' {{7*7}}\u202e$(ran)\n".encode() + b"\xff")
"""The name of the world's folder. One byte is no UTF-8."""

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SHOWN = ("cell", "trace", "steps", "intent", "record", "faults", "intents", "cells", "proposals")
"""Pages on which each text is seen."""

PARTS = ("flow", "flows", "linear")
"""The same for flows and linear instances."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> object:
    path = tmp_path_factory.mktemp("hostile") / NAME
    world = hostile_world(path) if long_form() else hostile_world(path, FEW, lives=1)
    with served(world) as found:
        yield found


@pytest.fixture(scope="module")
def parts_origin(tmp_path_factory: pytest.TempPathFactory) -> object:
    path = tmp_path_factory.mktemp("hostile") / "parts"
    with served(hostile_parts(path, TEXTS if long_form() else TEXTS[:1])) as found:
        yield found


def as_shown(text: str) -> str:
    """The text as a reader sees it (cli.md C-6). A browser shows white space as it is laid out."""
    hidden = CONTROL.pattern[:-1] + "\ud800-\udfff]"
    shown = "".join(f"\\u{ord(sign):04x}" if re.match(hidden, sign) else sign for sign in text)
    return " ".join(shown.split())


@pytest.mark.long
@pytest.mark.parametrize("has_scripts", rotated([True, False]))
def test_every_link_of_a_hostile_world_is_harmless(
    chromium: Chromium, origin: str, has_scripts: bool
) -> None:
    """PG-20, PG-21, PG-80"""
    chromium.window(has_scripts=has_scripts)

    content = followed(chromium, origin)

    assert as_shown(NAME) in content[""]
    for kind in SHOWN:
        for text in TEXTS if long_form() else FEW[:1]:
            assert as_shown(text) in content[kind], (kind, text)


@pytest.mark.long
def test_hostile_flows_and_linear_instances_are_harmless(
    chromium: Chromium, parts_origin: str
) -> None:
    """PG-20, PG-21, PG-80, PG-88"""
    chromium.window()

    content = followed(chromium, parts_origin, ("", *PARTS))

    for kind in PARTS:
        for text in TEXTS if long_form() else TEXTS[:1]:
            assert as_shown(text) in content[kind], (kind, text)


def followed(
    chromium: Chromium, origin: str, kinds: Collection[str] | None = None
) -> dict[str, str]:
    """Visit every page that a link leads to, or those of some kinds, each of which is harmless;
    return what they show, by kind."""
    start = "/"
    todo, seen = [start], {start}
    content: dict[str, str] = {}
    while todo:
        address = todo.pop()
        found = chromium.visit(origin + address)
        assert found.happened == [], (address, found.happened)
        assert found.ran is None, address
        assert found.url.startswith(origin), address
        assert not CONTROL.search(found.content), address
        kind = _kind(address)
        content[kind] = content.get(kind, "") + found.content
        for link in found.links:
            assert link.startswith(("/", "#")), (address, link)
            if link.startswith("/w/") and link not in seen and "/bytes" not in link:
                seen.add(link)
                is_json = link.partition("?")[0].endswith(".json")
                if not is_json and (kinds is None or _kind(link) in kinds):
                    todo.append(link)
    return {kind: " ".join(text.split()) for kind, text in content.items()}


def _kind(address: str) -> str:
    return address.split("/")[3].partition("?")[0] if address.startswith("/w/") else ""
