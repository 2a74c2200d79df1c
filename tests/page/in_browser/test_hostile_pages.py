"""A browser follows every link of a world in which every text is hostile, with scripts and without
(spec/page.md, PG-20, PG-21, PG-80)."""

from __future__ import annotations

import os
import re

import pytest

from tests.page.hostile import FEW, TEXTS, hostile_world
from tests.page.hostile_parts import hostile_parts
from tests.page.in_browser.chromium import Chromium
from tests.page.in_browser.page_process import served
from tests.tools import long_form

NAME = os.fsdecode("<img src=x onerror=alert(1)>' {{7*7}}\u202e$(ran)\n".encode() + b"\xff")
"""The name of the world's folder. One byte is no UTF-8."""

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SHOWN = ("cell", "trace", "steps", "intent", "record", "faults", "intents", "cells", "proposals")
"""Pages on which each text is seen."""

PARTS = ("flow", "flows", "linear")
"""The same for flows and linear instances, which only the long form has."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> object:
    path = tmp_path_factory.mktemp("hostile") / NAME
    if long_form():
        worlds = [hostile_world(path), hostile_parts(path.parent / "parts", TEXTS)]
    else:
        worlds = [hostile_world(path, FEW, lives=1)]
    with served(*worlds) as found:
        yield found


def as_shown(text: str) -> str:
    """The text as a reader sees it (cli.md C-6). A browser shows white space as it is laid out."""
    hidden = CONTROL.pattern[:-1] + "\ud800-\udfff]"
    shown = "".join(f"\\u{ord(sign):04x}" if re.match(hidden, sign) else sign for sign in text)
    return " ".join(shown.split())


@pytest.mark.long
@pytest.mark.parametrize("has_scripts", [True, False])
def test_every_link_of_a_hostile_world_is_harmless(
    chromium: Chromium, origin: str, has_scripts: bool
) -> None:
    """PG-20, PG-21, PG-80"""
    chromium.window(has_scripts=has_scripts)
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
        kind = address.split("/")[3].partition("?")[0] if address.startswith("/w/") else ""
        content[kind] = content.get(kind, "") + found.content
        for link in found.links:
            assert link.startswith(("/", "#")), (address, link)
            if link.startswith("/w/") and link not in seen and "/bytes" not in link:
                seen.add(link)
                if not link.partition("?")[0].endswith(".json"):
                    todo.append(link)

    assert as_shown(NAME) in " ".join(content[""].split())
    for kind in (*SHOWN, *(PARTS if long_form() else ())):
        words = " ".join(content[kind].split())
        for text in TEXTS if long_form() else FEW[:1]:
            assert as_shown(text) in words, (kind, text)
