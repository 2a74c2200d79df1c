"""``aos inspect``: show the content of a world (spec/cli.md, C-30 to C-38).

The table of read requests (``aos.read.operations``) gives each command its options and its
document; this module says how the document is printed. Every command works while another process
runs the world, and with ``--node`` through the node of a world elsewhere (C-92).

``--unseal`` shows documents with the plaintexts of their sealed values (C-34a).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

from aos.errors import BadUsage
from aos.read.operations.cell_reads import READ_CELL, READ_CELL_COUNTS, READ_CELLS, READ_FAULTS
from aos.read.operations.intent_reads import INTENT_STATUSES, READ_INTENT, READ_INTENTS
from aos.read.operations.journal_reads import READ_RECORD, READ_RECORDS, READ_VALUE
from aos.read.views import journal_view
from aos.read.views.record_view import Document
from aos.read.views.view import LIMIT, View, check_word
from aos_cli import inspect_text as text
from aos_cli.open_view import looking_at
from aos_cli.options import check_record_range, flag, option
from aos_cli.output import has_reader, print_bytes, print_json_line
from aos_cli.reading_command import ReadingCall, counted_list, printed, reading

FOLLOW_S: Final = 0.2
"""Interval at which ``--follow`` looks for new records, in seconds."""

FOLLOWED_FIRST: Final = 10
"""How many existing records ``--follow`` shows first."""

inspect_cells = counted_list(READ_CELLS, READ_CELL_COUNTS, text.cells, "cell")
inspect_faults = printed(READ_FAULTS, text.faults)

Unseal = Annotated[
    Path | None, option("KEYRING", "Show the plaintexts of sealed values that this keyring opens.")
]


@reading(READ_CELL)
def inspect_cell(call: ReadingCall, *, unseal: Unseal = None) -> None:
    call.show(unsealed_with(unseal, call.document()), text.cell)


@reading(READ_INTENTS)
def inspect_intents(call: ReadingCall) -> None:
    check_word("intent status", call.query["status"], INTENT_STATUSES)
    call.show(call.document(), text.intents)


@reading(READ_INTENT)
def inspect_intent(call: ReadingCall, *, unseal: Unseal = None) -> None:
    call.show(unsealed_with(unseal, call.document()), text.intent)


@reading(READ_RECORD)
def inspect_record(call: ReadingCall, *, unseal: Unseal = None) -> None:
    call.show(unsealed_with(unseal, call.document()), text.value)


@reading(READ_VALUE)
def inspect_value(
    call: ReadingCall,
    *,
    raw: Annotated[
        bool, flag("--raw", "Write the bytes of the value to stdout, and nothing else.")
    ] = False,
) -> None:
    if raw and call.json:
        raise BadUsage("--raw writes bytes: leave out --json")
    if raw:
        print_bytes(call.reading.value_bytes(call.query["value"]))
        return
    call.show(call.document(), text.whereabouts)


@reading(READ_RECORDS)
def inspect_journal(
    call: ReadingCall,
    *,
    follow: Annotated[
        bool, flag("--follow", "Print new records as they come, until Ctrl-C.")
    ] = False,
) -> None:
    first, last, limit = (call.query[name] for name in ("from", "to", "limit"))
    workflow, key = call.query["workflow"], call.query["key"]
    if limit is not None and limit < 1:
        raise BadUsage(f"--limit: expected 1 or more, found {limit}")
    if follow and (last is not None or (limit is not None and first is not None)):
        raise BadUsage(
            "--follow has no end: leave out --to, and use only one of --limit and --from"
        )
    kinds = tuple(call.query["kind"] or ()) or None
    newest = limit or (FOLLOWED_FIRST if follow else LIMIT)
    if call.node is not None:
        from aos_cli import node_world  # noqa: PLC0415  # the client imports much

        _show_records(
            node_world.records(
                call.node, first=first, last=last, limit=limit, newest=newest, follow=follow,
                kinds=kinds, workflow=workflow, key=key, is_spelled=not call.json,
            ),
            json=call.json,
        )  # fmt: skip
        return
    # One that follows would keep a moment of the index, whose pages could not be used again.
    is_indexed = key is not None and not follow
    with looking_at(call.world, spells=not call.json, by_index=is_indexed) as view:
        selection = journal_view.selection(view, kinds=kinds, workflow=workflow, key=key)
        _show_records(
            _records(
                view, selection, first=first, last=last, limit=limit, newest=newest, follow=follow
            ),
            json=call.json,
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
    check_record_range(first, last, end, follow=follow)
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


def unsealed_with(path: Path | None, document: Document) -> Document:
    """The document with the sealed values opened that the keyring at ``path`` opens; the document
    itself without one.

    Raises:
        BadUsage: The keyring cannot be read.
    """
    if path is None:
        return document
    # Few documents are opened, and only they need the keys.
    from aos.sealing.keyring import (  # noqa: PLC0415
        Keyring,
        unsealed,
    )

    unsealed_document: Document = unsealed(Keyring.read(path), document)
    return unsealed_document
