"""Make the nodes of a trace from records while it grows (spec/audit.md, A-41 to A-43)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from aos.core.journal.inputs import LOST, SETTLE
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    Emitted,
    EntryId,
    Event,
    Faulted,
    Fork,
    Governance,
    KernelReceipt,
    Receipt,
    Record,
    Step,
    Stream,
)
from aos.errors import Damage, Pruned
from aos.manifest.names import HTTP, KERNEL_EFFECTS
from aos.read.lens.record_finding import ending, ending_text
from aos.read.lens.words import compact, name_cell, time_text
from aos.read.trace.render import http_text
from aos.read.trace.trace_tree import Case, Node
from aos.read.views.cell_view import declared_by
from aos.read.views.diagnosis import diagnose
from aos.read.views.reason import Reason
from aos.read.views.record_view import document, fault_document, issuer_document
from aos.read.views.view import View
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.values.sha256 import parse_sha256

CASES_MAX: Final = 20
"""How many unfinished cells a trace describes."""

DELIVERED: Final = ("delivered", "rejected")
"""The outcomes of a receipt after which its cell is called."""

_NO_CELL: Final = "no cell waits for it any more"
NO_CELL_WAITS: Final = f"{_NO_CELL}: its cell failed, was deleted or was ended"

Settling: TypeAlias = Receipt | KernelReceipt


@dataclass(slots=True, eq=False)
class Draft:
    """A node that still gets children."""

    node: Node
    children: list[Draft] = field(default_factory=list)

    def set(self, **fields: Any) -> None:
        self.node = replace(self.node, **fields)


@dataclass(slots=True)
class NodeRoom:
    """How many more nodes a trace may have, in all worlds together."""

    nodes: int


class Nodes:
    """Makes the nodes of one trace in one world, and remembers which cells take part. ``world`` is
    the name of a neighbour, None for the world of the trace itself."""

    def __init__(self, view: View, room: NodeRoom, *, world: str | None = None) -> None:
        self._view = view
        self._room = room
        self._world = world
        self._cells: dict[CellId, object] = {}

    def has_room(self, draft: Draft) -> bool:
        """Return whether ``draft`` may get a child; if not, count the child as left out."""
        if self._room.nodes > 0:
            return True
        draft.set(left_out=draft.node.left_out + 1)
        return False

    def text(self, effect: str, value: object) -> str | None:
        """Return params or a payload for people, if the effect has a form of its own (A-48a)."""
        if effect != HTTP or not self._view.lens.is_spelled:
            return None
        return http_text(value, self._size_of)

    def record(self, record: Record, parent: Draft | None) -> Draft:
        """Add the node of a record itself, without its events and intents."""
        node = Node(kind=record.KIND, seq=record.seq, status="", at_ns=self._at_ns(record, parent))
        fields = self._fields(record)
        return self._hang(replace(node, **fields), parent)

    def _at_ns(self, record: Record, parent: Draft | None) -> int | None:
        if isinstance(record, KernelReceipt) or (isinstance(record, Step) and parent is None):
            try:
                record = self._view.records.at(record.root)
            except Pruned:
                return None
        stamp = getattr(record, "stamp", None)
        if stamp is not None:
            at_ns: int = stamp.ns
            return at_ns
        return parent.node.at_ns if parent else None

    def _fields(self, record: Record) -> dict[str, Any]:
        lens, seq = self._view.lens, record.seq
        match record:
            case Event():
                return {
                    "subject": record.schema,
                    "status": _delivery(record),
                    "value": lens.event(record.schema, record.value, seq=seq),
                    "note": self._undelivered(record, seq),
                }
            case Step():
                state = record.state
                note, logs = self._annotation(record)
                return {
                    "cell": self.note_cell(record.cell, seq),
                    "status": record.status if state is not None else "deleted",
                    "value": None if state is None else lens.state(record, state),
                    "note": note,
                    "logs": logs,
                }
            case Faulted():
                return {
                    "cell": self.note_cell(record.cell, seq),
                    "status": "failed",
                    "value": fault_document(record.fault),
                    "note": f"{record.fault.kind.value}: {record.fault.message}",
                }
            case Receipt() | KernelReceipt():
                return self._receipt_fields(record)
            case Stream():
                return {
                    "cell": self.note_cell(record.cell, seq),
                    "subject": record.effect,
                    "status": "delivered",
                    "value": lens.payload(record),
                    "intent": hash_text(record.intent),
                    "note": f"{record.frame_kind} {record.frame_seq}",
                }
            case Attempt():
                return {
                    "cell": self.note_cell(record.cell, seq),
                    "status": record.phase,
                    "value": document(record, lens),
                    "intent": hash_text(record.intent),
                    "note": record.problem
                    if record.code is None
                    else f"{record.code}: {record.problem or 'no reason given'}",
                }
            case Control():
                cell = record.cell
                return {
                    "cell": None if cell is None else self.note_cell(cell, seq),
                    "subject": record.action,
                    "status": "recorded",
                    "value": document(record, lens),
                    "intent": None if record.intent is None else hash_text(record.intent),
                }
            case Governance():
                value = document(record, lens)
                return {"subject": record.action, "status": "recorded", "value": value}
            case _:
                return {"status": "recorded", "value": document(record, lens)}

    def _receipt_fields(self, record: Settling) -> dict[str, Any]:
        value = self._view.lens.payload(record)
        fields: dict[str, Any] = {
            "cell": self.note_cell(record.cell, record.seq),
            "subject": record.effect,
            "status": record.outcome,
            "value": value,
            "text": self.text(record.effect, value),
            "intent": hash_text(record.intent),
        }
        if isinstance(record, Receipt):
            fields["took_ns"] = record.finished_ns - record.started_ns
            cause = f"attempt {record.attempt}"
        else:
            cause = self._cause_text(record)
        return {**fields, "note": record.problem or f"{record.status}, {cause}"}

    def _cause_text(self, record: KernelReceipt) -> str:
        """Return why the core settled an intent itself, and who caused that."""
        if record.by is not None:
            return "by its cell"
        try:
            root = self._view.records.at(record.root)
        except Pruned:
            return f"because of record {record.root}, which was pruned"
        if isinstance(root, Control):
            settled = "settled " if root.action == SETTLE else ""
            return f"{settled}by {root.principal} (record {root.seq})"
        if isinstance(root, Attempt) and root.phase == LOST:
            return f"its only run was lost (record {root.seq})"
        if isinstance(root, Fork) and record.effect not in KERNEL_EFFECTS:
            return f"the world was forked (record {root.seq})"
        return "answered by the core"

    def emitted(self, parent: Draft | None, event: Emitted, seq: int, index: int) -> Draft:
        node = Node(
            kind="emitted",
            seq=seq,
            index=index,
            subject=event.schema,
            status=_delivery(event),
            at_ns=parent.node.at_ns if parent else self._at_ns(self._view.records.at(seq), None),
            value=self._view.lens.event(event.schema, event.value, seq=seq),
            note=self._undelivered(event, seq),
        )
        return self._hang(node, parent)

    def intent(self, parent: Draft, record: Step, index: int) -> Draft:
        intent = record.intents[index]
        row = self._view.state.intents.get(intent.intent)
        value = self._view.lens.params(intent.effect, intent.params, seq=record.seq)
        node = Node(
            kind="intent",
            seq=record.seq,
            index=index,
            cell=self.note_cell(record.cell, record.seq),
            subject=intent.effect,
            status="open",
            at_ns=row.opened_ns if row else parent.node.at_ns,
            value=value,
            text=self.text(intent.effect, value),
            intent=hash_text(intent.intent),
            flow=issuer_document(intent.issuer_ref),
        )
        return self._hang(node, parent)

    def _size_of(self, ref: str) -> int | None:
        """Return the size of a blob; None if the world does not have it, or its row is damaged."""
        journal = self._view.journal
        try:
            name = parse_sha256(ref)
            hash = parse_hash(ref) if name is None else journal.hash_by_sha256(name)
            return None if hash is None else journal.blob_size(hash)
        except (Damage, ValueProblem):
            return None

    def _hang(self, node: Node, parent: Draft | None) -> Draft:
        draft = Draft(node if self._world is None else replace(node, world=self._world))
        self._room.nodes -= 1
        if parent is not None:
            parent.children.append(draft)
        return draft

    # The outcome of an intent or of mail, noted on its node.

    def settled(self, draft: Draft, receipt: Settling) -> None:
        """Set an intent's status, time and note from its receipt."""
        if draft.node.kind != "intent":
            return
        opened_ns, at_ns = draft.node.at_ns, self._at_ns(receipt, None)
        took_ns = None if opened_ns is None or at_ns is None else max(0, at_ns - opened_ns)
        note = NO_CELL_WAITS if receipt.outcome == "abandoned" else None
        draft.set(status=receipt.status, took_ns=took_ns, note=note)

    def unsettled(self, draft: Draft, intent: Hash) -> None:
        """Mark an intent without a receipt as abandoned if no cell waits for it any more."""
        if draft.node.kind != "intent" or intent in self._view.state.intents:
            return
        abandoned = self._view.state.abandoned.get(intent)
        note = NO_CELL_WAITS
        if abandoned is not None:
            command = self._ending(abandoned.cell, opened_seq=abandoned.seq)
            if command is not None and intent in command.abandoned:
                note = f"{_NO_CELL}: {ending_text(command)}"
        draft.set(status="abandoned", note=note)

    def _ending(self, id: CellId, *, opened_seq: int) -> Control | None:
        last = self._view.state.next_seq - 1
        view = self._view
        return ending(view.journal, id, first=opened_seq + 1, last=last, index=view.index)

    def fate(self, draft: Draft, intent: Hash) -> None:
        """Set the current status of an intent, even if its receipt is not in this trace."""
        row = self._view.journal.intent(intent)
        if row is None or row.settled_seq is None or row.settled_seq >= self._view.state.next_seq:
            self.unsettled(draft, intent)
            return
        receipt = self._view.records.at(row.settled_seq)
        assert isinstance(receipt, Receipt | KernelReceipt), "a row names what settled it"
        self.settled(draft, receipt)

    def waits(self, draft: Draft, id: CellId, entry: EntryId) -> None:
        """Note why a cell has not taken an entry of its mail yet, or that the entry was dropped."""
        cell = self._view.state.cells.get(id)
        name = name_cell(id[0], self.key(id, draft.node.seq))
        if cell is None or all(mail.entry != entry for mail in cell.mailbox):
            command = self._ending(id, opened_seq=entry[0])
            if command is not None:
                note = f"{name} did not run it: {ending_text(command)}"
                draft.set(status="dropped", note=note)
                return
        if cell is not None and cell.fault is not None:
            note = f"{name} does not run it: it failed at record {cell.fault_seq}"
        else:
            note = f"waits in the mailbox of {name}"
        draft.set(status="waiting", note=note)

    def _annotation(self, record: Step) -> tuple[str | None, tuple[str, ...]]:
        """Return the module's annotation on the step as JSON, and the lines that the step logged
        (SD-30), which are an annotation, too."""
        if record.ann is None:
            return None, ()
        annotation = self._view.lens.annotations(record, record.ann)
        lines = (
            annotation.get("lines")
            if isinstance(annotation, dict) and len(annotation) == 1
            else None
        )
        if isinstance(lines, list) and all(isinstance(line, str) for line in lines):
            return compact(annotation), tuple(lines)
        return annotation if isinstance(annotation, str) else compact(annotation), ()

    def _undelivered(self, event: Event | Emitted, seq: int) -> str | None:
        """Name the cells that an event did not reach, and why."""
        parts = []
        if event.overloaded:
            names = [name_cell(*self.note_cell(id, seq)) for id in event.overloaded]
            parts.append(f"overloaded: {', '.join(names)}")
        if isinstance(event, Emitted) and event.unknown:
            names = [name_cell(id[0], self.key(id, seq)) for id in event.unknown]
            parts.append(f"no such instance: {', '.join(names)}")
        return " · ".join(parts) or None

    # Cells.

    def note_cell(self, id: CellId, seq: int) -> tuple[str, object]:
        """Note a cell that takes part."""
        key = self.key(id, seq)
        self._cells.setdefault(id, key)
        return id[0], key

    def key(self, id: CellId, seq: int) -> object:
        return self._view.lens.key(id, seq=seq)

    def cases(
        self, *, always: tuple[CellId, ...] = (), ended: Draft | None = None
    ) -> tuple[Case, ...]:
        """Return the unfinished cells of this trace; the cells in ``always`` are included in any
        case. ``ended`` is the step that deleted one of these, if it is gone."""
        view = self._view
        cases: list[Case] = []
        for id in [*always, *(id for id in self._cells if id not in always)]:
            cell = view.state.cells.get(id)
            if id not in always and (cell is None or not _is_unfinished(cell.status, cell.in_ring)):
                continue
            key = self.key(id, view.state.next_seq)
            cases.append(
                Case(
                    workflow=id[0],
                    key=key,
                    world=self._world,
                    status=cell.status if cell else "absent",
                    is_idle=cell is not None and cell.is_idle,
                    reasons=self._deleted(id, ended)
                    if cell is None and ended is not None
                    else diagnose(
                        view.state,
                        id,
                        key,
                        view.journal.blob,
                        now_ns=view.now_ns,
                        records=view.records,
                        running=view.running,
                        ended_by=None if cell is None else declared_by(view, cell),
                    ),
                )
            )
            if len(cases) == CASES_MAX:
                break
        return tuple(cases)

    def _deleted(self, id: CellId, ended: Draft) -> tuple[Reason, ...]:
        at_ns = ended.node.at_ns
        time_suffix = "" if at_ns is None else f" at {time_text(at_ns)}"
        absent, *_ = diagnose(
            self._view.state, id, None, self._view.journal.blob, now_ns=self._view.now_ns
        )
        text = f"its module deleted it in step {ended.node.seq}{time_suffix}: nothing of it is left"
        return (replace(absent, text=text),)


def _is_unfinished(status: str, is_ready: bool) -> bool:
    return is_ready or status in ("waiting", "failed")


def _delivery(event: Event | Emitted) -> str:
    if event.to:
        return "delivered"
    if event.overloaded:
        return "overloaded"
    return "no_instance" if isinstance(event, Emitted) and event.unknown else "unrouted"


def frozen(root: Draft) -> Node:
    """Return the tree of nodes under a draft. No recursion: trees may be deeper than Python's
    stack."""
    order: list[Draft] = [root]
    for draft in order:
        order.extend(draft.children)
    nodes: dict[int, Node] = {}
    for draft in reversed(order):
        children = tuple(nodes[id(child)] for child in draft.children)
        nodes[id(draft)] = replace(draft.node, children=children)
    return nodes[id(root)]
