"""The parts of a trace, and its document (spec/audit.md, A-41 to A-43)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aos.read.views.reason import Reason
from aos.read.views.record_view import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One thing that happened, with its consequences.

    Attributes:
        kind: ``event``, ``emitted``, ``step``, ``fault``, ``intent``, ``receipt``,
            ``kernel_receipt``, ``stream``, ``attempt``, ``control``, or the kind of another record.
        world: The name of the neighbour in which it happened; None: in the world of the trace.
        seq: The record of it; for ``emitted`` and ``intent`` the step's record.
        index: The position among the step's events or intents.
        cell: (workflow, key as JSON), if the node is about a cell.
        subject: Schema of an event, effect of an intent, receipt or stream frame, action of a
            control record.
        status: See spec/audit.md, A-42.
        at_ns: The stamp of the input, in ns; consequences without an input of their own have the
            same.
        took_ns: Of an intent: from opening to receipt. Of a receipt: as the executor reports. In
            ns.
        value: Event value, params, payload, state or fault, as JSON.
        text: The value for people, if it is not shown to them as JSON. Not part of the document.
        intent: Hash of an intent, or of the one that a record is about.
        flow: The operation of a flow that requested the effect: ``{path, attempt, role}``.
        note: Further information, as text.
        logs: The lines that the step logged (SD-30).
        is_target: Whether the caller asked for this node.
        left_out: How many more children there are than those listed.
    """

    kind: str
    seq: int
    status: str
    world: str | None = None
    index: int | None = None
    cell: tuple[str, object] | None = None
    subject: str | None = None
    at_ns: int | None = None
    took_ns: int | None = None
    value: object = None
    text: str | None = None
    intent: str | None = None
    flow: Document | None = None
    note: str | None = None
    logs: tuple[str, ...] = ()
    is_target: bool = False
    left_out: int = 0
    children: tuple[Node, ...] = ()

    def to_document(self) -> Document:
        """Return the document of spec/audit.md, A-41."""
        return _documents((self,))[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A cell that took part and is not done, with the reasons. ``world`` is that of a node."""

    workflow: str
    key: object
    world: str | None = None
    status: str
    is_idle: bool
    reasons: tuple[Reason, ...]

    def to_document(self) -> Document:
        return {
            "workflow": self.workflow,
            "key": self.key,
            "world": self.world,
            "status": self.status,
            "is_idle": self.is_idle,
            "reasons": [reason.to_document() for reason in self.reasons],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """``roots`` is one tree for a record or intent, and the inputs in order for a cell.

    ``earlier`` counts the inputs of a cell that were left out before the first root; for a tree it
    is 1 if the first root is not the first cause. ``cases`` are the unfinished cells.
    """

    target: str
    roots: tuple[Node, ...]
    earlier: int
    cases: tuple[Case, ...]

    def to_document(self) -> Document:
        """Return the document of spec/audit.md, A-41."""
        return {
            "target": self.target,
            "roots": _documents(self.roots),
            "earlier": self.earlier,
            "cases": [case.to_document() for case in self.cases],
        }


def _documents(roots: Sequence[Node]) -> list[Document]:
    """Return trees of nodes as documents. No recursion: they may be deeper than Python's stack."""
    documents: list[Document] = []
    todo: list[tuple[Node, list[Document]]] = [(root, documents) for root in reversed(roots)]
    while todo:
        node, into = todo.pop()
        cell = None if node.cell is None else {"workflow": node.cell[0], "key": node.cell[1]}
        children: list[Document] = []
        fields: Mapping[str, object] = {
            "kind": node.kind, "world": node.world, "seq": node.seq, "index": node.index,
            "cell": cell,
            "subject": node.subject, "status": node.status, "at_ns": node.at_ns,
            "took_ns": node.took_ns, "value": node.value, "intent": node.intent, "flow": node.flow,
            "note": node.note, "logs": list(node.logs), "is_target": node.is_target,
            "left_out": node.left_out, "children": children,
        }  # fmt: skip
        into.append(dict(fields))
        todo.extend((child, children) for child in reversed(node.children))
    return documents
