"""How a run of the tests is seeded, divided and summed up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import core, given, settings, strategies

from aos.errors import BadUsage
from aos.fastcore.core_kind import CORE_VARIABLE, CoreKind
from tests import time_budget
from tests.part import WHOLE, Part, WrongPartError
from tests.run_core import core_of_seed, other_core, settle_core
from tests.run_seed import (
    VARIABLE,
    WrongSeedError,
    in_turns,
    rotated,
    run_seed,
    seeds,
    settle_seed,
)
from tests.time_budget import BUDGETS_S, SHARED, TimeBudget, folder_of

ROOT = Path(__file__).parents[1]
TODAY = date(2026, 11, 22)
NAMES = [f"tests/core/test_{number}.py::test_something[{number}]" for number in range(400)]


def test_the_seed_is_the_day_unless_the_environment_names_one() -> None:
    environment: dict[str, str] = {}

    assert settle_seed(environment, TODAY) == 20261122
    assert settle_seed(environment, TODAY + timedelta(days=1)) == 20261122, "a run keeps its seed"
    assert settle_seed({VARIABLE: "7"}, TODAY) == 7


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "1234567890", "٣"])
def test_a_seed_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(WrongSeedError, match="expected a number of at most 9 digits, found"):
        settle_seed({VARIABLE: text}, TODAY)


def test_two_days_share_no_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "20261122")
    one = seeds(10_000)
    monkeypatch.setenv(VARIABLE, "20261123")

    assert not set(one) & set(seeds(10_000))


def test_each_day_takes_another_of_the_choices_and_the_long_form_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AOS_LONG", raising=False)
    monkeypatch.setenv(VARIABLE, "20261122")
    one = rotated(("a", "b"))
    monkeypatch.setenv(VARIABLE, "20261123")

    assert sorted(one + rotated(("a", "b"))) == ["a", "b"]
    monkeypatch.setenv("AOS_LONG", "1")
    assert rotated(("a", "b")) == ["a", "b"]


@pytest.mark.parametrize("days", [1, 2, 3, 4])
def test_each_of_many_choices_has_its_turn_in_any_week_and_the_long_form_has_all(
    monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    monkeypatch.delenv("AOS_LONG", raising=False)
    for first in range(60):
        turns = []
        for day in range(first, first + 7):
            monkeypatch.setenv(VARIABLE, f"{date(2026, 11, 22) + timedelta(day):%Y%m%d}")
            turns.append(in_turns(days, "abcdefg"))
        assert {choice for turn in turns for choice in turn} == set("abcdefg")
        assert min(map(len, turns)) == 7 // days

    monkeypatch.setenv("AOS_LONG", "1")
    assert in_turns(days, "abcdefg") == list("abcdefg")


def test_two_days_in_a_row_have_both_kernels_and_no_choice_always_has_the_same() -> None:
    """A choice of two, three or four (``rotated``) meets both kernels within some days."""
    for even in range(20261122, 20261222, 2):
        assert core_of_seed(even) is other_core(core_of_seed(even + 1))
    for count in (1, 2, 3, 4):
        for choice in range(count):
            days = [seed for seed in range(20261101, 20261131) if seed % count == choice]
            assert {core_of_seed(seed) for seed in days} == set(CoreKind)


def test_the_kernel_of_a_run_is_the_one_that_is_named_or_in_a_whole_run_that_of_the_seed() -> None:
    for seed in range(20261122, 20261132):
        environment: dict[str, str] = {}
        assert settle_core(environment, seed=seed, is_whole=True) is core_of_seed(seed)
        assert environment == {CORE_VARIABLE: core_of_seed(seed).value}
        empty = {CORE_VARIABLE: ""}
        assert settle_core(empty, seed=seed, is_whole=False) is CoreKind.PYTHON
        assert empty == {CORE_VARIABLE: "python"}
        for core_kind in CoreKind:
            named = {CORE_VARIABLE: core_kind.value}
            assert settle_core(named, seed=seed, is_whole=True) is core_kind

    with pytest.raises(BadUsage, match="AOS_CORE: expected python or fast, found 'rust'"):
        settle_core({CORE_VARIABLE: "rust"}, seed=1, is_whole=True)


RUN_OF_ALL = """
import os
def test_in_a_worker_process():
    assert os.environ["AOS_CORE"] == {core!r}, "on purpose"
