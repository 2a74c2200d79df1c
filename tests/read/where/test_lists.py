"""``--where`` in lists of cells, linear instances, open intents and faults: pages, order, and a
world of a node (spec/search.md, SE-8 to SE-11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aos.read.views import count_view
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


def counted(*words: str | Path) -> tuple[int, list[tuple[Any, int]]]:
    """The number of cells or instances, and their groups."""
    found = here(*words, "--json").json
    assert (found["other_groups"], found["other_count"]) == (0, 0)
    return found["count"], [(each["value"], each["count"]) for each in found["groups"]]


def check_counts(*where: str | Path) -> None:
    """SE-13 to SE-16"""
    cells = ("inspect", "cells", "--workflow", "aos/schedule", *where)
    instances = ("linear", "list", *where)
    interval = "set.when.Every.interval"
    assert counted(*cells, "--count") == (5, [])
    assert counted(*cells, "--count", "--where", f"{interval} > 2m", "--key-prefix", "d") == (1, [])
    assert counted(*cells, "--waits-for", "timer", "--group-by", "runs") == (5, [(0, 5)])
    assert counted(*cells, "--group-by", interval, "--where", f"{interval} in (3m, 5m)") == (
        2, [("3m", 1), ("5m", 1)],
    )  # fmt: skip
    assert counted(*cells, "--group-by", "set.when") == (5, [("Every", 5)])
    assert counted(*cells, "--count", "--group-by", "pinned") == (5, [(False, 5)])
    assert counted(*cells, "--group-by", "fault", "--status", "failed") == (0, [])
    assert counted(*cells, "--group-by", "fault") == (5, [(None, 5)])
    assert counted("inspect", "cells", "--group-by", "key", "--key-prefix", "e", *where) == (
        1, [("e", 1)],
    )  # fmt: skip
    assert counted(*instances, "--count", "--plan", "report") == (3, [])
    assert counted(*instances, "--group-by", "context.customer") == (3, [("c-0", 2), ("c-1", 1)])
    by_step = counted(*instances, "--group-by", "step", "--where", "context.n > 0")
    assert by_step == (2, [("MAKE", 2)])
    assert counted(*instances, "--group-by", "biz_key") == (3, [(None, 3)])

    assert here(*cells, "--count").out == "5\n"
    table = here(*instances, "--group-by", "context.customer")
    assert table.out == "context.customer\tinstances\nc-0\t2\nc-1\t1\n"
    assert table.err.endswith("3 instances\n")

    names = "known: "
    for words, part in (
        (
            (*cells, "--group-by", "run"),
            "group by, column 1: unknown field run (did you mean runs?",
        ),
        ((*cells, "--group-by", "set.evnt"), names),
        ((*cells, "--group-by", "set"), "group by, column 1: set cannot be compared"),
        ((*cells, "--group-by", "runs, key"), "group by, column 5: expected one name"),
        (("inspect", "cells", "--group-by", "runs", *where), "need a workflow: --workflow"),
        ((*instances, "--group-by", "stap"), "did you mean step?"),
        ((*cells, "--count", "--where", "order by key"), "where, column 10: a count has no order"),
        ((*instances, "--count", "--where", "order by plan"), "a count has no order"),
        ((*cells, "--count", "--limit", "3"), "a count has no rows: leave out --limit"),
        ((*cells, "--group-by", "runs", "--sort", "age"), "leave out --sort"),
        ((*instances, "--count", "--offset", "0"), "leave out --offset"),
    ):
        refused = here(*words)
        assert (refused.code, refused.out) == (2, ""), refused
        assert part in refused.err, refused


def check(*where: str | Path) -> None:
    check_intents(*where)
    check_counts(*where)
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


def test_a_count_of_the_past_is_that_of_its_record(world: Path) -> None:
    """SE-10, SE-16"""
    words = ("linear", "list", "--world", world)
    last = here("inspect", "world", "--json", "--world", world).json["journal"]["records"]
    with_one = next(
        seq for seq in range(last, 0, -1) if counted(*words, "--count", "--at", f"{seq}") == (1, [])
    )
    past = ("--group-by", "status", "--at", f"{with_one}")
    assert counted(*words, *past) == (1, [("RUNNING", 1)])
    assert counted(*words, "--count") == (3, [])


def test_the_groups_after_the_first_1000_are_summed(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SE-15"""
    monkeypatch.setattr(count_view, "GROUPS_MAX", 2)
    words = ("inspect", "cells", "--workflow", "aos/schedule", "--group-by", "key")
    found = here(*words, "--json", "--world", world).json

    assert found["count"] == 5
    assert [each["value"] for each in found["groups"]] == ["a", "b"]
    assert (found["other_groups"], found["other_count"]) == (3, 3)
    text = here(*words, "--world", world).out
    assert text == "key\tcells\na\t1\nb\t1\n(3 other values)\t3\n"


def test_lists_of_a_folder(world: Path) -> None:
    check("--world", world)


def test_lists_of_a_node_are_the_same(world: Path, tmp_path: Path) -> None:
    with started(world, tmp_path / "log") as node:
        check("--node", node.url)
