"""Failed instances on the terminal: one line for each cause, with a count (H-85a)."""

from __future__ import annotations

from collections.abc import Callable

from aos.core.journal.records import CellId
from aos.host.world.fault_reports import GATHER_S, FaultReports
from aos.host.world.unit import FaultNote


class Watching:
    """A reporter whose timer the test fires."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.reports = FaultReports(
            self.lines.append, lambda s, call: self.timers.append((s, call)), lambda cell: cell[0]
        )

    def fail(self, *seqs: int, workflow: str = "order", message: str = "out of bounds") -> None:
        self.reports.add(fault(seq, workflow, message) for seq in seqs)

    def fire(self) -> None:
        [(seconds, call)] = self.timers
        assert seconds == GATHER_S
        self.timers.clear()
        call()


def fault(seq: int, workflow: str, message: str) -> FaultNote:
    cell: CellId = (workflow, b"")
    return FaultNote(seq=seq, cell=cell, kind="trap", message=message, engine_text=None)


FIRST = "order failed at record 1: trap: out of bounds"


def test_ten_faults_of_one_cause_are_one_line_and_a_count() -> None:
    found = Watching()

    found.fail(1, 2, 3)
    for seq in range(4, 11):
        found.fail(seq)

    assert found.lines == [FIRST]
    found.fire()
    assert found.lines == [
        FIRST,
        (
            "order: 9 more failed with the same fault, the last at record 10: trap: out of bounds "
            "(aos inspect faults lists them)"
        ),
    ]


def test_other_causes_are_lines_of_their_own() -> None:
    found = Watching()

    found.fail(1)
    found.fail(2, workflow="ledger")
    found.fail(3, message="unreachable")
    found.fail(4)
    found.fire()

    assert found.lines == [
        FIRST,
        "ledger failed at record 2: trap: out of bounds",
        "order failed at record 3: trap: unreachable",
        (
            "order: 1 more instance failed with the same fault, the last at record 4: trap: "
            "out of bounds (aos inspect faults lists them)"
        ),
    ]


def test_one_fault_is_one_line_and_after_a_pause_the_next_is_printed_again() -> None:
    found = Watching()

    found.fail(1)
    found.fire()
    found.fail(2)
    found.reports.flush()

    assert found.lines == [FIRST, "order failed at record 2: trap: out of bounds"]
