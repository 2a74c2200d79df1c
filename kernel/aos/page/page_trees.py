"""A trace, the operations of a flow or the causes of a failure as lines that a template can print
in a loop, however deep they are (spec/page.md, PG-12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aos.audit.views.record_view import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLine:
    """One node of a tree. ``depth`` counts from 0; ``has_children`` says that deeper lines follow;
    ``closes`` is the number of lists that end after this line."""

    node: Document
    depth: int
    has_children: bool
    closes: int


def tree_lines(roots: Sequence[Document], name: str = "children") -> list[TreeLine]:
    """Return the nodes of trees in order; ``name`` is the field with the children of a node. No
    recursion: a trace may be deeper than Python's stack."""
    order: list[tuple[Document, int]] = []
    todo: list[tuple[Document, int]] = [(root, 0) for root in reversed(roots)]
    while todo:
        node, depth = todo.pop()
        order.append((node, depth))
        children: list[Any] = node[name]
        todo.extend((child, depth + 1) for child in reversed(children))
    following = [depth for _, depth in order[1:]] + [0]
    return [
        TreeLine(
            node=node,
            depth=depth,
            has_children=bool(node[name]),
            closes=0 if node[name] else depth - next_depth,
        )
        for (node, depth), next_depth in zip(order, following, strict=True)
    ]
