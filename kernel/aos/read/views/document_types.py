"""The documents of views, as types (spec/audit.md, A-31 to A-69).

A node makes the schemas of its answers from them (``node/json_schema.py``), and tests compare
every real answer with these. ``object`` is any JSON value. Later releases add fields, and take none
away (spec/cli.md, C-5).
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias, TypedDict


class CellName(TypedDict):
    """A cell: its workflow, and its key as JSON; null for the only cell of a workflow without
    keys."""

    workflow: str
    key: object


class NamedKey(TypedDict):
    """A name and its public key."""

    name: str
    public_key: str


# Records (A-31 to A-37h)


class OutsideValue(TypedDict):
    """A value that is stored outside its record."""

    where: str
    value: str
    size: int


class _RecordDocument(TypedDict):
    seq: int
    summary: NotRequired[str]
    values: NotRequired[list[OutsideValue]]


class _StampedRecord(_RecordDocument):
    at_ns: int


class GenesisRecord(_StampedRecord):
    """The first record of a world."""

    kind: Literal["genesis"]
    world: str
    world_key: str
    operators: list[NamedKey]
    semantics: object


class StartRecord(_StampedRecord):
    """A process has begun to run the world."""

    kind: Literal["start"]
    host: dict[str, object]


class MigratedWorkflow(TypedDict):
    """Cells whose states a manifest has converted."""

    workflow: str
    root: str
    cells: int


class ManifestRecord(_StampedRecord):
    """A manifest came into force."""

    kind: Literal["manifest"]
    hash: str
    size: int
    principal: str
    serial: int
    mode: str
    leaves: list[str]
    migrated: list[MigratedWorkflow]
    proposal: NotRequired[int]


class EventTargets(TypedDict):
    """The cells that an event reached, and those that it did not reach."""

    to: list[CellName]
    overloaded: list[CellName]
    kept: NotRequired[list[CellName]]


class EventRecord(_StampedRecord, EventTargets):
    """An event from outside was admitted."""

    kind: Literal["event"]
    schema: str
    value: object
    submission_id: str | None


class EmittedEvent(EventTargets):
    """An event that a step emitted."""

    schema: str
    value: object
    unknown: list[CellName]


class FlowPlace(TypedDict):
    """The operation of a flow that requested an effect."""

    path: str
    attempt: int
    role: str | None


class RequestedIntent(TypedDict):
    """An effect that a step requested."""

    intent: str
    effect: str
    params: object
    requested_key: object
    issuer_ref: str | None
    flow: FlowPlace | None


class _RunRecord(_RecordDocument):
    cell: CellName
    under: int | None
    entry: list[int]
    root: int
    depth: int
    fuel: int | None
    pages: int | None
    output: str | None


class StepRecord(_RunRecord):
    """A cell has taken one entry of its mailbox."""

    kind: Literal["step"]
    status: str
    state: object
    events: list[EmittedEvent]
    intents: list[RequestedIntent]
    abandoned: list[str]
    annotations: object


class RecordedFault(TypedDict):
    """Why the kernel failed a cell."""

    kind: str
    message: str
    detail: object
    environmental: bool


class FaultRecord(_RunRecord):
    """The kernel has failed a cell at one entry of its mailbox."""

    kind: Literal["fault"]
    fault: RecordedFault


class BatchPlace(TypedDict):
    """The place of a receipt in a batch that was signed together."""

    index: int
    size: int


class ReceiptRecord(_StampedRecord):
    """An executor has settled an effect."""

    kind: Literal["receipt"]
    intent: str
    cell: CellName
    effect: str
    attempt: int
    status: str
    payload: object
    payload_schema: str | None
    started_ns: int
    finished_ns: int
    cost_cents: int | None
    executor: str
    key_id: str
    outcome: str
    problem: str | None
    abandoned: list[str]
    batch: BatchPlace | None


class KernelReceiptRecord(_RecordDocument):
    """The kernel itself has settled an effect."""

    kind: Literal["kernel_receipt"]
    intent: str
    cell: CellName
    effect: str
    status: str
    payload: object
    payload_schema: str | None
    root: int
    depth: int
    by: str | None
    outcome: str
    problem: str | None
    abandoned: list[str]


class StreamRecord(_StampedRecord):
    """An executor has sent a part of a result."""

    kind: Literal["stream"]
    intent: str
    cell: CellName
    effect: str
    attempt: int
    frame_seq: int
    frame_kind: str
    payload: object
    payload_ref: str | None
    executor: str
    key_id: str


class AttemptRecord(_StampedRecord):
    """An attempt of an effect has begun, or does not run."""

    kind: Literal["attempt"]
    intent: str
    cell: CellName
    attempt: int
    phase: str
    problem: str | None
    code: str | None


class SnapshotRecord(_StampedRecord):
    """A snapshot of the state was taken."""

    kind: Literal["snapshot"]
    at: int
    frame: str
    document: str
    size: int


class ForkRecord(_StampedRecord):
    """The world was forked of another one."""

    kind: Literal["fork"]
    world: str
    world_key: str
    operators: list[NamedKey]
    parent: str
    at: int
    frame: str
    cut: str | None
    open_work: str
    erased: list[str]


class ControlRecord(_StampedRecord):
    """An operator's command."""

    kind: Literal["control"]
    action: str
    cell: CellName | None
    intent: str | None
    value: str | None
    status: str | None
    payload: object
    why: str | None
    restamp: bool
    dropped: int
    abandoned: list[str]
    principal: str
    serial: int


