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

from aos.core.decide.answers import Blocker, Refusal
from aos.errors import Refused
from aos.read.lens.words import name_cell
from aos.testing.plain import plain_key


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """A fault that failed a cell, with its kind and message from the journal."""

    workflow: str
    key: object
    kind: str
    message: str
    seq: int

    def __str__(self) -> str:
        cell_name = name_cell(self.workflow, self.key)
        return f"record {self.seq}: {cell_name} failed: {self.kind}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockerSeen:
    """Why an instance blocks a manifest (K-70, K-71). ``key`` is None if its workflow has no keys,
    or if all instances of the workflow are meant."""

    workflow: str
    key: object
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{name_cell(self.workflow, self.key)}: {self.kind}, {self.detail}"


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
        panics = [
            fault for fault in self.faults if fault.kind == "trap" and PANICKED in fault.message
        ]
        silent = {fault.kind for fault in self.faults if fault not in panics}
        lines += [HINTS[kind] for kind in sorted(silent & HINTS.keys())]
        super().__init__("\n".join([*lines, "(if the test expects a fault: may_fail=True)"]))


class InputRefused(Refused):
    """The kernel refused an input. Nothing has changed.

    Attributes:
        rule: As ``aos.core.decide.answers.Rule`` spells it.
        message: One sentence.
        blockers: The instances that block a manifest.
    """

    def __init__(self, refusal: Refusal) -> None:
        self.rule = refusal.rule.value
        self.message = refusal.message
        self.blockers = tuple(map(_plain_blocker, refusal.blockers))
        blocked = "".join(f"\n  {blocker}" for blocker in self.blockers)
        super().__init__(f"{self.rule}: {self.message}{blocked}")


def _plain_blocker(blocker: Blocker) -> BlockerSeen:
    workflow, key = blocker.cell
    return BlockerSeen(
        workflow=workflow, key=plain_key(key), kind=blocker.kind, detail=blocker.detail
    )
