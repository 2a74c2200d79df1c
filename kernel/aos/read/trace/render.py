"""Render a trace as lines of text, each with its place in a tree, and the HTTP requests in it
(spec/audit.md, A-48, A-48a)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aos.read.lens.words import compact, name_cell, short, span_text, time_text
from aos.read.trace.trace_tree import Case, Node, Trace
from aos.read.views.record_view import Document, control_text, governance_text

_RECEIPTS: Final = ("receipt", "kernel_receipt")
_STAMPED: Final = ("event", *_RECEIPTS, "stream", "attempt", "control", "governance")
_VALUED: Final = ("event", "emitted", "intent", "stream")
_HALTED: Final = ("held", "parked")
_BAD: Final = ("failed", "error", "timeout", "overloaded", "no_instance", "faulted", "lost")

_HTTP_FIRST: Final = ("method", "url", "status", "body", "body_ref")

INDENT: Final = 4
"""Columns that a terminal's tree takes for each level."""

VALUE_MIN: Final = 24
"""A value is not cut below so many characters: the line is folded instead."""

HTTP_MIN: Final = 480
"""The same for an HTTP request or response: enough for its URL and a JSON body of usual size."""

DRAWN_BYTES_MAX: Final = 1 << 20
"""The longest value that is drawn as text, in bytes; of a longer one, its hash is drawn."""

VALUE_MAX: Final = 1 << 24
"""More characters than any value has that a trace shows."""

SizeOf = Callable[[str], int | None]
"""The size in bytes of the blob with this hash, or None if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One line, and the lines under it.

    ``kind`` is the node's, or ``log``, ``case``, ``reason``, ``left_out``; ``is_bad`` marks a line
    about something that failed or is stuck.
    """

    kind: str
    text: str
    is_target: bool = False
    is_bad: bool = False
    children: tuple[Branch, ...] = ()


def to_documents(branches: Sequence[Branch]) -> list[Document]:
    """Return every line of some trees in order, each with its ``depth``: a trace may be deeper than
    JSON can be nested."""
    documents: list[Document] = []
    todo = [(root, 0) for root in reversed(branches)]
    while todo:
        branch, depth = todo.pop()
        documents.append(
            {
                "depth": depth,
                "kind": branch.kind,
                "text": branch.text,
                "is_target": branch.is_target,
                "is_bad": branch.is_bad,
            }
        )
        todo.extend((child, depth + 1) for child in reversed(branch.children))
    return documents


def from_documents(documents: Sequence[Mapping[str, Any]]) -> tuple[Branch, ...]:
    """Return the trees of ``to_documents``.

    Raises:
        KeyError, TypeError, IndexError: These are no such lines.
    """
    under: list[list[Branch]] = [[]]
    for document in reversed(documents):
        line = dict(document)
        depth = line.pop("depth")
        while len(under) <= depth + 1:
            under.append([])
        children, under[depth + 1] = tuple(reversed(under[depth + 1])), []
        under[depth].append(Branch(**line, children=children))
    return tuple(reversed(under[0]))


def lines(trace: Trace, *, width: int | None = None) -> tuple[Branch, ...]:
    """Return the roots of a trace, then its cases. A receipt is on the line of its intent.

    With a ``width``, values are cut so that a line fits into so many columns if it can; without,
    nothing is cut.
    """
    notes = attempt_notes(trace.roots)
    branches = [_tree(root, width, notes) for root in trace.roots]
    if trace.earlier:
        branches.insert(0, Branch(kind="left_out", text="… earlier ones are left out"))
    return (*branches, *(_case(case) for case in trace.cases))


def plain(branches: tuple[Branch, ...]) -> list[str]:
    """Return the lines drawn with box characters; the target has a mark."""
    text_lines: list[str] = []
    todo = [(branch, "", "") for branch in reversed(branches)]
    while todo:
        branch, first, prefix = todo.pop()
        text_lines.append(first + branch.text + ("  ◀" if branch.is_target else ""))
        last = len(branch.children) - 1
        todo.extend(
            (
                child,
                prefix + ("└─ " if i == last else "├─ "),
                prefix + ("   " if i == last else "│  "),
            )
            for i, child in reversed(list(enumerate(branch.children)))
        )
    return text_lines