class GovernanceRecord(_StampedRecord):
    """A proposal, a report, a vote or a withdrawal."""

    kind: Literal["governance"]
    action: str
    principal: str
    proposal: int
    serial: int | None
    base: str | None
    document: str | None
    patch: str | None
    report: str | None
    mode: str | None
    leaves: list[str]
    seen: str | None
    note: str | None


RecordDocument: TypeAlias = (
    GenesisRecord
    | StartRecord
    | ManifestRecord
    | EventRecord
    | StepRecord
    | FaultRecord
    | ReceiptRecord
    | KernelReceiptRecord
    | StreamRecord
    | AttemptRecord
    | SnapshotRecord
    | ForkRecord
    | ControlRecord
    | GovernanceRecord
)


class RecordsDocument(TypedDict):
    """Records as the lines of ``aos inspect journal --json``; ``next`` is the first record of the
    next page, or null."""

    records: list[RecordDocument]
    next: int | None


# The world


class JournalFigures(TypedDict):
    """The end of the journal."""

    records: int
    frames: int
    frame: str
    log_root: str
    clock_ns: int
    clock_ahead_ns: int


class ShardDocument(TypedDict):
    """The shard of a group that a world is."""

    index: int
    count: int


class ManifestInForce(TypedDict):
    """The manifest that is in force. ``shard`` is null in a world that is in no group."""

    hash: str
    manifest_hash: str
    shard: ShardDocument | None
    record: int
    serial: int


class ManifestVersion(TypedDict):
    """A manifest that instances run under."""

    record: int
    manifest: str
    in_force: bool
    cells: int
    by_workflow: dict[str, int]


class StatusCounts(TypedDict):
    """Cells by status."""

    running: int
    waiting: int
    completed: int
    failed: int
    idle: int


class CellCounts(StatusCounts):
    """All cells, by status and by workflow."""

    total: int
    ready: int
    by_workflow: dict[str, StatusCounts]


class ExecutorCounts(TypedDict):
    """Open intents of one executor."""

    open: int
    retried: int
    oldest_open_ns: int | None
    oldest_retried_ns: int | None


class TimerCounts(TypedDict):
    """Timers that are set."""

    open: int
    oldest_open_ns: int | None


class HaltedEffects(TypedDict):
    """Effects of one kind that are held or parked."""

    effect: str
    executor: str
    phase: str
    code: str
    count: int
    oldest_ns: int


class IntentCounts(TypedDict):
    """Open intents."""

    open: int
    abandoned: int
    by_effect: dict[str, int]
    by_executor: dict[str, ExecutorCounts]
    timers: TimerCounts
    oldest_open_ns: int | None
    halted: list[HaltedEffects]


class MailCounts(TypedDict):
    """Entries of all mailboxes."""

    queued: int
    behind_faults: int
    uncounted: int


class SnapshotMark(TypedDict):
    """The newest snapshot."""

    at: int
    record: int
    document: str


class AncestorWorld(TypedDict):
    """A world that this one was forked of."""

    world: str
    at: int


class PhaseFigures(TypedDict):
    """Tasks of an executor in one phase, and since when the oldest is in it."""

    number: int
    since_ns: int


class StartedCore(TypedDict):
    """A ``start`` record, and the kernel that began to execute there."""

    record: int
    core: str


class ProcessFigures(TypedDict):
    """The process that runs the world; ``core`` is null if it is of an earlier release."""

    pid: int
    core: str | None
    steps: int
    queued: int
    no_room: str | None
    executors: dict[str, dict[str, PhaseFigures]]