"""


@pytest.mark.parametrize("seed", ["1", "2"])
@pytest.mark.parametrize("is_long", [False, True])
def test_a_run_of_all_tests_prints_its_kernel_and_how_a_failure_is_repeated_with_it(
    tmp_path: Path, seed: str, is_long: bool
) -> None:
    expected = core_of_seed(int(seed))
    (tmp_path / "tests").mkdir()
    mark = "import pytest\npytestmark = pytest.mark.long\n"
    (tmp_path / "tests" / "test_a.py").write_text(
        mark + RUN_OF_ALL.format(core=other_core(expected).value)
    )
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\ntestpaths = ['tests']\n"
        "markers = ['long: long form', 'rotated: in turns']\n"
    )
    words = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-n", "1", "tests"]
    form = {"AOS_LONG": "1"} if is_long else {}
    kept = {
        name: text for name, text in os.environ.items() if name not in (CORE_VARIABLE, "AOS_LONG")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *(["-m", "long"] if is_long else [])],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=240,
        env={**kept, **form, "PYTHONPATH": str(ROOT), VARIABLE: seed},
    )  # fmt: skip

    name = expected.value
    assert f"kernel of this run: {name} (AOS_CORE={name} repeats it)" in done.stdout
    assert f"assert '{name}' == " in done.stdout, "the worker process has the same"
    again = f"AOS_CORE={name} AOS_TEST_SEED={seed} .venv/bin/python -m pytest 'tests/test_a.py::"
    assert ("AOS_LONG=1 " if is_long else "") + again in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("commit", "named", "part", "kernel"),
    [
        ("0000000300", "", "4/16", "python"),
        ("0000000310", "", "4/16", "fast"),
        ("000000f2e0", "", "3/16", "python"),
        ("000000f2f0", "", "3/16", "fast"),
        ("0000000310", "python", "4/16", "python"),
        ("0000000300", "fast", "4/16", "fast"),
    ],
)
def test_the_commit_chooses_part_and_kernel_of_what_ci_runs(
    tmp_path: Path, commit: str, named: str, part: str, kernel: str
) -> None:
    """Each target of ``make`` gets the kernel; after a failure, the last line repeats it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    made = '#!/bin/sh\necho "made $* with $AOS_CORE"\n'
    failed = 'case "$1" in test-long) exit 7 ;; esac\n'
    texts = {"git": f"#!/bin/sh\necho {commit}\n", "make": made + failed, "go": "#!/bin/sh\n"}
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (programs / "dirname").symlink_to(str(shutil.which("dirname")))
    (tmp_path / ".ci").mkdir()
    script = shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    environment = {"PATH": str(programs), **({CORE_VARIABLE: named} if named else {})}

    done = subprocess.run(
        [str(shutil.which("bash")), script], env=environment, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip

    lines = done.stdout.splitlines()
    assert lines[0] == f"commit {commit}: part {part} of the long tests, kernel {kernel}"
    assert f"made test with {kernel}" in lines
    assert f"made test-long PART={part} with {kernel}" in lines
    assert lines[-1] == f"failed; AOS_CORE={kernel} .ci/run repeats it with kernel {kernel}"
    assert done.returncode == 7


def test_hypothesis_generates_from_the_seed_of_the_run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn() -> list[int]:
        numbers: list[int] = []

        @given(strategies.integers())
        @settings(max_examples=20)
        def draw(number: int) -> None:
            numbers.append(number)

        draw()
        return numbers

    if request.config.getoption("hypothesis_seed") is None:
        assert core.global_force_seed == run_seed()
    found = drawn()

    assert found == drawn()
    monkeypatch.setattr(core, "global_force_seed", 1 + run_seed())
    assert found != drawn()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_parts_together_are_every_test_once(count: int) -> None:
    parts = [Part(number, count) for number in range(1, count + 1)]

    for name in NAMES:
        assert [part.has(name) for part in parts].count(True) == 1
    for part in parts:
        assert sum(map(part.has, NAMES)) > len(NAMES) / count / 2, "no part is almost empty"


def test_a_part_is_the_same_tests_on_every_machine() -> None:
    assert [number for number in range(30) if Part(2, 4).has(NAMES[number])] == [
        0,
        3,
        6,
        13,
        14,
        24,
        29,
    ]


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "a/b", "1/4/2", "-1/4"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(WrongPartError, match="expected a part such as 2/4, found"):
        Part.from_text(text)


def test_a_part_is_read_as_it_is_written() -> None:
    assert Part.from_text(str(Part(3, 4))) == Part(3, 4)
    assert all(map(WHOLE.has, NAMES))


def report(
    nodeid: str, seconds: float, when: Literal["setup", "call", "teardown"]
) -> pytest.TestReport:
    where = (nodeid.partition("::")[0], 0, "test")
    return pytest.TestReport(nodeid, where, {}, "passed", None, when, processor_s=seconds)


def budget_of(took: list[tuple[str, float]]) -> TimeBudget:
    budget = TimeBudget(is_whole=True)
    for name, seconds in took:
        for when in ("setup", "call", "teardown"):
            budget.pytest_runtest_logreport(report(name, seconds, when))
    return budget


def test_the_files_that_take_most_are_listed_with_all_that_their_tests_took() -> None:
    took = [("b.py::test_x", 2.0), ("a.py::test_x[0]", 1.0), ("a.py::test_x[1]", 1.5)]
    took += [(f"{number}.py::test", 0.25) for number in range(20)]

    lines = budget_of(took).lines()
    assert lines[:3] == [
        "    7.5 s     2 tests  a.py",
        "    6.0 s     1 tests  b.py",
        "    0.8 s     1 tests  0.py",
    ]
    assert len(lines) == 11
    assert lines[-1] == "   28.5 s    23 tests  all files"


def test_a_folder_that_takes_more_than_its_budget_fails_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time_budget, "BUDGETS_S", {"store": 10.0, ".": 1.0})
    monkeypatch.setattr(time_budget, "TOLERANCE", 1.0)
    took = [("tests/store/deep/test_a.py::test", 3.0), ("tests/test_b.py::test", 0.1)]
    took += [("tests/new/test_c.py::test", 0.1)]
    budget = budget_of(took)
    monkeypatch.setattr(budget, "slowness", lambda: 1.0)
    assert [line.split()[0] for line in budget.exceeded()] == ["tests/new"], "it has no budget"

    more = budget_of([*took, ("tests/store/test_d.py::test", 2.1)])
    monkeypatch.setattr(more, "slowness", lambda: 1.0)
    assert [line.split()[0] for line in more.exceeded()] == ["tests/new", "tests/store"]
    assert more.folder_lines() == [
        "folders, in seconds: . 0 of 1, new 0 of 0, store 15 of 10",
    ]


