"""``aos inspect``: show the content of a world (spec/cli.md, C-30 to C-38).

``aos.prove`` makes the documents; this module prints them. Every command works while another
process runs the world, and with ``--node`` through the node of a world elsewhere (C-92).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Final

import typer

from aos.core.journal.faults import FaultKind
from aos.core.journal.vocabulary import CELL_STATUSES, STATUSES
from aos.errors import BadUsage, either
from aos.read.views import cell_view, intent_view, journal_view, value_view
from aos.read.views.cell_selection import BY_KEY, ORDERS, CellSelection
from aos.read.views.reason import WAITS
from aos.read.views.record_view import Document
from aos.read.views.view import LIMIT, View, check_word
from aos_cli import inspect_text as text
from aos_cli.node_option import NodeUrl, from_node
from aos_cli.open_view import looking_at, search_names
from aos_cli.options import (
    DEFAULT_WORLD,
    At,
    Condition,
    Count,
    GroupBy,
    Json,
    Limit,
    Offset,
    World,
    is_counted,
    number,
    span,
)
from aos_cli.output import has_reader, print_bytes, print_json_line
from aos_cli.unsealed_output import Unseal, unsealed_with

FOLLOW_S: Final = 0.2
"""Interval at which ``--follow`` looks for new records, in seconds."""

FOLLOWED_FIRST: Final = 10
"""How many existing records ``--follow`` shows first."""

ALL: Final = "all"

FAULTS: Final = either([kind.value for kind in FaultKind])

Workflow = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Only this workflow: its name, or a unique part of it."),
]
KeyPrefix = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only cells whose key begins with this text.")
]
CellStatus = Annotated[
    str | None,
    typer.Option(metavar="STATUS", help=f"Only cells that are {either(CELL_STATUSES)}."),
]
WaitsFor = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help=f"Only cells that wait for this effect, or for {', '.join(WAITS)}.",
    ),
]
OlderThan = Annotated[
    int | None,
    typer.Option(
        metavar="D",
        parser=span,
        help="Only cells whose last step was at least this long ago, such as 90s, 5m or 2d.",
    ),
]
Pinned = Annotated[bool, typer.Option("--pinned", help="Only cells pinned to an earlier manifest.")]
FaultName = Annotated[
    str | None,
    typer.Option(metavar="KIND", help=f"Only cells that failed by this fault: {FAULTS}."),
]
WithState = Annotated[
    bool, typer.Option("--state", help="Show the state of each cell in the list.")
]
CellOrder = Annotated[
    str,
    typer.Option(
        metavar="|".join(ORDERS),
        help="key (default); age: the longest without a step first; activity: the last "
        "active first; mail: the fullest mailbox first.",
    ),
]
AfterPlace = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Continue after this place: next_after of the page before (--json).",
    ),
]


def inspect_cells(
    context: typer.Context,
    *,
    workflow: Workflow = None,
    status: CellStatus = None,
    key_prefix: KeyPrefix = None,
    waits_for: WaitsFor = None,
    older_than: OlderThan = None,
    pinned: Pinned = False,
    fault: FaultName = None,
    where: Condition = None,
    is_count: Count = False,
    group_by: GroupBy = None,
    state: WithState = False,
    sort: CellOrder = BY_KEY,
    after: AfterPlace = None,
    limit: Limit = LIMIT,
    offset: Offset = 0,
    at: At = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    counts = is_counted(
        context, "state", "sort", "after", "limit", "offset", is_count=is_count, group_by=group_by
    )
    if node is not None:
        filters = {
            "workflow": workflow, "status": status, "key_prefix": key_prefix,
            "waits_for": waits_for, "pinned": pinned, "fault": fault, "where": where, "at": at,
            "older_than": None if older_than is None else f"{older_than}ns",
        }  # fmt: skip
        if counts:
            from aos_cli.count_text import show_counts  # noqa: PLC0415  # few lists count

            document = from_node(node, "/v1/cells/count", group_by=group_by, **filters)
            show_counts(document, "cell", json=json)
            return
        document = from_node(
            node, "/v1/cells", state=state, sort=sort, after=after, limit=limit, offset=offset,
            spelled=not json, **filters,
        )  # fmt: skip
        text.show(document, text.cells, json=json)
        return
    with looking_at(world, at, spells=not json, by_index=True) as view:
        selection = CellSelection(
            workflow=workflow,
            status=status,
            key_prefix=key_prefix,
            waits_for=waits_for,
            older_than_ns=older_than,
            pinned=pinned,
            fault=fault,
            condition=where,
            aliases={} if where is None and group_by is None else search_names(world),
        )
        if counts:
            from aos.read.views.count_view import cell_counts  # noqa: PLC0415  # as above
            from aos_cli.count_text import show_counts  # noqa: PLC0415

            show_counts(cell_counts(view, selection, group_by=group_by), "cell", json=json)
            return
        document = cell_view.cells(
            view,
            selection,
            order=sort,
            with_state=state,
            limit=limit,
            offset=offset,
            after_place=after,
        )
    text.show(document, text.cells, json=json)


def inspect_cell(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW")],
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="As JSON, or as plain text.")
    ] = None,
    *,
    unseal: Unseal = None,
    at: At = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if node is not None:
        query = {"workflow": workflow, "key": key, "at": at, "spelled": not json}
        document = from_node(node, "/v1/cell", **query)
    else:
        with looking_at(world, at, asks=True, spells=not json) as view:
            document = cell_view.cell(view, workflow, key)
    text.show(unsealed_with(unseal, document), text.cell, json=json)


def inspect_intents(
    *,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS",
            help=f"{', '.join(intent_view.INTENT_STATUSES)}, {ALL}, or the status of a receipt: "
            f"{', '.join(STATUSES)} (default: open).",
        ),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option(
            metavar="C",
            help="Only intents that were settled with this error code; with --parked, only those "
            "that are held or parked with this code.",
        ),
    ] = None,
    parked: Annotated[
        bool, typer.Option("--parked", help="Only open intents that are held or parked.")
    ] = False,
    workflow: Workflow = None,
    effect: Annotated[str | None, typer.Option(metavar="NAME", help="Only this effect.")] = None,
    key_prefix: KeyPrefix = None,
    where: Condition = None,
    limit: Limit = LIMIT,
    offset: Offset = 0,
    at: At = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    check_word("intent status", status, (*intent_view.INTENT_STATUSES, *STATUSES, ALL))
    if node is not None:
        document = from_node(
            node, "/v1/intents", status=status, code=code, parked=parked, workflow=workflow,
            effect=effect, key_prefix=key_prefix, where=where, limit=limit, offset=offset, at=at,
            spelled=not json,
        )  # fmt: skip
        text.show(document, text.intents, json=json)
        return
    is_open = parked or code is None
    with looking_at(world, at, spells=not json, by_index=True) as view:
        document = intent_view.intents(
            view,
            status=None if status == ALL else status or ("open" if is_open else None),
            halted=parked,
            code=code,
            workflow=workflow,
            effect=effect,
            key_prefix=key_prefix,
            condition=where,
            aliases={} if where is None else search_names(world),
            limit=limit,
            offset=offset,
        )
    text.show(document, text.intents, json=json)


def inspect_intent(
    intent: Annotated[
        str, typer.Argument(metavar="HASH", help="Its hash, or the first 8 digits or more.")
    ],
    *,
    unseal: Unseal = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if node is not None:
        document = from_node(node, "/v1/intent", intent=intent, spelled=not json)
    else:
        with looking_at(world, asks=True, spells=not json) as view:
            document = intent_view.intent(view, intent)
    text.show(unsealed_with(unseal, document), text.intent, json=json)


def inspect_faults(
    *,
    workflow: Workflow = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help=f"Only faults of this kind: {FAULTS}.")
    ] = None,
    where: Condition = None,
    limit: Limit = LIMIT,
    offset: Offset = 0,
    at: At = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if node is not None:
        document = from_node(
            node, "/v1/faults", workflow=workflow, kind=kind, where=where, limit=limit,
            offset=offset, at=at, spelled=not json,
        )  # fmt: skip
    else:
        with looking_at(world, at, spells=not json) as view:
            aliases = {} if where is None else search_names(world)
            selection = CellSelection(
                workflow=workflow, fault=kind, condition=where, aliases=aliases
            )
            document = cell_view.faults(view, selection, limit=limit, offset=offset)
    text.show(document, text.faults, json=json)


def inspect_record(
    seq: Annotated[int, typer.Argument(metavar="SEQ", parser=number)],
    *,
    unseal: Unseal = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if node is not None:
        document = from_node(node, "/v1/record", seq=seq, spelled=not json)
    else:
        with looking_at(world, spells=not json) as view:
            document = journal_view.record(view, seq)
    text.show(unsealed_with(unseal, document), text.value, json=json)


def inspect_value(
    value: Annotated[
        str,
        typer.Argument(
            metavar="HASH",
            help="The value's content hash in full, or the sha256: name of a blob.",
        ),
    ],
    *,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Write the bytes of the value to stdout, and nothing else."),
    ] = False,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if raw and json:
        raise BadUsage("--raw writes bytes: leave out --json")
    if node is not None:
        _show_value_of_node(node, value, raw=raw, json=json)
        return
    with looking_at(world) as view:
        if raw:
            print_bytes(value_view.value_bytes(view, value))
            return
        document = value_view.value(view, value)
    text.show(document, text.whereabouts, json=json)


def _show_value_of_node(node: str, value: str, *, raw: bool, json: bool) -> None:
    from aos_cli import node_world  # noqa: PLC0415  # the client imports much

    if raw:
        print_bytes(node_world.value_bytes(node, value))
        return
    document = node_world.document(node, "/v1/value", value=value)
    text.show(document, text.whereabouts, json=json)


def inspect_journal(
    *,
    first: Annotated[
        int | None,
        typer.Option(
            "--from", metavar="SEQ", parser=number, help="From this record on; else the newest."
        ),
    ] = None,
    last: Annotated[
        int | None, typer.Option("--to", metavar="SEQ", parser=number, help="Up to this record.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help=f"{', '.join(journal_view.KINDS)}. May be given several times.",
        ),
    ] = None,
    workflow: Workflow = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="With --workflow: of this cell.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=number,
            help=f"Maximum number of records (default: {LIMIT}; with --from: all).",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print new records as they come, until Ctrl-C.")
    ] = False,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if limit is not None and limit < 1:
        raise BadUsage(f"--limit: expected 1 or more, found {limit}")
    if follow and (last is not None or (limit is not None and first is not None)):
        raise BadUsage(
            "--follow has no end: leave out --to, and use only one of --limit and --from"
        )
    kinds = tuple(kind) if kind else None
    newest = limit or (FOLLOWED_FIRST if follow else LIMIT)
    if node is not None:
        from aos_cli import node_world  # noqa: PLC0415  # the client imports much

        _show_records(
            node_world.records(
                node, first=first, last=last, limit=limit, newest=newest, follow=follow,
                kinds=kinds, workflow=workflow, key=key, is_spelled=not json,
            ),
            json=json,
        )  # fmt: skip
        return
    # One that follows would keep a moment of the index, whose pages could not be used again.
    is_indexed = key is not None and not follow
    with looking_at(world, spells=not json, by_index=is_indexed) as view:
        selection = journal_view.selection(view, kinds=kinds, workflow=workflow, key=key)
        _show_records(
            _records(
                view, selection, first=first, last=last, limit=limit, newest=newest, follow=follow
            ),
            json=json,
        )


def _show_records(records: Iterable[Document], *, json: bool) -> None:
    """Print records as they come, until Ctrl-C (a normal end) or until stdout has no reader."""
    try:
        for record in records:
            if not has_reader():
                return
            if json:
                print_json_line(record, at_once=True)
            else:
                text.record_line(record)
    except KeyboardInterrupt:
        return


def _records(
    view: View,
    selection: journal_view.Selection,
    *,
    first: int | None,
    last: int | None,
    limit: int | None,
    newest: int,
    follow: bool,
) -> Iterator[Document]:
    """Yield the selected records that exist now, oldest first; with ``follow`` then each new
    one."""
    end = view.state.next_seq - 1
    for name, seq in (("--from", first), ("--to", last)):
        if seq is not None and seq < 1:
            raise BadUsage(f"{name}: expected a record, 1 to {end}, found {seq}")
    if first is not None and first > end and not follow:
        raise BadUsage(f"--from: expected a record, 1 to {end}, found {first}")
    reader = journal_view.RecordReader(view.journal, view.lens, view.index)
    until = end if last is None else min(end, last)
    if first is None:
        yield from reader.newest(newest, last=until, selection=selection)
    elif first <= until:
        yield from islice(reader.forward(first, until, selection=selection), limit)
    if follow:
        yield from _new_ones(view, reader, selection, last_seq=end)


def _new_ones(
    view: View,
    reader: journal_view.RecordReader,
    selection: journal_view.Selection,
    *,
    last_seq: int,
) -> Iterator[Document]:
    """Yield new records, until stdout has no reader."""
    while has_reader():
        head = view.journal.head()
        if head is None or head.seq <= last_seq:
            time.sleep(FOLLOW_S)
            continue
        yield from reader.forward(last_seq + 1, head.seq, selection=selection)
        last_seq = head.seq