class WorldDocument(TypedDict):
    """The document of ``aos inspect world --json``; ``path`` is null over HTTP."""

    path: str | None
    world: str
    world_key: str
    operators: list[NamedKey]
    semantics: object
    created_ns: int
    journal: JournalFigures
    manifest: ManifestInForce | None
    versions: list[ManifestVersion]
    cells: CellCounts
    intents: IntentCounts
    mail: MailCounts
    submissions: int
    at: int | None
    snapshot: SnapshotMark | None
    ancestors: list[AncestorWorld]
    last_start: StartedCore | None
    process: ProcessFigures | None
    origin: str | None


class ShardWorldDocument(WorldDocument):
    """The world of a shard."""

    shard: str


class GroupDocument(TypedDict):
    """The document of ``aos inspect world --json`` for a group."""

    shards: list[ShardWorldDocument]


class LateTimer(TypedDict):
    """A timer that was set while the journal clock was ahead; ``settle`` is the command that ends
    it as due."""

    intent: str
    workflow: str
    key: object
    opened_ns: int
    due_ns: int
    settle: str


class ClockDocument(TypedDict):
    """The document of ``aos clock --json`` (A-61a)."""

    journal_ns: int
    machine_ns: int
    window_ns: int
    ahead_ns: int
    is_ahead: bool
    timers: list[LateTimer]
    timers_total: int


class PlacementDocument(TypedDict):
    """The shards of a group that have the cells of a workflow: that of the ``key`` or of the part
    ``shard_by`` of it, the ``first``, or ``each``."""

    kind: str
    shard_by: str | None


class WorkflowRow(TypedDict):
    """A workflow of a manifest."""

    name: str
    hash: str
    module: str
    module_hash: str
    entrypoint: str
    state: str
    event: str
    arms: dict[str, str]
    key_schema: str | None
    placement: PlacementDocument
    annotations: str | None
    context: object
    lifecycle: str
    upgrade: str | None
    effects_emitted: list[str]
    limits: dict[str, object]


class EffectRow(TypedDict):
    """An effect of a manifest."""

    name: str
    hash: str
    params: str
    receipt: str
    executor: str
    attempts: int
    timeout_ms: int
    idempotency_scope: str


class ModuleRow(TypedDict):
    """A module of a manifest."""

    name: str
    hash: str
    abi: str


class RouteRow(TypedDict):
    """A subscription of a manifest."""

    event: str
    workflow: str
    key_field: str | None
    creates: bool


class ExecutorRow(TypedDict):
    """An executor of a manifest, and its keys."""

    name: str
    public_key: str
    effects: list[str]
    retired_keys: list[str]
    revoked_keys: list[str]


class ManifestDocument(ManifestInForce):
    """The document of ``aos inspect manifest --json``."""

    versions: list[ManifestVersion]
    workflows: list[WorkflowRow]
    effects: list[EffectRow]
    modules: list[ModuleRow]
    schemas: list[str]
    routes: list[RouteRow]
    ingress: list[str] | None
    executors: list[ExecutorRow] | None
    limits: dict[str, object]


# Cells, effects and faults (A-50, A-63 to A-67a)


class ReasonDocument(TypedDict):
    """One fact about a cell: why it waits or has ended, and the next thing to do."""

    kind: str
    text: str
    is_stuck: bool
    next: str | None


class CellFault(RecordedFault):
    """Why the kernel failed a cell, and where."""

    record: int | None
    engine_text: str | None


class CellVersion(TypedDict):
    """The manifest and the module that the next entry of a cell runs under."""

    record: int
    manifest: str
    is_pinned: bool
    module: str | None
    module_hash: str | None


class CellRow(CellName):
    """A cell of a list."""

    key_cbor: str
    status: str
    is_idle: bool
    declared: str | None
    fault: CellFault | None
    in_flight: int
    mailbox: int
    mail_uncounted: int
    last_record: int
    last_active_ns: int
    state_size: int | None
    version: CellVersion
    waits_for: list[str]
    state: NotRequired[object]
    shard: NotRequired[str]


class CellsDocument(TypedDict):
    """The document of ``aos inspect cells --json``."""

    cells: list[CellRow]
    total: int
    offset: int
    next_offset: int | None
    next_after: str | None
    by_reason: dict[str, int]
    looked_at: int


class CountGroup(TypedDict):
    """The cells with one value; null for those that have none."""

    value: object
    count: int


class CountsDocument(TypedDict):
    """The document of ``aos inspect cells --count --json`` and ``aos linear list --count --json``.

    A cell with several values is in the group of each of them.
    """

    count: int
    group_by: str | None
    groups: list[CountGroup]
    other_groups: int
    other_count: int


