"""Apply a record to the state: the only way in which a world changes (spec/kernel.md, K-2).

The same fold runs after every live decision, on restart and in replay, and never runs a module. It
checks that the record can follow this state. It does not check that the record is what the rules
require: ``Kernel`` made that decision, and ``replay`` compares it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, assert_never

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.fork import forked_world_id
from aos.core.journal.frame import Frame, follow
from aos.core.journal.identity import idempotency_key, submission_hash, world_id
from aos.core.journal.inputs import END, MIGRATE, PIN, REMOVE, RESUMING, SEMANTICS, SKIP
from aos.core.journal.journal_clock import CLOCK_AHEAD_NS, clock_after
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    Emitted,
    Event,
    Faulted,
    Fork,
    Genesis,
    Governance,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Snapshot,
    Stamp,
    Start,
    Step,
    Stream,
    slot_hash,
)
from aos.core.journal.signing import revoked_by
from aos.core.journal.vocabulary import TERMINAL, word_of
from aos.core.state.cell import (
    Cell,
    EventMail,
    Halt,
    Mail,
    OpenIntent,
    ReceiptMail,
    Root,
    StreamMail,
    StreamState,
)
from aos.core.state.continuation import takes
from aos.core.state.eras import era_of
from aos.core.state.fold_governance import fold_governance
from aos.core.state.state import Ancestor, Debt, Mark, Owed, Settlement, State
from aos.core.state.submissions import Submission
from aos.core.state.version import (
    home,
    is_in_flight,
    is_pinned,
    mark,
    runs_under,
    stays,
    workflow_of,
    workflow_under,
)
from aos.errors import Damage
from aos.manifest.effective import Workflow
from aos.manifest.names import KERNEL_EFFECTS
from aos.values.digests import Hash, hash_text
from aos.values.errors import quoted
from aos.values.show import describe

SECOND_NS: Final = 10**9
FORKED: Final = "the world was forked"


def fold_frame(state: State, frame: Frame, read: BlobReader) -> list[Record]:
    """Check that ``frame`` follows the state's tip, fold its records and return them.

    Raises:
        Damage: The frame or a record in it cannot follow. The state must not be used any more.
    """
    return list(folding(state, frame, read))


def folding(state: State, frame: Frame, read: BlobReader) -> Iterator[Record]:
    """As ``fold_frame``, but yield each record when it is folded. Take all of them: before the
    last, the state is inside of the frame, and nothing can follow it."""
    tip = follow(state.tip, frame)
    for record in [from_bytes(data) for data in frame.records]:
        fold(state, record, read)
        yield record
    if state.world != tip.world:
        raise Damage(f"frame {frame.header.first}: it contains a fork that is not its first record")
    state.tip = tip


def fold(state: State, record: Record, read: BlobReader) -> None:
    """Apply ``record`` to ``state``.

    Raises:
        Damage: The record cannot follow this state; the journal is damaged. The state may be half
            changed and must not be used any more.
    """
    if record.seq != state.next_seq:
        raise Damage(f"record {state.next_seq} calls itself record {record.seq}")
    if (record.seq == 1) != isinstance(record, Genesis):
        raise Damage(f"record {record.seq} is of kind {record.KIND}: record 1 alone is a genesis")
    if state.manifest is None and not isinstance(
        record, Genesis | Start | Manifest | Snapshot | Fork
    ):
        raise Damage(
            f"record {record.seq} is of kind {record.KIND}, and no manifest came before it"
        )
    match record:
        case Step():
            _fold_step(state, record)
        case Receipt():
            _fold_receipt(state, record)
        case Event():
            _fold_event(state, record)
        case KernelReceipt():
            _fold_kernel_receipt(state, record)
        case Stream():
            _fold_stream(state, record)
        case Snapshot():
            _fold_snapshot(state, record)
        case Attempt():
            _fold_attempt(state, record)
        case Control():
            _fold_control(state, record)
        case Governance():
            advance_clock(state, record.stamp)
            fold_governance(state, record)
        case Faulted():
            _fold_fault(state, record)
        case Manifest():
            _fold_manifest(state, record, read)
        case Start():
            advance_clock(state, record.stamp)
        case Fork():
            _fold_fork(state, record)
        case Genesis():
            _fold_genesis(state, record)
    state.next_seq = record.seq + 1


def advance_clock(state: State, stamp: Stamp) -> None:
    """Count the stamp of a record (K-4, K-12a)."""
    if stamp.ns > state.clock_ns:
        state.window_ns = state.window_at(stamp.ns)
        state.clock_ns = stamp.ns


def _fold_genesis(state: State, record: Genesis) -> None:
    if world_id(record.nonce, record.world_key) != state.world:
        raise Damage("record 1: the genesis is another world's")
    if record.semantics != SEMANTICS:
        raise Damage(
            f"record 1: semantics: expected {SEMANTICS}, found {record.semantics} "
            "(use the release that wrote this journal)"
        )
    advance_clock(state, record.stamp)
    state.world_key = record.world_key
    state.operators = record.operators
    state.semantics = record.semantics


def _fold_fork(state: State, record: Fork) -> None:
    """Turn the state into that of another world, which keeps all its cells (K-110 to K-113)."""
    if (record.parent, record.at) != (state.world, record.seq - 1):
        raise Damage(
            f"record {record.seq} is a fork of world {record.parent.hex()[:16]} after record "
            f"{record.at}: expected world {state.world.hex()[:16]} and record {record.seq - 1}"
        )
    advance_clock(state, record.stamp)
    state.tip = replace(state.tip, world=forked_world_id(record))
    state.ancestors = (*state.ancestors, Ancestor(record.parent, record.at))
    state.world_key = record.world_key
    state.operators = record.operators
    # Their votes are signed for the parent (K-114).
    state.proposals.close_all()
    match record.open_work:
        case "cancel":
            owed = {owed_receipt.intent for owed_receipt in state.owed}
            root = Root(record.seq, record.stamp)
            for intent in state.intents.values():
                if intent.intent not in owed and intent.effect.name not in KERNEL_EFFECTS:
                    state.owed.append(Owed(intent.intent, Debt.CANCEL, root, 0, FORKED))
        case "keep":
            pass
        case _:
            assert_never(record.open_work)


def _fold_manifest(state: State, record: Manifest, read: BlobReader) -> None:
    if record.serial != state.serial:
        raise Damage(
            f"record {record.seq}: manifest serial: expected {state.serial}, found {record.serial}"
        )
    if record.mode == "strict" or (record.migrated and record.mode != MIGRATE):
        raise Damage(f"record {record.seq} is no manifest of mode {describe(record.mode)}")
    if record.proposal is not None and record.proposal not in state.proposals.open:
        raise Damage(
            f"record {record.seq} applies proposal {record.proposal}, which is not open before it"
        )
    state.manifest = state.eras.manifest_of(read(record.document.hash))
    # Its own limit holds for its own stamp: a clock that is ahead forgets no id (K-12a).
    advance_clock(state, record.stamp)
    state.proposals.close_all(applied=record.proposal)
    state.manifest_seq = record.seq
    era = era_of(record.seq, state.manifest)
    state.eras.begin(era, state.manifest, read, pins=record.mode == PIN)
    state.intents.keep(state.manifest.hash, state.manifest)
    for migrated in record.migrated:
        state.cells.replace(
            migrated.workflow, migrated.root, migrated.count, seq=record.seq, read=read
        )
    state.serial += 1
    state.revoked |= revoked_by(state.manifest.executors)
    state.pinned.add(record.document.hash)
    state.pinned.update(module.hash for module in state.manifest.modules.values())


def _fold_event(state: State, record: Event) -> None:
    advance_clock(state, record.stamp)
    if record.submission_id is not None:
        _remember(state, record.submission_id, record)
    root = Root(record.seq, record.stamp)
    mail = EventMail(
        entry=(record.seq, 0), root=root, depth=0, schema=record.schema, value=record.value
    )
    _spread(state, mail, record, record.seq)


def _remember(state: State, submission_id: str, record: Event) -> None:
    payload = submission_hash(record.schema, slot_hash(record.value))
    limits = state.effective.limits
    state.submissions.remember(
        submission_id,
        Submission(record.seq, payload, state.window_ns),
        oldest_ns=state.window_ns - limits.dedup_ns,
        count_max=limits.dedup_rows,
    )


def _fold_step(state: State, record: Step) -> None:
    cell, mail = _take_head(state, record)
    under = _under(state, cell, record)
    workflow = workflow_under(state, cell.id, under)
    if workflow is None:
        raise _no_workflow(cell.id, record.seq)
    cell.mailbox.popleft()
    cell.runs = True
    state.cells.wake(cell, record.seq)
    cell.version = mark(state, under)
    cell.is_kept = False
    cell.workflow_hash = workflow.hash
    cell.module_hash = workflow.module.hash
    cell.state = record.state
    cell.stepped_under = under
    cell.last_seq = record.seq
    cell.last_active_ns = state.clock_ns
    state.cells.declare(cell, word_of(TERMINAL, record.status))
    for index, intent in enumerate(record.intents):
        _open(state, cell, workflow, record, index)
        if intent.effect in KERNEL_EFFECTS:
            state.owed.append(Owed(intent.intent, Debt.ANSWER, mail.root, mail.depth))
    for index, event in enumerate(record.events):
        _emit(state, event, mail, record.seq, index)
    if record.state is None:
        _abandon(state, cell, record.abandoned, record.seq)
        cell.keys.clear()
    elif record.abandoned:
        raise Damage(f"record {record.seq} abandons intents and keeps their cell")
    cell.runs = False
    if cell.mailbox:
        _make_ready(state, cell)
    if record.under is not None:
        _release(state, cell, fits=record.fits == state.manifest_seq)
    state.cells.put_to_rest(cell)


def _under(state: State, cell: Cell, record: Step | Faulted) -> int:
    """The record of the manifest under which the ring's head ran."""
    under = state.manifest_seq if record.under is None else record.under
    expected = runs_under(state, cell)
    if under != expected or record.under == state.manifest_seq:
        raise Damage(
            f"record {record.seq} runs {cell.id[0]} under the manifest of record {under}, where "
            f"that is record {expected}"
        )
    return under


