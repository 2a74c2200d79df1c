"""Read the history of a flow from the bytes of ``ops`` (spec/flow.md, FL-20 to FL-28, FL-82).

    [1, [operation…], [compensation…]]

A fourth item, a number, counts the turns in a row that had to continue in another one (FL-6).

Reading is strict: a wrong shape, an unknown kind or a parent that is no earlier scope is an error
with its place, never a guess.

The operations of a flow as a tree, each with its path, and those that are not over: its waits
(spec/flow.md).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

from aos.flow.failure import Failure
from aos.flow.operation import (
    SCOPES,
    UNDO,
    Compensation,
    Operation,
    OperationKind,
    OperationState,
    UndoState,
    joined,
    read_details,
)
from aos.flow.shapes import expect_bytes, expect_list, expect_nat, expect_text, optional_nat
from aos.values.cbor import Value, decode_record
from aos.values.errors import ValueProblem

FORMAT: Final = 1
WITH_CONTINUES: Final = 4
"""The items of a history that counts turns."""

E = TypeVar("E", bound=enum.IntEnum)

EFFECT: Final = "effect"
PAUSE: Final = "pause"
SLEEP: Final = "sleep"
MESSAGE: Final = "message"
CHILD: Final = "child"
RESUME: Final = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The operations of a flow in the order of their creation, and its compensations, the newest
    last."""

    operations: tuple[Operation, ...]
    compensations: tuple[Compensation, ...]

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read ``ops``; no bytes are the history of a flow that has not started.

        Raises:
            ValueProblem: The bytes are no history, or of a later format.
        """
        if not data:
            return cls(operations=(), compensations=())
        parts = expect_list(decode_record(data), "ops")
        if not parts or parts[0] != FORMAT or type(parts[0]) is not int:
            actual = parts[0] if parts else "none"
            raise ValueProblem(
                f"expected a history of format {FORMAT}, found format {actual!r}: a later SDK "
                "wrote it, so a later aos is needed to show it",
                path="ops",
            )
        operations, compensations = _lists(parts)
        found_operations: list[Operation] = []
        for index, operation in enumerate(expect_list(operations, "ops[1]")):
            found_operations.append(_operation(operation, f"ops[1][{index}]", found_operations))
        return cls(
            operations=tuple(found_operations),
            compensations=tuple(
                _compensation(compensation, f"ops[2][{index}]")
                for index, compensation in enumerate(expect_list(compensations, "ops[2]"))
            ),
        )


def _lists(parts: list[Value]) -> tuple[Value, Value]:
    """Return the operations and compensations of a history. Raises ``ValueProblem``."""
    if len(parts) == WITH_CONTINUES and expect_nat(parts.pop(), "ops[3]") == 0:
        raise ValueProblem("expected at least 1, found 0", path="ops[3]")
    _, operations, compensations = expect_list(parts, "ops", 3)
    return operations, compensations


def _operation(value: Value, value_path: str, earlier: list[Operation]) -> Operation:
    parent, kind, name, state, attempts, created, last, done_at, body = expect_list(
        value, value_path, 9
    )
    under = expect_nat(parent, f"{value_path}[0]")
    if under > len(earlier) or (under and earlier[under - 1].kind not in SCOPES):
        raise ValueProblem(
            f"expected 0 or 1 + the index of an earlier scope, found {under}",
            path=f"{value_path}[0]",
        )
    read_kind = _word(OperationKind, kind, f"{value_path}[1]")
    read_state = _word(OperationState, state, f"{value_path}[3]")
    return Operation(
        parent=under - 1 if under else None,
        kind=read_kind,
        name=expect_text(name, f"{value_path}[2]"),
        state=read_state,
        attempts=expect_nat(attempts, f"{value_path}[4]"),
        created_ns=expect_nat(created, f"{value_path}[5]"),
        last_ns=optional_nat(last, f"{value_path}[6]"),
        done_ns=optional_nat(done_at, f"{value_path}[7]"),
        details=read_details(read_kind.word, body, f"{value_path}[8]", is_over=read_state.is_over),
    )


def _compensation(value: Value, value_path: str) -> Compensation:
    path, effect, params, state, attempts, created, last, done_at, failure = expect_list(
        value, value_path, 9
    )
    return Compensation(
        path=expect_text(path, f"{value_path}[0]"),
        effect=expect_text(effect, f"{value_path}[1]"),
        params=expect_bytes(params, f"{value_path}[2]"),
        state=_word(UndoState, state, f"{value_path}[3]"),
        attempts=expect_nat(attempts, f"{value_path}[4]"),
        created_ns=expect_nat(created, f"{value_path}[5]"),
        last_ns=optional_nat(last, f"{value_path}[6]"),
        done_ns=optional_nat(done_at, f"{value_path}[7]"),
        failure=None if failure is None else Failure.of(failure, f"{value_path}[8]"),
    )


def _word(words: type[E], value: Value, value_path: str) -> E:
    return words(expect_nat(value, value_path, max(words)))


@dataclass(slots=True, eq=False)
class OperationNode:
    """An operation with its path, and the operations of its scope in order of creation."""

    path: str
    operation: Operation
    children: list[OperationNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One operation that is not over, and what it waits for.

    ``kind`` is ``effect`` (a receipt for ``effect``), ``pause`` (before its next attempt),
    ``sleep``, ``message`` (one of ``schemas``), ``child`` (the result of ``workflow`` and ``key``),
    or ``resume`` (a compensation that failed for good: an operator). ``until_ns`` is when it ends
    by itself. ``is_canceled`` says that a canceled operation waits for its answer, which decides
    whether it is undone (FL-60a).
    """

    path: str
    kind: str
    since_ns: int
    until_ns: int | None = None
    attempt: int = 0
    effect: str | None = None
    schemas: tuple[str, ...] = ()
    workflow: str | None = None
    key: bytes | None = None
    is_canceled: bool = False