class HaltDocument(TypedDict):
    """Why an open intent does not run."""

    phase: str
    code: str
    problem: str | None
    attempt: int
    record: int
    since_ns: int


class IntentListRow(TypedDict):
    """An intent of a list."""

    intent: str
    status: str
    effect: str
    executor: str | None
    workflow: str
    key: object
    record: int
    index: int
    opened_ns: int | None
    age_ns: int | None
    idempotency_key: str | None
    requested_key: object
    issuer_ref: str | None
    flow: FlowPlace | None
    settled_record: int | None
    receipt_status: str | None
    code: str | None
    halt: HaltDocument | None
    shard: NotRequired[str]


class IntentsDocument(TypedDict):
    """The document of ``aos inspect intents --json``."""

    intents: list[IntentListRow]
    total: int
    offset: int
    next_offset: int | None
    looked_at: NotRequired[int]


class ReceiptSignature(TypedDict):
    """The signature of a receipt, checked when the document was made."""

    key: str
    executor: str
    is_valid: bool
    was_allowed: bool | None
    is_revoked: bool
    manifest_record: int | None
    batch: BatchPlace | None


class IntentDocument(IntentListRow):
    """The document of ``aos inspect intent --json``."""

    params: object
    params_hash: str | None
    effect_hash: str | None
    delivery: str | None
    attempt: int | None
    attempts_max: int | None
    attempts: list[AttemptRecord]
    cancels: list[ControlRecord]
    settlements: list[ControlRecord]
    frames: int
    last_frames: list[StreamRecord]
    abandoned_by: ControlRecord | None
    receipt: ReceiptRecord | KernelReceiptRecord | None
    signature: ReceiptSignature | None
    reason: ReasonDocument | None


class MailEntry(TypedDict):
    """An entry of a mailbox."""

    record: int
    index: int
    root: int
    depth: int
    kind: Literal["event", "receipt", "stream"]
    schema: NotRequired[str]
    value: NotRequired[object]
    effect: NotRequired[str]
    intent: NotRequired[str]
    status: NotRequired[str]
    frame_seq: NotRequired[int]
    frame_kind: NotRequired[str]
    payload: NotRequired[object]


class CellDocument(CellRow):
    """The document of ``aos inspect cell --json``."""

    workflow_hash: str
    module_hash: str
    intents: list[IntentListRow]
    mail: list[MailEntry]
    reasons: list[ReasonDocument]
    ended_by: ControlRecord | None


class FaultRow(CellName):
    """A cell that the kernel failed, and the remedy."""

    kind: str
    message: str
    detail: object
    environmental: bool
    record: int | None
    engine_text: str | None
    mailbox: int
    mail_uncounted: int
    advice: str
    retry: str
    skip: str | None
    shard: NotRequired[str]


class FaultsDocument(TypedDict):
    """The document of ``aos inspect faults --json``."""

    faults: list[FaultRow]
    total: int
    offset: int
    next_offset: int | None


class ValuePlace(TypedDict):
    """A record that refers to a value."""

    record: int
    kind: str
    where: str
    cell: CellName | None


class ValueDocument(TypedDict):
    """The document of ``aos inspect value --json``."""

    value: str
    size: int | None
    is_there: bool
    erased_by: list[int]
    records: list[ValuePlace]
    total: int
    shard: NotRequired[str]


# Traces


class TraceNode(TypedDict):
    """A record, an event or an effect in a trace."""

    kind: str
    world: str | None
    seq: int
    index: int | None
    cell: CellName | None
    subject: str | None
    status: str
    at_ns: int | None
    took_ns: int | None
    value: object
    intent: str | None
    flow: FlowPlace | None
    note: str | None
    logs: list[str]
    is_target: bool
    left_out: int
    children: list[TraceNode]


class TraceCase(CellName):
    """A cell of a trace that is not done, with the reasons."""

    world: str | None
    status: str
    is_idle: bool
    reasons: list[ReasonDocument]


class TraceDocument(TypedDict):
    """The document of ``aos trace --json``."""

    target: str
    roots: list[TraceNode]
    earlier: int
    cases: list[TraceCase]
    shard: NotRequired[str]


class TraceLine(TypedDict):
    """A line of ``aos trace``."""

    depth: int
    kind: str
    text: str
    is_target: bool
    is_bad: bool


class DrawnTrace(TypedDict):
    """The lines of ``aos trace``."""

    lines: list[TraceLine]
    shard: NotRequired[str]


# Flows (A-69 to A-69b)


