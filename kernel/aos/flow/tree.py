"""The operations of a flow as a tree, each with its path, and those that are not over: its waits
(spec/flow.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aos.flow.history import History
from aos.flow.operation import UNDO, Compensation, Operation, OperationKind, UndoState, joined

EFFECT: Final = "effect"
PAUSE: Final = "pause"
SLEEP: Final = "sleep"
MESSAGE: Final = "message"
CHILD: Final = "child"
RESUME: Final = "resume"


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
