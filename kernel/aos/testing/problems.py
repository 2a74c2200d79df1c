"""The errors that a test world raises (spec/testing.md).

AosError
├── WorldProblem      the test needs something that is missing or not finished    exit 1
│   └── CellFailed    a step faulted, and the test did not expect a fault         exit 1
└── InputRefused      the kernel refused an input; nothing has changed            exit 1
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
    """A fault that failed a cell, with its kind and message from the journal."""

    workflow: str
    key: object
    kind: str
    message: str
    seq: int

    def __str__(self) -> str:
        where = name_cell(self.workflow, self.key)
        return f"record {self.seq}: {where} failed: {self.kind}: {self.message}"


class WorldProblem(Refused):
    """The test needs something that is missing or not finished."""


HINTS: Final = {
    "fuel": "(fuel: an endless loop, or limits.fuel of the workflow is too low)",
    "memory": "(memory: a loop that keeps allocating, or limits.memory_bytes is too low)",
    "trap": "(trap: a panic, an unwrap, an index out of bounds or an overflow; a module that "
    "exports `aos_panic`, as modules of the SDKs do, reports which and where)",
}
"""The usual causes of faults that have no message of the module's own."""

PANICKED: Final = ": panicked: "
"""Precedes the module's own panic message."""


class CellFailed(WorldProblem):
    """Steps faulted, and the test did not expect it. The world has continued without their cells.

    Attributes:
        faults: All of them, in order.
    """

    def __init__(self, faults: Sequence[FaultSeen]) -> None:
        self.faults = tuple(faults)
        lines = [str(fault) for fault in self.faults]
        said = [each for each in self.faults if each.kind == "trap" and PANICKED in each.message]
        silent = {each.kind for each in self.faults if each not in said}
        lines += [HINTS[kind] for kind in sorted(silent & HINTS.keys())]
        super().__init__("\n".join([*lines, "(if the test expects a fault: may_fail=True)"]))


class InputRefused(Refused):
    """The kernel refused an input. Nothing has changed.

    Attributes:
        rule: As ``aos.core.decide.answers.Rule`` spells it.
        message: One sentence.
        blockers: The cells and intents that block a manifest.
    """

    def __init__(self, refusal: Refusal) -> None:
        self.rule = refusal.rule.value
        self.message = refusal.message
        self.blockers: tuple[Blocker, ...] = refusal.blockers
        blocked = "".join(f"\n  {each.cell[0]}: {each.detail}" for each in self.blockers)
        super().__init__(f"{self.rule}: {self.message}{blocked}")