def _release(state: State, cell: Cell, *, fits: bool) -> None:
    """Unpin a pinned instance that is no longer in flight. If its state ``fits`` the manifest in
    force, its next entry runs under that; otherwise it is kept under its own (K-74)."""
    if cell.fault is not None or is_in_flight(state, cell):
        return
    if fits:
        cell.version = mark(state, state.manifest_seq)
    else:
        cell.is_kept = True


def _fold_fault(state: State, record: Faulted) -> None:
    cell, _ = _take_head(state, record)
    _under(state, cell, record)
    state.cells.wake(cell, record.seq)
    cell.last_seq = record.seq
    cell.last_active_ns = state.clock_ns
    _fail(state, cell, record.fault, record.seq)


def _fold_receipt(state: State, record: Receipt) -> None:
    advance_clock(state, record.stamp)
    if record.outcome == "abandoned":
        if record.abandoned:
            raise _abandons_alone(record)
        late = state.abandoned.pop(record.intent, None)
        if late is None or late.cell != record.cell:
            raise Damage(f"record {record.seq} settles an intent that was not abandoned")
        state.attempts.pop(record.intent, None)
        return
    _settle(state, record, Root(record.seq, record.stamp), depth=0)


def _fold_kernel_receipt(state: State, record: KernelReceipt) -> None:
    owed = state.owed[0] if state.owed else None
    if owed is None:
        raise Damage(f"record {record.seq} settles an intent, where the core owes no receipt")
    if (owed.root.seq, owed.depth) != (record.root, record.depth):
        raise Damage(
            f"record {record.seq} names record {record.root} as its cause, {record.depth} events "
            f"away, where that is record {owed.root.seq}, {owed.depth} away"
        )
    if record.by is None and record.intent == owed.intent:
        state.owed.popleft()
    elif record.by == owed.intent and owed.debt is Debt.ANSWER:
        owed.canceled += 1
    else:
        raise Damage(f"record {record.seq} settles another intent than the one that is owed first")
    _settle(state, record, owed.root, depth=owed.depth)


