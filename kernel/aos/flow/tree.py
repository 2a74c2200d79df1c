"""The operations of a flow as a tree, each with its path (spec/flow.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aos.flow.history import History
from aos.flow.operation import Operation
from aos.flow.paths import joined


@dataclass(slots=True, eq=False)
class OperationNode:
    """An operation with its path, and the operations of its scope in order of creation."""

    path: str
    operation: Operation
    children: list[OperationNode] = field(default_factory=list)


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
