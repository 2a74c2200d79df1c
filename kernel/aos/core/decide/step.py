"""Decide a step of the ring's head: a ``Step`` or a ``Faulted`` (spec/kernel.md, K-30 to K-50).

A step is atomic: if its output breaks a rule, the core drops the whole output and fails the
instance with a record that names the rule; all other cells continue. Nothing here changes the
state.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from aos.core.decide.answers import Decided
from aos.core.decide.dialect.aos import Dialect
from aos.core.decide.dialect.dialects import dialect_of
from aos.core.decide.envelope import (
    DomainEvent,
    EffectRequest,
    Misfit,
    Output,
    input_envelope,
    read_output,
)
from aos.core.decide.fits import as_received, completed, key_problem, state_problem
from aos.core.decide.left_behind import kept_of
from aos.core.decide.routing import pinned_problem, place_event, route, shard_problem
from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.identity import event_hash, idempotency_key, intent_hash, step_entropy
from aos.core.journal.ports import BlobReader, Call, Ran, Runner
from aos.core.journal.records import (
    CellId,
    Emitted,
    Faulted,
    Intent,
    Step,
    slot,
    slot_bytes,
    slot_hash,
)
from aos.core.journal.vocabulary import CellStatus
from aos.core.state.cell import Cell, EventMail, Mail
from aos.core.state.state import State
from aos.core.state.version import manifest_under, runs_under
from aos.manifest.effective import Effective, Workflow
from aos.manifest.names import CONTINUATIONS, ONLY_DELIVERED
from aos.manifest.secret_use import problem as secret_problem
from aos.values.cbor import Value
from aos.values.digests import Hash, content_hash, hash_text
from aos.values.errors import ValueProblem, quoted


@dataclass(slots=True, kw_only=True)
class StepRun:
    """The decision of one step, in progress: it waits for how ``call`` ends (``end_step``).

    ``workflow`` is from ``manifest``, which record ``under`` put in force. Everything that concerns
    others (routes, schemas of events, effects, secrets, bounds of the world) is from ``effective``,
    the manifest in force.
    """

    state: State
    effective: Effective
    under: int
    manifest: Effective
    workflow: Workflow
    dialect: Dialect
    cell: Cell
    mail: Mail
    seq: int
    read: BlobReader
    call: Call = field(init=False)
    blobs: dict[Hash, bytes] = field(default_factory=dict)


def decide_step(state: State, runner: Runner, read: BlobReader) -> Decided:
    """Run the first entry of the ring's head with ``runner`` and decide its record, for callers
    that have a runner. Raises as ``begin_step``."""
    run = begin_step(state, read)
    return run if isinstance(run, Decided) else end_step(run, runner.run(run.call))


def begin_step(state: State, read: BlobReader) -> StepRun | Decided:
    """Begin to decide the first entry of the ring's head: return the call that runs it on a fresh
    instance, or the ``Faulted`` of an entry that may not run.

    Raises:
        Damage: A blob that the step needs is missing or altered. Nothing has changed.
    """
    id = state.ring[0]
    cell = state.cells[id]
    effective = state.effective
    under = runs_under(state, cell)
    manifest = manifest_under(state, under)
    workflow = manifest.workflows[id[0]]
    run = StepRun(
        state=state,
        effective=effective,
        under=under,
        manifest=manifest,
        workflow=workflow,
        dialect=dialect_of(workflow),
        cell=cell,
        mail=cell.mailbox[0],
        seq=state.next_seq,
        read=read,
    )
    steps_max = effective.limits.cascade_steps
    if run.mail.root.steps >= steps_max:
        message = f"record {run.mail.root.seq} has caused {steps_max} steps already"
        return _faulted(run, Fault(kind=FaultKind.CASCADE_TOO_LONG, message=message), None)
    run.call = _call(run)
    return run


def end_step(run: StepRun, ran: Ran) -> Decided:
    """Decide the record of a step that ended with ``ran``: a ``Step`` or a ``Faulted``."""
    if ran.fault is not None:
        return _faulted(run, ran.fault, ran)
    assert ran.output is not None
    try:
        output = read_output(
            ran.output,
            max_bytes=run.workflow.limits.output_bytes,
            effect_fields=run.dialect.effect_fields,
        )
        record = _take(run, output, ran)
    except Misfit as misfit:
        return _faulted(run, misfit.fault, ran)
    return Decided(record=record, blobs=run.blobs)


def rehearse(
    state: State,
    cell: Cell,
    event: EventMail,
    *,
    manifest: Effective,
    runner: Runner,
    read: BlobReader,
) -> Fault | None:
    """Run an event on a cell with its workflow in ``manifest``, as if that manifest had just been
    applied, and drop the result; return the fault that the step would end with.

    The event need not be in the mailbox. Nothing changes.

    Raises:
        Damage: A blob that the step needs is missing or altered.
    """
    workflow = manifest.workflows[cell.id[0]]
    run = StepRun(
        state=state,
        effective=manifest,
        under=state.manifest_seq,
        manifest=manifest,
        workflow=workflow,
        dialect=dialect_of(workflow),
        cell=cell,
        mail=event,
        seq=state.next_seq,
        read=read,
    )
    record = end_step(run, runner.run(_call(run))).record
    return record.fault if isinstance(record, Faulted) else None


def _faulted(run: StepRun, fault: Fault, ran: Ran | None) -> Decided:
    record = Faulted(
        seq=run.seq,
        cell=run.cell.id,
        entry=run.mail.entry,
        root=run.mail.root.seq,
        depth=run.mail.depth,
        fault=fault,
        fuel=ran.fuel if ran else 0,
        pages=ran.pages if ran else 0,
        output=None if ran is None or ran.output is None else content_hash(ran.output),
        under=_pinned_under(run),
    )
    return Decided(record=record, blobs={}, engine_text=ran.engine_text if ran else None)


def _pinned_under(run: StepRun) -> int | None:
    """The record's ``under``: None if the cell runs under the manifest in force."""
    return None if run.under == run.state.manifest_seq else run.under


