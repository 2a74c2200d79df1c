"""How a run of the tests is seeded, divided and summed up."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal

import pytest
from hypothesis import core, given, settings, strategies

from tests.part import WHOLE, Part, WrongPartError
from tests.run_seed import VARIABLE, WrongSeedError, rotated, run_seed, seeds, settle_seed
from tests.slowest import Slowest

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
    nodeid: str, duration: float, when: Literal["setup", "call", "teardown"]
) -> pytest.TestReport:
    where = (nodeid.partition("::")[0], 0, "test")
    return pytest.TestReport(nodeid, where, {}, "passed", None, when, duration=duration)


def test_the_slowest_files_are_listed_with_all_that_their_tests_took() -> None:
    slowest = Slowest()
    took = [("b.py::test_x", 2.0), ("a.py::test_x[0]", 1.0), ("a.py::test_x[1]", 1.5)]
    took += [(f"{number}.py::test", 0.25) for number in range(20)]

    for name, seconds in took:
        slowest.pytest_runtest_logreport(report(name, seconds, "setup"))
        slowest.pytest_runtest_logreport(report(name, seconds, "call"))
        slowest.pytest_runtest_logreport(report(name, seconds, "teardown"))

    lines = slowest.lines()
    assert lines[:3] == [
        "    7.5 s     2 tests  a.py",
        "    6.0 s     1 tests  b.py",
        "    0.8 s     1 tests  0.py",
    ]
    assert len(lines) == 11
    assert lines[-1] == "   28.5 s    23 tests  all files, added up over the processes"