class WaitDocument(TypedDict):
    """A wait of a flow: for an effect, a message, a timer or another flow."""

    path: str
    kind: str
    since_ns: int
    until_ns: int | None
    attempt: int | None
    effect: str | None
    schemas: list[str]
    child: CellName | None
    is_canceled: bool


class FlowRow(CellName):
    """An instance of a flow in a list."""

    key_cbor: str
    status: str
    fault: str | None
    started_ns: int | None
    last_record: int
    last_active_ns: int
    version: CellVersion
    waits: list[WaitDocument]
    mailbox: int
    shard: NotRequired[str]


class FlowsDocument(TypedDict):
    """The document of ``aos flow list --json``."""

    flows: list[FlowRow]
    total: int
    offset: int
    next_offset: int | None
    by_status: dict[str, int]


class FlowFailure(TypedDict):
    """Why a flow or an operation failed, with the causes."""

    kind: str
    code: str
    message: str
    path: str
    causes: list[FlowFailure]


class OperationDocument(TypedDict):
    """An operation of a flow, with those inside it."""

    path: str
    kind: str
    state: str | None
    attempts: int
    created_ns: int
    last_ns: int | None
    done_ns: int | None
    effect: str | None
    schemas: list[str]
    child: CellName | None
    retry_ns: int | None
    until_ns: int | None
    value: object
    error: FlowFailure | None
    children: list[OperationDocument]
    record: NotRequired[int | None]
    is_kept: NotRequired[bool]
    is_skipped: NotRequired[bool]


class CompensationDocument(TypedDict):
    """A compensation that a flow has registered."""

    path: str
    effect: str
    params: object
    state: str
    attempts: int
    created_ns: int
    last_ns: int | None
    done_ns: int | None
    error: FlowFailure | None


class FlowMessage(TypedDict):
    """A message in the inbox of a flow."""

    schema: str
    value: object


class FlowParent(TypedDict):
    """The flow that called this one."""

    schema: str
    key: object
    path: str
    attempt: int


class DivergenceDocument(TypedDict):
    """The place at which the code of a flow does not fit its history."""

    path: str
    expected: str
    found: str


class FlowDocument(CellName):
    """The document of ``aos flow show --json``."""

    key_cbor: str
    status: str
    fault: CellFault | None
    started_ns: int | None
    last_record: int
    last_active_ns: int
    version: CellVersion
    waits: list[WaitDocument] | None
    mailbox: int
    input: object
    output: object
    error: FlowFailure | None
    view: object
    operations: list[OperationDocument] | None
    compensations: list[CompensationDocument] | None
    inbox: list[FlowMessage] | None
    parent: FlowParent | None
    history_problem: NotRequired[str | None]
    divergence: DivergenceDocument | None
    problem: str | None
    intents: list[IntentListRow]
    reasons: list[ReasonDocument]
    with_history: bool
    shard: NotRequired[str]


# Linear plans and schedules (spec/linear.md, spec/schedule.md)


class PlanStepDocument(TypedDict):
    """A plan step as a manifest has it: without fields that have their default."""

    type: str
    max_attempts: NotRequired[int]
    backoff_ms: NotRequired[int]
    lease_ms: NotRequired[int]


class PlanDocument(TypedDict):
    """A plan as a manifest has it: without fields that have their default."""

    type: str
    version: int
    wait_timeouts: NotRequired[bool]
    steps: list[PlanStepDocument]


class PlansDocument(TypedDict):
    """The document of ``aos linear plans --json``."""

    plans: list[PlanDocument]


class LinearRow(TypedDict):
    """A linear instance of a list."""

    instance: str
    plan: str
    version: int
    biz_key: str | None
    status: str
    step_seq: int
    step: str
    step_status: str
    attempts: int
    max_attempts: int
    last_error: str | None
    next: str
    shard: NotRequired[str]


class LinearInstancesDocument(TypedDict):
    """The document of ``aos linear list --json``."""

    instances: list[LinearRow]
    total: int


class LinearSignal(TypedDict):
    """A signal of a linear instance."""

    event_id: str
    type: str
    payload: object


class LinearStep(TypedDict):
    """A row of the plan of a linear instance."""

    seq: int
    step: str
    status: str
    task: str
    attempts: int
    max_attempts: int
    backoff_ms: int
    lease_ms: int
    epoch: int
    locked_by: str | None
    waiting_event_type: str | None
    last_error: str | None
    next_run_at: str | None
    locked_until: str | None
    deadline_at: str | None
    woken_by: LinearSignal | None


