"""What led to a record, intent or cell, and what came of it (spec/audit.md, A-40 to A-48).

    event ─▶ step ─▶ emitted event ─▶ step …
                 └─▶ intent ─▶ receipt ─▶ step …

Upwards, each record names its cause: a step the entry that it took, a receipt the intent that it
settled. Downwards, the journal is read once from the target on, and only as far as something is
still to come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from aos.audit.diagnosis import diagnose
from aos.audit.lookup import CellTarget, IntentTarget, RecordTarget, find_target
from aos.audit.record_view import document, fault_document, name_cell
from aos.audit.scan import records_after, records_naming
from aos.audit.trace_tree import Case, Node, Trace
from aos.audit.view import View
from aos.audit.words import short
from aos.core.records import (
    CellId,
    Emitted,
    EntryId,
    Event,
    Faulted,
    Receipt,
    Record,
    Step,
)
from aos.errors import Damage
from aos.values.digests import Hash, hash_text

NODES_MAX: Final = 1_000
"""How many nodes a trace has before it leaves out what else follows."""

CAUSES_MAX: Final = 200
"""How many records back a trace goes; a cell that polls for ever has no end of causes."""

INPUTS_MAX: Final = 100
"""How many inputs of one cell are shown, the latest."""

CASES_MAX: Final = 20
"""How many cells that are not done are spoken of."""

DELIVERED: Final = ("delivered", "rejected")
"""The outcomes of a receipt after which its cell is called."""

NOBODY_WAITS: Final = "nobody waits for it any more: its cell failed or was deleted"


def trace(view: View, words: Sequence[str], *, nodes_max: int = NODES_MAX) -> Trace:
    """Trace ``SEQ``, ``INTENT`` or ``WORKFLOW [KEY]``.

    Raises:
        BadUsage: The words name nothing here.
        Damage: The journal cannot be read.
    """
    target = find_target(view.state, view.journal, words)
    tree = _Tree(view, nodes_max)
    always: tuple[CellId, ...] = ()
    match target:
        case CellTarget(cell):
            always = (cell,)
            name, roots, earlier = tree.of_cell(cell)
        case IntentTarget(intent, seq, index):
            name = f"intent {hash_text(intent)}"
            roots, earlier = tree.of_record(seq, index)
        case RecordTarget(seq):
            name = f"record {seq}"
            roots, earlier = tree.of_record(seq, None)
    return Trace(target=name, roots=roots, earlier=earlier, cases=tree.cases(always=always))


@dataclass(slots=True, eq=False)
class _Draft:
    """A node whose children are still coming."""

    node: Node
    children: list[_Draft] = field(default_factory=list)

    def set(self, **fields: Any) -> None:
        self.node = replace(self.node, **fields)


class _Tree:
    """One trace while it grows.

    ``_waiting`` has, for each entry that some cell has still to take, the node that its step will
    hang under; ``_open`` the node of each intent whose receipt is still to come.
    """

    def __init__(self, view: View, nodes_max: int) -> None:
        self._view = view
        self._last = view.state.next_seq - 1
        self._left = nodes_max
        self._waiting: dict[EntryId, dict[CellId, _Draft]] = {}
        self._open: dict[Hash, _Draft] = {}
        self._cells: dict[CellId, object] = {}

    # Trees of records.

    def of_record(self, seq: int, intent: int | None) -> tuple[tuple[Node, ...], int]:
        """The tree from the first cause down to a record, or to one intent of a step, and then all
        that follows. Also: whether causes are left out."""
        causes, earlier = self._causes(self._view.records.at(seq))
        root = draft = self._node(causes[0], None)
        for record, follower in pairwise(causes):
            draft = self._node(follower, self._towards(draft, record, follower))
        last = causes[-1]
        if intent is None:
            draft.set(is_target=True)
            self._expand(draft, last)
        else:
            assert isinstance(last, Step), "an intent is a step's"
            asked = self._only_intent(draft, last, intent)
            asked.set(is_target=True)
            self._open[last.intents[intent].intent] = asked
        self._grow(seq + 1)
        self._settle_what_waits()
        return (_frozen(root),), earlier

    def _causes(self, record: Record) -> tuple[list[Record], int]:
        """The records from the first cause to ``record``, each caused by the one before."""
        found = [record]
        while True:
            cause = self._cause_of(found[-1])
            if cause is None:
                return found[::-1], 0
            if len(found) == CAUSES_MAX:
                return found[::-1], 1
            found.append(self._view.records.at(cause))

    def _cause_of(self, record: Record) -> int | None:
        if isinstance(record, Step | Faulted):
            return record.entry[0]
        if isinstance(record, Receipt):
            row = self._view.journal.intent(record.intent)
            if row is None:
                raise Damage(
                    f"record {record.seq} settles an intent that has no row: see aos verify"
                )
            return row.opened_seq
        return None

    def _towards(self, draft: _Draft, record: Record, follower: Record) -> _Draft:
        """Add only the part of ``record`` that leads to ``follower``; what that will hang under."""
        if isinstance(record, Step) and isinstance(follower, Receipt):
            hashes = [each.intent for each in record.intents]
            found = self._only_intent(draft, record, hashes.index(follower.intent))
            self._settled(found, follower)
            return found
        if isinstance(record, Step) and isinstance(follower, Step | Faulted):
            index = follower.entry[1]
            draft.set(left_out=len(record.events) + len(record.intents) - 1)
            return self._emitted(draft, record.events[index], record.seq, index)
        if isinstance(record, Event):
            draft.set(left_out=len(record.to) - 1)
        return draft

    def _only_intent(self, draft: _Draft, record: Step, index: int) -> _Draft:
        draft.set(left_out=len(record.events) + len(record.intents) - 1)
        return self._intent(draft, record, index)

    def _expand(self, draft: _Draft, record: Record) -> None:
        """Add all that follows from ``record`` at once, and wait for what follows later."""
        match record:
            case Event():
                self._wait((record.seq, 0), record.to, draft)
            case Receipt() if record.outcome in DELIVERED:
                self._wait((record.seq, 0), (record.cell,), draft)
            case Step():
                for index, event in enumerate(record.events):
                    if self._has_room(draft):
                        emitted = self._emitted(draft, event, record.seq, index)
                        self._wait((record.seq, index), event.to, emitted)
                for index, intent in enumerate(record.intents):
                    if self._has_room(draft):
                        self._open[intent.intent] = self._intent(draft, record, index)
            case _:
                pass

    def _has_room(self, draft: _Draft) -> bool:
        if self._left > 0:
            return True
        draft.set(left_out=draft.node.left_out + 1)
        return False

    def _wait(self, entry: EntryId, to: Sequence[CellId], draft: _Draft) -> None:
        if to:
            self._waiting[entry] = dict.fromkeys(to, draft)

    def _grow(self, first: int) -> None:
        """Read on until nothing more can follow."""
        if not self._waiting and not self._open:
            return
        journal, waiting, open_ones = self._view.journal, self._waiting, self._open
        for record in records_after(journal, first, self._last, waiting, open_ones):
            parent = self._parent_of(record)
            if parent is not None and self._has_room(parent):
                self._expand(self._node(record, parent), record)
            if not waiting and not open_ones:
                return

    def _parent_of(self, record: Record) -> _Draft | None:
        """The node that ``record`` follows from, which waits for it no more."""
        if isinstance(record, Receipt):
            parent = self._open.pop(record.intent, None)
            if parent is not None:
                self._settled(parent, record)
            return parent
        if not isinstance(record, Step | Faulted):
            return None
        cells = self._waiting.get(record.entry, {})
        parent = cells.pop(record.cell, None)
        if not cells:
            self._waiting.pop(record.entry, None)
        return parent

    def _settled(self, intent: _Draft, receipt: Receipt) -> None:
        """Say on the node of an intent how it ended."""
        opened_ns = intent.node.at_ns
        took = None if opened_ns is None else max(0, receipt.stamp.ns - opened_ns)
        note = NOBODY_WAITS if receipt.outcome == "abandoned" else None
        intent.set(status=receipt.status, took_ns=took, note=note)

    def _settle_what_waits(self) -> None:
        """Say on each node that something is still to follow why it has not."""
        for cells in self._waiting.values():
            for id, draft in cells.items():
                cell = self._view.state.cells.get(id)
                name = name_cell(id[0], self._key(id, draft.node.seq))
                if cell is not None and cell.fault is not None:
                    note = f"{name} does not run it: it failed at record {cell.fault_seq}"
                else:
                    note = f"waits in the mailbox of {name}"
                draft.set(status="waiting", note=note)
        for intent, draft in self._open.items():
            if intent not in self._view.state.intents:
                draft.set(status="abandoned", note=NOBODY_WAITS)

    # Timelines of cells.

    def of_cell(self, cell: CellId) -> tuple[str, tuple[Node, ...], int]:
        """The latest inputs of a cell in order, each with the step that it caused; how many more
        there were."""
        inputs: deque[_Input] = deque(maxlen=INPUTS_MAX)
        waiting: dict[EntryId, _Input] = {}
        count = 0
        for record in records_naming(self._view.journal, cell, last=self._last):
            for index in _reaching(record, cell):
                each = _Input(record, index)
                count += 1
                inputs.append(each)
                waiting[each.entry] = each
            if isinstance(record, Step | Faulted) and record.cell == cell:
                taken = waiting.pop(record.entry, None)
                if taken is not None:
                    taken.step = record
        roots = [self._input(each, cell) for each in inputs]
        self._settle_what_waits()
        name = name_cell(cell[0], self._key(cell, self._last + 1))
        return name, tuple(_frozen(root) for root in roots), count - len(inputs)

    def _input(self, given: _Input, cell: CellId) -> _Draft:
        record = given.record
        if isinstance(record, Receipt):
            asked = self._open.pop(record.intent, None)
            if asked is not None:
                self._settled(asked, record)
        if isinstance(record, Step):
            event = record.events[given.index]
            draft = self._emitted(None, event, record.seq, given.index)
            source = name_cell(record.cell[0], self._key(record.cell, record.seq))
            draft.set(note=f"from step {record.seq} of {source}")
        else:
            draft = self._node(record, None)
        if given.step is not None:
            self._timeline_step(given.step, draft)
        elif _is_delivered(given, cell):
            self._wait(given.entry, [cell], draft)
        return draft

    def _timeline_step(self, record: Step | Faulted, parent: _Draft) -> None:
        """A step with what it asked and emitted, but not what came of that elsewhere."""
        draft = self._node(record, parent)
        if isinstance(record, Step):
            for index, event in enumerate(record.events):
                self._emitted(draft, event, record.seq, index)
            for index, intent in enumerate(record.intents):
                self._open[intent.intent] = self._intent(draft, record, index)

    # Nodes.

    def _node(self, record: Record, parent: _Draft | None) -> _Draft:
        lens, seq = self._view.lens, record.seq
        stamp = getattr(record, "stamp", None)
        at_ns = stamp.ns if stamp is not None else parent.node.at_ns if parent else None
        node = Node(kind=record.KIND, seq=seq, status="", at_ns=at_ns)
        match record:
            case Event():
                node = replace(
                    node,
                    subject=record.schema,
                    status=_delivery(record),
                    value=lens.event(record.schema, record.value, seq=seq),
                    note=self._overloaded(record, seq),
                )
            case Step():
                state = record.state
                node = replace(
                    node,
                    cell=self._seen(record.cell, seq),
                    status=record.status if state is not None else "deleted",
                    value=None if state is None else lens.state(record.cell, state, seq=seq),
                    note=self._annotation(record),
                )
            case Faulted():
                node = replace(
                    node,
                    cell=self._seen(record.cell, seq),
                    status="failed",
                    value=fault_document(record.fault),
                    note=f"{record.fault.kind.value}: {record.fault.message}",
                )
            case Receipt():
                node = replace(
                    node,
                    cell=self._seen(record.cell, seq),
                    subject=record.effect,
                    status=record.outcome,
                    took_ns=record.finished_ns - record.started_ns,
                    value=lens.payload(record),
                    intent=hash_text(record.intent),
                    note=record.problem or f"{record.status}, attempt {record.attempt}",
                )
            case _:
                node = replace(node, status="recorded", value=document(record, lens))
        return self._hang(node, parent)

    def _emitted(self, parent: _Draft | None, event: Emitted, seq: int, index: int) -> _Draft:
        node = Node(
            kind="emitted",
            seq=seq,
            index=index,
            subject=event.schema,
            status=_delivery(event),
            at_ns=parent.node.at_ns if parent else None,
            value=self._view.lens.event(event.schema, event.value, seq=seq),
            note=self._overloaded(event, seq),
        )
        return self._hang(node, parent)

    def _intent(self, parent: _Draft, record: Step, index: int) -> _Draft:
        intent = record.intents[index]
        row = self._view.state.intents.get(intent.intent)
        node = Node(
            kind="intent",
            seq=record.seq,
            index=index,
            cell=self._seen(record.cell, record.seq),
            subject=intent.effect,
            status="open",
            at_ns=row.opened_ns if row else parent.node.at_ns,
            value=self._view.lens.params(intent.effect, intent.params, seq=record.seq),
            intent=hash_text(intent.intent),
        )
        return self._hang(node, parent)

    def _hang(self, node: Node, parent: _Draft | None) -> _Draft:
        draft = _Draft(node)
        self._left -= 1
        if parent is not None:
            parent.children.append(draft)
        return draft

    def _annotation(self, record: Step) -> str | None:
        """What the module said beside the step."""
        if record.ann is None:
            return None
        return short(self._view.lens.annotations(record.cell, record.ann, seq=record.seq))

    def _overloaded(self, event: Event | Emitted, seq: int) -> str | None:
        if not event.overloaded:
            return None
        names = [name_cell(*self._seen(id, seq)) for id in event.overloaded]
        return f"overloaded: {', '.join(names)}"

    def _seen(self, id: CellId, seq: int) -> tuple[str, object]:
        """A cell that takes part."""
        key = self._key(id, seq)
        self._cells.setdefault(id, key)
        return id[0], key

    def _key(self, id: CellId, seq: int) -> object:
        return self._view.lens.key(id, seq=seq)

    def cases(self, *, always: tuple[CellId, ...] = ()) -> tuple[Case, ...]:
        """The cells of this trace that are not done; ``always`` are named in any case."""
        view = self._view
        found: list[Case] = []
        for id in [*always, *(id for id in self._cells if id not in always)]:
            cell = view.state.cells.get(id)
            if id not in always and (cell is None or not _is_unfinished(cell.status, cell.in_ring)):
                continue
            key = self._key(id, self._last + 1)
            found.append(
                Case(
                    workflow=id[0],
                    key=key,
                    status=cell.status if cell else "absent",
                    reasons=diagnose(view.state, id, key, view.journal.blob, now_ns=view.now_ns),
                )
            )
            if len(found) == CASES_MAX:
                break
        return tuple(found)


@dataclass(slots=True)
class _Input:
    """What came into a mailbox: a record itself, or its emitted event ``index``; what it caused."""

    record: Record
    index: int
    step: Step | Faulted | None = None

    @property
    def entry(self) -> EntryId:
        return self.record.seq, self.index


def _reaching(record: Record, cell: CellId) -> Iterator[int]:
    """The indexes under which ``record`` came into the mailbox of ``cell``, or was to."""
    match record:
        case Event() if cell in record.to or cell in record.overloaded:
            yield 0
        case Receipt() if record.cell == cell:
            yield 0
        case Step():
            for index, event in enumerate(record.events):
                if cell in event.to or cell in event.overloaded:
                    yield index
        case _:
            pass


def _is_delivered(given: _Input, cell: CellId) -> bool:
    record = given.record
    if isinstance(record, Receipt):
        return record.outcome in DELIVERED
    if isinstance(record, Step):
        return cell in record.events[given.index].to
    return isinstance(record, Event) and cell in record.to


def _is_unfinished(status: str, is_ready: bool) -> bool:
    return is_ready or status in ("waiting", "failed")


def _delivery(event: Event | Emitted) -> str:
    if event.to:
        return "delivered"
    return "overloaded" if event.overloaded else "unrouted"


def _frozen(root: _Draft) -> Node:
    """The tree of nodes under a draft. Trees may be deeper than Python's stack."""
    order: list[_Draft] = [root]
    for draft in order:
        order.extend(draft.children)
    nodes: dict[int, Node] = {}
    for draft in reversed(order):
        children = tuple(nodes[id(child)] for child in draft.children)
        nodes[id(draft)] = replace(draft.node, children=children)
    return nodes[id(root)]
