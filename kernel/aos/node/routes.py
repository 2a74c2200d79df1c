"""The one table of the HTTP API
(spec/node-api.md, N-101): it makes the router, the checks of scope,
query and body, and the OpenAPI document.

Names and keys are query parameters, never parts of a path: they contain slashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, is_typeddict

from aos.core.journal.vocabulary import (
    ACTIONS,
    CONTROL_STATUSES,
    GOVERNANCE_ACTIONS,
    MODES,
)
from aos.host.door.protocol import SEND_ITEMS_MAX, STAGED_MODULES_MAX
from aos.node import answer_types as given
from aos.node.batches.batch import BATCH_ACTIONS
from aos.node.bodies import BYTES
from aos.node.json_schema import one_of, reference, register, union_of
from aos.node.leases import schemas as leased
from aos.node.tokens import OPERATE, READ, SEND, WORK
from aos.read.operations.batch_reads import BATCH_ID
from aos.read.operations.journal_reads import KIND
from aos.read.operations.operation import (
    FLAG,
    HASH,
    KEY,
    NAME,
    SEQ,
    SPELLED,
    WORKFLOW,
    ApiLink,
    Parameter,
    ReadOperation,
    Schema,
)
from aos.read.operations.table import (
    BATCHES,
    CLUSTER,
    FLOWS,
    LINEAR,
    PROPOSALS,
    SCHEDULES,
    WORLD,
)
from aos.read.views import document_types as shown

EVENT_STREAM: Final = "text/event-stream"
TEXT: Final = "text/plain; version=0.0.4"
WASM: Final = "application/wasm"

TIMEOUT_MS: Final = 30_000
TIMEOUT_MS_MAX: Final = 300_000

GET: Final = "GET"
POST: Final = "POST"


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

BINARY: Final[Schema] = {"type": "string", "contentEncoding": "base64"}

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


FRESH: Final = Parameter(
    name="fresh", schema=FLAG,
    help="Of a replicated world: answer with everything that was acknowledged before the request.",
)  # fmt: skip


def _reading(operation: ReadOperation) -> ApiRoute:
    """The route of a read request."""
    return ApiRoute(
        operation=operation.name, method=GET, path=operation.path, scope=READ,
        summary=operation.summary, query=(*operation.parameters, FRESH), links=operation.links,
        answer=_answer(operation), media=None if operation.answers else BYTES,
    )  # fmt: skip


def _answer(operation: ReadOperation) -> Schema | None:
    """The schema of the documents of an operation; None if it answers with bytes."""
    kinds = [getattr(shown, name) for name in operation.answers]
    match kinds:
        case []:
            return None
        case [kind]:
            return reference(kind) if is_typeddict(kind) else union_of(kind)
    return one_of(*kinds)


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
    *map(_reading, WORLD),
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
    *map(_reading, PROPOSALS),
    ApiRoute(
        operation="make_snapshot", method=POST, path="/v1/snapshots", scope=OPERATE,
        summary="Write a snapshot of the world, so that a restart reads less.",
        answer=reference(given.SnapshotDocument),
    ),
    *map(_reading, FLOWS),
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
    *map(_reading, LINEAR),
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
    *map(_reading, SCHEDULES),
    ApiRoute(
        operation="begin_batch", method=POST, path="/v1/batches", scope=OPERATE,
        summary="Begin a batch: a command or an event for each of many cells.", body=BATCH,
        answer=one_of(shown.BatchDocument, given.CountedBatch),
        links=(ApiLink("read_batch", {"id": "/id"}),),
    ),
    *map(_reading, BATCHES),
    *map(_reading, CLUSTER),
    ApiRoute(
        operation="stop_batch", method=POST, path="/v1/batches/stop", scope=OPERATE,
        summary="Stop a batch. Items that are done stay done.",
        body=_closed(("id",), id=BATCH_ID), answer=reference(shown.BatchDocument),
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
