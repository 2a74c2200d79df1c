"""The pytest plugin, in projects of its own (spec/testing.md, T-50 to T-54)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import aos.testing
from tests.testing.stage import ORDERS, ROOT

PLUGIN = "aos.testing.plugin"


def pytest_of(folder: Path, *arguments: str, installed: bool = False) -> tuple[int, str]:
    """Run pytest in a folder, as its owner would."""
    paths = [str(ROOT / "kernel"), *([str(folder)] if installed else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    if not installed:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # other plugins take their time
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


TESTS = f"""
import pytest

ORDER = {{"order_id": "o1", "customer_id": "c1", "patience": "1m",
          "items": [{{"sku": "tea", "quantity": 1, "price_cents": 5}}]}}

@pytest.mark.aos("shop", now="2026-01-01T00:00:00Z")
def test_marked(world):
    world.send("shop/OrderPlaced@1", ORDER)
    world.run()
    assert world.state("order", "o1")["deadline"] == 1_767_225_660 * 10**9

def test_made(aos_world):
    first, second = aos_world("shop"), aos_world({str(ORDERS)!r}, seed="x")
    assert first.manifest == second.manifest

def test_fails(aos_world):
    world = aos_world("shop")
    world.send("shop/OrderPlaced@1", ORDER)
    world.run()
    assert world.status("order", "o1") == "completed"
"""


def test_fixtures_give_worlds_and_a_failure_shows_the_trace(tmp_path: Path) -> None:
    (tmp_path / "aos.toml").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_orders.py").write_text(TESTS)
    # Links in a manifest must stay inside its folder, so the test links to the real folder.
    (tmp_path / "shop").symlink_to(ORDERS)
    code, said = pytest_of(tmp_path, "-p", PLUGIN, "tests", "--strict-markers")

    assert code == 1
    assert "1 failed, 2 passed" in said, said
    assert "- aos world -" in said
    assert "step     shop/order@1 o1 ← 3 · waiting" in said


REPORTS = f"""
from aos.testing import like

ORDER = {{"order_id": "o1", "customer_id": "c1", "patience": "1m",
          "items": [{{"sku": "tea", "quantity": 1, "price_cents": 5}}]}}

def test_unlike(aos_world):
    world = aos_world({str(ORDERS)!r})
    world.send("shop/OrderPlaced@1", ORDER)
    world.run()
    found = world.state("order", "o1")
    assert found == like({{"outcome": "Paid", "items": [{{"sku": "coffee"}}]}})

def test_unlike_in_a_list():
    assert [{{"a": 1}}, {{"a": 2, "b": 3}}] == [{{"a": 1}}, like({{"a": 4}})]

def test_wrong(aos_world):
    aos_world({str(ORDERS)!r}).send("shop/OrderPlaced@1", {{**ORDER, "order_id": 7}})

def test_of_the_author(aos_world):
    world = aos_world({str(ORDERS)!r})
    world.on("shop/stock.reserve@1", lambda params: params["no_such"])
    world.send("shop/OrderPlaced@1", ORDER)
    world.run()
"""


def test_a_report_says_where_a_value_is_unlike_and_has_no_frames_of_aos(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(REPORTS)
    code, said = pytest_of(tmp_path, "-p", PLUGIN)

    assert code == 1
    assert "4 failed" in said, said
    unlike, listed, wrong, own = said.split("\n____")[1:]
    assert '$.items[0].sku: expected "coffee", found "tea"' in unlike
    assert "$.outcome: expected" in unlike
    assert "$[1].a: expected 4, found 2" in listed
    assert "$[0]" not in listed
    assert "$.order_id: expected text, found nat 7" in wrong
    assert "kernel/aos" not in wrong
    assert "direct cause" not in wrong
    assert "KeyError: 'no_such'" in own
    assert "kernel/aos/testing/world.py" in own

    _, whole = pytest_of(tmp_path, "-p", PLUGIN, "--full-trace", "-k", "test_wrong")
    assert "kernel/aos/testing/plain.py" in whole


NOT_DETERMINISTIC = f"""
from aos.testing.sources import SHARED

ITEM = {{"sku": "tea", "quantity": 1, "price_cents": 1}}
PLACED = {{"order_id": "o", "customer_id": "c", "patience": "5m", "items": [ITEM]}}

def spoil(world):
    # As where a module is not deterministic: it answers otherwise the second time.
    world.send("shop/OrderPlaced@1", PLACED)
    world.run()
    run = SHARED.run
    SHARED.run = lambda call: run(call)._replace(fuel=1)

def test_one(aos_world):
    spoil(aos_world({str(ORDERS)!r}))

def test_two(aos_world):
    spoil(aos_world({str(ORDERS)!r}, replay=False))
"""


def test_a_world_that_does_not_replay_fails_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_replay.py").write_text(NOT_DETERMINISTIC)
    code, said = pytest_of(tmp_path, "-p", PLUGIN)
    assert code == 1
    assert "2 passed, 1 error" in said, said
    assert "replay differs in fuel" in said
    assert "- aos world -" in said
    code, said = pytest_of(tmp_path, "-p", PLUGIN, "--aos-no-replay")
    assert (code, "2 passed" in said) == (0, True)


def test_without_a_path_it_is_the_project_or_the_ini_option(tmp_path: Path) -> None:
    test = "def test_it(world):\n    assert 'shop/order@1' in world.manifest.workflows\n"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(test)
    code, said = pytest_of(tmp_path, "-p", PLUGIN, "tests", "-o", f"aos_manifest={ORDERS}")
    assert code == 0, said

    inner = tmp_path / "inner"
    (inner / "tests").mkdir(parents=True)
    (inner / "aos.toml").write_text("")
    (inner / "tests" / "test_it.py").write_text(test)
    code, said = pytest_of(tmp_path, "-p", PLUGIN, "inner/tests")
    assert code == 1
    assert "inner/aos.toml" in said, "the project is there, and its file says nothing"


def test_the_plugin_loads_nothing_for_a_run_that_does_not_use_it(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    heavy = [name for name in sys.modules if name.startswith(('aos.', 'wasmtime'))]\n"
        "    authoring = ['aos.author', 'aos.author.plugin']\n"
        "    assert sorted(heavy) == [*authoring, 'aos.testing', 'aos.testing.plugin']\n"
    )
    code, said = pytest_of(tmp_path, "-p", PLUGIN)
    assert code == 0, said


def test_an_installed_plugin_that_is_also_named_is_loaded_once(tmp_path: Path) -> None:
    installed = tmp_path / "aos_kernel-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: aos-kernel\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{PLUGIN} = {PLUGIN}\n")
    (tmp_path / "test_it.py").write_text("def test_it(aos_world):\n    pass\n")

    for named in ([], ["-p", PLUGIN]):
        code, said = pytest_of(tmp_path, *named, installed=True)
        assert code == 0, said


def test_pyproject_names_the_entry_point_as_the_module() -> None:
    assert f'"{PLUGIN}" = "{PLUGIN}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_everything_that_the_package_names_is_there() -> None:
    for name in aos.testing.__all__:
        assert getattr(aos.testing, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Wrld'"):
        _ = getattr(aos.testing, "Wr" + "ld")
    page = (ROOT / "spec" / "testing.md").read_text("utf-8")
    assert [name for name in aos.testing.__all__ if f"{name}" not in page] == []
