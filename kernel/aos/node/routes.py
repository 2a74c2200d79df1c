"""The one table of the HTTP API
(spec/node-api.md, N-101): it makes the router, the checks of scope,
query and body, and the OpenAPI document.

Names and keys are query parameters, never parts of a path: they contain slashes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aos.core.journal.vocabulary import (
    ACTIONS,
    CELL_STATUSES,
    CONTROL_STATUSES,
    GOVERNANCE_ACTIONS,
    MODES,
    STATUSES,
)
from aos.flow.flow_state import OTHER_SPELLINGS
from aos.host.door.protocol import SEND_ITEMS_MAX, STAGED_MODULES_MAX
from aos.node import answer_types as given
from aos.node.batches.batch import BATCH_ACTIONS
from aos.node.bodies import BYTES
from aos.node.json_schema import Schema, one_of, reference, register, union_of
from aos.node.leases import schemas as leased
from aos.node.tokens import OPERATE, READ, SEND, WORK
from aos.read.views import document_types as shown
from aos.read.views.cell_selection import ORDERS
from aos.read.views.flow_reading import SHOWN_STATUSES
from aos.read.views.intent_view import INTENT_STATUSES
from aos.read.views.journal_view import KINDS
from aos.read.views.view import LIMIT, LIMIT_MAX
from aos.read.where.condition import EXAMPLE

EVENT_STREAM: Final = "text/event-stream"
TEXT: Final = "text/plain; version=0.0.4"
WASM: Final = "application/wasm"

TIMEOUT_MS: Final = 30_000
TIMEOUT_MS_MAX: Final = 300_000

GET: Final = "GET"
POST: Final = "POST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a query. ``schema`` is of type string, integer, boolean, or array of strings,
    which is given several times."""

    name: str
    schema: Schema
    help: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class ApiLink:
    """A route that reads what an answer names: each parameter of its query, and the JSON pointer of
    its value in the answer."""

    operation: str
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One row of the API.

    ``scope`` is the verb that a token needs; None for none. ``body`` is the schema of a JSON or
    CBOR body; ``bytes_type`` is the media type of a body that is plain bytes instead. ``answer`` is
    the schema of a JSON answer, or None where ``media`` is another type.
    """

    operation: str
    method: str
    path: str
    scope: str | None
    summary: str
    query: tuple[Parameter, ...] = ()
    body: Schema | None = None
    bytes_type: str | None = None
    answer: Schema | None = None
    media: str | None = None
    is_batch: bool = False
    """The body may be as long as a batch of events."""
    is_late: bool = False
    """The answer may be 202: the wait has ended before its condition was true."""
    is_unmet: bool = False
    """The same document may be the answer 503: a condition in it is not met."""
    links: tuple[ApiLink, ...] = ()


def _closed(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    schema: dict[str, object] = {
        "type": "object", "properties": properties, "additionalProperties": False,
    }  # fmt: skip
    if required:
        schema["required"] = list(required)
    return schema


register(shown, given)

NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 512}
TEXT_KEY: Final[Schema] = {"type": "string", "maxLength": 65_536}
SEQ: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
HASH: Final[Schema] = {"type": "string", "pattern": "^(blake3:)?[0-9a-f]{64}$"}
VALUE_NAME: Final[Schema] = {"type": "string", "pattern": "^(blake3:|sha256:)?[0-9a-f]{64}$"}
FLAG: Final[Schema] = {"type": "boolean"}
BINARY: Final[Schema] = {"type": "string", "contentEncoding": "base64"}

AT: Final = Parameter(
    name="at", schema=SEQ, help="The world as it was after this record (default: now)."
)
LIMITED: Final = (
    Parameter(
        name="limit",
        schema={"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
        help="Maximum number of rows.",
    ),
    Parameter(
        name="offset",
        schema={"type": "integer", "minimum": 0, "maximum": 2**63 - 1, "default": 0},
        help="Number of rows to skip.",
    ),
)
WORKFLOW: Final = Parameter(
    name="workflow", schema=NAME, help="The name of the workflow, or a unique part of it."
)
KEY: Final = Parameter(name="key", schema=TEXT_KEY, help="The key, as JSON or as plain text.")
KEY_PREFIX: Final = Parameter(
    name="key_prefix", schema=TEXT_KEY, help="Only cells whose key begins with this text."
)
WHERE: Final = Parameter(
    name="where", schema={"type": "string", "minLength": 1, "maxLength": 1_024},
    help=f"Only those that pass this condition, such as {EXAMPLE}.",
)  # fmt: skip
GROUP_BY: Final = Parameter(
    name="group_by", schema=NAME,
    help="Count also by the values of this name, which is one that a condition can have.",
)  # fmt: skip
CELL_FILTERS: Final = (
    WORKFLOW,
    Parameter(
        name="status", schema={"type": "string", "enum": list(CELL_STATUSES)},
        help="Only cells of this status.",
    ),
    KEY_PREFIX,
    Parameter(
        name="waits_for", schema=NAME,
        help="Only cells that wait for this effect, or for timer, event or mail.",
    ),
    Parameter(
        name="older_than", schema={"type": "string", "maxLength": 64},
        help="Only cells whose last step was at least this long ago, such as 90s or 2d.",
    ),
    Parameter(name="pinned", schema=FLAG, help="Only cells pinned to an earlier manifest."),
    Parameter(name="fault", schema=NAME, help="Only cells that failed by this fault."),
    WHERE,
)  # fmt: skip
LINEAR_FILTERS: Final = (
    Parameter(
        name="status", help="Only instances of this status.",
        schema={"type": "string", "enum": ["RUNNING", "COMPLETED", "FAILED", "CANCELED"]},
    ),
    Parameter(name="plan", schema=NAME, help="Only instances of this plan."),
    Parameter(name="step", schema=NAME, help="Only with this current plan step."),
    WHERE,
)  # fmt: skip
KIND: Final = Parameter(
    name="kind",
    schema={"type": "array", "items": {"type": "string", "enum": list(KINDS)}},
    help="Only records of this kind. May be given several times.",
)

VALUE: Final = Parameter(
    name="value", schema=VALUE_NAME, required=True,
    help="Its content hash, or the sha256: name of a blob.",
)  # fmt: skip
SPELLED: Final = Parameter(
    name="spelled", schema=FLAG,
    help="Values as text for people: times, durations and bytes as the command shows them.",
)  # fmt: skip

EVENT: Final = _closed(
    ("schema", "value"),
    schema=NAME,
    value={"description": "JSON that fits the schema; in CBOR, the event's ingress form."},
    submission_id={"type": ["string", "null"]},
)
EVENTS: Final = _closed(
    ("items",), items={"type": "array", "items": EVENT, "minItems": 1, "maxItems": SEND_ITEMS_MAX}
)
LINEAR_START: Final = _closed(
    ("plan", "instance"),
    plan={
        "description": "The type of a plan of the manifest in force, or a plan as a manifest has "
        "it.",
        "type": ["string", "object"],
    },
    version={"type": "integer", "minimum": 1},
    instance=NAME,
    biz_key={"type": ["string", "null"]},
    context={"type": "object"},
    mode={"type": "string", "enum": ["standard", "source"]},
)
LINEAR_WAKE: Final = _closed(
    ("instance", "type", "event_id"),
    instance=NAME,
    type=NAME,
    event_id=NAME,
    payload={"description": "Any JSON value; null without it."},
    payload_cbor=BINARY,
)
SCHEDULE: Final = _closed(
    ("id",),
    id={"type": "string", "minLength": 1, "maxLength": 200},
    cron={"type": "string", "maxLength": 256},
    tz={"type": "string", "maxLength": 256},
    every_ms={"type": "integer", "minimum": 1_000, "maximum": 31_622_400_000},
    start={"type": "string", "description": "RFC 3339: 2026-12-01T00:00:00Z."},
    end={"type": "string"},
    catchup_ms={"type": "integer", "minimum": 0, "maximum": 31_622_400_000},
    overlap={"type": "string", "enum": ["allow", "skip"]},
    jitter_ms={"type": "integer", "minimum": 0, "maximum": 86_400_000},
    paused=FLAG,
    event=NAME,
    value={"type": "object"},
    at_field=NAME,
    plan=NAME,
    version={"type": "integer", "minimum": 1},
    context={"type": "object"},
    replace={**FLAG, "description": "Give an existing schedule this definition."},
)
BATCH: Final = _closed(
    ("action",),
    action={"type": "string", "enum": list(BATCH_ACTIONS)},
    id={"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},
    workflow=NAME,
    where={"type": "string", "minLength": 1, "maxLength": 1_024},
    effect=NAME,
    event=NAME,
    value={
        "description": 'Of `send`: the event for each cell; `{"$cell": "key"}` in it is the key.'
    },
    rate={"type": "string", "description": "Most items in a given time: 50/s, 100/min or 10/h."},
    dry_run={**FLAG, "description": "Only count the items."},
)
_BATCH_ID: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 64}
LINEAR_CANCEL: Final = _closed(
    ("instance",), instance=NAME, reason={"type": "string", "maxLength": 4096}
)

COMMAND: Final = _closed(
    ("action",),
    action={"type": "string", "enum": list(ACTIONS)},
    workflow=NAME,
    key={"description": "The key of the instance as a JSON value."},
    intent=HASH,
    value=HASH,
    status={"type": "string", "enum": list(CONTROL_STATUSES)},
    payload={"description": "The receipt of `settle`, as a JSON value."},
    payload_cbor={**BINARY, "description": "The same as CBOR, instead."},
    why={"type": "string", "maxLength": 4096},
    restamp={
        **FLAG,
        "description": "Of a `retry` or `skip` that the caller signs: the mail gets its time.",
    },
    principal={**NAME, "description": "With `serial` and `signature`: signed by the caller."},
    serial={"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    signature={**BINARY, "minLength": 64, "maxLength": 64},
)
_MODULES: Final[Schema] = {
    "type": "array",
    "items": HASH,
    "maxItems": STAGED_MODULES_MAX,
    "description": "Hashes of modules that were sent before to /v1/modules.",
}
_PROPOSAL: Final[Schema] = {
    "type": "integer", "minimum": 1, "maximum": 2**63 - 1,
    "description": "The record of an open proposal, instead of `document`: its manifest, with its "
    "mode and leaves.",
}  # fmt: skip
TRIAL: Final = _closed(
    (),
    proposal=_PROPOSAL,
    document={**BINARY, "description": "The effective manifest as canonical CBOR."},
    mode={"type": "string", "enum": list(MODES)},
    leave_cells=FLAG,
    show={"type": "integer", "minimum": 0, "maximum": 1_000},
    modules=_MODULES,
)
MANIFEST: Final = _closed(
    (),
    proposal=_PROPOSAL,
    document={**BINARY, "description": "The effective manifest as canonical CBOR."},
    principal=NAME,
    serial={"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    signature={**BINARY, "minLength": 64, "maxLength": 64},
    mode={"type": "string", "enum": list(MODES)},
    leaves={"type": "array", "items": NAME, "maxItems": 10_000},
    allow_diverged={
        **FLAG,
        "description": "Apply although the new code does not fit the history of flows in progress; "
        "they stop with a fault.",
    },
    modules=_MODULES,
)
GOVERNANCE: Final = _closed(
    ("action",),
    action={"type": "string", "enum": list(GOVERNANCE_ACTIONS)},
    proposal={
        "type": "integer", "minimum": 1, "maximum": 2**63 - 1,
        "description": "The record of the proposal, of all actions but `propose`.",
    },
    document={**BINARY, "description": "Of `propose`: the effective manifest, canonical CBOR."},
    patch={
        **BINARY,
        "description": "Of `propose`: the patch as canonical CBOR, with `base`; without it the one "
        "from the manifest in force.",
    },
    base={**HASH, "description": "The manifest in force that `patch` begins with."},
    mode={"type": "string", "enum": list(MODES)},
    leaves={"type": "array", "items": NAME, "maxItems": 10_000},
    modules=_MODULES,
    report={**BINARY, "description": "Of `report`: a shadow report as canonical CBOR."},
    seen={**HASH, "description": "Of a vote: the journaled report that the approver has read."},
    note={"type": "string", "maxLength": 4096},
    principal={**NAME, "description": "With `signature`: signed by the caller, as a vote must be."},
    serial={"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    signature={**BINARY, "minLength": 64, "maxLength": 64},
)  # fmt: skip

ROUTES: Final = (
    ApiRoute(
        operation="send_events", method=POST, path="/v1/events", scope=SEND,
        summary="Send one event or a batch, and wait until it is durable, ran or settled.",
        query=(
            Parameter(
                name="wait",
                schema={
                    "type": "string", "enum": ["durable", "ran", "settled"], "default": "durable",
                },
                help="durable: the event is in the journal. ran: each instance that it reached has "
                "taken it. settled: each of them has also ended, or, if its workflow is quiescent, "
                "has nothing open or queued.",
            ),
            Parameter(
                name="timeout_ms",
                schema={
                    "type": "integer", "minimum": 0, "maximum": TIMEOUT_MS_MAX,
                    "default": TIMEOUT_MS,
                },
                help="Maximum time of the wait, in milliseconds; after it the answer is 202.",
            ),
            Parameter(name="state", schema=FLAG, help="Answer also with states."),
        ),
        body={"anyOf": [EVENT, EVENTS]}, is_batch=True, is_late=True,
        links=(
            ApiLink("read_record", {"seq": "/seq"}),
            ApiLink("read_trace", {"workflow": "/to/0/workflow", "key": "/to/0/key"}),
            ApiLink("read_cell", {"workflow": "/to/0/workflow", "key": "/to/0/key"}),
        ),
        answer=one_of(given.SentEvent, given.SentBatch),
    ),
    ApiRoute(
        operation="read_world", method=GET, path="/v1/world", scope=READ, query=(AT,),
        summary="Show the world at a glance: journal, manifest, cells and effects.",
        answer=reference(shown.WorldDocument),
    ),
    ApiRoute(
        operation="read_clock", method=GET, path="/v1/clock", scope=READ,
        summary="Show the journal clock, the machine's clock, and timers that are too late.",
        answer=reference(shown.ClockDocument),
    ),
    ApiRoute(
        operation="read_manifest", method=GET, path="/v1/manifest", scope=READ,
        summary="Show the manifest in force, or one of its definitions.",
        query=(
            Parameter(name="name", schema=NAME, help="One definition, whole."),
            Parameter(
                name="since", schema=SEQ,
                help="Instead, the changes since the manifest in force after this record.",
            ),
            AT,
        ),
        answer=one_of(
            shown.ManifestDocument, shown.ManifestDifference, shown.Definition
        ),
    ),
    ApiRoute(
        operation="read_cells", method=GET, path="/v1/cells", scope=READ,
        summary="List the cells, by workflow and key.",
        query=(
            *CELL_FILTERS,
            Parameter(name="state", schema=FLAG, help="Show the state of each cell."),
            Parameter(
                name="sort", schema={"type": "string", "enum": list(ORDERS), "default": ORDERS[0]},
                help="The order of the list.",
            ),
            Parameter(
                name="after", schema={"type": "string", "minLength": 1, "maxLength": 2_400},
                help="Continue after this place: next_after of the page before.",
            ),
            *LIMITED, AT, SPELLED,
        ),
        answer=reference(shown.CellsDocument),
    ),
    ApiRoute(
        operation="read_cell_counts", method=GET, path="/v1/cells/count", scope=READ,
        summary="Count the cells that a list would have, in all and by the values of a name.",
        query=(*CELL_FILTERS, GROUP_BY, AT),
        answer=reference(shown.CountsDocument),
    ),
    ApiRoute(
        operation="read_cell", method=GET, path="/v1/cell", scope=READ,
        summary="Show one cell: its state, open effects, mail, and why it waits.",
        query=(
            Parameter(name="workflow", schema=NAME, help=WORKFLOW.help, required=True),
            KEY, AT, SPELLED,
        ),
        answer=reference(shown.CellDocument),
        links=(
            ApiLink("read_trace", {"workflow": "/workflow", "key": "/key"}),
            ApiLink("read_value", {"value": "/module_hash"}),
            ApiLink("read_blob", {"value": "/module_hash"}),
        ),
    ),
    ApiRoute(
        operation="read_intents", method=GET, path="/v1/intents", scope=READ,
        summary="List the intents, by default those that are open.",
        query=(
            Parameter(
                name="status",
                schema={"type": "string", "enum": [*INTENT_STATUSES, "all", *STATUSES]},
                help="Only intents of this status, or of this status of their receipt.",
            ),
            Parameter(name="code", schema=NAME, help="Only intents with this error code."),
            Parameter(
                name="parked", schema=FLAG, help="Only open intents that are held or parked."
            ),
            WORKFLOW,
            Parameter(name="effect", schema=NAME, help="Only this effect."),
            KEY_PREFIX, WHERE, *LIMITED, AT, SPELLED,
        ),
        answer=reference(shown.IntentsDocument),
    ),
    ApiRoute(
        operation="read_intent", method=GET, path="/v1/intent", scope=READ,
        summary="Show one intent: its parameters, attempts and receipt.",
        query=(
            Parameter(
                name="intent", schema=NAME, required=True,
                help="Its hash, or the first 8 digits or more.",
            ),
            SPELLED,
        ),
        answer=reference(shown.IntentDocument),
    ),
    ApiRoute(
        operation="read_faults", method=GET, path="/v1/faults", scope=READ,
        summary="List the failed instances, with the reason and the remedy.",
        query=(
            WORKFLOW, Parameter(name="kind", schema=NAME, help="Only faults of this kind."),
            WHERE, *LIMITED, AT, SPELLED,
        ),
        answer=reference(shown.FaultsDocument),
    ),
    ApiRoute(
        operation="read_records", method=GET, path="/v1/records", scope=READ,
        summary="List records of the journal, oldest first.",
        query=(
            Parameter(name="from", schema=SEQ, help="From this record on (default: the newest)."),
            Parameter(name="to", schema=SEQ, help="Up to this record."),
            KIND, WORKFLOW, KEY, LIMITED[0], SPELLED,
        ),
        answer=reference(shown.RecordsDocument),
    ),
    ApiRoute(
        operation="read_record", method=GET, path="/v1/record", scope=READ,
        summary="Show one record of the journal in full.",
        query=(Parameter(name="seq", schema=SEQ, help="Its number.", required=True), SPELLED),
        answer=union_of(shown.RecordDocument),
    ),
    ApiRoute(
        operation="read_value", method=GET, path="/v1/value", scope=READ,
        summary="Show which records refer to a value, and whether it was erased.",
        query=(VALUE,),
        answer=reference(shown.ValueDocument),
    ),
    ApiRoute(
        operation="read_blob", method=GET, path="/v1/blob", scope=READ,
        summary="Read the bytes of a value that is stored outside its records.",
        query=(VALUE,),
        media=BYTES,
    ),
    ApiRoute(
        operation="read_trace", method=GET, path="/v1/trace", scope=READ,
        summary="Show the causes and effects of a record, an intent or a cell.",
        query=(
            Parameter(name="seq", schema=SEQ, help="A record."),
            Parameter(name="intent", schema=NAME, help="An intent."),
            WORKFLOW, KEY,
            Parameter(
                name="follow_events", schema=FLAG,
                help="For a cell: continue with the cells that its events reached.",
            ),
            Parameter(
                name="drawn", schema=FLAG,
                help="Answer with `lines` instead, those of aos trace, each {depth, kind, text, "
                "is_target, is_bad}.",
            ),
            Parameter(
                name="width", schema={"type": "integer", "minimum": 1, "maximum": 10_000},
                help="With drawn: cut values so that lines fit into so many columns.",
            ),
        ),
        answer=one_of(shown.TraceDocument, shown.DrawnTrace),
    ),
    ApiRoute(
        operation="read_work", method=GET, path="/v1/work", scope=READ,
        summary="Show the current work of the executors in the kernel process.",
        answer=reference(given.WorkDocument),
    ),
    ApiRoute(
        operation="stream_journal", method=GET, path="/v1/journal/stream", scope=READ,
        summary="Stream records, oldest first and then each new one; the id is its number.",
        query=(
            Parameter(name="from", schema=SEQ, help="The first record (default: the next one)."),
            KIND, WORKFLOW, KEY, SPELLED,
        ),
        media=EVENT_STREAM,
    ),
    ApiRoute(
        operation="stream_feed", method=GET, path="/v1/feed", scope=READ,
        summary="Stream the events of chosen schemas that workflows emit, each once, in order.",
        query=(
            Parameter(
                name="schema", required=True, help="An event's schema. May be given several times.",
                schema={"type": "array", "items": NAME, "minItems": 1, "maxItems": 64},
            ),
            Parameter(
                name="from", schema=SEQ,
                help="The first record (default: the first that was not pruned).",
            ),
        ),
        media=EVENT_STREAM,
    ),
    ApiRoute(
        operation="send_command", method=POST, path="/v1/commands", scope=OPERATE, body=COMMAND,
        summary="Submit an operator's command: retry, skip, unpin, cancel, settle, end, remove, "
        "erase or clock.",
        answer=reference(given.AdmittedCommand),
    ),
    ApiRoute(
        operation="stage_module", method=POST, path="/v1/modules", scope=OPERATE, bytes_type=WASM,
        summary="Send a module that a manifest sent later names.",
        answer=reference(given.StagedModule),
    ),
    ApiRoute(
        operation="try_manifest", method=POST, path="/v1/manifests/try", scope=OPERATE,
        body=TRIAL, is_batch=True,
        summary="Try a manifest: its changes and what blocks it. Nothing is applied.",
        answer=reference(shown.TriedManifest),
    ),
    ApiRoute(
        operation="apply_manifest", method=POST, path="/v1/manifests", scope=OPERATE,
        body=MANIFEST, summary="Put a manifest in force.", is_batch=True,
        answer=reference(given.AppliedManifest),
    ),
    ApiRoute(
        operation="govern", method=POST, path="/v1/governance", scope=OPERATE, body=GOVERNANCE,
        summary="Propose a manifest, or report on a proposal, vote on it or withdraw it.",
        is_batch=True, answer=reference(given.AdmittedRecord),
    ),
    ApiRoute(
        operation="read_proposals", method=GET, path="/v1/proposals", scope=READ,
        summary="List proposals, the oldest first.", answer=reference(shown.ProposalsDocument),
    ),
    ApiRoute(
        operation="read_proposal", method=GET, path="/v1/proposal", scope=READ,
        summary="Show a proposal: its votes, reports and changes, and what it lacks. "
        "/v1/manifests/try says what blocks it.",
        query=(
            Parameter(
                name="proposal", help="Its record.", required=True,
                schema={"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
            ),
            Parameter(
                name="report", schema=HASH,
                help="The hash of a journaled shadow report of it, which is the answer then.",
            ),
        ),
        answer=one_of(shown.ProposalDocument, shown.ShadowReportDocument),
    ),
    ApiRoute(
        operation="make_snapshot", method=POST, path="/v1/snapshots", scope=OPERATE,
        summary="Write a snapshot of the world, so that a restart reads less.",
        answer=reference(given.SnapshotDocument),
    ),
    ApiRoute(
        operation="read_flows", method=GET, path="/v1/flows", scope=READ,
        summary="List the instances of flows, by flow and key or in the order of a condition.",
        query=(
            Parameter(name="flow", schema=NAME, help="Only this flow, or a unique part of it."),
            Parameter(
                name="status",
                schema={"type": "string", "enum": [*SHOWN_STATUSES, *OTHER_SPELLINGS]},
                help="Only flows of this status.",
            ),
            KEY_PREFIX, WHERE, *LIMITED, AT,
        ),
        answer=reference(shown.FlowsDocument),
    ),
    ApiRoute(
        operation="read_flow", method=GET, path="/v1/flow", scope=READ,
        summary="Show one flow: its operations as a tree, and what it waits for.",
        query=(
            Parameter(
                name="flow", schema=NAME, required=True,
                help="The name of the flow, or a unique part of it.",
            ),
            Parameter(name="key", schema=TEXT_KEY, help=KEY.help, required=True),
            Parameter(
                name="history", schema=FLAG,
                help="Also the operations that its state no longer has, from the journal.",
            ),
            AT, SPELLED,
        ),
        answer=reference(shown.FlowDocument),
    ),
    ApiRoute(
        operation="start_linear", method=POST, path="/v1/linear/start", scope=SEND,
        summary="Start an instance of a linear plan; answered once it has started.",
        body=LINEAR_START,
        answer=reference(given.StartedInstance),
        links=(ApiLink("read_linear_instance", {"instance": "/instance"}),),
    ),
    ApiRoute(
        operation="wake_linear", method=POST, path="/v1/linear/wake", scope=SEND,
        summary="Signal a linear instance: wake the plan step that waits for this type, or keep "
        "the signal until one does.",
        body=LINEAR_WAKE, answer=reference(given.InstanceRecord),
    ),
    ApiRoute(
        operation="cancel_linear", method=POST, path="/v1/linear/cancel", scope=SEND,
        summary="Cancel a linear instance. Results of its workers are refused from then on.",
        body=LINEAR_CANCEL, answer=reference(given.InstanceRecord),
    ),
    ApiRoute(
        operation="read_plans", method=GET, path="/v1/linear/plans", scope=READ,
        summary="List the plans of the manifest in force.", answer=reference(shown.PlansDocument),
    ),
    ApiRoute(
        operation="read_linear_instances", method=GET, path="/v1/linear/instances", scope=READ,
        summary="List linear instances, by id.",
        query=(*LINEAR_FILTERS, *LIMITED, AT),
        answer=reference(shown.LinearInstancesDocument),
    ),
    ApiRoute(
        operation="read_linear_counts", method=GET, path="/v1/linear/instances/count", scope=READ,
        summary="Count the linear instances that a list would have, in all and by the values of a "
        "name.",
        query=(*LINEAR_FILTERS, GROUP_BY, AT),
        answer=reference(shown.CountsDocument),
    ),
    ApiRoute(
        operation="read_linear_instance", method=GET, path="/v1/linear/instance", scope=READ,
        summary="Show a linear instance: all rows of its plan, its context, and its next event.",
        query=(Parameter(name="instance", schema=NAME, help="Its id.", required=True), AT),
        answer=reference(shown.LinearInstanceDocument),
    ),
    ApiRoute(
        operation="create_schedule", method=POST, path="/v1/schedules/create", scope=SEND,
        summary="Create a schedule, as a manifest has it; answered once it is set.",
        body=SCHEDULE, answer=reference(given.ScheduleRecord),
        links=(ApiLink("read_schedule", {"id": "/id"}),),
    ),
    ApiRoute(
        operation="command_schedule", method=POST, path="/v1/schedules/command", scope=SEND,
        summary="Pause, resume, trigger or delete a schedule.",
        body=_closed(
            ("id", "action"),
            id=NAME,
            action={"type": "string", "enum": ["pause", "resume", "trigger", "delete"]},
        ),
        answer=reference(given.ScheduleRecord),
    ),
    ApiRoute(
        operation="read_schedules", method=GET, path="/v1/schedules", scope=READ,
        summary="List schedules, by id.", answer=reference(shown.SchedulesDocument),
    ),
    ApiRoute(
        operation="read_schedule", method=GET, path="/v1/schedule", scope=READ,
        summary="Show a schedule: its definition, its next times, and its last runs.",
        query=(Parameter(name="id", schema=NAME, help="Its id.", required=True),),
        answer=reference(shown.ScheduleDocument),
    ),
    ApiRoute(
        operation="begin_batch", method=POST, path="/v1/batches", scope=OPERATE,
        summary="Begin a batch: a command or an event for each of many cells.", body=BATCH,
        answer=one_of(given.BatchDocument, given.CountedBatch),
        links=(ApiLink("read_batch", {"id": "/id"}),),
    ),
    ApiRoute(
        operation="read_batches", method=GET, path="/v1/batches", scope=READ,
        summary="List batches, the newest first.", answer=reference(given.BatchesDocument),
    ),
    ApiRoute(
        operation="read_batch", method=GET, path="/v1/batch", scope=READ,
        summary="Show a batch: its counts, and the first refusals.",
        query=(Parameter(name="id", schema=_BATCH_ID, help="Its id.", required=True),),
        answer=reference(given.BatchDocument),
    ),
    ApiRoute(
        operation="stop_batch", method=POST, path="/v1/batches/stop", scope=OPERATE,
        summary="Stop a batch. Items that are done stay done.",
        body=_closed(("id",), id=_BATCH_ID), answer=reference(given.BatchDocument),
    ),
    ApiRoute(
        operation="claim_tasks", method=POST, path="/v1/work/claim", scope=WORK,
        summary="Lease tasks to a worker, and wait for them if there are none.",
        body=leased.CLAIM, answer=leased.CLAIMED,
    ),
    ApiRoute(
        operation="heartbeat_tasks", method=POST, path="/v1/work/heartbeat", scope=WORK,
        summary="Extend leases, and learn which tasks are canceled or lost.",
        body=leased.HEARTBEAT, answer=leased.BEATEN,
    ),
    ApiRoute(
        operation="settle_tasks", method=POST, path="/v1/work/results", scope=WORK,
        summary="Report how attempts ended.", is_batch=True,
        body=leased.RESULTS, answer=leased.TAKEN,
    ),
    ApiRoute(
        operation="report_progress", method=POST, path="/v1/work/progress", scope=WORK,
        summary="Send stream frames of tasks.", is_batch=True,
        body=leased.PROGRESS, answer=leased.HEARD,
    ),
    ApiRoute(
        operation="release_tasks", method=POST, path="/v1/work/release", scope=WORK,
        summary="Give leases back.", body=leased.RELEASE, answer=leased.RELEASED,
    ),
    ApiRoute(
        operation="list_tasks", method=GET, path="/v1/work/tasks", scope=OPERATE,
        summary="List leases and parked tasks.", answer=leased.TASKS,
    ),
    ApiRoute(
        operation="retry_tasks", method=POST, path="/v1/work/retry", scope=OPERATE,
        summary="Run held and parked effects again: offer their tasks to workers, or run them in "
        "the process of the world.", body=leased.RETRY, answer=leased.RUN,
    ),
    ApiRoute(
        operation="reclaim_tasks", method=POST, path="/v1/work/reclaim", scope=OPERATE,
        summary="End leases, so that their tasks are offered again.",
        body=leased.RECLAIM, answer=leased.RUN,
    ),
    ApiRoute(
        operation="answer_health", method=GET, path="/healthz", scope=None,
        summary="Answer that the front runs.", answer=reference(given.HealthDocument),
    ),
    ApiRoute(
        operation="answer_ready", method=GET, path="/readyz", scope=None,
        summary="Answer whether the node takes requests.",
        answer=reference(given.ReadinessDocument),
        is_unmet=True,
    ),
    ApiRoute(
        operation="read_metrics", method=GET, path="/metrics", scope=READ,
        summary="Metrics in the text format of Prometheus.", media=TEXT,
    ),
    ApiRoute(
        operation="read_openapi", method=GET, path="/v1/openapi.json", scope=None,
        summary="This document.", answer={"type": "object", "description": "An OpenAPI document."},
    ),
)  # fmt: skip

BY_PATH: Final[dict[str, dict[str, ApiRoute]]] = {}
for _route in ROUTES:
    BY_PATH.setdefault(_route.path, {})[_route.method] = _route
