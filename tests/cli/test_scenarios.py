"""``aos test`` (spec/cli.md, C-46)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Aos, run
from tests.testing.stage import ORDERS

ITEM = '{ sku = "tea", quantity = 1, price_cents = 3 }'
GOOD = f"""about = "money is booked"
manifest = {str(ORDERS)!r}

[[step]]
send = "shop/OrderPlaced@1"
value = {{ order_id = "o", customer_id = "c", patience = "5m", items = [{ITEM}] }}

[[step]]
expect = "cell"
workflow = "order"
key = "o"
state = {{ amount_cents = 3 }}
"""
BAD = GOOD.replace("amount_cents = 3", "amount_cents = 4")
TEST = f"def test_it(aos_world):\n    assert aos_world({str(ORDERS)!r}).cells() == []\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a scenario of another manifest; the current folder is below it."""
    (tmp_path / "aos.toml").write_text('[project]\nname = "shop"\nlang = "rust"\n')
    (tmp_path / "tests" / "deep").mkdir(parents=True)
    (tmp_path / "tests" / "good.scenario.toml").write_text(GOOD)
    for passed_over in (".git", "node_modules", "target"):
        (tmp_path / passed_over).mkdir()
        (tmp_path / passed_over / "x.scenario.toml").write_text("no = 1")
    monkeypatch.chdir(tmp_path / "tests" / "deep")
    return tmp_path


def test_scenarios_of_the_project_are_played(aos: Aos, project: Path) -> None:
    ran = aos("test")
    assert ran.code == 0
    assert "✓ ../good.scenario.toml  2 steps, " in ran.out
    assert "  money is booked\n" in ran.out
    assert ran.out.endswith("1 scenario passed\n")


def test_a_failure_is_exit_1_with_its_line_both_sides_and_the_trace(
    aos: Aos, project: Path
) -> None:
    bad = project / "bad.scenario.toml"
    bad.write_text(BAD)
    ran = aos("test", project)
    assert ran.code == 1
    name = "../../bad.scenario.toml"
    assert f"✗ {name}  money is booked\n  {name}:8: step 2 (expect cell): $.state.amount" in ran.out
    assert "      expected  4\n      found     3\n" in ran.out
    assert "    3 event    shop/OrderPlaced@1" in ran.out
    assert ran.out.endswith("2 scenarios, 1 failed\n")

    document = aos("test", project, "--json").json
    assert document["ok"] is False
    assert document["pytest"] is None
    failed, passed = document["scenarios"]
    assert (passed["ok"], passed["failure"]) == (True, None)
    assert (failed["failure"]["line"], failed["failure"]["word"]) == (8, "expect")
    assert failed["failure"]["places"] == [
        {"path": "$.state.amount_cents", "expected": "4", "found": "3"}
    ]


def test_a_file_that_is_not_understood_is_exit_2_and_nothing_runs(aos: Aos, project: Path) -> None:
    (project / "odd.scenario.toml").write_text("[[step]]\nsnd = 1\n")
    ran = aos("test", project)
    assert ran.code == 2
    assert ran.out == ""
    assert "aos: ../../odd.scenario.toml:1: step 1: a step has exactly one action" in ran.err


def test_below_the_current_folder_paths_are_relative_however_they_were_given(
    aos: Aos, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    without = aos("test").out
    assert "✓ tests/good.scenario.toml  2 steps, " in without
    for given in (".", project, "tests", project / "tests/good.scenario.toml"):
        assert "✓ tests/good.scenario.toml  2 steps, " in aos("test", given).out
    document = aos("test", "--json").json
    assert document["scenarios"][0]["path"] == str(project / "tests/good.scenario.toml")


def test_far_from_the_current_folder_paths_are_whole(
    aos: Aos, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    ran = aos("test", project)
    assert f"✓ {str(project)[1:]}/tests/good.scenario.toml  2 steps, " in ran.out
    monkeypatch.chdir(Path(__file__).parent)
    assert f"✓ {project}/tests/good.scenario.toml  2 steps, " in aos("test", project).out


def test_a_missing_file_is_exit_2(aos: Aos, tmp_path: Path) -> None:
    ran = aos("test", tmp_path / "none")
    assert (ran.code, ran.err) == (2, f"aos: {tmp_path}/none: there is no such file or folder\n")
    ran = aos("test", tmp_path)
    assert (ran.code, "there is nothing to test" in ran.err) == (2, True)
    (tmp_path / "x.txt").write_text("")
    ran = aos("test", tmp_path / "x.txt")
    assert (ran.code, "expected a folder, NAME.scenario.toml or a pytest" in ran.err) == (2, True)


@pytest.fixture
def bare(project: Path) -> Path:
    """The same without aos.toml: there is nothing to build."""
    (project / "aos.toml").unlink()
    return project


def test_the_projects_tests_in_python_are_run_too(bare: Path) -> None:
    (bare / "tests" / "test_it.py").write_text(TEST)
    ran = run("test", bare, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["pytest"] == {"exit_code": 0}
    assert "1 passed" in ran.err

    (bare / "tests" / "test_it.py").write_text("def test_it():\n    assert False\n")
    ran = run("test", bare)
    assert ran.code == 1
    assert "1 scenario passed" in ran.out
    assert "1 failed" in ran.out
    assert run("test", bare, "--no-pytest").code == 0


def test_a_run_that_ran_no_test_is_exit_2(bare: Path) -> None:
    (bare / "tests" / "good.scenario.toml").unlink()
    (bare / "tests" / "test_it.py").write_text("ONE = 1\n")
    ran = run("test", bare)
    assert ran.code == 2
    assert "aos: there is nothing to test: expected NAME.scenario.toml, tests/test" in ran.err


def test_without_pytest_tests_in_python_are_exit_4(
    aos: Aos, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare / "tests" / "test_it.py").write_text(TEST)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    ran = aos("test", "..")
    assert ran.code == 4
    assert "1 scenario passed" in ran.out
    assert ran.err == (
        "aos: pytest is not installed, so the tests in .. were not run "
        "(pip install pytest, or run aos test --no-pytest)\n"
    )
    document = aos("test", "..", "--json").json
    assert (document["ok"], len(document["not_run"])) == (False, 1)
    assert aos("test", "..", "--no-pytest").code == 0