class LinearInstanceDocument(LinearRow):
    """The document of ``aos linear show --json``."""

    mode: str
    schedule: object
    cancel_reason: str | None
    created_at: str | None
    completed_at: str | None
    failed_at: str | None
    canceled_at: str | None
    context: dict[str, object]
    steps: list[LinearStep]
    buffered: list[LinearSignal]


class ScheduleRun(TypedDict):
    """A run of a schedule."""

    due: str
    at: str
    kind: str


class ScheduleDocument(TypedDict):
    """The document of ``aos schedule show --json``."""

    id: str
    by_manifest: bool
    cron: str | None
    tz: str | None
    every_ms: int | None
    start: str | None
    end: str | None
    catchup_ms: int
    overlap: str
    jitter_ms: int
    event: str
    value: dict[str, object]
    at_field: str | None
    paused: bool
    failed: bool
    problem: str | None
    next: list[str]
    waits_for_end: object
    runs: int
    made_up: int
    skipped: int
    overlapped: int
    recent: list[ScheduleRun]
    tzdata: str | None
    shard: NotRequired[str]


class SchedulesDocument(TypedDict):
    """The document of ``aos schedule list --json``."""

    schedules: list[ScheduleDocument]


# Proposals (A-37h)


class ProposalVote(TypedDict):
    """A vote on a proposal."""

    approver: str
    vote: str
    seq: int
    at_ns: int | None
    seen: str | None
    note: str | None


class ProposalHead(TypedDict):
    """A proposal in a list, closed; an open one is a ``Proposal``."""

    proposal: int
    quorum: int | None
    approvers: list[str]
    status: str
    shadow_records: NotRequired[int]
    at_ns: int | None
    principal: str | None
    base: str | None
    document: str | None
    patch: str | None
    mode: str | None
    leaves: list[str] | None
    note: str | None
    votes: NotRequired[list[ProposalVote]]
    reports: NotRequired[list[JournaledReport]]


JournaledReport = TypedDict(
    "JournaledReport",
    {
        "hash": str,
        "seq": int,
        "size": int,
        "from": int | None,
        "to": int | None,
        "records": int | None,
    },
)
"""A journaled shadow report of a proposal, and the records that it is over."""


class ProposalsDocument(TypedDict):
    """The document of ``aos gov list --json``."""

    proposed: int
    proposals: list[ProposalHead]


class ManifestChanges(TypedDict):
    """The changes of a manifest, each as a line that begins with ``+``, ``-`` or ``~``."""

    definitions: list[str]
    routes: list[str]
    routes_reordered: bool
    placements: list[str]
    limits: list[str]
    plans: list[str]
    schedules: list[str]
    authority: list[str]


MissingVotes = TypedDict("MissingVotes", {"approvals": int, "from": list[str], "report": bool})
"""The approvals and the report that an open proposal lacks."""


class ProposalDocument(ProposalHead):
    """The document of ``aos gov show --json``."""

    changes: ManifestChanges | None
    missing: MissingVotes | None


class ComparedManifest(TypedDict):
    """One of two manifests that are compared."""

    hash: str
    record: int | None


class ManifestDifference(TypedDict):
    """The document of ``aos inspect manifest --since``."""

    since: ComparedManifest
    now: ComparedManifest
    changes: ManifestChanges


class Definition(TypedDict):
    """A definition of a manifest, as it has it (spec/manifest.md)."""

    name: str


# An apply (spec/host.md, H-71b)


class ApplyBlocker(TypedDict):
    """A cell that blocks a manifest."""

    kind: str
    cell: CellName
    detail: object


class BlockerGroup(TypedDict):
    """Blockers of one workflow and kind, with examples."""

    workflow: str
    kind: str
    count: int
    examples: list[CellName]
    detail: object


class ApplyWaysOut(TypedDict):
    """The modes that would work instead, and what else the manifest could declare."""

    modes: list[str]
    leaves_cells: bool
    in_place: list[str]
    to_migrate: list[str]


class ShortFault(TypedDict):
    """A fault: its kind and message."""

    kind: str
    message: str


class ChangedPlace(TypedDict):
    """A place of a state that a migration changes."""

    path: str
    before: object
    after: object


class ConvertedState(TypedDict):
    """A state before and after its migration."""

    cell: CellName
    before: object
    after: object
    fault: ShortFault | None
    changed: list[ChangedPlace]


class ApplyRefusal(TypedDict):
    """The rule that refuses a manifest."""

    rule: str
    message: str


class DivergedFlow(TypedDict):
    """A flow whose history the new code does not fit."""

    cell: CellName
    path: str | None
    expected: str | None
    found: str | None
    fault: ShortFault