def _settle(state: State, record: Receipt | KernelReceipt, root: Root, *, depth: int) -> None:
    """End an open intent and apply the outcome of the record."""
    if record.abandoned and record.outcome != "faulted":
        raise _abandons_alone(record)
    intent = state.intents.pop(record.intent, None)
    if intent is None or intent.cell != record.cell:
        raise Damage(f"record {record.seq} settles an intent that is not open for {record.cell[0]}")
    state.attempts.pop(record.intent, None)
    _forget_work(state, record.intent)
    cell = state.cells[record.cell]
    state.cells.wake(cell, record.seq)
    del cell.inflight[record.intent]
    match record.outcome:
        case "delivered" | "rejected":
            mail = ReceiptMail(
                entry=(record.seq, 0), root=root, depth=depth, intent=intent, receipt=record
            )
            _deliver(state, cell, mail)
        case "faulted":
            fault = Fault(kind=FaultKind.RECEIPT_INVALID, message=record.problem or "")
            _fail(state, cell, fault, record.seq)
            _abandon(state, cell, record.abandoned, record.seq)
        case "overloaded":
            _overload(state, cell, record.seq)
        case "abandoned":
            raise Damage(f"record {record.seq} settles an open intent as abandoned")
        case _:
            assert_never(record.outcome)


