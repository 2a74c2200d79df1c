"""The documents of ``aos flow list`` and ``aos flow show`` (spec/audit.md, A-69, A-69a)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from aos.audit.lens.flow_lookup import find_flow, flow_names
from aos.audit.lens.lookup import find_cell
from aos.audit.views.cell_view import cell as cell_document
from aos.audit.views.flow_past import past_operations
from aos.audit.views.flow_reading import SHOWN_STATUSES, SeenFlow, read_flow
from aos.audit.views.record_view import Document
from aos.audit.views.version_view import version
from aos.audit.views.view import LIMIT, View, check_word, page
from aos.core.journal.records import CellId
from aos.errors import BadUsage, sentence
from aos.flow.divergence import FlowDivergence
from aos.flow.flow_state import OTHER_SPELLINGS
from aos.flow.waits import waits


def flows(
    view: View,
    *,
    flow: str | None = None,
    status: str | None = None,
    key_prefix: str | None = None,
    limit: int = LIMIT,
    offset: int = 0,
) -> Document:
    """List the instances of flows by flow, then key (A-69). The state of each selected instance is
    read, because it has the status.

    Raises:
        BadUsage: A filter names nothing that is known.
    """
    if status is not None:
        status = OTHER_SPELLINGS.get(status, status)
    check_word("flow status", status, SHOWN_STATUSES)
    names = flow_names(view.state) if flow is None else [find_flow(view.state, flow)]
    ids: list[CellId] = []
    by_status: Counter[str] = Counter()
    for instance in _instances(view, names, key_prefix):
        by_status[instance.status] += 1
        if status in (None, instance.status):
            ids.append(instance.id)

    def row(id: CellId) -> Document:
        instance = read_flow(view.state, view.state.cells[id], view.journal.blob)
        assert instance is not None, "selected as a flow"
        return _row(view, instance)

    return {
        **page("flows", sorted(ids), limit, offset, row),
        "by_status": dict(sorted(by_status.items())),
    }


def _instances(view: View, names: list[str], key_prefix: str | None) -> Iterator[SeenFlow]:
    for name in names:
        for cell in view.state.cells.of(name):
            if key_prefix is None or view.lens.key_text(
                cell.id, hash=cell.workflow_hash
            ).startswith(key_prefix):
                instance = read_flow(view.state, cell, view.journal.blob)
                if instance is not None:
                    yield instance


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
            sentence(
                "there is no such instance of the flow",
                location=f"{name} {key}",
                hint="aos flow list shows those that there are; aos flow start makes one",
            )
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
