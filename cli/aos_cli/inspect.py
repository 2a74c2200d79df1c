"""``aos inspect``: what is in a world (spec/cli.md, C-30 to C-38).

Documents come from ``aos.audit``; here they are printed. Any of this works while another process
runs the world.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from aos.audit import cell_view, intent_view, journal_view, value_view, world_view
from aos.audit.record_view import Document
from aos.audit.view import LIMIT, View
from aos.errors import AosError, BadUsage
from aos.host.adopting import origin_at
from aos.host.client import ask_running
from aos_cli import inspect_text as text
from aos_cli.options import DEFAULT_WORLD, At, Json, World, number
from aos_cli.output import has_reader, print_json, print_json_line
from aos_cli.reading import looking_at

FOLLOW_S: Final = 0.2
"""How often a growing journal is looked at."""

FOLLOWED_FIRST: Final = 10
"""How many records are shown before those that come."""

ALL: Final = "all"

app = typer.Typer(
    no_args_is_help=True, help="Look into a world, also while another process runs it."
)

Workflow = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of this workflow: its name, or a part that tells it."),
]
KeyPrefix = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Of cells whose key begins so.")
]
Limit = Annotated[int, typer.Option(metavar="N", parser=number, help="How many at most.")]
Offset = Annotated[int, typer.Option(metavar="N", parser=number, help="How many to pass over.")]


def _show(found: Document, words: Callable[[Document], None], *, json: bool) -> None:
    """Print a document as JSON, or in words."""
    if json:
        print_json(found)
    else:
        words(found)


@app.command("world")
def world_command(*, at: At = None, world: World = DEFAULT_WORLD, json: Json = False) -> None:
    """The world at a glance: its journal, manifest, cells and open effects."""
    with looking_at(world, at) as view:
        found = world_view.world(view)
    origin = origin_at(world)
    found = {
        "path": str(world),
        **found,
        "process": _process(world) if at is None else None,
        "origin": None if origin is None else origin.value,
    }
    _show(found, text.world, json=json)


def _process(world: Path) -> Document | None:
    """Who runs the world now; None when nobody does, or nobody answers."""
    try:
        status = ask_running(world, "status")
    except AosError:
        return None
    return {name: status[name] for name in ("pid", "steps", "queued", "no_room")}


@app.command("manifest")
def manifest_command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One definition, whole.")
    ] = None,
    *,
    at: At = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    """The manifest in force, or one definition of it."""
    with looking_at(world, at) as view:
        found = world_view.manifest(view, name)
    _show(found, text.manifest if name is None else text.value, json=json)


@app.command("cells")
def cells_command(
    *,
    workflow: Workflow = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="STATUS", help=f"{', '.join(cell_view.CELL_STATUSES)}."),
    ] = None,
    key_prefix: KeyPrefix = None,
    limit: Limit = LIMIT,
    offset: Offset = 0,
    at: At = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    """The cells, by workflow and key."""
    with looking_at(world, at) as view:
        found = cell_view.cells(
            view,
            workflow=workflow,
            status=status,
            key_prefix=key_prefix,
            limit=limit,
            offset=offset,
        )
    _show(found, text.cells, json=json)


@app.command("cell")
def cell_command(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW")],
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="As JSON, or as plain text.")
    ] = None,
    *,
    at: At = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    """One cell: its state, what it waits for, and what is in its mailbox."""
    with looking_at(world, at) as view:
        found = cell_view.cell(view, workflow, key)
    _show(found, text.cell, json=json)


@app.command("intents")
def intents_command(
    *,
    status: Annotated[
        str,
        typer.Option(metavar="STATUS", help=f"{', '.join(intent_view.INTENT_STATUSES)} or {ALL}."),
    ] = "open",
    workflow: Workflow = None,
    effect: Annotated[str | None, typer.Option(metavar="NAME", help="Of this effect.")] = None,
    key_prefix: KeyPrefix = None,
    limit: Limit = LIMIT,
    offset: Offset = 0,
    at: At = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    """The intents: effects that were asked for, by default those that are open."""
    with looking_at(world, at) as view:
        found = intent_view.intents(
            view,
            status=None if status == ALL else status,
            workflow=workflow,
            effect=effect,
            key_prefix=key_prefix,
            limit=limit,
            offset=offset,
        )
    _show(found, text.intents, json=json)


@app.command("intent")
def intent_command(
    intent: Annotated[
        str, typer.Argument(metavar="HASH", help="Its hash, or the first 8 digits or more.")
    ],
    *,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    """One intent: what was asked for, and how it ended."""
    with looking_at(world) as view:
        found = intent_view.intent(view, intent)
    _show(found, text.intent, json=json)


@app.command("faults")
def faults_command(
    *,
    workflow: Workflow = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Of this kind: trap, fuel, guest …")
    ] = None,
    limit: Limit = LIMIT,
    offset: Offset = 0,
    at: At = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    """The instances that the kernel failed, why, and what mends it."""
    with looking_at(world, at) as view:
        found = cell_view.faults(view, workflow=workflow, kind=kind, limit=limit, offset=offset)
    _show(found, text.faults, json=json)


@app.command("record")
def record_command(
    seq: Annotated[int, typer.Argument(metavar="SEQ", parser=number)],
    *,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    """One record of the journal, whole."""
    with looking_at(world) as view:
        found = journal_view.record(view, seq)
    _show(found, text.value, json=json)


@app.command("value")
def value_command(
    value: Annotated[
        str, typer.Argument(metavar="HASH", help="The value's content hash, all of it.")
    ],
    *,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    """One value that lies outside its records: who refers to it, and whether it was erased."""
    with looking_at(world) as view:
        found = value_view.value(view, value)
    _show(found, text.whereabouts, json=json)


@app.command("journal")
def journal_command(
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
            help=f"How many at most: {LIMIT}, or with --from all, unless given.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    """The records of the journal, oldest first, a line each."""
    if follow and (last is not None or (limit is not None and first is not None)):
        raise BadUsage("--follow has no end: leave out --to, and --limit beside --from")
    with looking_at(world) as view:
        kinds = tuple(kind) if kind else None
        selection = journal_view.selection(view, kinds=kinds, workflow=workflow, key=key)
        for found in _records(view, selection, first=first, last=last, limit=limit, follow=follow):
            if not has_reader():
                return
            if json:
                print_json_line(found, at_once=True)
            else:
                text.record_line(found)
        if follow:
            _follow(view, selection, json=json)


def _records(
    view: View,
    selection: journal_view.Selection,
    *,
    first: int | None,
    last: int | None,
    limit: int | None,
    follow: bool,
) -> Iterator[Document]:
    """What is there already."""
    end = view.state.next_seq - 1
    for name, seq in (("--from", first), ("--to", last)):
        if seq is not None and seq < 1:
            raise BadUsage(f"{name}: expected a record, 1 to {end}, found {seq}")
    if first is not None and first > end and not follow:
        raise BadUsage(f"--from: expected a record, 1 to {end}, found {first}")
    if last is not None:
        end = min(end, last)
    reader = journal_view.Reader(view.journal, view.lens)
    if first is None:
        most = limit or (FOLLOWED_FIRST if follow else LIMIT)
        yield from reader.newest(most, last=end, selection=selection)
        return
    if first > end:
        return
    yield from islice(reader.forward(first, end, selection=selection), limit)


def _follow(view: View, selection: journal_view.Selection, *, json: bool) -> None:
    """Tell what comes until Ctrl-C, which is how this ends, or until nobody reads it any more."""
    reader = journal_view.Reader(view.journal, view.lens)
    after = view.state.next_seq - 1
    try:
        while has_reader():
            head = view.journal.head()
            if head is None or head.seq <= after:
                time.sleep(FOLLOW_S)
                continue
            for found in reader.forward(after + 1, head.seq, selection=selection):
                if json:
                    print_json_line(found, at_once=True)
                else:
                    text.record_line(found)
            after = head.seq
    except KeyboardInterrupt:
        return
