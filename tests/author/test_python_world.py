"""A project in Python in worlds: it is applied, run, changed and tested as one in Rust (AU-63,
AU-80, AU-84, C-21a). The sources import nothing, which is valid (PF-12)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aos.author.project import PYTHON, Project
from aos.sandbox.cache import standard_folder
from tests.author import python_project
from tests.author.real import NEWCOMERS, others_day
from tests.author.test_dev import dev
from tests.cli.shell import Result, here, run

WAIT_S = 120.0
"""Longer than the interpreter takes to compile on a busy machine."""

FLOW = """\
@schema("shop/Order@1")
class Order:
    order_id: str
    cents: int


@schema("shop/Paid@1")
class Paid:
    charge: str


@effect("shop/charge@1", executor="shop")
class Charge:
    cents: int
    receipt: ClassVar[type[Paid]]


@flow("shop/order@1", key="order_id", upgrade="in_place")
async def order(cx: Cx, placed: Order) -> str:
    paid = await cx.step("charge", Charge(placed.cents))
    await cx.sleep("night", "8h")
    return paid.charge
"""
ORDER = '{"order_id": "o-1", "cents": 5}'

TEST = """
def test_an_order_is_charged_and_ends_in_the_morning(aos_world):
    world = aos_world()
    world.on("shop/charge@1", {"charge": "ch-1"})

    world.send("shop/Order@1", {"order_id": "o-1", "cents": 5})
    world.run()
    world.advance("8h")

    assert world.flow("shop/order@1", "o-1").output == "ch-1"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return python_project.project(tmp_path / "shop", flow=FLOW)


def in_world(folder: Path, *words: str | Path) -> Result:
    return here(*words, "--world", folder / "world")


def test_a_flow_in_python_is_applied_run_shown_and_changed(project: Project) -> None:
    """C-21a, H-77: the gate tries new code on the flows in progress."""
    folder, source = project.folder, project.folder / "flow.py"
    assert here("build", folder).code == 0
    assert here("init", folder / "world").code == 0
    assert in_world(folder, "apply", folder).code == 0

    started = in_world(folder, "flow", "start", "order", ORDER)
    executors = f"{folder / 'effects.py'}:shop"
    ran = in_world(folder, "run", "--until-waiting", "--executors", executors)
    shown = in_world(folder, "flow", "show", "order", "o-1", "--json")

    assert (started.code, ran.code) == (0, 0), started.err + ran.err
    assert shown.json["status"] == "sleeping"
    assert [each["path"] for each in shown.json["operations"]] == ["charge", "night"]

    edit(source, '"charge",', '"pay",')
    stale = in_world(folder, "apply", folder)
    assert stale.code == 1
    assert "the build of shop is stale: flow.py changed" in stale.err
    assert here("build", folder).code == 0
    stopped = in_world(folder, "apply", folder)
    assert stopped.code == 1
    assert 'step "charge" of shop/charge@1' in stopped.out + stopped.err
    assert 'step "pay" of shop/charge@1' in stopped.out + stopped.err

    edit(source, '"pay",', '"charge",')
    edit(source, "return paid.charge", 'return paid.charge + " in time"')
    assert here("build", folder).code == 0
    taken = in_world(folder, "apply", folder)
    assert taken.code == 0, taken.out + taken.err


def edit(source: Path, before: str, after: str) -> None:
    text = source.read_text()
    assert text.count(before) == 1
    source.write_text(text.replace(before, after))


def test_aos_test_builds_a_changed_source_and_runs_its_tests(project: Project) -> None:
    """C-46a, S-50: the second process takes the code of the interpreter from the cache."""
    tests = project.folder / "tests"
    tests.mkdir()
    (tests / "test_shop.py").write_text(TEST)

    first = run("test", project.folder, "--json", timeout=2 * WAIT_S)
    edit(project.folder / "flow.py", "return paid.charge", 'return "wrong"')
    second = run("test", project.folder, "--json", timeout=2 * WAIT_S)

    assert first.json["built"] == second.json["built"] == [str(project.folder)]
    assert (first.json["ok"], second.json["ok"]) == (True, False), first.err
    assert "assert 'wrong' == 'ch-1'" in second.err
    folder = standard_folder(os.environ)
    assert folder is not None
    assert list(folder.glob("*.code"))


def test_aos_dev_takes_up_a_source_that_is_saved(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-80, AU-81, AU-84"""
    monkeypatch.setattr("tests.author.test_dev.WAIT_S", WAIT_S)
    source = project.folder / "flow.py"
    with dev(project) as running:
        running.expect("+ workflow shop/order@1")
        running.expect("running ")
        running.type(f"shop/Order@1 {ORDER}")
        running.expect('{"charge":"ch-5"}')

        source.write_text(FLOW + "    return 5 +\n")
        running.expect("flow.py changed: building")
        running.expect("flow.py:23:15: no valid Python: invalid syntax")
        running.expect("the previous version keeps running")

        source.write_text(FLOW.replace('await cx.sleep("night", "8h")', "pass"))
        running.expect("flow.py changed: building")
        running.expect("~ module shop/shop.module@1: runtime")
        running.type('shop/Order@1 {"order_id": "o-2", "cents": 7}')
        running.expect("shop/order@1 o-2 → completed")

        running.write("effects.py", python_project.EFFECTS + "\n# changed\n")
        running.expect("effects.py changed: restarting executors")
        running.type("quit")
        assert running.end() == 0
    assert "restarting" not in running.said[: running.said.index("effects.py changed")]


@pytest.mark.long
@others_day("python", NEWCOMERS)
def test_a_newcomer_gets_from_nothing_to_a_flow_that_is_tested_and_runs(tmp_path: Path) -> None:
    assert run("new", "tea-shop", "--lang", PYTHON, cwd=tmp_path).code == 0
    folder = tmp_path / "tea-shop"

    tested = run("test", cwd=folder, timeout=2 * WAIT_S)
    event = 'tea-shop/Placed@1 {"order_id": "o-1", "cents": 1000000}\n'  # ends without a month
    ran = run("dev", "--until-idle", cwd=folder, input=event, timeout=2 * WAIT_S)

    assert tested.code == 0, tested.out + tested.err
    assert "1 scenario passed" in tested.out
    assert "10 passed" in tested.out
    assert ran.code == 0, ran.out + ran.err
    assert "over_limit" in ran.out