def _fits(run: StepRun, state: bytes | None) -> int | None:
    """The record of the manifest in force if a pinned instance could continue under it (K-74)."""
    seq, workflow = run.state.manifest_seq, run.effective.workflows.get(run.cell.id[0])
    if run.under == seq or workflow is None:
        return None
    problem = key_problem(workflow, run.cell.id[1]) or state_problem(workflow, state, run.read)
    return seq if problem is None else None


def _call(run: StepRun) -> Call:
    workflow, state, (_, key) = run.workflow, run.state, run.cell.id
    schema = workflow.event
    value, names = run.dialect.delivered(workflow, run.manifest, _whole_mail(run), run.read)
    if names:
        run.blobs.update(names)
    ctx = None
    if workflow.context:
        context: dict[str | int, Value] = {
            "now_ns": run.mail.root.stamp.ns,
            "logical_now_ns": state.clock_ns,
            "journal_height": run.seq,
            "entropy": step_entropy(run.mail.root.stamp, run.cell.id, run.seq),
            "event_hash": hash_text(event_hash(schema.name, value)),
            "manifest_hash": hash_text(run.manifest.manifest_hash),
            "workflow": workflow.name,
            "workflow_hash": hash_text(workflow.hash),
            "key": key or None,
            "cell_mode": workflow.key is not None,
        }
        ctx = run.dialect.context(context)
    limits = workflow.limits
    return Call(
        module=workflow.module.hash,
        entrypoint=workflow.entrypoint,
        input=input_envelope(
            state=_whole_state(run),
            schema=schema.name,
            value=value,
            key=run.dialect.shown_key(key),
            ctx=ctx,
        ),
        fuel=limits.fuel,
        memory_bytes=limits.memory_bytes,
        output_bytes=limits.output_bytes,
    )


def _whole_state(run: StepRun) -> bytes | None:
    """The state with null for the optional fields that its workflow got since it was stored
    (K-71d)."""
    state, workflow = run.cell.state, run.workflow
    if state is None:
        return None
    data = slot_bytes(state, run.read)
    is_whole = run.state.serial == 1 or run.cell.stepped_under == run.under
    return data if is_whole or workflow.has_opaque_state else completed(workflow.state, data)


def _whole_mail(run: StepRun) -> Mail:
    """The entry that runs; an event in the form that its schema has here, if it was admitted under
    another manifest (K-71d, K-73a)."""
    mail = run.mail
    is_from_here = mail.entry[0] > run.under == run.state.manifest_seq
    if is_from_here or not isinstance(mail, EventMail):
        return mail
    return replace(
        mail,
        value=as_received(run.manifest.schemas[mail.schema], slot_bytes(mail.value, run.read)),
    )


