"""The read request for causes and effects."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from aos.errors import BadUsage
from aos.read.operations.across import OneOf
from aos.read.operations.operation import (
    FLAG,
    KEY,
    NAME,
    SEQ,
    WORKFLOW,
    Parameter,
    Query,
    ReadOperation,
    is_always_long,
)
from aos.read.trace.render import DRAWN_BYTES_MAX, lines, to_documents
from aos.read.trace.trace import trace
from aos.read.views.record_view import Document
from aos.read.views.view import View


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


def _is_empty(document: Document) -> bool:
    """Whether nothing has happened to the target, as to a cell that is in another shard."""
    if "lines" in document:
        return {line["kind"] for line in document["lines"]} <= {"case", "reason"}
    return not document["roots"] and not document["earlier"]


READ_TRACE: Final = ReadOperation(
    name="read_trace", path="/v1/trace", command="trace",
    summary="Show the causes and effects of a record, an intent or a cell.",
    parameters=(
        Parameter(name="seq", schema=SEQ, help="A record.", is_argument=True),
        Parameter(name="intent", schema=NAME, help="An intent.", is_argument=True),
        replace(WORKFLOW, is_argument=True), replace(KEY, is_argument=True),
        Parameter(
            name="follow_events", schema=FLAG,
            help="For a cell: continue with the cells that its events reached.",
        ),
        Parameter(
            name="drawn", schema=FLAG, is_for_people=True,
            help="Answer with `lines` instead, those of aos trace, each {depth, kind, text, "
            "is_target, is_bad}.",
        ),
        Parameter(
            name="width", schema={"type": "integer", "minimum": 1, "maximum": 10_000},
            is_for_people=True,
            help="With drawn: cut values so that lines fit into so many columns.",
        ),
    ),
    answers=("TraceDocument", "DrawnTrace"), document=_trace,
    is_long=is_always_long, asks_process=True, reads_index=True, reads_neighbours=True,
    across=OneOf(_is_empty),
)  # fmt: skip
