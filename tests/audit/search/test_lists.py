"""``--where`` in lists of cells and of linear instances: pages, order, and a world of a node
(spec/search.md, SE-8 to SE-10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import here
from tests.node.test_node_process import started
from tests.schedule.stage import SWEEP, sweep
from tests.schedule.test_commands import make_world

FEW = ("a", "b", "c", "d", "e")
NEVER = "2200-01-01T00:00:00Z"
"""No clock fires a schedule during a test."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five schedules with different intervals that have not begun, and three linear instances."""
    path = make_world(
        tmp_path_factory.mktemp("search") / "world",
        *(
            sweep(id=id, every_ms=60_000 * (n + 1), value={"days": n}, start=NEVER)
            for n, id in enumerate(FEW)
        ),
    )
    for n in range(3):
        words = ("--id", f"i-{n}", "--context", f'{{"customer": "c-{n % 2}", "n": {n}}}')
        assert here("linear", "start", "report", *words, "--world", path).code == 0
    assert here("run", "--until-waiting", "--world", path).code == 0
    return path


def found(*words: str | Path) -> list[Any]:
    rows = here("inspect", "cells", "--workflow", "aos/schedule", "--json", *words).json["cells"]
    return [each["key"] for each in rows]


def check(*where: str | Path) -> None:
    longer = "set.when.Every.interval > 2m"
    assert found("--where", f"{longer} and runs = 0", *where) == ["c", "d", "e"]
    assert found("--where", f"{longer} order by set.when.Every.interval desc", *where) == [
        "e", "d", "c",
    ]  # fmt: skip
    pages = [
        found("--where", "order by key desc", "--limit", "2", "--offset", str(offset), *where)
        for offset in (0, 2, 4, 6)
    ]
    assert pages == [["e", "d"], ["c", "b"], ["a"], []]
    assert found("--where", 'set.event = "' + SWEEP + '" and key in (b, e)', *where) == ["b", "e"]

    listed = here("linear", "list", "--json", "--where", "context.customer = c-0", *where).json
    assert [each["instance"] for each in listed["instances"]] == ["i-0", "i-2"]
    words = ("--where", "plan = report and step = MAKE order by context.n desc", "--limit", "2")
    listed = here("linear", "list", "--json", *words, *where).json
    assert [each["instance"] for each in listed["instances"]] == ["i-2", "i-1"]
    assert listed["total"] == 3

    refusals: tuple[tuple[str, ...], ...] = (
        ("inspect", "cells", "--where", "runs = 1"),
        ("inspect", "cells", "--workflow", "aos/schedule", "--where", "run = 1"),
        ("inspect", "cells", "--where", "order by key", "--sort", "age"),
        ("linear", "list", "--where", "stap = MAKE"),
    )
    for refusal in refusals:
        refused = here(*refusal, *where)
        assert refused.code == 2, refused
        assert "where, column" in refused.err or "one order" in refused.err


def test_lists_of_a_folder(world: Path) -> None:
    check("--world", world)


def test_lists_of_a_node_are_the_same(world: Path, tmp_path: Path) -> None:
    with started(world, tmp_path / "log") as node:
        check("--node", node.url)