class FlowGateDocument(TypedDict):
    """The flows that were tried on the new code."""

    checked: int
    go_on: int
    diverge: list[DivergedFlow]


class ApplyDocument(TypedDict):
    """The document of ``aos apply --json``."""

    manifest: str
    applied: bool
    in_force: bool
    seq: int | None
    changes: ManifestChanges
    blockers: list[ApplyBlocker]
    groups: list[BlockerGroup]
    ways_out: ApplyWaysOut | None
    states: list[ConvertedState]
    refused: ApplyRefusal | None
    fates: dict[str, dict[str, int]] | None
    flows: FlowGateDocument


class TriedManifest(ApplyDocument):
    """The document of ``aos apply --dry-run --json``, with the workflows that it leaves."""

    leaves: list[str]


# A journaled shadow report (spec/shadow.md, SH-50)


class ShadowBlockers(TypedDict):
    """The cells that block the manifest of a shadow."""

    total: int
    first: list[ApplyBlocker]


class ShadowStepCounts(TypedDict):
    """Steps of a shadow."""

    compared: int
    different: int
    missing: int
    extra: int
    erased: int
    environmental: int


class ShadowInputs(TypedDict):
    """Recorded events and commands."""

    admitted: int
    refused: int


class ShadowCells(TypedDict):
    """Cells of one workflow."""

    same: int
    different: int
    by_class: dict[str, int]


class ShadowPlace(TypedDict):
    """A place of a field that differs."""

    path: str
    recorded: object
    shadow: object


class ShadowField(TypedDict):
    """A field that differs."""

    field: str
    recorded: object
    shadow: object
    places: list[ShadowPlace]


class ShadowFirst(TypedDict):
    """The first difference of a cell."""

    record: int
    on: str
    classes: list[str]
    differences: list[ShadowField]


class ShadowSide(TypedDict):
    """A cell at the end of one side."""

    status: str
    state: object
    fault: str | None


class ShadowLast(TypedDict):
    """A cell at the end of both sides."""

    recorded: ShadowSide | None
    shadow: ShadowSide | None


class ShadowDifference(TypedDict):
    """A cell that differs."""

    cell: CellName
    classes: list[str]
    first: ShadowFirst
    last: ShadowLast


class ShadowAsked(TypedDict):
    """Requests for one effect, and the statuses of their receipts."""

    asked: int
    receipts: dict[str, int]


class ShadowEffects(TypedDict):
    """Requests for effects on both sides."""

    recorded: dict[str, ShadowAsked]
    shadow: dict[str, ShadowAsked]


class ShadowAnswered(TypedDict):
    """Answers that are not in the journal."""

    timers: int
    blobs: int
    core: int
    file: int


class ShadowInstances(TypedDict):
    """Instances by status at the end of both sides."""

    recorded: dict[str, dict[str, int]]
    shadow: dict[str, dict[str, int]]


class ShadowAllowlist(TypedDict):
    """The effects that a workflow may ask for on both sides."""

    recorded: list[str] | None
    shadow: list[str] | None


class ShadowPending(TypedDict):
    """Open intents at the end of both sides."""

    recorded: int
    shadow: int


class ShadowOpen(TypedDict):
    """An intent that is open in the shadow."""

    effect: str
    cell: CellName
    params: str
    recorded: bool


ShadowReportDocument = TypedDict(
    "ShadowReportDocument",
    {
        "proposal": int,
        "record": int,
        "hash": str,
        "format": str,
        "world": str,
        "base": str,
        "document": str,
        "mode": str,
        "leaves": list[str],
        "from": int,
        "to": int,
        "frame": str,
        "answers": str | None,
        "same": bool,
        "blocked": bool,
        "blockers": ShadowBlockers,
        "clock_ns": NotRequired[int],
        "steps": NotRequired[ShadowStepCounts],
        "inputs": NotRequired[ShadowInputs],
        "by_class": NotRequired[dict[str, int]],
        "cells": NotRequired[dict[str, ShadowCells]],
        "differences": NotRequired[list[ShadowDifference]],
        "left_out": NotRequired[int],
        "effects": NotRequired[ShadowEffects],
        "answered": NotRequired[ShadowAnswered],
        "instances": NotRequired[ShadowInstances],
        "allowlists": NotRequired[dict[str, ShadowAllowlist]],
        "pending": NotRequired[ShadowPending],
        "open": NotRequired[list[ShadowOpen]],
    },
)
"""A journaled shadow report of a proposal; the fields after ``blockers`` are missing if the shadow
was blocked."""