def _abandons_alone(record: Receipt | KernelReceipt) -> Damage:
    return Damage(f"record {record.seq} abandons intents and does not fail their cell")


def _forget_work(state: State, intent: Hash) -> None:
    """Forget the stream, the halt and the owed receipt of an intent that is no longer open."""
    state.streams.pop(intent, None)
    state.halts.pop(intent, None)
    if state.owed:
        state.owed = deque([owed for owed in state.owed if owed.intent != intent])


def _fold_stream(state: State, record: Stream) -> None:
    advance_clock(state, record.stamp)
    intent = _open_for(state, record)
    stream = state.streams.setdefault(record.intent, StreamState())
    if record.frame_seq <= stream.last:
        raise Damage(f"record {record.seq} is a stream frame that came before")
    if state.clock_ns - stream.since_ns >= SECOND_NS:
        stream.since_ns, stream.recent = state.clock_ns, 0
    stream.last = record.frame_seq
    stream.frames += 1
    stream.recent += 1
    root = Root(record.seq, record.stamp)
    mail = StreamMail(entry=(record.seq, 0), root=root, depth=0, intent=intent, frame=record)
    cell = state.cells[record.cell]
    state.cells.wake(cell, record.seq)
    _deliver(state, cell, mail)


def _open_for(state: State, record: Stream | Attempt) -> OpenIntent:
    intent = state.intents.get(record.intent)
    if intent is None or intent.cell != record.cell:
        raise Damage(
            f"record {record.seq} is about an intent that is not open for {record.cell[0]}"
        )
    return intent


def _fold_attempt(state: State, record: Attempt) -> None:
    advance_clock(state, record.stamp)
    intent = _open_for(state, record)
    last = state.attempt(intent)
    cell = state.cells[record.cell]
    match record.phase:
        case "begun" if record.attempt > last:
            state.cells.wake(cell, record.seq)
            state.attempts[record.intent] = record.attempt
            state.cells.put_to_rest(cell)
        case "lost" if record.attempt == last:
            root = Root(record.seq, record.stamp)
            state.owed.append(Owed(record.intent, Debt.LOSS, root, 0, record.problem))
        case "held" | "parked" if last and record.attempt == last and record.code is not None:
            state.cells.wake(cell, record.seq)
            state.halts[record.intent] = Halt(
                phase=record.phase,
                attempt=record.attempt,
                seq=record.seq,
                since_ns=state.clock_ns,
                code=record.code,
                problem=record.problem,
            )
        case "begun" | "lost" | "held" | "parked":
            raise Damage(
                f"record {record.seq}: attempt {record.attempt} {record.phase} cannot follow "
                f"attempt {last}"
            )
        case _:
            assert_never(record.phase)


