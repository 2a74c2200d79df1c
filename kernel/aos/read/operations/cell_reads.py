"""Read requests about cells: lists, counts, one cell, and those that failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from aos.core.journal.faults import FaultKind
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.core.state.state import State
from aos.errors import BadUsage
from aos.read.lens.lookup import find_workflow
from aos.read.operations.across import MergedRows, OneOf, RowKey, Summed
from aos.read.operations.operation import (
    AT,
    FLAG,
    GROUP_BY,
    KEY,
    KEY_PREFIX,
    LIMITED,
    NAME,
    SPELLED,
    WHERE,
    WORKFLOW,
    ApiLink,
    Parameter,
    Query,
    ReadOperation,
    is_always_long,
)
from aos.read.views import cell_view
from aos.read.views.cell_selection import (
    BY_ACTIVITY,
    BY_AGE,
    BY_KEY,
    BY_MAIL,
    ORDERS,
    CellSelection,
    place_text,
)
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.values.spelling import duration_ns

FAULTS: Final = tuple(kind.value for kind in FaultKind)

FILTERS: Final = (
    WORKFLOW,
    Parameter(
        name="status", schema={"type": "string", "enum": list(CELL_STATUSES)}, metavar="STATUS",
        help="Only cells of this status.",
    ),
    KEY_PREFIX,
    Parameter(
        name="waits_for", schema=NAME, metavar="WHAT",
        help="Only cells that wait for this effect, or for timer, event or mail.",
    ),
    Parameter(
        name="older_than", schema={"type": "string", "maxLength": 64}, metavar="D", is_span=True,
        help="Only cells whose last step was at least this long ago, such as 90s or 2d.",
    ),
    Parameter(name="pinned", schema=FLAG, help="Only cells pinned to an earlier manifest."),
    Parameter(
        name="fault", schema=NAME, metavar="KIND", words=FAULTS,
        help="Only cells that failed by this fault.",
    ),
    WHERE,
)  # fmt: skip


def _selection(query: Query) -> CellSelection:
    return CellSelection(
        workflow=query.get("workflow"),
        status=query.get("status"),
        key_prefix=query.get("key_prefix"),
        waits_for=query.get("waits_for"),
        older_than_ns=_span_ns(query.get("older_than")),
        pinned=query.get("pinned", False),
        fault=query.get("fault"),
        condition=query.get("where"),
        aliases=query.get("aliases", {}),
    )


def _span_ns(text: str | None) -> int | None:
    if text is None:
        return None
    span_ns = duration_ns(text)
    if span_ns is None or span_ns < 0:
        raise BadUsage(f"older_than: expected a duration such as 90s, 5m or 2d, found {text!r}")
    return span_ns


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
    from aos.read.views.count_view import cell_counts  # noqa: PLC0415  # few requests count

    return cell_counts(view, _selection(query), group_by=query.get("group_by"))


def _searched(state: State, query: Query) -> str | None:
    try:
        return find_workflow(state, query["workflow"]) if "workflow" in query else None
    except BadUsage:
        return None  # the document says so


def _faults(view: View, query: Query) -> Document:
    selection = CellSelection(
        workflow=query.get("workflow"),
        fault=query.get("kind"),
        condition=query.get("where"),
        aliases=query.get("aliases", {}),
    )
    return cell_view.faults(view, selection, limit=query["limit"], offset=query["offset"])


_RANKS: Final[Mapping[str, Callable[[Document], int]]] = {
    BY_KEY: lambda _: 0,
    BY_AGE: lambda row: int(row["last_active_ns"]),
    BY_ACTIVITY: lambda row: -int(row["last_active_ns"]),
    BY_MAIL: lambda row: -int(row["mailbox"]),
}


def _order(query: Query) -> RowKey:
    """The order of cells, as ``rank_of`` gives it."""
    rank = _RANKS[query["sort"]]
    return lambda row: (rank(row), row["workflow"], bytes.fromhex(row["key_cbor"]))


def _place(query: Query, row: Document) -> str:
    """The ``next_after`` of a row."""
    rank = _RANKS[query["sort"]](row)
    return place_text(rank, (row["workflow"], bytes.fromhex(row["key_cbor"])))


READ_CELLS: Final = ReadOperation(
    name="read_cells", path="/v1/cells", command="inspect cells",
    summary="List the cells, by workflow and key.",
    parameters=(
        *FILTERS,
        Parameter(name="state", schema=FLAG, help="Show the state of each cell."),
        Parameter(
            name="sort", schema={"type": "string", "enum": list(ORDERS), "default": ORDERS[0]},
            metavar="|".join(ORDERS), help="The order of the list.",
            command_help="key (default); age: the longest without a step first; activity: the last "
            "active first; mail: the fullest mailbox first.",
        ),
        Parameter(
            name="after", schema={"type": "string", "minLength": 1, "maxLength": 2_400},
            metavar="PLACE", help="Continue after this place: next_after of the page before.",
        ),
        *LIMITED, AT, SPELLED,
    ),
    answers=("CellsDocument",), document=_cells,
    is_long=is_always_long, reads_index=True, searched=_searched,
    across=MergedRows("cells", _order, sums=("looked_at",), counts=("by_reason",), place=_place),
)  # fmt: skip

READ_CELL_COUNTS: Final = ReadOperation(
    name="read_cell_counts", path="/v1/cells/count", command="inspect cells --count",
    summary="Count the cells that a list would have, in all and by the values of a name.",
    parameters=(*FILTERS, GROUP_BY, AT),
    answers=("CountsDocument",), document=_cell_counts,
    is_long=is_always_long, reads_index=True, searched=_searched, across=Summed(),
)  # fmt: skip

READ_CELL: Final = ReadOperation(
    name="read_cell", path="/v1/cell", command="inspect cell",
    summary="Show one cell: its state, open effects, mail, and why it waits.",
    parameters=(
        replace(WORKFLOW, metavar="WORKFLOW", required=True, is_argument=True),
        replace(KEY, is_argument=True), AT, SPELLED,
    ),
    answers=("CellDocument",), asks_process=True, across=OneOf(),
    document=lambda view, query: cell_view.cell(view, query["workflow"], query.get("key")),
    links=(
        ApiLink("read_trace", {"workflow": "/workflow", "key": "/key"}),
        ApiLink("read_value", {"value": "/module_hash"}),
        ApiLink("read_blob", {"value": "/module_hash"}),
    ),
)  # fmt: skip

READ_FAULTS: Final = ReadOperation(
    name="read_faults", path="/v1/faults", command="inspect faults",
    summary="List the failed instances, with the reason and the remedy.",
    parameters=(
        WORKFLOW,
        Parameter(
            name="kind", schema=NAME, metavar="KIND", words=FAULTS,
            help="Only faults of this kind.",
        ),
        WHERE, *LIMITED, AT, SPELLED,
    ),
    answers=("FaultsDocument",), document=_faults, is_long=is_always_long,
    across=MergedRows("faults"),
)  # fmt: skip
