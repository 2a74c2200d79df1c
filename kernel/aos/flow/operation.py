"""One operation of a flow's history, and one compensation (spec/flow.md, FL-21, FL-28)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from aos.flow.details import Details
from aos.flow.failure import Failure
from aos.flow.paths import escaped


class OperationKind(enum.IntEnum):
    """The kinds of operations; the numbers are part of the format."""

    STEP = 0
    LOCAL = 1
    EMIT = 2
    SLEEP = 3
    LISTEN = 4
    JOIN = 5
    RACE = 6
    BRANCH = 7
    SCOPE = 8
    LOOP = 9
    ITERATION = 10
    CHECKPOINT = 11
    ROLLBACK_TO = 12
    COMMIT = 13
    VERSION = 14
    REMOVED = 15
    CALL = 16
    SPAWN = 17

    @property
    def word(self) -> str:
        return self.name.lower()


class OperationState(enum.IntEnum):
    """The states of an operation; the numbers are part of the format."""

    PENDING = 0
    RUNNING = 1
    COMPLETED = 2
    FAILED = 3
    EXHAUSTED = 4
    CANCELED = 5

    @property
    def word(self) -> str:
        return self.name.lower()

    @property
    def is_over(self) -> bool:
        """Whether nothing of the operation is in flight or to come."""
        return self >= OperationState.COMPLETED


class UndoState(enum.IntEnum):
    """The states of a compensation; the numbers are part of the format."""

    REGISTERED = 0
    RUNNING = 1
    DONE = 2
    STUCK = 3
    SKIPPED = 4

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation. Times are ns of logical time.

    ``parent`` is the index of the scope that it belongs to, None for the root. ``name`` is as the
    author wrote it; that of an iteration is ``~N``.
    """

    parent: int | None
    kind: OperationKind
    name: str
    state: OperationState
    attempts: int
    created_ns: int
    last_ns: int | None
    done_ns: int | None
    details: Details

    @property
    def part(self) -> str:
        """The part of its path after that of its scope."""
        return self.name if self.kind is OperationKind.ITERATION else escaped(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensation:
    """A registered effect that takes back what the step at ``path`` did. Times are ns of logical
    time; ``params`` are canonical CBOR."""

    path: str
    effect: str
    params: bytes
    state: UndoState
    attempts: int
    created_ns: int
    last_ns: int | None
    done_ns: int | None
    failure: Failure | None


SCOPES: Final = frozenset(
    {
        OperationKind.JOIN,
        OperationKind.RACE,
        OperationKind.BRANCH,
        OperationKind.SCOPE,
        OperationKind.LOOP,
        OperationKind.ITERATION,
    }
)
"""The kinds that have operations of their own. One that is over has collapsed into its result."""