def test_the_end_of_shared_processes_belongs_to_no_folder() -> None:
    """A node of the whole run ends with the last test, which may be any."""
    end = report("tests/store/test_a.py::test", 100.0, "teardown")
    vars(end)["is_of_the_run"] = True
    budget = TimeBudget(is_whole=True)
    budget.pytest_runtest_logreport(end)

    assert budget.seconds == {SHARED: 100.0}
    assert folder_of(SHARED) == "."


def test_every_folder_of_tests_has_a_budget() -> None:
    files = Path(__file__).parent.rglob("test_*.py")
    folders = {folder_of(str(file.relative_to(ROOT))) for file in files}
    assert folders == set(BUDGETS_S)


def test_processor_time_is_that_of_the_test_and_of_its_child_processes(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.time_budget import ProcessorTime, TimeBudget\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(ProcessorTime())\n"
        "    config.pluginmanager.register(TimeBudget(is_whole=False))\n"
    )
    work = "import time\nbegan = time.process_time()\nwhile time.process_time() < began + 0.3: pass"
    (tmp_path / "test_a.py").write_text(
        "import subprocess, sys, time\n"
        f"WORK = {work!r}\n"
        "def test_own(): exec(WORK)\n"
        "def test_child(): subprocess.run([sys.executable, '-c', WORK], check=True)\n"
        "def test_sleep(): time.sleep(1)\n"
    )
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:aos.testing.plugin", "-n", "1"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)], cwd=tmp_path, check=False,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    [line] = [line for line in result.stdout.splitlines() if line.endswith("all files")]
    assert 0.6 <= float(line.split()[0]) < 1.6