def _fold_snapshot(state: State, record: Snapshot) -> None:
    """Note a snapshot (SN-3). Replay and verify check that the document is the world at ``at``."""
    previous_at = state.snapshot.at if state.snapshot is not None else 0
    if not previous_at < record.at < record.seq:
        raise Damage(
            f"record {record.seq} is a snapshot after record {record.at}: expected one after the "
            f"last, which is of record {previous_at}"
        )
    advance_clock(state, record.stamp)
    state.snapshot = Mark(record.seq, record.at, record.document.hash)


def _fold_control(state: State, record: Control) -> None:
    if record.serial != state.controls:
        raise Damage(
            f"record {record.seq}: control serial: expected {state.controls}, found {record.serial}"
        )
    if record.action not in (END, REMOVE) and (record.dropped is not None or record.abandoned):
        raise Damage(f"record {record.seq} ends no instance, and drops or abandons its work")
    if record.action not in RESUMING and record.restamp is not None:
        raise Damage(f"record {record.seq} resumes no instance, and restamps its mail")
    advance_clock(state, record.stamp)
    state.controls += 1
    root = Root(record.seq, record.stamp)
    match record:
        case Control(action="retry" | "skip", cell=tuple(id)):
            _go_on(state, id, record)
        case Control(action="cancel", intent=bytes(intent)):
            if intent not in state.intents:
                raise Damage(f"record {record.seq} cancels an intent that is not open")
            state.owed.append(Owed(intent, Debt.CANCEL, root, 0, f"{record.principal} canceled it"))
        case Control(
            action="settle", intent=bytes(intent), status="ok" | "error" as status, payload=payload
        ) if payload is not None:
            if intent not in state.intents:
                raise Damage(f"record {record.seq} settles an intent that is not open")
            settlement = Settlement(status, payload)
            state.owed.append(Owed(intent, Debt.SETTLE, root, 0, settlement=settlement))
        case Control(action="end", cell=tuple(id), status="completed" | "failed" as status):
            cell = _emptied(state, id, record)
            state.cells.declare(cell, status)
            state.cells.put_to_rest(cell)
        case Control(action="remove", cell=tuple(id)):
            cell = _emptied(state, id, record)
            cell.state = None
            cell.keys.clear()
            state.cells.declare(cell, None)
            state.cells.put_to_rest(cell)
        case Control(action="unpin", cell=tuple(id)):
            _unpin(state, id, record)
        case Control(action="erase", value=bytes()):
            pass
        case Control(action="clock"):
            _set_clock(state, record)
        case _:
            raise Damage(f"record {record.seq} is a command that is none: {quoted(record.action)}")


def _set_clock(state: State, record: Control) -> None:
    """Set the journal clock back to the stamp of the command (K-109b). The window time stays."""
    if state.clock_ns - record.stamp.ns <= CLOCK_AHEAD_NS:
        raise Damage(f"record {record.seq} sets the journal clock back, which is not ahead")
    state.clock_ns = clock_after(state.clock_ns, record)
    for stream in state.streams.values():
        # A second that begins in the future would not end before that (K-94).
        stream.since_ns = min(stream.since_ns, state.clock_ns)


def _go_on(state: State, id: CellId, record: Control) -> None:
    """Clear a fault. The entry that failed runs first, unless it is skipped (K-101, K-101b)."""
    cell = state.cells.get(id)
    if cell is None or cell.fault is None:
        raise Damage(f"record {record.seq} retries {id[0]}, which no fault has failed")
    if record.action == SKIP:
        if not cell.fault.by_entry:
            raise Damage(f"record {record.seq} skips an entry, and none has failed {id[0]}")
        cell.mailbox.popleft()
    state.cells.wake(cell, record.seq)
    under = state.manifest_seq
    if is_pinned(state, cell):
        under = home(state, cell)
    cell.version = mark(state, under)
    cell.fault = None
    cell.fault_seq = None
    cell.mail_uncounted = 0
    cell.last_active_ns = state.clock_ns
    for mail in cell.mailbox:
        mail.root.steps = 0
        if record.restamp:
            mail.root.stamp = record.stamp
    if cell.mailbox:
        _make_ready(state, cell)
    if under != state.manifest_seq:
        # Its next step decides whether its state fits the manifest in force.
        _release(state, cell, fits=False)
    state.cells.put_to_rest(cell)


