"""Render a trace as lines of text, each with its place in a tree (spec/audit.md, A-48)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aos.audit.lens.words import short, span_text, time_text
from aos.audit.trace.trace_tree import Case, Node, Trace
from aos.audit.views.record_view import control_text, name_cell

_RECEIPTS: Final = ("receipt", "kernel_receipt")
_STAMPED: Final = ("event", *_RECEIPTS, "stream", "attempt", "control")
_BAD: Final = ("failed", "error", "timeout", "overloaded", "faulted", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One line, and the lines under it.

    ``kind`` is the node's, or ``case``, ``reason``, ``left_out``; ``is_bad`` marks a line about
    something that failed or is stuck.
    """

    kind: str
    text: str
    is_target: bool = False
    is_bad: bool = False
    children: tuple[Branch, ...] = ()


def lines(trace: Trace) -> tuple[Branch, ...]:
    """Return the roots of a trace, then its cases. A receipt is on the line of its intent."""
    found = [_tree(root) for root in trace.roots]
    if trace.earlier:
        found.insert(0, Branch(kind="left_out", text="… earlier ones are left out"))
    return (*found, *(_case(each) for each in trace.cases))


def plain(branches: tuple[Branch, ...]) -> list[str]:
    """Return the lines drawn with box characters; the target has a mark."""
    found: list[str] = []
    todo = [(branch, "", "") for branch in reversed(branches)]
    while todo:
        branch, first, rest = todo.pop()
        found.append(first + branch.text + ("  ◀" if branch.is_target else ""))
        last = len(branch.children) - 1
        todo.extend(
            (child, rest + ("└─ " if i == last else "├─ "), rest + ("   " if i == last else "│  "))
            for i, child in reversed(list(enumerate(branch.children)))
        )
    return found


def _tree(root: Node) -> Branch:
    """Return a node and its children as lines. No recursion: a trace may be deeper than Python's
    stack."""
    order = [root]
    for node in order:
        order.extend(node.children)
    made: dict[int, Branch] = {}
    for node in reversed(order):
        receipt = _receipt_of(node)
        shown = [child for child in node.children if child is not receipt]
        if receipt is not None:
            shown += receipt.children
        children = tuple(made[id(child)] for child in shown)
        left_out = node.left_out + (receipt.left_out if receipt else 0)
        if left_out:
            text = f"… {left_out} more not shown"
            children = (*children, Branch(kind="left_out", text=text))
        made[id(node)] = Branch(
            kind=node.kind,
            text=_text(node, receipt),
            is_target=node.is_target or (receipt is not None and receipt.is_target),
            is_bad=node.status in _BAD,
            children=children,
        )
    return made[id(root)]


def _receipt_of(node: Node) -> Node | None:
    """Return the receipt of an intent, which is shown on the intent's line."""
    if node.kind != "intent":
        return None
    return next((child for child in node.children if child.kind in _RECEIPTS), None)


def _text(node: Node, receipt: Node | None) -> str:
    parts = [_what(node)]
    if node.kind == "intent":
        parts += _settlement(node, receipt)
    elif node.kind in _STAMPED and node.at_ns is not None:
        parts.append(time_text(node.at_ns))
    if node.note is not None:
        parts.append(node.note)
    if node.status == "unrouted":
        parts.append("no subscription takes it")
    return " · ".join(parts)


def _what(node: Node) -> str:
    value = "" if node.value is None else f" {short(node.value)}"
    match node.kind:
        case "event":
            return f"event {node.seq}: {node.subject}{value}"
        case "emitted":
            return f"emits {node.subject}{value}"
        case "step":
            assert node.cell is not None
            return f"step {node.seq}: {name_cell(*node.cell)} → {node.status}"
        case "fault":
            assert node.cell is not None
            return f"fault {node.seq}: {name_cell(*node.cell)} failed"
        case "intent":
            return f"asks {node.subject}{value}"
        case "receipt":
            return f"receipt {node.seq}: {node.subject} {node.status}{value}"
        case "kernel_receipt":
            return f"the core's receipt {node.seq}: {node.subject} {node.status}{value}"
        case "stream":
            return f"frame {node.seq}: {node.subject}{value}"
        case "attempt":
            assert isinstance(node.value, dict)
            return f"attempt {node.value['attempt']} {node.status} (record {node.seq})"
        case "control":
            assert isinstance(node.value, dict)
            return f"command {node.seq}: {control_text(node.value)}"
        case _:
            return f"{node.kind} {node.seq}"


def _settlement(node: Node, receipt: Node | None) -> list[str]:
    parts = [f"{(node.intent or '')[:15]}…"]
    text = node.status
    if node.took_ns is not None:
        text += f" after {span_text(node.took_ns)}"
    if receipt is not None:
        whose = "the core's receipt" if receipt.kind == "kernel_receipt" else "receipt"
        text += f" ({whose} {receipt.seq}: {receipt.status}{_unless(receipt.note, node.status)})"
        if receipt.value is not None:
            parts.append(f"{text} {short(receipt.value)}")
            return parts
    return [*parts, text]


def _unless(note: str | None, said: str) -> str:
    """Return a receipt's note without the status at its beginning, which ``said`` has shown
    already."""
    if note is None:
        return ""
    return ", " + note.removeprefix(f"{said}, ")


def _case(case: Case) -> Branch:
    return Branch(
        kind="case",
        text=f"{name_cell(case.workflow, case.key)} is {case.status}",
        is_bad=any(each.is_stuck for each in case.reasons),
        children=tuple(
            Branch(
                kind="reason",
                text=each.text + (f" ▸ {each.next}" if each.next else ""),
                is_bad=each.is_stuck,
            )
            for each in case.reasons
        ),
    )