def _take(run: StepRun, output: Output, ran: Ran) -> Step:
    """Check the output in the order in which a reader would: state, ann, events, effects."""
    assert ran.output is not None
    state = None if output.state is None else slot(_state(run, output.state), run.blobs)
    annotation = None if output.ann is None else _annotation(run, output.ann)
    ann = None if annotation is None else slot(annotation, run.blobs)
    limits = run.workflow.limits
    if len(output.events) > limits.events:
        _too_many(FaultKind.TOO_MANY_EVENTS, "domain events", limits.events, len(output.events))
    if len(output.effects) > limits.effects:
        _too_many(FaultKind.TOO_MANY_EFFECTS, "effects", limits.effects, len(output.effects))
    reached = sum(len(run.effective.routes(event.schema)) for event in output.events)
    deliveries_max = run.state.limits.deliveries
    if reached > deliveries_max:
        _too_many(FaultKind.TOO_MANY_EVENTS, "deliveries", deliveries_max, reached)
    # The entry that runs leaves its mailbox before anything new comes in.
    mail_counts: Counter[CellId] = Counter({run.cell.id: -1})
    events = tuple(_emitted(run, i, event, mail_counts) for i, event in enumerate(output.events))
    intents = _intents(run, output)
    abandoned = tuple(run.cell.inflight) if output.state is None else ()
    return Step(
        seq=run.seq,
        cell=run.cell.id,
        entry=run.mail.entry,
        root=run.mail.root.seq,
        depth=run.mail.depth,
        state=state,
        status=_status(run, output, opens=bool(intents)),
        events=events,
        intents=intents,
        abandoned=abandoned,
        ann=ann,
        fuel=ran.fuel,
        pages=ran.pages,
        output=content_hash(ran.output),
        under=_pinned_under(run),
        fits=_fits(run, output.state),
    )


def _state(run: StepRun, data: bytes) -> bytes:
    max_bytes = run.workflow.limits.state_bytes
    if len(data) > max_bytes:
        raise Misfit(
            FaultKind.STATE_INVALID, f"state: expected at most {max_bytes} bytes, found {len(data)}"
        )
    if run.workflow.has_opaque_state:
        return data
    try:
        run.workflow.state.from_record(data)
    except ValueProblem as error:
        raise Misfit(FaultKind.STATE_INVALID, f"{run.workflow.state.name}: {error}") from error
    return data


def _annotation(run: StepRun, data: bytes) -> bytes | None:
    schema = run.workflow.annotations
    if schema is None:
        if run.dialect.drops_annotations:
            return None
        raise Misfit(
            FaultKind.ANNOTATION_INVALID, f"{run.workflow.name} declares no annotations schema"
        )
    try:
        return run.dialect.normal_form(run.manifest, schema, data, run.workflow.limits.output_bytes)
    except ValueProblem as error:
        raise Misfit(FaultKind.ANNOTATION_INVALID, f"{schema.name}: {error}") from error


def _emitted(run: StepRun, index: int, event: DomainEvent, mail_counts: Counter[CellId]) -> Emitted:
    path = f"$.domain_events[{index}]"
    schema = run.effective.schemas.get(event.schema)
    if event.schema in CONTINUATIONS:
        raise Misfit(FaultKind.EVENT_INVALID, f"{path}: {event.schema} {ONLY_DELIVERED}")
    if schema is None:
        raise Misfit(
            FaultKind.EVENT_INVALID,
            f"{path}: schema {quoted(event.schema)} is not in the manifest",
        )
    try:
        limit = run.effective.limits.event_bytes
        data = run.dialect.normal_form(run.effective, schema, event.value, limit)
    except ValueProblem as error:
        raise Misfit(FaultKind.EVENT_INVALID, f"{path}: {event.schema}: {error}") from error
    try:
        targets = route(run.effective, schema, data)
    except ValueProblem as error:
        raise Misfit(FaultKind.KEY_INVALID, f"{path}: {event.schema}: {error}") from error
    own_key = None if event.key is None else run.dialect.own_key(event.key)
    for workflow, key in targets:
        # A receiver without keys ignores the key of the event.
        if own_key is not None and key and own_key != key:
            raise Misfit(
                FaultKind.KEY_INVALID,
                f"{path}: key: expected {_hex(key)}, by which {workflow} is routed, found "
                f"{_hex(own_key)}",
            )
    problem = shard_problem(run.effective, targets)
    if problem is not None:
        raise Misfit(FaultKind.KEY_INVALID, f"{path}: {event.schema}: {problem}")
    left_behind = kept_of(run.state, targets, run.read)
    problem = pinned_problem(run.state, targets, event.schema, data, left_behind=left_behind)
    if problem is not None:
        raise Misfit(FaultKind.EVENT_INVALID, f"{path}: {event.schema}: {problem}")
    limit = run.effective.limits.cascade_depth
    if targets and run.mail.depth + 1 > limit:
        raise Misfit(
            FaultKind.CASCADE_TOO_DEEP,
            f"{path}: it would be {run.mail.depth + 1} events away from record "
            f"{run.mail.root.seq}, expected at most {limit}",
        )
    placed = place_event(run.state, run.effective.routes(event.schema), targets, mail_counts)
    return Emitted(
        schema=event.schema, value=slot(data, run.blobs), kept=left_behind, **placed._asdict()
    )


