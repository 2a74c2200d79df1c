"""``--where`` in lists of cells, linear instances, open intents and faults: pages, order, and a
world of a node (spec/search.md, SE-8 to SE-11)."""

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


def waiting(*words: str | Path) -> list[Any]:
    """The keys of the cells whose open intents are listed."""
    rows = here("inspect", "intents", "--workflow", "aos/schedule", "--json", *words).json
    return [each["key"] for each in rows["intents"]]


def check_intents(*where: str | Path) -> None:
    """SE-11"""
    longer = "set.when.Every.interval > 2m"
    assert waiting("--where", longer, *where) == ["c", "d", "e"]
    assert waiting("--where", f"{longer} order by key desc", *where) == ["e", "d", "c"]
    assert waiting("--where", "order by key desc", "--limit", "2", "--offset", "2", *where) == [
        "c", "b",
    ]  # fmt: skip
    assert waiting("--where", longer, "--effect", "timer.set", "--key-prefix", "d", *where) == ["d"]
    assert waiting("--where", longer, "--parked", *where) == []
    none = here("inspect", "faults", "--json", "--where", "key = c", *where).json
    assert none["total"] == 0
    for refusal in (
        ("intents", "--where", longer),
        ("intents", "--workflow", "aos/schedule", "--where", "run = 1"),
        ("faults", "--where", "runs = 1"),
    ):
        refused = here("inspect", *refusal, *where)
        assert refused.code == 2, refused
        assert "where, column" in refused.err
    settled = here("inspect", "intents", "--where", "key = c", "--status", "settled", *where)
    assert settled.code == 2
    assert "a condition selects open intents, by their cells: expected status open" in settled.err


def check(*where: str | Path) -> None:
    check_intents(*where)
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