def attempt_notes(roots: tuple[Node, ...]) -> dict[int, str | None]:
    """Return what to note on each attempt that begins, by the ``id`` of its node. The record of an
    attempt says why the one before it failed. That is shown once: at the record that held or parked
    the failed attempt, or else here, with the number of that attempt."""
    order = list(roots)
    for node in order:
        order.extend(node.children)
    notes: dict[int, str | None] = {}
    halted: dict[str | None, object] = {}
    for node in sorted(
        (candidate for candidate in order if candidate.kind == "attempt"),
        key=lambda candidate: candidate.seq,
    ):
        value = node.value
        assert isinstance(value, dict)
        if node.status in _HALTED:
            halted[node.intent] = value["problem"]
        elif node.status == "begun" and value["problem"] is not None:
            is_known = halted.get(node.intent) == value["problem"]
            reason = f"attempt {value['attempt'] - 1} failed: {value['problem']}"
            notes[id(node)] = None if is_known else reason
    return notes


def _tree(root: Node, width: int | None, notes: Mapping[int, str | None]) -> Branch:
    """Return a node and its children as lines. No recursion: a trace may be deeper than Python's
    stack."""
    order = [(root, 0)]
    for node, depth in order:
        # The children of a receipt are those of its intent.
        order.extend((child, depth + (child is not _receipt_of(node))) for child in node.children)
    branches: dict[int, Branch] = {}
    for node, depth in reversed(order):
        receipt = _receipt_of(node)
        shown_children = [child for child in node.children if child is not receipt]
        if receipt is not None:
            shown_children += receipt.children
        children = (
            *(Branch(kind="log", text=f"log: {line}") for line in node.logs),
            *(branches[id(child)] for child in shown_children),
        )
        left_out = node.left_out + (receipt.left_out if receipt else 0)
        if left_out:
            text = f"… {left_out} more not shown"
            children = (*children, Branch(kind="left_out", text=text))
        noted = replace(node, note=notes[id(node)]) if id(node) in notes else node
        branches[id(node)] = Branch(
            kind=node.kind,
            text=_fitted_line(noted, receipt, None if width is None else width - INDENT * depth),
            is_target=node.is_target or (receipt is not None and receipt.is_target),
            is_bad=node.status in _BAD,
            children=children,
        )
    return branches[id(root)]


def _receipt_of(node: Node) -> Node | None:
    """Return the receipt of an intent, which is shown on the intent's line."""
    if node.kind != "intent":
        return None
    return next((child for child in node.children if child.kind in _RECEIPTS), None)


