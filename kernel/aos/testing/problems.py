"""What a test is told when something is not as it says (spec/testing.md).

AosError
├── WorldProblem      the test asked for something that is not there, or is not over    exit 1
│   └── CellFailed    a step faulted, and the test did not say that it may              exit 1
└── InputRefused      the kernel refused an input; nothing has changed                  exit 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aos.audit.views.record_view import name_cell
from aos.core.decide.answers import Blocker, Refusal
from aos.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """A fault that failed a cell: its kind and words are the journal's."""

    workflow: str
    key: object
    kind: str
    message: str
    seq: int

    def __str__(self) -> str:
        where = name_cell(self.workflow, self.key)
        return f"record {self.seq}: {where} failed: {self.kind}: {self.message}"


class WorldProblem(Refused):
    """The test asked for something that is not there, or is not over."""


HINTS: Final = {
    "fuel": "(fuel: a loop without an end, or limits.fuel of the workflow is too little)",
    "memory": "(memory: a loop that keeps what it makes, or limits.memory_bytes is too little)",
    "trap": "(trap: a panic, an unwrap, an index or a sum out of bounds; a module that exports "
    "`aos_panic`, as those of the SDKs do, says which and where)",
}
"""What faults that come without words of the author's usually are."""

PANICKED: Final = ": panicked: "
"""Stands before the words that a module said itself."""


class CellFailed(WorldProblem):
    """Steps faulted where the test did not say that they may. The world went on without them.

    Attributes:
        faults: All of them, in order.
    """

    def __init__(self, faults: Sequence[FaultSeen]) -> None:
        self.faults = tuple(faults)
        lines = [str(fault) for fault in self.faults]
        said = [each for each in self.faults if each.kind == "trap" and PANICKED in each.message]
        silent = {each.kind for each in self.faults if each not in said}
        lines += [HINTS[kind] for kind in sorted(silent & HINTS.keys())]
        super().__init__("\n".join([*lines, "(where a test expects a fault: may_fail=True)"]))


class InputRefused(Refused):
    """The kernel refused an input. Nothing has changed.

    Attributes:
        rule: As ``aos.core.decide.answers.Rule`` spells it.
        message: One sentence.
        blockers: What stands in the way of a manifest.
    """

    def __init__(self, refusal: Refusal) -> None:
        self.rule = refusal.rule.value
        self.message = refusal.message
        self.blockers: tuple[Blocker, ...] = refusal.blockers
        blocked = "".join(f"\n  {each.cell[0]}: {each.detail}" for each in self.blockers)
        super().__init__(f"{self.rule}: {self.message}{blocked}")