def _unpin(state: State, id: CellId, record: Control) -> None:
    """Let an instance continue under the manifest in force (K-107)."""
    cell = state.cells.get(id)
    if cell is None or not is_pinned(state, cell):
        raise Damage(f"record {record.seq} unpins {id[0]}, which nothing pins")
    state.cells.wake(cell, record.seq)
    cell.version = mark(state, state.manifest_seq)
    cell.is_kept = False
    state.cells.put_to_rest(cell)


def _emptied(state: State, id: CellId, record: Control) -> Cell:
    """Take all open work from an instance that an operator ends: its fault, its mail and its open
    intents (K-109). It keeps its state, and is not at rest yet."""
    cell = state.cells.get(id)
    if cell is None:
        raise Damage(f"record {record.seq} ends {id[0]}, and there is no such cell")
    mail_count = len(cell.mailbox) or None
    if record.dropped != mail_count:
        raise Damage(
            f"record {record.seq} drops {record.dropped} entries of mail of {id[0]}, where there "
            f"are {mail_count}"
        )
    under = home(state, cell) if is_pinned(state, cell) else state.manifest_seq
    state.cells.wake(cell, record.seq)
    if cell.in_ring:
        cell.in_ring = False
        state.ring.remove(id)
    _abandon(state, cell, record.abandoned, record.seq)
    cell.mailbox.clear()
    cell.fault = None
    cell.fault_seq = None
    cell.mail_uncounted = 0
    cell.last_active_ns = state.clock_ns
    # Its next step decides whether its state fits the manifest in force (K-74).
    cell.version = mark(state, under)
    cell.is_kept = under != state.manifest_seq
    return cell


def _take_head(state: State, record: Step | Faulted) -> tuple[Cell, Mail]:
    """Take the ring's head, which must be the recorded cell with the recorded entry first, and
    count the step for the input that caused it."""
    if state.owed:
        raise Damage(f"record {record.seq} runs {record.cell[0]} before the core made its receipts")
    head = state.ring.popleft() if state.ring else None
    if head != record.cell:
        raise Damage(
            f"record {record.seq} runs {record.cell[0]}, where the ring's head is "
            f"{head[0] if head else 'no cell'}"
        )
    cell = state.cells[record.cell]
    cell.in_ring = False
    mail = cell.mailbox[0]
    if mail.entry != record.entry:
        raise Damage(f"record {record.seq} takes mail {record.entry}, where {mail.entry} is first")
    if (mail.root.seq, mail.depth) != (record.root, record.depth):
        raise Damage(
            f"record {record.seq} names record {record.root} as its cause, {record.depth} events "
            f"away, where that is record {mail.root.seq}, {mail.depth} away"
        )
    mail.root.steps += 1
    return cell, mail


def _workflow(state: State, id: CellId, seq: int) -> Workflow:
    workflow = state.effective.workflows.get(id[0])
    if workflow is None:
        raise _no_workflow(id, seq)
    return workflow


def _no_workflow(id: CellId, seq: int) -> Damage:
    return Damage(f"record {seq} is for {id[0]}, which the manifest in force does not have")


def _open(state: State, cell: Cell, workflow: Workflow, record: Step, index: int) -> None:
    intent = record.intents[index]
    effect = state.effective.effects.get(intent.effect)
    if effect is None or intent.intent in state.intents:
        raise Damage(f"record {record.seq} opens an intent that it cannot: {intent.effect}")
    params_hash = slot_hash(intent.params)
    if intent.key is None:
        key = hash_text(intent.intent)
    else:
        key = idempotency_key(
            world=state.world, cell=cell.id, effect=intent.effect, key=intent.key,
            scope=effect.idempotency_scope,
        )  # fmt: skip
        limits = state.effective.limits
        if effect.idempotency_scope == "cell":
            _keep(cell.keys, key, params_hash, workflow.limits.keys or limits.instance_keys)
        else:
            _keep(state.world_keys, key, params_hash, limits.dedup_rows)
    state.intents[intent.intent] = OpenIntent(
        intent=intent.intent,
        cell=cell.id,
        workflow_hash=cell.workflow_hash,
        seq=record.seq,
        index=index,
        opened_ns=state.clock_ns,
        manifest=state.effective.hash,
        effect=effect,
        executors=state.effective.executors,
        params=intent.params,
        params_hash=params_hash,
        key=intent.key,
        idempotency_key=key,
        issuer_ref=intent.issuer_ref,
    )
    cell.inflight[intent.intent] = None


