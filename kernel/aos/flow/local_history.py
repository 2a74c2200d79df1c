"""The history of a local run: operations in the tree of their bodies."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aos.flow.flow_error import FlowError

Message = tuple[int, Any]
"""The number of a message, and its value."""


class LocalFault(Exception):
    """The turn cannot continue: a fault of the kind ``kind`` (spec/flow.md, FL-5)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(frozen=True, slots=True)
class LocalOutcome:
    """The end of an operation or body: a value, or a failure."""

    value: Any = None
    error: FlowError | None = None

    def result(self) -> Any:
        """A copy of the value. Raises a copy of the failure."""
        if self.error is not None:
            raise self.error.at("")
        return copy.deepcopy(self.value)


@dataclass(slots=True)
class LocalBody:
    """The function, a branch, a scope or an iteration, with its operations in their order."""

    path: str
    operations: list[LocalOperation] = field(default_factory=list)
    outcome: LocalOutcome | None = None
    has_begun: bool = False
    messages: list[Message] = field(default_factory=list)
    """Those that collapsed operations of it have consumed."""

    def consumed(self) -> Iterator[Message]:
        """The messages that operations of this body have consumed."""
        yield from self.messages
        for operation in self.operations:
            yield from operation.messages
            for body in operation.bodies.values():
                yield from body.consumed()

    def open_operations(self) -> Iterator[LocalOperation]:
        """Operations without an outcome, the outer ones first."""
        for operation in self.operations:
            if operation.outcome is None:
                yield operation
                for body in operation.bodies.values():
                    if body.outcome is None:
                        yield from body.open_operations()


@dataclass(slots=True, kw_only=True)
class LocalOperation:
    """An operation. ``state`` is the state of a loop, ``number`` that of its iteration or of the
    compensations at a checkpoint; ``deadline_ns`` is the end of a sleep, listen or step."""

    kind: str
    name: str
    path: str
    outcome: LocalOutcome | None = None
    ended_turn: int = 0
    bodies: dict[str, LocalBody] = field(default_factory=dict)
    attempts: int = 0
    is_in_flight: bool = False
    is_unsure: bool = False
    deadline_ns: int | None = None
    effect: Any = None
    arguments: dict[str, Any] = field(default_factory=dict)
    state: Any = None
    number: int = 0
    messages: list[Message] = field(default_factory=list)


def path_of(parent: str, name: str) -> str:
    """The path of an operation or branch (FL-11)."""
    escaped = name.replace("%", "%25").replace("/", "%2F")
    if escaped.startswith("~"):
        escaped = f"%7E{escaped[1:]}"
    return f"{parent}/{escaped}" if parent else escaped