class WorkTask(TypedDict):
    """A task of an executor in the kernel process."""

    intent: str
    phase: str
    attempt: int
    since_ns: int


class WorkDocument(TypedDict):
    """Effects, executors and tasks of the kernel process."""

    effects: list[str]
    executors: dict[str, dict[str, PhaseFigures]]
    tasks: list[WorkTask]


class BatchRow(TypedDict):
    """A batch of a list."""

    id: str
    status: str
    action: str
    workflow: NotRequired[str]
    where: NotRequired[str]
    effect: NotRequired[str]
    event: NotRequired[str]
    value: NotRequired[object]
    rate: NotRequired[str]
    total: int
    done: int
    refused: int
    left: int
    created_ns: int
    ended_ns: int | None
    token: str
    problem: str | None


class BatchesDocument(TypedDict):
    """The document of ``aos batch list --json``."""

    batches: list[BatchRow]


class BatchRefusal(TypedDict):
    """An item of a batch that the world refused."""

    workflow: str
    key: object
    intent: str | None
    rule: str
    message: str


class BatchDocument(BatchRow):
    """The document of ``aos batch show --json``."""

    refusals: list[BatchRefusal]


# The cluster of a replicated world (spec/cluster.md, CL-170 to CL-178, CL-240)


class ClusterBase(TypedDict):
    """The newest base of a world, and the end of the log that it has."""

    stream: str
    position: int
    seq: int
    frame: str


class ClusterNode(TypedDict):
    """A node of a world by its beat."""

    node: str
    role: str
    is_silent: bool
    beat_age_ns: int
    instance: str
    release: str
    inbox: str
    signature: str
    position: int
    seq: int
    frame: str
    behind_messages: int
    behind_records: int


class LogReplica(TypedDict):
    """A replica of a stream, at another server than its leader."""

    name: str
    is_offline: bool
    silent_ns: int
    behind_operations: int


class ClusterLog(TypedDict):
    """The stream of a world."""

    first: int
    last: int
    messages: int
    bytes: int
    leader: str
    replicas: list[LogReplica]


class ClusterWorld(TypedDict):
    """A registered world. One whose registration cannot be read has ``name`` and ``problem``
    alone."""

    name: str
    world: NotRequired[str]
    stream: NotRequired[str]
    signature: NotRequired[str]
    embedded_at: NotRequired[str | None]
    base: NotRequired[ClusterBase | None]
    nodes: NotRequired[list[ClusterNode]]
    other_beats: NotRequired[int]
    log: NotRequired[ClusterLog | None]
    placed_at: NotRequired[list[str]]
    kept_at: NotRequired[str | None]
    moving_to: NotRequired[str | None]
    problem: str | None


class ClusterGroup(TypedDict):
    """A registered group of worlds. One whose registration cannot be read has ``name`` and
    ``problem`` alone."""

    name: str
    signature: NotRequired[str]
    shards: NotRequired[list[str]]
    problem: str | None


class ClusterMemberRow(TypedDict):
    """A member by its beat."""

    name: str
    is_silent: bool
    draining: bool
    beat_age_ns: int
    instance: str
    standbys: int
    worlds: list[str]
    seen: list[str]


class OpenErasuresDocument(TypedDict):
    """Values that were erased and that the servers may still have (CL-283)."""

    number: int | None
    first_seq: int | None
    since_ns: int | None
    reason: str | None


class ReferenceDocument(TypedDict):
    """How far the reference has compared the journal of a node (CL-288)."""

    at: int
    behind: int
    compared: int
    skipped: int
    difference: str | None


class OwnNodeDocument(TypedDict):
    """The node that is asked. Over HTTP, ``folder`` is null."""

    folder: str | None
    node: str
    world: str
    stream: str
    role: str
    position: int
    seq: int
    frame: str
    dead_messages: int
    dead_reason: str | None
    open_erasures: OpenErasuresDocument
    reference: ReferenceDocument | None


class ClusterDocument(TypedDict):
    """The document of ``aos cluster status --json``. ``address`` is null for the embedded world of
    a node."""

    address: str | None
    here: OwnNodeDocument | None
    members: list[ClusterMemberRow]
    groups: list[ClusterGroup]
    worlds: list[ClusterWorld]
    worlds_cut: bool


class ClusterFindingDocument(TypedDict):
    """A finding of a check."""

    kind: str
    text: str
    exit_code: int


class ClusterCheckDocument(TypedDict):
    """The document of ``aos cluster check --json``."""

    worlds: list[str]
    unchecked: list[str]
    findings: list[ClusterFindingDocument]
