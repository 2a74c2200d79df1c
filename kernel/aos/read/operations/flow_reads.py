"""Read requests about flows: workflows that are one async function."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from aos.flow.flow_state import OTHER_SPELLINGS
from aos.read.operations.across import MergedRows, OneOf, by_field
from aos.read.operations.operation import (
    AT,
    FLAG,
    KEY,
    KEY_PREFIX,
    LIMITED,
    NAME,
    SPELLED,
    WHERE,
    Parameter,
    Query,
    ReadOperation,
    is_always_long,
)
from aos.read.views import flow_view
from aos.read.views.flow_reading import SHOWN_STATUSES
from aos.read.views.record_view import Document
from aos.read.views.view import View


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


def _flow_takes_long(query: Query) -> bool:
    return bool(query.get("history", False))


READ_FLOWS: Final = ReadOperation(
    name="read_flows", path="/v1/flows", command="flow list",
    summary="List the instances of flows, by flow and key or in the order of a condition.",
    parameters=(
        Parameter(
            name="flow", schema=NAME, metavar="FLOW",
            help="Only this flow, or a unique part of it.",
        ),
        Parameter(
            name="status", metavar="STATUS", words=SHOWN_STATUSES,
            schema={"type": "string", "enum": [*SHOWN_STATUSES, *OTHER_SPELLINGS]},
            help="Only flows of this status.",
        ),
        KEY_PREFIX, WHERE, *LIMITED, AT,
    ),
    answers=("FlowsDocument",), document=_flows, is_long=is_always_long, reads_index=True,
    across=MergedRows("flows", by_field("workflow", "key_cbor"), counts=("by_status",)),
)  # fmt: skip

READ_FLOW: Final = ReadOperation(
    name="read_flow", path="/v1/flow", command="flow show",
    summary="Show one flow: its operations as a tree, and what it waits for.",
    parameters=(
        Parameter(
            name="flow", schema=NAME, required=True, metavar="FLOW", is_argument=True,
            help="The name of the flow, or a unique part of it.",
        ),
        replace(KEY, required=True, is_argument=True),
        Parameter(
            name="history", schema=FLAG,
            help="Also the operations that its state no longer has, from the journal.",
        ),
        AT, SPELLED,
    ),
    answers=("FlowDocument",), document=_flow, is_long=_flow_takes_long, asks_process=True,
    across=OneOf(),
)  # fmt: skip
