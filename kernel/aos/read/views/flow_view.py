"""The documents of ``aos flow list`` and ``aos flow show``, which also has operations that the
state no longer has (spec/audit.md, A-69, A-69a, A-69b)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aos.core.journal.records import (
    CellId,
    Control,
    Faulted,
    KernelReceipt,
    Receipt,
    Step,
    slot_bytes,
)
from aos.core.state.cell import Cell
from aos.errors import BadUsage, Damage
from aos.flow.failure import Failure, FlowDivergence
from aos.flow.flow_state import OTHER_SPELLINGS, FlowState
from aos.flow.history import History, OperationNode, tree, waits, walk
from aos.flow.operation import IssuerRef, Operation, OperationKind, OperationState
from aos.read.lens.flow_lens import FlowLens
from aos.read.lens.lookup import find_cell
from aos.read.lens.record_finding import records_naming
from aos.read.views.cell_selection import CellSelection, subject
from aos.read.views.cell_view import cell as cell_document
from aos.read.views.flow_reading import SHOWN_STATUSES, SeenFlow, find_flow, flow_names, read_flow
from aos.read.views.receipts import code_of
from aos.read.views.record_view import Document
from aos.read.views.view import LIMIT, View, check_word, page
from aos.read.views.world_view import version
from aos.values.digests import Hash
from aos.values.errors import ValueProblem

if TYPE_CHECKING:
    from aos.read.where.matching import Rank

FLOW_NAMES: Final = {"status": "status"}
"""Names in conditions on flows that come before those of every cell: the status of the flow."""


def flows(
    view: View,
    *,
    flow: str | None = None,
    status: str | None = None,
    key_prefix: str | None = None,
    where: str | None = None,
    aliases: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    limit: int = LIMIT,
    offset: int = 0,
) -> Document:
    """List the instances of flows by flow, then key, or in the order of ``where`` (A-69): those
    that pass this condition, in which ``aliases`` are, by flow, more names of paths. The state of
    each selected instance is read, because it has the status.

    Raises:
        BadUsage: A filter names nothing that is known, or the condition is invalid.
    """
    if status is not None:
        status = OTHER_SPELLINGS.get(status, status)
    check_word("flow status", status, SHOWN_STATUSES)
    names = flow_names(view.state) if flow is None else [find_flow(view.state, flow)]
    if where is not None and not names:
        # No flow reads the condition, and a malformed one is refused all the same.
        from aos.read.where.condition import parse  # noqa: PLC0415  # few lists have a condition

        parse(where)
    selections = [
        CellSelection(workflow=name, key_prefix=key_prefix, condition=where, aliases={
            name: {**aliases.get(name, {}), **FLOW_NAMES}
        })
        for name in names
    ]  # fmt: skip
    ids: list[tuple[Rank | None, CellId]] = []
    by_status: Counter[str] = Counter()
    for selection in selections:
        for rank, instance in _instances(view, selection.resolved(view.state)):
            by_status[instance.status] += 1
            if status in (None, instance.status):
                ids.append((rank, instance.id))

    def row(id: CellId) -> Document:
        instance = read_flow(view.state, view.state.cells[id], view.journal.blob)
        assert instance is not None, "selected as a flow"
        return _row(view, instance)

    return {
        **page("flows", [id for _, id in sorted(ids, key=_sort_key)], limit, offset, row),
        "by_status": dict(sorted(by_status.items())),
    }


def _sort_key(ranked: tuple[Rank | None, CellId]) -> tuple[Rank | int, CellId]:
    return (0 if ranked[0] is None else ranked[0]), ranked[1]


def _instances(view: View, selection: CellSelection) -> Iterator[tuple[Rank | None, SeenFlow]]:
    """The instances of one flow that a selection has, each with its place in the order of the
    condition, if that has one."""
    search = selection.search
    for cell in _selected_cells(view, selection):
        instance = read_flow(view.state, cell, view.journal.blob)
        if instance is not None:
            is_ordered = search is not None and search.is_ordered
            yield search.rank_of(subject(view, cell)) if search and is_ordered else None, instance


def _selected_cells(view: View, selection: CellSelection) -> Iterator[Cell]:
    """From the index of the view if it has the condition, else every cell."""
    query = None if selection.search is None else selection.query(view.now_ns)
    if view.finder is not None and query is not None:
        cell_page = view.finder.page(query, limit=len(view.state.cells), offset=0)
        if cell_page is not None:
            yield from map(view.state.cells.__getitem__, cell_page.cells)
            return
    for cell in selection.candidates(view.state):
        view.check_time()
        if selection.has(view, cell):
            yield cell


def _row(view: View, flow: SeenFlow) -> Document:
    cell, state = flow.cell, flow.state
    lens = view.lens.flow_lens(flow.manifest)
    history = None if state is None else state.history
    return {
        "workflow": flow.id[0],
        "key": view.lens.key(flow.id, hash=cell.workflow_hash),
        "key_cbor": flow.id[1].hex(),
        "status": flow.status,
        "fault": None if cell.fault is None else cell.fault.kind.value,
        "started_ns": None if state is None else state.started_ns,
        "last_record": cell.last_seq,
        "last_active_ns": cell.last_active_ns,
        "version": version(view.state, cell, view.journal.blob),
        "waits": [] if history is None else [lens.wait(wait) for wait in waits(history)],
        "mailbox": len(cell.mailbox),
    }


def find_instance(view: View, word: str, key: str) -> SeenFlow:
    """Return the instance of a flow, named as on the command line.

    Raises:
        BadUsage: There is no such flow or instance.
    """
    name = find_flow(view.state, word)
    id = find_cell(view.state, name, key)
    cell = view.state.cells.get(id)
    instance = None if cell is None else read_flow(view.state, cell, view.journal.blob)
    if instance is None:
        raise BadUsage(
            "there is no such instance of the flow",
            location=f"{name} {key}",
            hint="aos flow list shows those that there are; aos flow start makes one",
        )
    return instance


def flow(view: View, word: str, key: str, *, with_history: bool = False) -> Document:
    """Return one instance with its operations and everything it waits for (A-69a).

    With ``with_history``, the operations that its state no longer has are read from the journal.

    Raises:
        BadUsage: There is no such flow or instance.
    """
    instance = find_instance(view, word, key)
    lens = view.full_lens.flow_lens(instance.manifest)
    state_document: Document = dict.fromkeys(
        ("input", "output", "error", "view", "operations", "compensations", "inbox", "parent")
    )
    if instance.state is not None:
        state_document |= lens.document(instance.state)
    row = _row(view, instance)
    cell = cell_document(view, instance.id[0], key)
    fault = instance.cell.fault
    divergence = None if fault is None else FlowDivergence.read(fault.detail)
    if with_history:
        past = past_operations(view, instance)
        state_document["operations"] = past.document(lens)
    return {
        **state_document,
        **row,
        "fault": cell["fault"],
        "divergence": None if divergence is None else divergence.to_document(),
        "problem": instance.problem,
        "intents": cell["intents"],
        "reasons": cell["reasons"],
        "with_history": with_history,
    }


@dataclass(slots=True, kw_only=True)
class Past:
    """The operations of a flow, also those that its state no longer has. ``unreadable`` counts the
    recorded states that were pruned, erased or damaged."""

    roots: list[OperationNode] = field(default_factory=list)
    seqs: dict[int, int] = field(default_factory=dict)
    """``id`` of a node -> the last record whose state had it."""
    kept_ids: set[int] = field(default_factory=set)
    """``id`` of each node that the state still has."""
    skipped: set[int] = field(default_factory=set)
    """``id`` of each node whose receipt an operator skipped: the flow never got its result."""
    unreadable: int = 0

    def document(self, lens: FlowLens) -> list[Document]:
        """Return the tree as JSON; each operation also has ``record``, ``is_kept`` and
        ``is_skipped``."""
        documents = lens.operations(self.roots)
        todo = list(zip(self.roots, documents, strict=True))
        while todo:
            node, document = todo.pop()
            document["record"] = self.seqs[id(node)]
            document["is_kept"] = id(node) in self.kept_ids
            document["is_skipped"] = id(node) in self.skipped
            if not document["is_kept"] and not node.operation.state.is_over:
                document["state"] = None  # its scope ended, and how it ended itself was not stored
            todo.extend(zip(node.children, document["children"], strict=True))
        return documents


_OperationKey = tuple[str, int]
"""The path of an operation and the time of its creation: a loop that unwinds makes a path again."""


@dataclass(slots=True)
class _Sighting:
    """An operation in the last state that had it, which record ``seq`` left."""

    node: OperationNode
    parent: _OperationKey | None
    seq: int


def past_operations(view: View, flow: SeenFlow) -> Past:
    """Read every recorded state of an instance since it came into being (A-69b).

    A scope that is over collapses into its result, and a loop trims its iterations; the states that
    steps recorded before still have their operations. The result of a step's last attempt, after
    the last state that had it, is in its receipt.
    """
    sightings: dict[_OperationKey, _Sighting] = {}
    refs: dict[Hash, IssuerRef] = {}
    receipts: dict[str, Receipt | KernelReceipt] = {}
    failed_on: int | None = None
    skipped: set[int] = set()
    unreadable = 0
    last = view.state.next_seq - 1
    for record in records_naming(view.journal, flow.id, last=last, index=view.index):
        match record:
            case Step(cell=flow.id, state=None) | Control(action="remove", cell=flow.id):
                sightings.clear()
            case Step(cell=flow.id):
                for intent in record.intents:
                    ref = IssuerRef.read(intent.issuer_ref)
                    if ref is not None and ref.role is None:
                        refs[intent.intent] = ref
                history = _recorded_history(view, record)
                if history is None:
                    unreadable += 1
                else:
                    _note_sightings(sightings, history, record.seq)
            case Faulted(cell=flow.id):
                failed_on = record.entry[0]
            case Control(action="skip", cell=flow.id) if failed_on is not None:
                skipped.add(failed_on)
            case Receipt(cell=flow.id) | KernelReceipt(cell=flow.id) if record.intent in refs:
                receipts[refs[record.intent].path] = record
            case _:
                pass
    past = _join_sightings(view, flow, sightings, receipts)
    past.unreadable = unreadable
    past.skipped = {
        id(sighting.node)
        for sighting in sightings.values()
        if sighting.node.path in receipts and receipts[sighting.node.path].seq in skipped
    }
    return past


def _recorded_history(view: View, step: Step) -> History | None:
    assert step.state is not None
    try:
        return FlowState.read(slot_bytes(step.state, view.journal.blob)).history
    except (Damage, ValueProblem):
        return None


def _note_sightings(sightings: dict[_OperationKey, _Sighting], history: History, seq: int) -> None:
    parents: dict[int, _OperationKey] = {}
    for node in walk(tree(history)):
        key = (node.path, node.operation.created_ns)
        parents.update((id(child), key) for child in node.children)
        sightings[key] = _Sighting(
            OperationNode(path=node.path, operation=node.operation), parents.get(id(node)), seq
        )


def _join_sightings(
    view: View,
    flow: SeenFlow,
    sightings: dict[_OperationKey, _Sighting],
    receipts: dict[str, Receipt | KernelReceipt],
) -> Past:
    history = None if flow.state is None else flow.state.history
    now = set()
    if history is not None:
        now = {(node.path, node.operation.created_ns) for node in walk(tree(history))}
    past = Past()
    for key, sighting in sorted(sightings.items(), key=lambda item: item[0][1]):
        past.seqs[id(sighting.node)] = sighting.seq
        if key in now:
            past.kept_ids.add(id(sighting.node))
        elif not sighting.node.operation.state.is_over:
            receipt = receipts.get(sighting.node.path)
            sighting.node.operation = _settled_operation(view, flow, sighting.node, receipt)
        parent = None if sighting.parent is None else sightings.get(sighting.parent)
        (past.roots if parent is None else parent.node.children).append(sighting.node)
    return past


def _settled_operation(
    view: View, flow: SeenFlow, node: OperationNode, receipt: Receipt | KernelReceipt | None
) -> Operation:
    """Return an operation that was not over in the last state that had it, with what its receipt
    says. One without a receipt was canceled with its scope, if it is a step."""
    operation = node.operation
    if operation.kind is not OperationKind.STEP:
        return operation
    if receipt is None:
        return replace(operation, state=OperationState.CANCELED)
    done_ns = receipt.stamp.ns if isinstance(receipt, Receipt) else None
    details = operation.details
    if receipt.status == "canceled":
        return replace(operation, state=OperationState.CANCELED, done_ns=done_ns)
    if receipt.status != "ok":
        code = code_of(receipt, view.full_lens) or receipt.status
        failure = Failure(kind=receipt.status, code=code, message="", path=node.path)
        return replace(
            operation,
            state=OperationState.FAILED,
            done_ns=done_ns,
            details=replace(details, failure=failure),
        )
    return replace(
        operation,
        state=OperationState.COMPLETED,
        done_ns=done_ns,
        details=replace(details, value=_receipt_value(view, flow, receipt)),
    )


def _receipt_value(view: View, flow: SeenFlow, receipt: Receipt | KernelReceipt) -> bytes | None:
    effect = flow.manifest.effects.get(receipt.effect)
    try:
        data = slot_bytes(receipt.payload, view.journal.blob)
        return data if effect is None else effect.receipt.from_ingress(data)
    except (Damage, ValueProblem):
        return None
