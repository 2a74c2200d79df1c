"""Processor time of the tests: what it is spent on, and the budget of each folder.

The wall clock says how busy a machine is; processor time says how much the tests ask of it. Each
report carries the processor time of its phase, that of ended child processes included, so a run
with any number of processes adds up to the same total. A run of all tests fails if a folder takes
more than ``TOLERANCE`` times its budget, on a slower machine correspondingly more: who adds an
expensive test makes another one cheaper, or gives it a long form.
"""

from __future__ import annotations

import os
import textwrap
import time
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import pytest

FILES: Final = 10
SHARED: Final = "(processes of the whole run)"
REFERENCE_S: Final = 0.08
"""Processor time of ``reference_work`` where the budgets were measured, while a run is going on."""

TOLERANCE: Final = 2.0
"""Times of one machine differ from run to run; a slow test differs by more."""

BUDGETS_S: Final[Mapping[str, float]] = {
    "agentos": 46, "author": 220, "benchmarks": 55, "cli": 320, "client": 30, "cookbook": 125,
    "core": 95, "effects": 80, "extending": 30, "fastcore": 55, "flow": 120, "fuzz": 20,
    "gateway": 110, "guides": 90, "host": 530, "linear": 35, "manifest": 30, "modules": 30,
    "node": 230, "page": 220, "prove": 65, "read": 90, "sandbox": 35, "schedule": 30, "sdk": 90,
    "sealing": 20, "sim": 90, "store": 150, "testing": 55, "transcripts": 60, "values": 20,
    "worker": 35, ".": 210,
}  # fmt: skip
"""Processor time of the tests in each folder of ``tests``, in seconds; ``.`` is ``tests`` alone."""


class ProcessorTime:
    """Notes the processor time of each phase of a test in its report. One for each process."""

    def __init__(self) -> None:
        self._counted_s = 0.0
        self._is_last = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._counted_s = processor_s()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> None:
        self._is_last = nextitem is None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        now_s = processor_s()
        report.processor_s = now_s - self._counted_s
        report.is_of_the_run = self._is_last and report.when == "teardown"
        self._counted_s = now_s
        return report


class TimeBudget:
    """Adds up the processor time of files and folders, and compares it with ``BUDGETS_S``.

    Under xdist only the process that prints sees every report, so only that one needs it.
    """

    def __init__(self, *, is_whole: bool) -> None:
        self.seconds: dict[str, float] = {}
        self.tests: Counter[str] = Counter()
        self._is_whole = is_whole
        self._speeds_s = [reference_work()]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        # The last test of a process ends the nodes that all tests of the process have used.
        payer = SHARED if getattr(report, "is_of_the_run", False) else file
        seconds = getattr(report, "processor_s", 0.0)
        self.seconds[payer] = self.seconds.get(payer, 0.0) + seconds
        self.tests[file] += report.when == "call"
        if report.when == "call" and self.tests.total() % 1000 == 0:
            self._speeds_s.append(reference_work())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._is_whole and exitstatus == pytest.ExitCode.OK and self.exceeded():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"processor time: the {FILES} files that take most")
        for line in self.lines():
            terminalreporter.write_line(line)
        if self._is_whole:
            for line in self.folder_lines():
                terminalreporter.write_line(line)
            for line in self.exceeded():
                terminalreporter.write_line(line, red=True)

    def lines(self) -> list[str]:
        slowest = sorted(self.seconds.items(), key=lambda item: -item[1])[:FILES]
        return [
            *(f"{seconds:7.1f} s  {self.tests[file]:4} tests  {file}" for file, seconds in slowest),
            f"{sum(self.seconds.values()):7.1f} s  {self.tests.total():4} tests  all files",
        ]

    def folder_lines(self) -> list[str]:
        """The time of each folder next to its budget, for who sets the budgets."""
        folders = self.by_folder()
        texts = [
            f"{folder} {folders[folder]:.0f} of {BUDGETS_S.get(folder, 0):.0f}"
            for folder in sorted(folders)
        ]
        return textwrap.wrap(f"folders, in seconds: {', '.join(texts)}", 100)

    def by_folder(self) -> dict[str, float]:
        """Processor time of each folder of ``tests``, in seconds."""
        folders: dict[str, float] = {}
        for file, seconds in self.seconds.items():
            folders[folder_of(file)] = folders.get(folder_of(file), 0.0) + seconds
        return folders

    def slowness(self) -> float:
        """How many times as long this machine takes as the one that the budgets are of."""
        return max(1.0, sorted(self._speeds_s)[len(self._speeds_s) // 2] / REFERENCE_S)

    def exceeded(self) -> list[str]:
        """A sentence for each folder that took more than its budget allows on this machine."""
        factor = TOLERANCE * self.slowness()
        return [
            f"tests/{folder} took {seconds:.0f} s of processor time: expected at most "
            f"{factor * BUDGETS_S.get(folder, 0):.0f} s (tests/time_budget.py)"
            for folder, seconds in sorted(self.by_folder().items())
            if seconds > factor * BUDGETS_S.get(folder, 0)
        ]


def folder_of(file: str) -> str:
    """The folder of ``tests`` that a file is in, ``.`` if it is in ``tests`` itself."""
    parts = PurePosixPath(file).parts
    return parts[1] if len(parts) > 2 else "."


def processor_s() -> float:
    """Processor time of this process and of its child processes that have ended, in seconds."""
    return sum(os.times()[:4])


def reference_work() -> float:
    """Do a fixed amount of work, and return the processor time that it takes, in seconds."""
    began = time.process_time()
    total = 0
    for number in range(400_000):
        total += number % 7
    return time.process_time() - began