def _keep(keys: OrderedDict[str, Hash], key: str, params: Hash, keys_max: int) -> None:
    keys[key] = params
    keys.move_to_end(key)
    while len(keys) > keys_max:
        keys.popitem(last=False)


def _emit(state: State, event: Emitted, cause: Mail, seq: int, index: int) -> None:
    mail = EventMail(
        entry=(seq, index),
        root=cause.root,
        depth=cause.depth + 1,
        schema=event.schema,
        value=event.value,
    )
    _spread(state, mail, event, seq)


def _spread(state: State, mail: EventMail, event: Event | Emitted, seq: int) -> None:
    for id in event.to:
        cell = _cell(state, id, seq, event.kept)
        workflow = workflow_of(state, cell)
        if workflow is None or not takes(workflow, mail.schema):
            raise Damage(f"record {seq} delivers {mail.schema} to {id[0]}, which takes no such")
        _deliver(state, cell, mail)
    for id in event.overloaded:
        _overload(state, _cell(state, id, seq, event.kept), seq)
    for id in event.kept:
        kept_cell = state.cells.get(id)
        if kept_cell is None or not kept_cell.is_kept:
            raise Damage(f"record {seq} keeps {id[0]} under an earlier manifest, where it is not")


def _cell(state: State, id: CellId, seq: int, left_behind: tuple[CellId, ...]) -> Cell:
    cell = state.cells.get(id)
    if cell is None:
        workflow = _workflow(state, id, seq)
        cell = Cell(id=id, workflow_hash=workflow.hash, module_hash=workflow.module.hash)
        cell.version = mark(state, state.manifest_seq)
        state.cells.add(cell)
    elif not state.eras.is_one and cell.fault is None and not stays(state, cell):
        if id in left_behind:
            cell.version, cell.is_kept = home(state, cell), True
        else:
            cell.version = mark(state, state.manifest_seq)
    state.cells.wake(cell, seq)
    return cell


def _deliver(state: State, cell: Cell, mail: Mail) -> None:
    if cell.fault is not None:
        if len(cell.mailbox) < state.effective.limits.mailbox:
            cell.mailbox.append(mail)
        else:
            cell.mail_uncounted += 1
        return
    cell.mailbox.append(mail)
    _make_ready(state, cell)


def _make_ready(state: State, cell: Cell) -> None:
    """Put a cell with mail at the ring's tail, unless it is in the ring or may not run."""
    if not cell.in_ring and not cell.runs and cell.fault is None:
        cell.in_ring = True
        state.ring.append(cell.id)


def _overload(state: State, cell: Cell, seq: int) -> None:
    mailbox_max = state.effective.limits.mailbox
    fault = Fault(
        kind=FaultKind.OVERLOADED, message=f"its mailbox was full: it held {mailbox_max} entries"
    )
    cell.mail_uncounted += 1
    _fail(state, cell, fault, seq)


def _fail(state: State, cell: Cell, fault: Fault, seq: int) -> None:
    """Fail an instance. If it has failed before, it keeps its first fault."""
    if cell.fault is not None:
        return
    cell.fault = fault
    cell.fault_seq = seq
    if cell.in_ring:
        cell.in_ring = False
        state.ring.remove(cell.id)


def _abandon(state: State, cell: Cell, intents: tuple[Hash, ...], seq: int) -> None:
    if list(cell.inflight) != list(intents):
        raise Damage(f"record {seq} abandons other intents than those in flight of {cell.id[0]}")
    for intent in intents:
        state.abandoned[intent] = state.intents.pop(intent)
        _forget_work(state, intent)
    cell.inflight.clear()
    while len(state.abandoned) > state.effective.limits.abandoned_intents:
        forgotten, _ = state.abandoned.popitem(last=False)
        state.attempts.pop(forgotten, None)
