"""The slowest files of a test run, printed at its end: where the suite's time goes."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

FILES: Final = 10


class Slowest:
    """Adds up what the tests of each file take, with their fixtures.

    Under xdist only the process that prints sees every report, so only that one needs it.
    """

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self.seconds[file] += report.duration  # type: ignore[assignment]  # seconds add up as well
        self.tests[file] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"slowest {FILES} files")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        total = sum(self.seconds.values())
        return [
            *(
                f"{seconds:7.1f} s  {self.tests[file]:4} tests  {file}"
                for file, seconds in self.seconds.most_common(FILES)
            ),
            f"{total:7.1f} s  {self.tests.total():4} tests  all files, added up over the processes",
        ]
