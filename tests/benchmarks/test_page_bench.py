"""The page and its index: tables and aims of given figures, and the parts of a small run."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from benchmarks.page import child
from benchmarks.page.tables import page_aims, page_tables
from benchmarks.rest import child as rest_child

from benchmarks import report
from tests.benchmarks.test_report import MACHINE
from tests.own_cache import use_own_cache
from tests.page.browser import Browser

CELLS = 60


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page-bench") / "world"
    rest_child.run({"do": "make", "path": path, "cells": CELLS, "every": 100})
    return path


def test_every_record_is_folded_and_indexed(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_own_cache(monkeypatch, tmp_path)

    folded = child.run({"do": "fold", "path": str(world), "records": 10_000})
    filled = child.run({"do": "fill", "path": str(world)})

    assert folded["records"] == filled["records"] > 2 * CELLS
    assert filled["bytes"] > 0
    assert (tmp_path / "index").is_dir()


def test_pages_of_every_kind_are_asked_for_at_places_of_the_world(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each address is a page of the world, and no two kinds are one."""
    browser = Browser(world)

    monkeypatch.setattr("benchmarks.page.child.httpx.Client", lambda **_: nullcontext(browser))

    found = child.run({"do": "ask", "url": "", "cells": CELLS, "requests": 2})

    assert {each["refused"] for each in found["pages"]} == {0}
    assert len({each["page"] for each in found["pages"]}) == 12
    assert found["static"] > 1000
    browser.close()


def a_page(name: str, p95_ms: float) -> dict[str, Any]:
    return {"page": name, "p50_ms": 5.0, "p95_ms": p95_ms, "bytes": 60_000, "refused": 0}


def figures() -> dict[str, Any]:
    return {
        "machine": MACHINE, "at": "2026-01-01T00:00:00+00:00", "seconds": 900,
        "fold": {"records": 100, "rate": 40_000.0},
        "fill": {"records": 1000, "rate": 20_000.0, "bytes": 190_000, "own_mib": 90.0},
        "pages": {
            "small": {"cells": 10, "static": 9000, "pages": [a_page("cells by key", 12.0)]},
            "large": {"cells": 1000, "static": 9000, "pages": [a_page("cells by key", 36.0)]},
        },
        "commands": [{"command": "aos trace", "indexed_s": 0.5, "plain_s": 8.0}],
        "running": [
            {"in_flight": number, "without": 1000.0, "with": 950.0} for number in (1, 64)
        ],
    }  # fmt: skip


def test_the_tables_have_each_part_and_each_aim() -> None:
    found = figures()
    text = page_tables(found)

    assert "| cells by key | 5.0, 12.0 | 5.0, 36.0 | 59 | 0 |" in text
    assert "| aos trace | 0.50 | 8.00 |" in text
    assert "## The page" in report.render(None, None, "", page=found)
    assert {each.is_met for each in page_aims(None)} == {None}
    assert {each.is_met for each in page_aims(found)} == {True}


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        (lambda found: found["pages"]["large"]["pages"][0].update(p95_ms=201.0), [0, 1]),
        (lambda found: found["pages"]["large"]["pages"][0].update(refused=1), [0]),
        (lambda found: found["pages"]["large"]["pages"][0].update(p95_ms=37.0), [1]),
        (lambda found: found["fill"].update(rate=19_000.0), [2]),
        (lambda found: found["fill"].update(bytes=201_000), [3]),
        (lambda found: found["fill"].update(own_mib=301.0), [4]),
        (lambda found: found["running"][1].update({"with": 890.0}), [6]),
        (lambda found: found["pages"]["large"]["pages"][0].update(bytes=210_000), [7]),
        (lambda found: found["pages"]["large"].update(static=70_000), [8]),
    ],
)
def test_an_aim_is_missed_by_what_is_slow_or_large(change: Any, missed: list[int]) -> None:
    found = deepcopy(figures())
    change(found)

    assert [place for place, each in enumerate(page_aims(found)) if not each.is_met] == missed