def _intents(run: StepRun, output: Output) -> tuple[Intent, ...]:
    if not output.effects:
        return ()
    if output.state is None:
        raise Misfit(
            FaultKind.DELETED_WITH_EFFECTS,
            f"state null deletes the cell, and {len(output.effects)} effects stand beside it",
        )
    limits, count = run.effective.limits, len(output.effects)
    if len(run.cell.inflight) + count > limits.instance_intents:
        _too_many(
            FaultKind.OPEN_WORK_EXCEEDED, "open intents an instance", limits.instance_intents,
            len(run.cell.inflight) + count,
        )  # fmt: skip
    if len(run.state.intents) + count > limits.open_intents:
        _too_many(
            FaultKind.OPEN_WORK_EXCEEDED, "open intents in the world", limits.open_intents,
            len(run.state.intents) + count,
        )  # fmt: skip
    params_by_key: dict[str, Hash] = {}
    return tuple(_intent(run, i, effect, params_by_key) for i, effect in enumerate(output.effects))


def _intent(
    run: StepRun, index: int, request: EffectRequest, params_by_key: dict[str, Hash]
) -> Intent:
    path = f"$.effects[{index}]"
    if request.effect not in run.workflow.effects_emitted:
        declared = ", ".join(sorted(run.workflow.effects_emitted)) or "none"
        raise Misfit(
            FaultKind.EFFECT_UNDECLARED,
            f"{path}: {quoted(request.effect)} is not in effects_emitted of {run.workflow.name}: "
            f"expected one of {declared}",
        )
    effect = run.effective.effects.get(request.effect)
    if effect is None:
        raise Misfit(
            FaultKind.EFFECT_UNDECLARED,
            f"{path}: {quoted(request.effect)} is not in the manifest in force",
        )
    try:
        max_bytes = run.effective.limits.event_bytes
        params = run.dialect.normal_form(run.effective, effect.params, request.params, max_bytes)
        params = run.dialect.params(effect, params, max_bytes)
    except ValueProblem as error:
        raise Misfit(FaultKind.PARAMS_INVALID, f"{path}: {effect.name}: {error}") from error
    if effect.takes_secrets:
        value = effect.params.from_record(params)
        problem = secret_problem(run.effective, run.workflow.name, effect.name, value)
        if problem is not None:
            raise Misfit(FaultKind.PARAMS_INVALID, f"{path}: {effect.name}: {problem}")
    params_slot = slot(params, run.blobs)
    params_hash = slot_hash(params_slot)
    if request.key is not None:
        key = idempotency_key(
            world=run.state.world, cell=run.cell.id, effect=effect.name, key=request.key,
            scope=effect.idempotency_scope,
        )  # fmt: skip
        scope = run.cell.keys if effect.idempotency_scope == "cell" else run.state.world_keys
        if params_by_key.setdefault(key, scope.get(key, params_hash)) != params_hash:
            raise Misfit(
                FaultKind.IDEMPOTENCY_CONFLICT,
                f"{path}: {effect.name} was asked for under the same idempotency key with other "
                "params",
            )
    return Intent(
        intent=intent_hash(
            world=run.state.world,
            cell=run.cell.id,
            workflow_hash=run.workflow.hash,
            seq=run.seq,
            index=index,
            effect=effect.name,
            effect_hash=effect.hash,
            params_hash=params_hash,
            key=request.key,
        ),
        effect=effect.name,
        effect_hash=effect.hash,
        params=params_slot,
        key=request.key,
        issuer_ref=request.issuer_ref,
    )


def _status(run: StepRun, output: Output, *, opens: bool) -> CellStatus:
    """The status after the step: the declared one, else by the work that is in flight."""
    if output.state is None:
        return "running"
    declared = run.cell.declared if output.status is None else output.status
    if declared is not None and declared != "running":
        return declared
    return "waiting" if opens or run.cell.inflight else "running"


def _hex(data: bytes) -> str:
    return data.hex() if len(data) <= 32 else f"{data[:32].hex()}… of {len(data)} bytes"


def _too_many(kind: FaultKind, noun: str, limit: int, count: int) -> None:
    raise Misfit(kind, f"expected at most {limit} {noun}, found {count}")
