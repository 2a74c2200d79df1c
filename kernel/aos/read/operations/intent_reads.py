"""Read requests about intents: the effects that workflows have requested."""

from __future__ import annotations

from typing import Final

from aos.core.journal.vocabulary import STATUSES
from aos.read.operations.across import MergedRows, OneOf, intent_order
from aos.read.operations.operation import (
    AT,
    FLAG,
    KEY_PREFIX,
    LIMITED,
    NAME,
    SPELLED,
    WHERE,
    WORKFLOW,
    Parameter,
    Query,
    ReadOperation,
    has_many_rows,
)
from aos.read.views import intent_view
from aos.read.views.record_view import Document
from aos.read.views.view import View

ALL: Final = "all"
INTENT_STATUSES: Final = (*intent_view.INTENT_STATUSES, *STATUSES, ALL)


def _intents(view: View, query: Query) -> Document:
    is_parked, code, status = query.get("parked", False), query.get("code"), query.get("status")
    is_open = is_parked or code is None
    return intent_view.intents(
        view,
        status=None if status == ALL else status or ("open" if is_open else None),
        halted=is_parked,
        code=code,
        workflow=query.get("workflow"),
        effect=query.get("effect"),
        key_prefix=query.get("key_prefix"),
        condition=query.get("where"),
        aliases=query.get("aliases", {}),
        limit=query["limit"],
        offset=query["offset"],
    )


def _intents_take_long(query: Query) -> bool:
    is_filtered = any(name in query for name in ("code", "key_prefix", "where"))
    return is_filtered or query.get("status", "open") != "open" or has_many_rows(query)


READ_INTENTS: Final = ReadOperation(
    name="read_intents", path="/v1/intents", command="inspect intents",
    summary="List the intents, by default those that are open.",
    parameters=(
        Parameter(
            name="status", metavar="STATUS", words=INTENT_STATUSES,
            schema={"type": "string", "enum": [*intent_view.INTENT_STATUSES, ALL, *STATUSES]},
            help="Only intents of this status, or of this status of their receipt.",
        ),
        Parameter(
            name="code", schema=NAME, metavar="C", help="Only intents with this error code."
        ),
        Parameter(name="parked", schema=FLAG, help="Only open intents that are held or parked."),
        WORKFLOW,
        Parameter(name="effect", schema=NAME, metavar="NAME", help="Only this effect."),
        KEY_PREFIX, WHERE, *LIMITED, AT, SPELLED,
    ),
    answers=("IntentsDocument",), document=_intents, is_long=_intents_take_long, reads_index=True,
    across=MergedRows("intents", intent_order, sums=("looked_at",)),
)  # fmt: skip

READ_INTENT: Final = ReadOperation(
    name="read_intent", path="/v1/intent", command="inspect intent",
    summary="Show one intent: its parameters, attempts and receipt.",
    parameters=(
        Parameter(
            name="intent", schema=NAME, required=True, metavar="HASH", is_argument=True,
            help="Its hash, or the first 8 digits or more.",
        ),
        SPELLED,
    ),
    answers=("IntentDocument",), asks_process=True, across=OneOf(),
    document=lambda view, query: intent_view.intent(view, query["intent"]),
)  # fmt: skip
