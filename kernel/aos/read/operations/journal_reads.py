"""Read requests about the journal: its records, and the values that are stored outside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from aos.read.operations.across import OneOf
from aos.read.operations.operation import (
    KEY,
    LIMITED,
    SEQ,
    SPELLED,
    WORKFLOW,
    Parameter,
    Query,
    ReadOperation,
    Schema,
    has_many_rows,
    is_always_long,
)
from aos.read.views import journal_view
from aos.read.views.record_view import Document
from aos.read.views.view import LIMIT, View

VALUE_NAME: Final[Schema] = {"type": "string", "pattern": "^(blake3:|sha256:)?[0-9a-f]{64}$"}

KIND: Final = Parameter(
    name="kind",
    schema={"type": "array", "items": {"type": "string", "enum": list(journal_view.KINDS)}},
    metavar="KIND", words=journal_view.KINDS,
    help="Only records of this kind. May be given several times.",
)  # fmt: skip
VALUE: Final = Parameter(
    name="value", schema=VALUE_NAME, required=True, metavar="HASH", is_argument=True,
    help="Its content hash, or the sha256: name of a blob.",
)  # fmt: skip


def _records(view: View, query: Query) -> Document:
    kinds = query.get("kind")
    return journal_view.journal(
        view,
        first=query.get("from"),
        last=query.get("to"),
        kinds=tuple(kinds) if kinds else None,
        workflow=query.get("workflow"),
        key=query.get("key"),
        limit=query["limit"],
    )


def _records_take_long(query: Query) -> bool:
    return any(name in query for name in ("kind", "workflow", "key")) or has_many_rows(query)


READ_RECORDS: Final = ReadOperation(
    name="read_records", path="/v1/records", command="inspect journal",
    summary="List records of the journal, oldest first.",
    parameters=(
        Parameter(
            name="from", schema=SEQ, metavar="SEQ", is_record=True,
            help="From this record on (default: the newest).",
        ),
        Parameter(name="to", schema=SEQ, metavar="SEQ", help="Up to this record."),
        KIND, WORKFLOW, KEY,
        replace(
            LIMITED[0], is_optional=True,
            command_help=f"Maximum number of records (default: {LIMIT}; with --from: all).",
        ),
        SPELLED,
    ),
    answers=("RecordsDocument",), document=_records, is_long=_records_take_long,
)  # fmt: skip

READ_RECORD: Final = ReadOperation(
    name="read_record", path="/v1/record", command="inspect record",
    summary="Show one record of the journal in full.",
    parameters=(
        Parameter(
            name="seq", schema=SEQ, help="Its number.", required=True, metavar="SEQ",
            is_argument=True, is_record=True,
        ),
        SPELLED,
    ),
    answers=("RecordDocument",),
    document=lambda view, query: journal_view.record(view, query["seq"]),
)  # fmt: skip

READ_VALUE: Final = ReadOperation(
    name="read_value", path="/v1/value", command="inspect value",
    summary="Show which records refer to a value, and whether it was erased.",
    parameters=(VALUE,),
    answers=("ValueDocument",), is_long=is_always_long, across=OneOf(),
    document=lambda view, query: journal_view.value(view, query["value"]),
)  # fmt: skip

READ_BLOB: Final = ReadOperation(
    name="read_blob", path="/v1/blob", command="inspect value --raw",
    summary="Read the bytes of a value that is stored outside its records.",
    parameters=(VALUE,),
)  # fmt: skip

READ_MINUTES: Final = ReadOperation(
    name="read_minutes", summary="Count the records of each minute of the last hour (PG-104).",
    document=lambda view, _: journal_view.minutes(view),
)  # fmt: skip
"""It is for the overview of the page alone: the HTTP API does not have it."""
