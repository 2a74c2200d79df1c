"""Flows in Python on the interpreter's module (spec/pyflow.md).

The same programs run in Rust and in Python, with the same inputs. After each of them, the state of
the flow must be the same, with its whole history, and so must the requests. A world of these tests
replays itself when it is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aos.testing import Fail
from tests.flow.probe import CHILD, DAY, FLOW, HOUR, MINUTE, Probe
from tests.flow.python_flow import PythonProbe

Steps = tuple[Callable[[Probe], object], ...]


def finish(probe: Probe) -> None:
    probe.world.finish()


def note(text: str) -> Callable[[Probe], object]:
    return lambda probe: probe.note(text)


def bell(probe: Probe) -> None:
    probe.bell(3)


def busy(probe: Probe) -> None:
    probe.answer(**{"try": Fail("busy", "try later", retryable=True)})


def cancel(probe: Probe) -> None:
    probe.control("Cancel", {"rollback": True, "parent": None})


def begin(probe: Probe) -> None:
    probe.begin()


def child(probe: Probe) -> None:
    """Start the flow that a call needs, so that its key is in use."""
    probe.world.send("t/Work@1", {"id": "kid", "what": "first"})
    probe.world.run()


def fire(probe: Probe) -> None:
    probe.fire()


CASES: dict[str, tuple[str, dict[str, Any], Steps]] = {
    "three steps": ("steps", {}, (begin,)),
    "a step that fails for good": ("retry", {}, (busy, begin, finish)),
    "a sleep": ("sleep", {"pause": HOUR}, (begin, finish)),
    "a sleep until a time": ("sleep-until", {"until": 1_710_000_000 * 10**9}, (begin, finish)),
    "messages of two schemas": ("either", {}, (begin, note("a"), bell, note("c"))),
    "a loop": ("drains", {"count": 2}, (begin, note("a;"), note("b;"), finish)),
    "a view and a join": ("shows", {"pause": MINUTE}, (begin, finish)),
    "compensation": ("unwinds", {}, (begin,)),
    "a join": ("join", {}, (begin,)),
    "a race that the steps win": ("race", {}, (begin,)),
    "forty branches": ("many", {"count": 40}, (begin,)),
    "a call": ("calls", {}, (begin, finish)),
    "a call that fails": ("calls", {"count": 1}, (begin, finish)),
    "a call of a key that is in use": ("calls", {"count": 2}, (child, begin, finish)),
    "a canceled call": ("calls", {}, (begin, cancel, finish)),
    "a call that loses": ("races-a-call", {}, (begin, note("enough"), finish)),
    "a call with a rollback that loses": (
        "races-a-call",
        {"count": 1},
        (begin, note("enough"), finish),
    ),
    "a call that wins": ("races-a-call", {}, (begin, finish)),
    "a call that is undone": ("undoes-a-call", {"count": 1}, (begin, finish)),
    "a call that ends before its cancel": ("undoes-a-call", {}, (begin, fire, cancel, finish)),
    "a spawned flow": ("spawns", {}, (begin, finish)),
    "a canceled flow": ("sleep", {"pause": DAY}, (begin, cancel)),
}


def lines(probe: Probe) -> tuple[object, ...]:
    """Everything that both flows must have in common, with the state of the child."""
    world = probe.world
    requests = [
        (request.params, request.issuer_ref, request.requested_key)
        for effect in ("t/do@1", "t/undo@1")
        for request in world.asked(effect)
    ]
    timers = [(timer.issuer_ref, timer.due_ns) for timer in world.timers()]
    emitted = [(event.schema, event.value) for event in world.emitted()]
    states = [world.state(workflow, key) for workflow, key in ((FLOW, probe.key), (CHILD, "kid"))]
    return states, requests, timers, emitted


@pytest.mark.parametrize("case", CASES)
def test_a_flow_in_python_has_the_history_of_the_flow_in_rust(case: str) -> None:
    """PY-40 to PY-46"""
    program, start, steps = CASES[case]
    with Probe(program, **start) as rust, PythonProbe(program, **start) as python:
        for step in steps:
            step(rust)
            step(python)
            if rust.world.records:
                assert lines(python) == lines(rust)


@pytest.mark.parametrize("case", ["three steps", "a step that fails for good"])
def test_the_prepared_program_does_what_its_source_does(case: str) -> None:
    """PY-15: with the same values, and for less fuel."""
    program, start, steps = CASES[case]
    with (
        PythonProbe(program, **start) as prepared,
        PythonProbe(program, is_prepared=False, **start) as parsed,
    ):
        for step in steps:
            step(prepared)
            step(parsed)
        assert lines(prepared) == lines(parsed)
        assert 2 * fuel(prepared) < fuel(parsed)


def fuel(probe: Probe) -> int:
    """The fuel of all turns together."""
    return sum(getattr(record, "fuel", 0) for record in probe.world._desk.records)


@pytest.mark.parametrize("text", ["won", "rollback", "critical"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_race_ends_as_in_rust(text: str, count: int) -> None:
    """PY-44: the losers are canceled, and undone if the race says so."""
    start: dict[str, Any] = {"count": count, "pause": MINUTE}
    with (
        Probe("race", answers=False, **start) as rust,
        PythonProbe("race", answers=False, **start) as python,
    ):
        for probe in (rust, python):
            probe.begin()
        assert lines(python) == lines(rust)
        for probe in (rust, python):
            probe.note(text)
        assert lines(python) == lines(rust)
        for probe in (rust, python):
            probe.answer()
            probe.world.finish()
        assert lines(python) == lines(rust)
        assert rust.status in ("completed", "failed")


def test_a_branch_has_copies_of_the_values_that_it_captures() -> None:
    """PY-45"""
    with PythonProbe("copies") as probe:
        probe.begin()

        assert probe.output == "['one'] ['two'] []"


def test_the_clock_stands_still_and_random_numbers_are_in_locals() -> None:
    """PY-26"""
    with PythonProbe("clock", pause=HOUR) as probe:
        probe.begin()
        probe.world.finish()
        assert probe.output == "True True True"

    with PythonProbe("outside") as probe:
        probe.begin(may_fail=True)
        fault = str(probe.world.faults()[-1])
        assert "os.urandom is not possible in a flow: random numbers are in cx.local" in fault


def test_an_exception_is_a_fault_with_the_lines_of_the_program() -> None:
    """PY-47"""
    with PythonProbe("fails", count=1) as probe:
        probe.begin(may_fail=True)
        fault = str(probe.world.faults()[-1])

    assert "exception" in fault
    assert 'File \\"flow.py\\"' in fault or 'File "flow.py"' in fault
    assert "return str(1 // (go.count - 1))" in fault
    assert "ZeroDivisionError" in fault
    assert "_aos_" not in fault


def frames(program: str) -> list[str]:
    """The lines of a program in the traceback of its fault, the outermost first."""
    with PythonProbe(program, count=1) as probe:
        probe.begin(may_fail=True)
        text = probe.fault[1]
    lines = text.split("\n")
    return [lines[number + 1].strip() for number, line in enumerate(lines) if "File " in line]


def test_the_traceback_has_the_line_that_raised_behind_handlers_that_do_not_match() -> None:
    """PY-47: also in a branch of a join within a scope."""
    assert frames("fails-within") == [
        "return await PROGRAMS[go.program](cx, go)",
        'return await cx.scope("scope", body)',
        'await cx.join("both", left=left, right=lambda cx: cx.sleep("nap", go.pause))',
        "return str(1 // (go.count - 1))",
    ]


@pytest.mark.parametrize(
    ("program", "raised"), [("raises-again", []), ("raises-the-error", ["raise error"])]
)
def test_an_exception_that_is_raised_again_keeps_the_line_that_raised(
    program: str, raised: list[str]
) -> None:
    """PY-47: as in CPython."""
    assert frames(program) == [
        "return await PROGRAMS[go.program](cx, go)",
        *raised,
        "return str(divided())",
        "return 1 // (go.count - 1)",
    ]


def test_memory_that_is_not_there_is_an_exception_with_a_traceback() -> None:
    """PY-23"""
    with PythonProbe("huge") as probe:
        probe.begin(may_fail=True)
        fault = str(probe.world.faults()[-1])

    assert "MemoryError" in fault
    assert 'return str(len("a" * 10**9))' in fault.replace("\\", "")