def _fitted_line(node: Node, receipt: Node | None, width: int | None) -> str:
    """Return the line of a node. If it is wider than ``width``, its values are cut evenly."""
    values = [part.value for part in (node, receipt) if part is not None and _has_value(part)]
    if width is None:
        return _line(node, receipt, VALUE_MAX)
    room = width - len(_line(node, receipt, 0))
    least = VALUE_MIN if node.text is None else HTTP_MIN
    return _line(node, receipt, max(room // max(len(values), 1) - 1, least))


def _has_value(node: Node) -> bool:
    return node.kind in (*_VALUED, *_RECEIPTS) and node.value is not None


def _line(node: Node, receipt: Node | None, length_max: int) -> str:
    """The line of a node, with at most ``length_max`` characters of each value; none for 0."""
    parts = [_summary(node, length_max)]
    if node.kind == "intent":
        parts += _settlement(node, receipt, length_max)
    elif node.kind in _STAMPED and node.at_ns is not None:
        parts.append(time_text(node.at_ns))
    if node.note is not None and not node.logs:
        parts.append(node.note)
    if node.status == "unrouted":
        parts.append("no subscription takes it")
    return " · ".join(parts)


def _summary(node: Node, length_max: int) -> str:
    value = f" {_value_text(node, length_max)}" if node.value is not None and length_max else ""
    seq = _record_text(node)
    match node.kind:
        case "event":
            return f"event {seq}: {node.subject}{value}"
        case "emitted":
            return f"emits {node.subject}{value}"
        case "step":
            assert node.cell is not None
            return f"step {seq}: {name_cell(*node.cell)} → {node.status}"
        case "fault":
            assert node.cell is not None
            return f"fault {seq}: {name_cell(*node.cell)} failed"
        case "intent":
            return f"asks {node.subject}{_operation_text(node)}{value}"
        case "receipt":
            return f"receipt {seq}: {node.subject} {node.status}{value}"
        case "kernel_receipt":
            return f"the kernel's receipt {seq}: {node.subject} {node.status}{value}"
        case "stream":
            return f"frame {seq}: {node.subject}{value}"
        case "attempt":
            assert isinstance(node.value, dict)
            return f"attempt {node.value['attempt']} {node.status} (record {seq})"
        case "control":
            assert isinstance(node.value, dict)
            return f"command {seq}: {control_text(node.value)}"
        case "governance":
            assert isinstance(node.value, dict)
            return f"governance {seq}: {governance_text(node.value)}"
        case _:
            return f"{node.kind} {seq}"


def _record_text(node: Node) -> str:
    return str(node.seq) if node.world is None else f"{node.seq} of {node.world}"


def _value_text(node: Node, length_max: int) -> str:
    return short(node.value if node.text is None else node.text, length_max)


def _operation_text(node: Node) -> str:
    """Return the operation of a flow that asks: `` at PATH``, with the attempt if it is not the
    first, and the role of a timer."""
    if node.flow is None:
        return ""
    attempt, role = node.flow["attempt"], node.flow["role"]
    details = [f"attempt {attempt}"] if attempt > 1 else []
    details += [role] if role else []
    return f" at {node.flow['path']}" + (f" ({', '.join(details)})" if details else "")


def _settlement(node: Node, receipt: Node | None, length_max: int) -> list[str]:
    parts = [f"{(node.intent or '')[:15]}…"]
    text = node.status
    if node.took_ns is not None:
        text += f" after {span_text(node.took_ns)}"
    if receipt is not None:
        receipt_name = "the kernel's receipt" if receipt.kind == "kernel_receipt" else "receipt"
        text += (
            f" ({receipt_name} {receipt.seq}: {receipt.status}{_unless(receipt.note, node.status)})"
        )
        if receipt.value is not None and length_max:
            parts.append(f"{text} {_value_text(receipt, length_max)}")
            return parts
    return [*parts, text]


def _unless(note: str | None, status: str) -> str:
    """Return a receipt's note without the status at its beginning, which ``status`` has shown
    already."""
    if note is None:
        return ""
    return ", " + note.removeprefix(f"{status}, ")


def _case(case: Case) -> Branch:
    of_world = "" if case.world is None else f" of {case.world}"
    return Branch(
        kind="case",
        text=f"{name_cell(case.workflow, case.key)}{of_world} is "
        f"{'idle' if case.is_idle else case.status}",
        is_bad=any(reason.is_stuck for reason in case.reasons),
        children=tuple(
            Branch(
                kind="reason",
                text=reason.text + (f" ▸ {reason.next}" if reason.next else ""),
                is_bad=reason.is_stuck,
            )
            for reason in case.reasons
        ),
    )


def http_text(value: object, size_of: SizeOf) -> str | None:
    """Spell an HTTP request or its response for people: the part that a reader looks for comes
    first (A-48a).

        POST http://bank/charges {"cents":900}; headers {"idempotency-key":"k-1"}
        201 {"charge":"ch-1"}; headers {"content-type":"application/json"}; timings {…}

    ``value`` are the params or the payload of ``sys/http.request@1``. Return None for any other
    value, for example one that is too large to be shown. Nothing is left out except null fields.
    """
    if not isinstance(value, dict) or not ("url" in value or "status" in value):
        return None
    parts = [" ".join(_http_beginning(value, size_of))]
    parts += [
        f"{name} {compact(_http_headers(part) if name == 'headers' else part)}"
        for name, part in value.items()
        if name not in _HTTP_FIRST and part not in (None, {})
    ]
    return "; ".join(parts)


def _http_beginning(value: Mapping[str, Any], size_of: SizeOf) -> list[str]:
    """Return method and URL, or status; then the body."""
    parts = [str(value[name]) for name in ("method", "url", "status") if name in value]
    if value.get("body") is not None:
        parts.append(compact(value["body"]))
    if value.get("body_ref") is not None:
        parts.append(_blob_text(value["body_ref"], size_of))
    return parts


def _http_headers(headers: object) -> object:
    """Return headers with plain texts; a header with a secret shows the name of the secret."""
    if not isinstance(headers, dict):
        return headers
    return {name: _http_header(value) for name, value in headers.items()}


def _http_header(value: object) -> object:
    match value:
        case {"$tag": "literal", "$value": text}:
            return text
        case {"$tag": "secret", "$value": secret}:
            return {"secret": secret}
        case _:
            return value


def _blob_text(ref: str, size_of: SizeOf) -> str:
    size = size_of(ref)
    of = "" if size is None else f" of {size:,} bytes"
    return f"(body: a blob{of}, aos inspect value {ref} --raw)"