def tree(history: History) -> list[OperationNode]:
    """Return the operations of the root, each with those below it."""
    nodes: list[OperationNode] = []
    roots: list[OperationNode] = []
    for operation in history.operations:
        parent = None if operation.parent is None else nodes[operation.parent]
        node = OperationNode(
            path=joined("" if parent is None else parent.path, operation.part), operation=operation
        )
        nodes.append(node)
        (roots if parent is None else parent.children).append(node)
    return roots


def walk(roots: list[OperationNode]) -> Iterator[OperationNode]:
    """Yield each operation before those below it, in order. No recursion: a tree may be deep."""
    todo = roots[::-1]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(node.children[::-1])


def waits(history: History) -> tuple[Wait, ...]:
    """Return everything that a flow with this history waits for, in order of creation."""
    open_waits = [
        wait
        for node in walk(tree(history))
        if not node.operation.state.is_over
        and (wait := _wait_of(node.path, node.operation)) is not None
    ]
    open_waits += _compensation_waits(history.compensations)
    return tuple(open_waits)


def _wait_of(path: str, operation: Operation) -> Wait | None:
    details = operation.details
    since = operation.created_ns if operation.last_ns is None else operation.last_ns
    match operation.kind:
        case OperationKind.STEP:
            is_open = details.retry_ns is None
            return Wait(
                path=path,
                kind=EFFECT if is_open else PAUSE,
                since_ns=since,
                until_ns=details.until_ns if is_open else details.retry_ns,
                attempt=operation.attempts,
                effect=details.effect,
                is_canceled=details.is_canceled,
            )
        case OperationKind.SLEEP:
            return Wait(
                path=path, kind=SLEEP, since_ns=operation.created_ns, until_ns=details.until_ns
            )
        case OperationKind.LISTEN:
            return Wait(
                path=path,
                kind=MESSAGE,
                since_ns=operation.created_ns,
                until_ns=details.until_ns,
                schemas=details.schemas,
            )
        case OperationKind.CALL:
            return Wait(
                path=path,
                kind=CHILD,
                since_ns=operation.created_ns,
                workflow=details.workflow,
                key=details.key,
                is_canceled=details.is_canceled,
            )
        case _:
            return None


def _compensation_waits(compensations: tuple[Compensation, ...]) -> Iterator[Wait]:
    for compensation in compensations:
        if compensation.state in (UndoState.RUNNING, UndoState.STUCK):
            yield Wait(
                path=joined(compensation.path, UNDO),
                kind=RESUME if compensation.state is UndoState.STUCK else EFFECT,
                since_ns=compensation.created_ns
                if compensation.last_ns is None
                else compensation.last_ns,
                attempt=compensation.attempts,
                effect=compensation.effect,
            )
