"""The documents of the reading routes, which are those of ``--json`` (spec/node-api.md, N-114).

Short ones are made in the front, from the follower's state. Those that may take long are made in a
reader process (``readers.py``) by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aos.errors import BadUsage
from aos.host.apply.report import journaled_report, manifest_changes, proposal_report
from aos.node.batches.batch_files import batch_items
from aos.read.trace.render import DRAWN_BYTES_MAX, lines, to_documents
from aos.read.trace.trace import trace
from aos.read.views import (
    cell_view,
    clock_view,
    count_view,
    flow_view,
    intent_view,
    journal_view,
    linear_view,
    proposal_view,
    schedule_view,
    value_view,
    world_view,
)
from aos.read.views.cell_selection import CellSelection
from aos.read.views.record_view import Document
from aos.read.views.view import LIMIT, Running, RunningTask, View
from aos.values.digests import hash_text
from aos.values.spelling import duration_ns

Query: TypeAlias = Mapping[str, Any]

ROWS_SHORT_MAX: Final = 200
"""Rows up to which a list is short enough for the front."""


def _clock(view: View, _: Query) -> Document:
    return clock_view.clock(view)


def _world(view: View, _: Query) -> Document:
    return world_view.world(view)


def _manifest(view: View, query: Query) -> Document:
    if "since" in query:
        if "name" in query:
            raise BadUsage("manifest: expected one of name and since")
        return manifest_changes(view, query["since"])
    return world_view.manifest(view, query.get("name"))


def _selection(query: Query) -> CellSelection:
    return CellSelection(
        workflow=query.get("workflow"),
        status=query.get("status"),
        key_prefix=query.get("key_prefix"),
        waits_for=query.get("waits_for"),
        older_than_ns=_span(query.get("older_than")),
        pinned=query.get("pinned", False),
        fault=query.get("fault"),
        condition=query.get("where"),
        aliases=query.get("aliases", {}),
    )


def _cells(view: View, query: Query) -> Document:
    return cell_view.cells(
        view,
        _selection(query),
        order=query["sort"],
        with_state=query.get("state", False),
        limit=query["limit"],
        offset=query["offset"],
        after_place=query.get("after"),
    )


def _cell_counts(view: View, query: Query) -> Document:
    return count_view.cell_counts(view, _selection(query), group_by=query.get("group_by"))


def _span(text: str | None) -> int | None:
    if text is None:
        return None
    span_ns = duration_ns(text)
    if span_ns is None or span_ns < 0:
        raise BadUsage(f"older_than: expected a duration such as 90s, 5m or 2d, found {text!r}")
    return span_ns


def _cell(view: View, query: Query) -> Document:
    return cell_view.cell(view, query["workflow"], query.get("key"))


def _intents(view: View, query: Query) -> Document:
    parked, code, status = query.get("parked", False), query.get("code"), query.get("status")
    is_open = parked or code is None
    return intent_view.intents(
        view,
        status=None if status == "all" else status or ("open" if is_open else None),
        halted=parked,
        code=code,
        workflow=query.get("workflow"),
        effect=query.get("effect"),
        key_prefix=query.get("key_prefix"),
        condition=query.get("where"),
        aliases=query.get("aliases", {}),
        limit=query["limit"],
        offset=query["offset"],
    )


def _intent(view: View, query: Query) -> Document:
    return intent_view.intent(view, query["intent"])


def _faults(view: View, query: Query) -> Document:
    selection = CellSelection(
        workflow=query.get("workflow"),
        fault=query.get("kind"),
        condition=query.get("where"),
        aliases=query.get("aliases", {}),
    )
    return cell_view.faults(view, selection, limit=query["limit"], offset=query["offset"])


def _records(view: View, query: Query) -> Document:
    end = view.state.next_seq - 1
    first = query.get("from")
    if first is not None and first > end:
        raise BadUsage(f"from: expected a record, 1 to {end}, found {first}")
    kinds = query.get("kind")
    return journal_view.journal(
        view,
        first=first,
        last=query.get("to"),
        kinds=tuple(kinds) if kinds else None,
        workflow=query.get("workflow"),
        key=query.get("key"),
        limit=query["limit"],
    )


def _record(view: View, query: Query) -> Document:
    end, seq = view.state.next_seq - 1, query["seq"]
    if seq > end:
        raise BadUsage(f"seq: expected a record, 1 to {end}, found {seq}")
    return journal_view.record(view, seq)


def _value(view: View, query: Query) -> Document:
    return value_view.value(view, query["value"])


def _trace(view: View, query: Query) -> Document:
    targets = [name for name in ("seq", "intent", "workflow") if name in query]
    if len(targets) != 1:
        raise BadUsage("trace: expected one of seq, intent and workflow (with its key)")
    words = [str(query[targets[0]])]
    if "key" in query:
        if targets != ["workflow"]:
            raise BadUsage("trace: a key belongs to a workflow")
        words.append(query["key"])
    is_drawn = query.get("drawn", False)
    if is_drawn:
        view.spell(bytes_max=DRAWN_BYTES_MAX)
    trace_graph = trace(view, words, follow_events=query.get("follow_events", False))
    if is_drawn:
        return {"lines": to_documents(lines(trace_graph, width=query.get("width")))}
    document: Document = trace_graph.to_document()
    return document


def _flows(view: View, query: Query) -> Document:
    return flow_view.flows(
        view,
        flow=query.get("flow"),
        status=query.get("status"),
        key_prefix=query.get("key_prefix"),
        where=query.get("where"),
        aliases=query.get("aliases", {}),
        limit=query["limit"],
        offset=query["offset"],
    )


def _flow(view: View, query: Query) -> Document:
    has_history = query.get("history", False)
    return flow_view.flow(view, query["flow"], query["key"], with_history=has_history)


def _plans(view: View, _: Query) -> Document:
    return linear_view.plans(view)


def _linear_filters(query: Query) -> dict[str, Any]:
    names = ("status", "plan", "step", "where")
    return {name: query.get(name) for name in names} | {"aliases": query.get("aliases", {})}


def _linear_instances(view: View, query: Query) -> Document:
    return linear_view.instances(
        view, limit=query["limit"], offset=query["offset"], **_linear_filters(query)
    )


def _linear_counts(view: View, query: Query) -> Document:
    return count_view.linear_counts(view, group_by=query.get("group_by"), **_linear_filters(query))


def _linear_instance(view: View, query: Query) -> Document:
    return linear_view.instance(view, query["instance"])


def _schedules(view: View, _: Query) -> Document:
    return schedule_view.schedules(view)


def _proposals(view: View, _: Query) -> Document:
    return proposal_view.proposal_list(view)


def _proposal(view: View, query: Query) -> Document:
    if "report" in query:
        return journaled_report(view, query["proposal"], query["report"])
    return proposal_report(view, query["proposal"])


def _schedule(view: View, query: Query) -> Document:
    return schedule_view.schedule(view, query["id"])


def _minutes(view: View, _: Query) -> Document:
    return journal_view.minutes(view)


MINUTES: Final = "read_minutes"

LISTS: Final[Mapping[str, Callable[[View, Query], Document]]] = {
    "list_batch_items": batch_items,
    MINUTES: _minutes,
}
"""Documents that the front or the page needs for itself."""


def read_document(view: View, operation: str, query: Query) -> Document:
    """Make the document of a reading operation; with ``spelled``, values are for people.

    Raises:
        BadUsage: The query names something that the world does not have.
    """
    if query.get("spelled", False):
        view.spell()
    return (DOCUMENTS.get(operation) or LISTS[operation])(view, query)


DOCUMENTS: Final[Mapping[str, Callable[[View, Query], Document]]] = {
    "read_world": _world,
    "read_clock": _clock,
    "read_manifest": _manifest,
    "read_cells": _cells,
    "read_cell_counts": _cell_counts,
    "read_cell": _cell,
    "read_intents": _intents,
    "read_intent": _intent,
    "read_faults": _faults,
    "read_records": _records,
    "read_record": _record,
    "read_value": _value,
    "read_trace": _trace,
    "read_flows": _flows,
    "read_flow": _flow,
    "read_plans": _plans,
    "read_linear_instances": _linear_instances,
    "read_linear_counts": _linear_counts,
    "read_linear_instance": _linear_instance,
    "read_schedules": _schedules,
    "read_schedule": _schedule,
    "read_proposals": _proposals,
    "read_proposal": _proposal,
}
"""Each reading operation and the function that makes its document."""

ASKING: Final = frozenset({"read_cell", "read_flow", "read_intent", "read_trace"})
"""Documents whose advice depends on the work of the kernel process."""

SEARCHING: Final = frozenset(
    {"read_cells", "read_cell_counts", "read_linear_instances", "read_linear_counts"}
)
"""Lists and counts that may come from the search index. ``aliases`` in their query are from
``node.toml``."""

NAMING: Final = frozenset({"read_faults", "read_flows", "read_intents"})
"""Lists that come from the cells alone, and whose condition may have names from ``node.toml``."""

_LONG: Final = SEARCHING | frozenset(
    {
        "read_faults",
        "read_value",
        "read_trace",
        "read_flows",
        "read_schedules",
        "read_proposals",
        "read_proposal",
    }
)


def is_long(operation: str, query: Query) -> bool:
    """Return whether a document may take long: it reads every cell, the journal, or the past."""
    if operation in _LONG or "at" in query:
        return True
    match operation:
        case "read_flow":
            return bool(query.get("history", False))
        case "read_intents":
            is_filtered = any(name in query for name in ("code", "key_prefix", "where"))
            return is_filtered or query.get("status", "open") != "open" or _has_many(query)
        case "read_records":
            is_filtered = any(name in query for name in ("kind", "workflow", "key"))
            return is_filtered or _has_many(query)
    return False


def _has_many(query: Query) -> bool:
    rows: int = query.get("limit", LIMIT)
    return rows > ROWS_SHORT_MAX


# The work of the kernel process


def work_document(work: Mapping[str, Any]) -> Document:
    """Return the socket's ``work`` (H-53) as a document."""
    return {
        "effects": sorted(work.get("effects", ())),
        "executors": {
            executor: {
                phase: {"number": number, "since_ns": since_ns}
                for phase, (number, since_ns) in phases.items()
            }
            for executor, phases in work.get("executors", {}).items()
        },
        "tasks": [
            {
                "intent": hash_text(intent),
                "phase": phase,
                "attempt": attempt,
                "since_ns": since_ns,
            }
            for intent, phase, attempt, since_ns in work.get("tasks", ())
        ],
    }


def process_document(status: Mapping[str, Any], work: Mapping[str, Any] | None) -> Document:
    """Return the process that runs a world, as ``aos inspect world`` shows it, from the answers to
    ``status`` and ``work``; ``work`` is None if it was not answered."""
    return {
        **{name: status[name] for name in ("pid", "steps", "queued", "no_room")},
        "executors": work_document(work or {})["executors"],
    }


def running_of(work: Document | None) -> Running | None:
    """Return the document of ``work_document`` for the advice of a view."""
    if work is None:
        return None
    return Running(
        effects=frozenset(work["effects"]),
        tasks={
            bytes.fromhex(task["intent"].removeprefix("blake3:")): RunningTask(
                task["phase"], task["attempt"], task["since_ns"]
            )
            for task in work["tasks"]
        },
    )
