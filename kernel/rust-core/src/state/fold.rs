//! Apply a record to the state: the only way in which a world changes (spec/kernel.md, K-2;
//! `kernel/aos/core/state/fold.py`).
//!
//! The same fold runs after every live decision, on restart and in replay, and never runs a module.
//! It checks that the record can follow this state. It does not check that the record is what the
//! rules require: the kernel made that decision, and replay compares it.

use std::rc::Rc;

use crate::collections::{OrderedMap, SeededSet};
use crate::journal::faults::{Fault, FaultKind};
use crate::journal::fork::forked_world_id;
use crate::journal::frame::{follow, Frame};
use crate::journal::identity::{idempotency_key, submission_hash, world_id};
use crate::journal::inputs::SEMANTICS;
use crate::journal::journal_clock::CLOCK_AHEAD_NS;
use crate::journal::ports::BlobReader;
use crate::journal::record_codec::from_bytes;
use crate::journal::records::{
    Attempt, CellId, Control, EntryId, Event, Fork, Genesis, KernelReceipt, Manifest, Receipt,
    Record, Snapshot, Stamp, Step, Stream,
};
use crate::journal::signing::revoked_by;
use crate::journal::vocabulary::{
    ApplyMode, AttemptPhase, CellStatus, ControlAction, ControlStatus, HaltPhase, OpenWork,
    ReceiptOutcome, SettledStatus, TerminalStatus, Word,
};
use crate::manifest::builtins::is_kernel_effect;
use crate::manifest::effective::{IdempotencyScope, Workflow};
use crate::state::cell::{Cell, Content, Mail, OpenIntent, Root, Settling, SharedCell};
use crate::state::continuation::takes;
use crate::state::eras::era_of;
use crate::state::fold_governance::fold_governance;
use crate::state::state::{Ancestor, Debt, Halt, Mark, Owed, Settlement, State, StreamState};
use crate::state::submissions::Submission;
use crate::state::version::{
    home, is_in_flight, is_pinned, mark, runs_under, stays, workflow_of, workflow_under,
};
use crate::values::digests::{hash_text, hex, Hash};
use crate::values::errors::{Failure, Outcome};

const SECOND_NS: u64 = 1_000_000_000;
const FORKED: &str = "the world was forked";

/// Check that `frame` follows the state's tip, fold its records and return them. Damage if the frame
/// or a record in it cannot follow: the state must not be used any more then.
pub fn fold_frame(state: &mut State, frame: &Frame, read: &BlobReader) -> Outcome<Vec<Record>> {
    let mut records = Vec::with_capacity(frame.records.len());
    folding(state, frame, read, |_, record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

/// As `fold_frame`, but give each record to `take` when it is folded.
pub fn folding<R: AsRef<[u8]>>(
    state: &mut State,
    frame: &Frame<R>,
    read: &BlobReader,
    mut take: impl FnMut(&mut State, Record) -> Outcome<()>,
) -> Outcome<()> {
    let tip = follow(&state.tip, frame)?;
    let mut records = Vec::with_capacity(frame.records.len());
    for data in &frame.records {
        records.push(from_bytes(data.as_ref())?);
    }
    for record in records {
        fold(state, &record, read)?;
        take(state, record)?;
    }
    if *state.world() != tip.world {
        return Err(Failure::Damage(format!(
            "frame {}: it contains a fork that is not its first record",
            frame.header.first
        )));
    }
    state.tip = tip;
    Ok(())
}

/// Apply `record` to `state`. Damage if the record cannot follow this state: the journal is damaged,
/// and the state may be half changed and must not be used any more.
pub fn fold(state: &mut State, record: &Record, read: &BlobReader) -> Outcome<()> {
    let seq = record.seq();
    if seq != state.next_seq {
        return damage(format!("record {} calls itself record {seq}", state.next_seq));
    }
    if (seq == 1) != matches!(record, Record::Genesis(_)) {
        return damage(format!(
            "record {seq} is of kind {}: record 1 alone is a genesis",
            record.kind()
        ));
    }
    let comes_before = matches!(
        record,
        Record::Genesis(_)
            | Record::Start(_)
            | Record::Manifest(_)
            | Record::Snapshot(_)
            | Record::Fork(_)
    );
    if state.manifest.is_none() && !comes_before {
        return damage(format!(
            "record {seq} is of kind {}, and no manifest came before it",
            record.kind()
        ));
    }
    match record {
        Record::Step(record) => fold_step(state, record)?,
        Record::Receipt(record) => fold_receipt(state, record)?,
        Record::Event(record) => fold_event(state, record)?,
        Record::KernelReceipt(record) => fold_kernel_receipt(state, record)?,
        Record::Stream(record) => fold_stream(state, record)?,
        Record::Snapshot(record) => fold_snapshot(state, record)?,
        Record::Attempt(record) => fold_attempt(state, record)?,
        Record::Control(record) => fold_control(state, record)?,
        Record::Governance(record) => {
            advance_clock(state, &record.stamp);
            fold_governance(state, record)?;
        }
        Record::Faulted(record) => {
            let turn = Turn {
                seq,
                cell: &record.cell,
                entry: record.entry,
                root: record.root,
                depth: record.depth,
                under: record.under,
            };
            fold_fault(state, &turn, &record.fault)?;
        }
        Record::Manifest(record) => fold_manifest(state, record, read)?,
        Record::Start(record) => advance_clock(state, &record.stamp),
        Record::Fork(record) => fold_fork(state, record)?,
        Record::Genesis(record) => fold_genesis(state, record)?,
    }
    state.next_seq = seq.saturating_add(1);
    Ok(())
}

/// Count the stamp of a record (K-4, K-12a).
fn advance_clock(state: &mut State, stamp: &Stamp) {
    if stamp.ns > state.clock_ns {
        state.window_ns = state.window_at(stamp.ns);
        state.clock_ns = stamp.ns;
    }
}

fn fold_genesis(state: &mut State, record: &Genesis) -> Outcome<()> {
    if world_id(&record.nonce, &record.world_key) != *state.world() {
        return damage("record 1: the genesis is another world's".to_string());
    }
    if record.semantics != SEMANTICS {
        return damage(format!(
            "record 1: semantics: expected {SEMANTICS}, found {} (use the release that wrote this \
             journal)",
            record.semantics
        ));
    }
    advance_clock(state, &record.stamp);
    state.world_key = record.world_key.clone();
    state.operators = record.operators.clone();
    state.semantics = record.semantics;
    Ok(())
}

/// Turn the state into that of another world, which keeps all its cells (K-110 to K-113).
fn fold_fork(state: &mut State, record: &Fork) -> Outcome<()> {
    if record.parent != *state.world() || record.at != record.seq - 1 {
        return damage(format!(
            "record {} is a fork of world {} after record {}: expected world {} and record {}",
            record.seq,
            &hex(&record.parent)[..16],
            record.at,
            &hex(state.world())[..16],
            record.seq - 1
        ));
    }
    advance_clock(state, &record.stamp);
    state.tip.world = forked_world_id(record);
    state.ancestors.push(Ancestor { world: record.parent, at: record.at });
    state.world_key = record.world_key.clone();
    state.operators = record.operators.clone();
    // Their votes are signed for the parent (K-114).
    state.proposals.close_all(None);
    if record.open_work == OpenWork::Cancel {
        let root = Root::new(record.seq, record.stamp);
        let owed: SeededSet<Hash> = state.owed.iter().map(|owed| owed.intent).collect();
        for intent in state.cells.each_intent()? {
            let (intent, _) = intent?;
            if !owed.contains(&intent.intent) && !is_kernel_effect(&intent.effect.name) {
                let mut debt = Owed::new(intent.intent, Debt::Cancel, root.clone(), 0);
                debt.problem = Some(FORKED.into());
                state.owed.push_back(debt);
            }
        }
    }
    Ok(())
}

fn fold_manifest(state: &mut State, record: &Manifest, read: &BlobReader) -> Outcome<()> {
    let seq = record.seq;
    if record.serial != state.serial {
        return damage(format!(
            "record {seq}: manifest serial: expected {}, found {}",
            state.serial, record.serial
        ));
    }
    if record.mode == Some(ApplyMode::Strict)
        || (!record.migrated.is_empty() && record.mode != Some(ApplyMode::Migrate))
    {
        let mode =
            record.mode.map_or("null".to_string(), |mode| format!("text \"{}\"", mode.word()));
        return damage(format!("record {seq} is no manifest of mode {mode}"));
    }
    if let Some(proposal) = record.proposal {
        if !state.proposals.open.contains_key(&proposal) {
            return damage(format!(
                "record {seq} applies proposal {proposal}, which is not open before it"
            ));
        }
    }
    let manifest = (state.eras.manifest_of)(&read.read(&record.document.hash)?)?;
    state.manifest = Some(manifest.clone());
    // Its own limit holds for its own stamp: a clock that is ahead forgets no id (K-12a).
    advance_clock(state, &record.stamp);
    state.proposals.close_all(record.proposal);
    state.manifest_seq = seq;
    let pins = record.mode == Some(ApplyMode::Pin);
    state.eras.begin(era_of(seq, &manifest), manifest.clone(), read, pins);
    state.cells.intents.keep(manifest.hash, manifest.clone());
    for migrated in &record.migrated {
        state.cells.replace(&migrated.workflow, migrated.root, migrated.count, seq)?;
    }
    state.serial += 1;
    state.revoked.extend(revoked_by(manifest.executors.as_ref()).map(|key| key.to_vec()));
    state.pinned.insert(record.document.hash);
    state.pinned.extend(manifest.modules.values().map(|module| module.hash));
    Ok(())
}

fn fold_event(state: &mut State, record: &Event) -> Outcome<()> {
    advance_clock(state, &record.stamp);
    if let Some(submission_id) = &record.submission_id {
        remember(state, submission_id, record)?;
    }
    let mail = Mail {
        entry: (record.seq, 0),
        root: Root::new(record.seq, record.stamp),
        depth: 0,
        content: Content::Event { schema: record.schema.clone(), value: record.value.clone() },
    };
    spread(state, mail, &record.schema, Reached::by_event(record), record.seq)
}

fn remember(state: &mut State, submission_id: &Rc<str>, record: &Event) -> Outcome<()> {
    let payload = submission_hash(&record.schema, &record.value.hash());
    let limits = &state.effective().clone().limits;
    let submission = Submission { seq: record.seq, payload, at_ns: state.window_ns };
    let oldest_ns = state.window_ns.saturating_sub(limits.dedup_ns);
    state.submissions.get_mut().remember(
        submission_id.clone(),
        submission,
        oldest_ns,
        limits.dedup_rows,
    )
}

fn fold_step(state: &mut State, record: &Step) -> Outcome<()> {
    let seq = record.seq;
    let turn = Turn {
        seq,
        cell: &record.cell,
        entry: record.entry,
        root: record.root,
        depth: record.depth,
        under: record.under,
    };
    let (shared, cause) = take_head(state, &turn)?;
    let under = under_of(state, &shared.borrow(), &turn)?;
    let Some(workflow) = workflow_under(state, &record.cell, under)? else {
        return Err(no_workflow(&record.cell, seq));
    };
    state.cells.wake(&shared, seq)?;
    {
        let cell = &mut *shared.borrow_mut();
        cell.mailbox.pop_front();
        cell.runs = true;
        cell.version = mark(state, under);
        cell.is_kept = false;
        cell.workflow_hash = workflow.hash;
        cell.module_hash = workflow.module.hash;
        cell.state = record.state.clone();
        cell.stepped_under = under;
        cell.last_seq = seq;
        cell.last_active_ns = state.clock_ns;
        let declared = match record.status {
            CellStatus::Completed => Some(TerminalStatus::Completed),
            CellStatus::Failed => Some(TerminalStatus::Failed),
            CellStatus::Running | CellStatus::Waiting => None,
        };
        state.cells.declare(cell, declared);
        for (index, intent) in record.intents.iter().enumerate() {
            open(state, cell, &workflow, record, index)?;
            if is_kernel_effect(&intent.effect) {
                let root = cause.root.clone();
                state.owed.push_back(Owed::new(intent.intent, Debt::Answer, root, cause.depth));
            }
        }
    }
    for (index, event) in record.events.iter().enumerate() {
        let mail = Mail {
            entry: (seq, index as u64),
            root: cause.root.clone(),
            depth: cause.depth + 1,
            content: Content::Event { schema: event.schema.clone(), value: event.value.clone() },
        };
        let reached = Reached { to: &event.to, overloaded: &event.overloaded, kept: &event.kept };
        spread(state, mail, &event.schema, reached, seq)?;
    }
    {
        let cell = &mut *shared.borrow_mut();
        if record.state.is_none() {
            abandon(state, cell, &record.abandoned, seq)?;
            cell.keys.clear();
        } else if !record.abandoned.is_empty() {
            return damage(format!("record {seq} abandons intents and keeps their cell"));
        }
        cell.runs = false;
        if !cell.mailbox.is_empty() {
            make_ready(state, cell);
        }
        if record.under.is_some() {
            release(state, cell, record.fits == Some(state.manifest_seq))?;
        }
    }
    state.cells.put_to_rest(&shared);
    Ok(())
}

/// The fields of a step's or fault's record that name the entry that ran.
struct Turn<'a> {
    seq: u64,
    cell: &'a CellId,
    entry: EntryId,
    root: u64,
    depth: u64,
    under: Option<u64>,
}

/// The input that caused a step, and how many events away.
struct Cause {
    root: Rc<Root>,
    depth: u64,
}

/// The record of the manifest under which the ring's head ran.
fn under_of(state: &State, cell: &Cell, turn: &Turn) -> Outcome<u64> {
    let under = turn.under.unwrap_or(state.manifest_seq);
    let expected = runs_under(state, cell)?;
    if under != expected || turn.under == Some(state.manifest_seq) {
        return Err(Failure::Damage(format!(
            "record {} runs {} under the manifest of record {under}, where that is record \
             {expected}",
            turn.seq, cell.id.workflow
        )));
    }
    Ok(under)
}

/// Unpin a pinned instance that is no longer in flight. If its state `fits` the manifest in force,
/// its next entry runs under that; otherwise it is kept under its own (K-74).
fn release(state: &State, cell: &mut Cell, fits: bool) -> Outcome<()> {
    if cell.fault.is_some() || is_in_flight(state, cell)? {
        return Ok(());
    }
    if fits {
        cell.version = mark(state, state.manifest_seq);
    } else {
        cell.is_kept = true;
    }
    Ok(())
}

fn fold_fault(state: &mut State, turn: &Turn, fault: &Fault) -> Outcome<()> {
    let (shared, _) = take_head(state, turn)?;
    under_of(state, &shared.borrow(), turn)?;
    state.cells.wake(&shared, turn.seq)?;
    let cell = &mut *shared.borrow_mut();
    cell.last_seq = turn.seq;
    cell.last_active_ns = state.clock_ns;
    fail(state, cell, fault, turn.seq);
    Ok(())
}

fn fold_receipt(state: &mut State, record: &Rc<Receipt>) -> Outcome<()> {
    advance_clock(state, &record.stamp);
    let settling = Settling::Receipt(record.clone());
    if record.outcome == ReceiptOutcome::Abandoned {
        if !record.abandoned.is_empty() {
            return abandons_alone(record.seq);
        }
        let late = state.abandoned.remove(&record.intent);
        if late.is_none_or(|late| late.cell != record.cell) {
            return damage(format!(
                "record {} settles an intent that was not abandoned",
                record.seq
            ));
        }
        state.cells.intents.attempts.get_mut().remove(&record.intent);
        return Ok(());
    }
    settle(state, settling, Root::new(record.seq, record.stamp), 0)
}

fn fold_kernel_receipt(state: &mut State, record: &Rc<KernelReceipt>) -> Outcome<()> {
    let seq = record.seq;
    let Some(owed) = state.owed.front_mut() else {
        return damage(format!("record {seq} settles an intent, where the core owes no receipt"));
    };
    if (owed.root.seq, owed.depth) != (record.root, record.depth) {
        return Err(other_cause(seq, record.root, record.depth, &owed.root, owed.depth));
    }
    let (root, depth) = (owed.root.clone(), owed.depth);
    if record.by.is_none() && record.intent == owed.intent {
        state.owed.pop_front();
    } else if record.by == Some(owed.intent) && owed.debt == Debt::Answer {
        owed.canceled += 1;
    } else {
        return damage(format!(
            "record {seq} settles another intent than the one that is owed first"
        ));
    }
    settle(state, Settling::Kernel(record.clone()), root, depth)
}

/// End an open intent and apply the outcome of the record.
fn settle(state: &mut State, record: Settling, root: Rc<Root>, depth: u64) -> Outcome<()> {
    let (seq, outcome) = (record.seq(), record.outcome());
    if !record.abandoned().is_empty() && outcome != ReceiptOutcome::Faulted {
        return abandons_alone(seq);
    }
    let hash = *record.intent();
    let intent = match state.cells.end_intent(&hash)? {
        Some(intent) if intent.cell == *record.cell() => intent,
        _ => {
            return damage(format!(
                "record {seq} settles an intent that is not open for {}",
                record.cell().workflow
            ))
        }
    };
    state.cells.intents.attempts.get_mut().remove(&hash);
    forget_work(state, &hash);
    let shared = state.cells.known(record.cell(), seq)?;
    state.cells.wake(&shared, seq)?;
    let cell = &mut *shared.borrow_mut();
    cell.land(&hash);
    match outcome {
        ReceiptOutcome::Delivered | ReceiptOutcome::Rejected => {
            let content = Content::Receipt { intent, receipt: record };
            deliver(state, cell, Mail { entry: (seq, 0), root, depth, content });
        }
        ReceiptOutcome::Faulted => {
            let message = record.problem().cloned().unwrap_or_else(|| "".into());
            fail(state, cell, &Fault::new(FaultKind::ReceiptInvalid, message), seq);
            abandon(state, cell, record.abandoned(), seq)?;
        }
        ReceiptOutcome::Overloaded => overload(state, cell, seq),
        ReceiptOutcome::Abandoned => {
            return damage(format!("record {seq} settles an open intent as abandoned"));
        }
    }
    Ok(())
}

fn abandons_alone(seq: u64) -> Outcome<()> {
    damage(format!("record {seq} abandons intents and does not fail their cell"))
}

/// Forget the stream, the halt and the owed receipt of an intent that is no longer open.
fn forget_work(state: &mut State, intent: &Hash) {
    let intents = &mut state.cells.intents;
    if !intents.streams.is_empty() {
        intents.streams.remove(intent);
    }
    if !intents.halts.is_empty() {
        intents.halts.remove(intent);
    }
    if !state.owed.is_empty() {
        state.owed.retain(|owed| owed.intent != *intent);
    }
}

fn fold_stream(state: &mut State, record: &Rc<Stream>) -> Outcome<()> {
    let seq = record.seq;
    advance_clock(state, &record.stamp);
    let intent = open_for(state, seq, &record.intent, &record.cell)?;
    let clock_ns = state.clock_ns;
    let last = state.streams().get(&record.intent).map(|stream| stream.last);
    if last.is_some_and(|last| record.frame_seq <= last) {
        return damage(format!("record {seq} is a stream frame that came before"));
    }
    let stream = state.cells.intents.streams.entry(record.intent).or_insert(StreamState {
        last: 0,
        frames: 0,
        since_ns: 0,
        recent: 0,
    });
    if clock_ns.saturating_sub(stream.since_ns) >= SECOND_NS {
        (stream.since_ns, stream.recent) = (clock_ns, 0);
    }
    stream.last = record.frame_seq;
    stream.frames = stream.frames.saturating_add(1);
    stream.recent = stream.recent.saturating_add(1);
    let mail = Mail {
        entry: (seq, 0),
        root: Root::new(seq, record.stamp),
        depth: 0,
        content: Content::Stream { intent, frame: record.clone() },
    };
    let shared = state.cells.known(&record.cell, seq)?;
    state.cells.wake(&shared, seq)?;
    deliver(state, &mut shared.borrow_mut(), mail);
    Ok(())
}

fn open_for(state: &State, seq: u64, intent: &Hash, cell: &CellId) -> Outcome<Rc<OpenIntent>> {
    match state.cells.open_intent(intent)? {
        Some(intent) if intent.cell == *cell => Ok(intent),
        _ => Err(Failure::Damage(format!(
            "record {seq} is about an intent that is not open for {}",
            cell.workflow
        ))),
    }
}

fn fold_attempt(state: &mut State, record: &Attempt) -> Outcome<()> {
    let seq = record.seq;
    advance_clock(state, &record.stamp);
    let intent = open_for(state, seq, &record.intent, &record.cell)?;
    let last = state.attempt(&intent);
    let halts = match (record.phase, &record.code) {
        (AttemptPhase::Begun, _) if record.attempt > last => {
            let shared = state.cells.known(&record.cell, seq)?;
            state.cells.wake(&shared, seq)?;
            state.cells.intents.attempts.get_mut().insert(record.intent, record.attempt);
            state.cells.put_to_rest(&shared);
            return Ok(());
        }
        (AttemptPhase::Lost, _) if record.attempt == last => {
            let root = Root::new(seq, record.stamp);
            let mut debt = Owed::new(record.intent, Debt::Loss, root, 0);
            debt.problem = record.problem.clone();
            state.owed.push_back(debt);
            return Ok(());
        }
        (AttemptPhase::Held, Some(code)) => Some((HaltPhase::Held, code)),
        (AttemptPhase::Parked, Some(code)) => Some((HaltPhase::Parked, code)),
        _ => None,
    };
    match halts {
        Some((phase, code)) if last > 0 && record.attempt == last => {
            let halt = Halt {
                phase,
                attempt: record.attempt,
                seq,
                since_ns: state.clock_ns,
                code: code.clone(),
                problem: record.problem.clone(),
            };
            let shared = state.cells.known(&record.cell, seq)?;
            state.cells.wake(&shared, seq)?;
            state.cells.intents.halts.insert(record.intent, halt);
            Ok(())
        }
        _ => damage(format!(
            "record {seq}: attempt {} {} cannot follow attempt {last}",
            record.attempt,
            record.phase.word()
        )),
    }
}

/// Note a snapshot (SN-3). Replay and verify check that the document is the world at `at`.
fn fold_snapshot(state: &mut State, record: &Snapshot) -> Outcome<()> {
    let previous_at = state.snapshot.map_or(0, |mark| mark.at);
    if !(previous_at < record.at && record.at < record.seq) {
        return damage(format!(
            "record {} is a snapshot after record {}: expected one after the last, which is of \
             record {previous_at}",
            record.seq, record.at
        ));
    }
    advance_clock(state, &record.stamp);
    let mark = Mark { seq: record.seq, at: record.at, document: record.document.hash };
    state.snapshot = Some(mark);
    Ok(())
}

fn fold_control(state: &mut State, record: &Control) -> Outcome<()> {
    let (seq, action) = (record.seq, record.action);
    if record.serial != state.controls {
        return damage(format!(
            "record {seq}: control serial: expected {}, found {}",
            state.controls, record.serial
        ));
    }
    if !matches!(action, ControlAction::End | ControlAction::Remove)
        && (record.dropped.is_some() || !record.abandoned.is_empty())
    {
        return damage(format!("record {seq} ends no instance, and drops or abandons its work"));
    }
    if !matches!(action, ControlAction::Retry | ControlAction::Skip) && record.restamp {
        return damage(format!("record {seq} resumes no instance, and restamps its mail"));
    }
    advance_clock(state, &record.stamp);
    state.controls += 1;
    match (action, &record.cell, record.intent) {
        (ControlAction::Retry | ControlAction::Skip, Some(id), _) => go_on(state, id, record),
        (ControlAction::Unpin, Some(id), _) => unpin(state, id, seq),
        (ControlAction::Cancel, _, Some(intent)) => {
            if !state.cells.is_open(&intent)? {
                return damage(format!("record {seq} cancels an intent that is not open"));
            }
            let mut debt = Owed::new(intent, Debt::Cancel, Root::new(seq, record.stamp), 0);
            debt.problem = Some(format!("{} canceled it", record.principal).into());
            state.owed.push_back(debt);
            Ok(())
        }
        (ControlAction::Settle, _, Some(intent)) => {
            let status = match record.status {
                Some(ControlStatus::Ok) => SettledStatus::Ok,
                Some(ControlStatus::Error) => SettledStatus::Error,
                _ => return no_command(record),
            };
            let Some(payload) = record.payload.clone() else { return no_command(record) };
            if !state.cells.is_open(&intent)? {
                return damage(format!("record {seq} settles an intent that is not open"));
            }
            let mut debt = Owed::new(intent, Debt::Settle, Root::new(seq, record.stamp), 0);
            debt.settlement = Some(Settlement { status, payload });
            state.owed.push_back(debt);
            Ok(())
        }
        (ControlAction::End, Some(id), _) => {
            let status = match record.status {
                Some(ControlStatus::Completed) => TerminalStatus::Completed,
                Some(ControlStatus::Failed) => TerminalStatus::Failed,
                _ => return no_command(record),
            };
            let shared = emptied(state, id, record)?;
            state.cells.declare(&mut shared.borrow_mut(), Some(status));
            state.cells.put_to_rest(&shared);
            Ok(())
        }
        (ControlAction::Remove, Some(id), _) => {
            let shared = emptied(state, id, record)?;
            {
                let cell = &mut *shared.borrow_mut();
                cell.state = None;
                cell.keys.clear();
                state.cells.declare(cell, None);
            }
            state.cells.put_to_rest(&shared);
            Ok(())
        }
        (ControlAction::Erase, _, _) if record.value.is_some() => Ok(()),
        (ControlAction::Clock, _, _) => set_clock(state, record),
        _ => no_command(record),
    }
}

fn no_command(record: &Control) -> Outcome<()> {
    let action = record.action.word();
    damage(format!("record {} is a command that is none: \"{action}\"", record.seq))
}

/// Set the journal clock back to the stamp of the command (K-109b). The window time stays.
fn set_clock(state: &mut State, record: &Control) -> Outcome<()> {
    if state.clock_ns.saturating_sub(record.stamp.ns) <= CLOCK_AHEAD_NS {
        return damage(format!(
            "record {} sets the journal clock back, which is not ahead",
            record.seq
        ));
    }
    state.clock_ns = record.stamp.ns;
    for stream in state.cells.intents.streams.values_mut() {
        // A second that begins in the future would not end before that (K-94).
        stream.since_ns = stream.since_ns.min(state.clock_ns);
    }
    Ok(())
}

/// Clear a fault. The entry that failed runs first, unless it is skipped (K-101, K-101b).
fn go_on(state: &mut State, id: &CellId, record: &Control) -> Outcome<()> {
    let seq = record.seq;
    let shared = state.cells.get(id)?;
    let fault = shared.as_ref().and_then(|shared| shared.borrow().fault.clone());
    let (Some(shared), Some(fault)) = (shared, fault) else {
        return damage(format!("record {seq} retries {}, which no fault has failed", id.workflow));
    };
    if record.action == ControlAction::Skip {
        if !fault.by_entry() {
            return damage(format!(
                "record {seq} skips an entry, and none has failed {}",
                id.workflow
            ));
        }
        shared.borrow_mut().mailbox.pop_front();
    }
    state.cells.wake(&shared, seq)?;
    {
        let cell = &mut *shared.borrow_mut();
        let is_pinned = is_pinned(state, cell)?;
        let under = if is_pinned { home(state, cell) } else { state.manifest_seq };
        cell.version = mark(state, under);
        cell.fault = None;
        cell.fault_seq = None;
        cell.mail_uncounted = 0;
        cell.last_active_ns = state.clock_ns;
        for mail in &cell.mailbox {
            mail.root.steps.set(0);
            if record.restamp {
                mail.root.stamp.set(record.stamp);
            }
        }
        if !cell.mailbox.is_empty() {
            make_ready(state, cell);
        }
        if under != state.manifest_seq {
            // Its next step decides whether its state fits the manifest in force.
            release(state, cell, false)?;
        }
    }
    state.cells.put_to_rest(&shared);
    Ok(())
}

/// Let an instance continue under the manifest in force (K-107).
fn unpin(state: &mut State, id: &CellId, seq: u64) -> Outcome<()> {
    let pinned = match state.cells.get(id)? {
        Some(shared) if is_pinned(state, &shared.borrow())? => Some(shared),
        _ => None,
    };
    let Some(shared) = pinned else {
        return damage(format!("record {seq} unpins {}, which nothing pins", id.workflow));
    };
    state.cells.wake(&shared, seq)?;
    {
        let cell = &mut *shared.borrow_mut();
        cell.version = mark(state, state.manifest_seq);
        cell.is_kept = false;
    }
    state.cells.put_to_rest(&shared);
    Ok(())
}

/// Take all open work from an instance that an operator ends: its fault, its mail and its open
/// intents (K-109). It keeps its state, and is not at rest yet.
fn emptied(state: &mut State, id: &CellId, record: &Control) -> Outcome<SharedCell> {
    let seq = record.seq;
    let Some(shared) = state.cells.get(id)? else {
        return Err(Failure::Damage(format!(
            "record {seq} ends {}, and there is no such cell",
            id.workflow
        )));
    };
    let mail_count = match shared.borrow().mailbox.len() as u64 {
        0 => None,
        count => Some(count),
    };
    if record.dropped != mail_count {
        return Err(Failure::Damage(format!(
            "record {seq} drops {} entries of mail of {}, where there are {}",
            shown(record.dropped),
            id.workflow,
            shown(mail_count)
        )));
    }
    let is_pinned = is_pinned(state, &shared.borrow())?;
    let under = if is_pinned { home(state, &shared.borrow()) } else { state.manifest_seq };
    state.cells.wake(&shared, seq)?;
    {
        let cell = &mut *shared.borrow_mut();
        leave_ring(state, cell);
        abandon(state, cell, &record.abandoned, seq)?;
        cell.mailbox.clear();
        cell.fault = None;
        cell.fault_seq = None;
        cell.mail_uncounted = 0;
        cell.last_active_ns = state.clock_ns;
        // Its next step decides whether its state fits the manifest in force (K-74).
        cell.version = mark(state, under);
        cell.is_kept = under != state.manifest_seq;
    }
    Ok(shared)
}

/// Take the ring's head, which must be the recorded cell with the recorded entry first, and count
/// the step for the input that caused it.
fn take_head(state: &mut State, turn: &Turn) -> Outcome<(SharedCell, Cause)> {
    let (seq, workflow) = (turn.seq, &turn.cell.workflow);
    if !state.owed.is_empty() {
        return Err(Failure::Damage(format!(
            "record {seq} runs {workflow} before the core made its receipts"
        )));
    }
    let head = state.ring.pop_front();
    if head.as_ref() != Some(turn.cell) {
        let head = head.as_ref().map_or("no cell", |head| &head.workflow);
        return Err(Failure::Damage(format!(
            "record {seq} runs {workflow}, where the ring's head is {head}"
        )));
    }
    let shared = state.cells.known(turn.cell, seq)?;
    let cause = {
        let cell = &mut *shared.borrow_mut();
        cell.in_ring = false;
        let Some(mail) = cell.mailbox.front() else {
            return Err(Failure::Damage(format!(
                "record {seq} runs {workflow}, which has no mail"
            )));
        };
        if mail.entry != turn.entry {
            return Err(Failure::Damage(format!(
                "record {seq} takes mail {}, where {} is first",
                entry_text(turn.entry),
                entry_text(mail.entry)
            )));
        }
        if (mail.root.seq, mail.depth) != (turn.root, turn.depth) {
            return Err(other_cause(seq, turn.root, turn.depth, &mail.root, mail.depth));
        }
        mail.root.steps.set(mail.root.steps.get().saturating_add(1));
        Cause { root: mail.root.clone(), depth: mail.depth }
    };
    Ok((shared, cause))
}

fn other_cause(seq: u64, named: u64, named_depth: u64, root: &Root, depth: u64) -> Failure {
    Failure::Damage(format!(
        "record {seq} names record {named} as its cause, {named_depth} events away, where that is \
         record {}, {depth} away",
        root.seq
    ))
}

fn entry_text(entry: EntryId) -> String {
    format!("({}, {})", entry.0, entry.1)
}

fn no_workflow(id: &CellId, seq: u64) -> Failure {
    Failure::Damage(format!(
        "record {seq} is for {}, which the manifest in force does not have",
        id.workflow
    ))
}

fn open(
    state: &mut State,
    cell: &mut Cell,
    workflow: &Workflow,
    record: &Step,
    index: usize,
) -> Outcome<()> {
    let intent = &record.intents[index];
    let effective = state.effective().clone();
    let effect = match effective.effects.get(&intent.effect) {
        Some(effect) if !state.cells.is_open(&intent.intent)? => effect.clone(),
        _ => {
            return damage(format!(
                "record {} opens an intent that it cannot: {}",
                record.seq, intent.effect
            ))
        }
    };
    let params_hash = intent.params.hash();
    let idempotency_key: Rc<str> = match &intent.key {
        None => hash_text(&intent.intent).into(),
        Some(key) => {
            let scope = effect.idempotency_scope;
            let text: Rc<str> =
                idempotency_key(state.world(), &cell.id, &intent.effect, key, scope).into();
            let limits = &effective.limits;
            let (keys, keys_max) = match scope {
                IdempotencyScope::Cell => {
                    (&mut cell.keys, workflow.limits.keys.unwrap_or(limits.instance_keys))
                }
                IdempotencyScope::World => (&mut state.world_keys, limits.dedup_rows),
            };
            keep(keys, text.clone(), params_hash, keys_max);
            text
        }
    };
    let opened = OpenIntent {
        intent: intent.intent,
        cell: cell.id.clone(),
        workflow_hash: cell.workflow_hash,
        seq: record.seq,
        index: index as u64,
        opened_ns: state.clock_ns,
        effect,
        under: effective,
        params: intent.params.clone(),
        params_hash,
        key: intent.key.clone(),
        idempotency_key,
        issuer_ref: intent.issuer_ref.clone(),
    };
    state.cells.intents.open(Rc::new(opened));
    cell.inflight.push_back(intent.intent);
    Ok(())
}

fn keep(keys: &mut OrderedMap<Rc<str>, Hash>, key: Rc<str>, params: Hash, keys_max: u64) {
    keys.remove(&key);
    keys.insert(key, params);
    while keys.len() as u64 > keys_max {
        keys.pop_first();
    }
}

/// The cells that an event reached, as its record says.
#[derive(Clone, Copy)]
struct Reached<'a> {
    to: &'a [CellId],
    overloaded: &'a [CellId],
    kept: &'a [CellId],
}

impl<'a> Reached<'a> {
    fn by_event(record: &'a Event) -> Self {
        Reached { to: &record.to, overloaded: &record.overloaded, kept: &record.kept }
    }
}

fn spread(state: &mut State, mail: Mail, schema: &str, reached: Reached, seq: u64) -> Outcome<()> {
    for id in reached.to {
        let shared = receiver(state, id, seq, reached.kept)?;
        let cell = &mut *shared.borrow_mut();
        if !workflow_of(state, cell)?.is_some_and(|workflow| takes(&workflow, schema)) {
            return damage(format!(
                "record {seq} delivers {schema} to {}, which takes no such",
                id.workflow
            ));
        }
        deliver(state, cell, mail.clone());
    }
    for id in reached.overloaded {
        let shared = receiver(state, id, seq, reached.kept)?;
        overload(state, &mut shared.borrow_mut(), seq);
    }
    for id in reached.kept {
        if !state.cells.get(id)?.is_some_and(|shared| shared.borrow().is_kept) {
            return damage(format!(
                "record {seq} keeps {} under an earlier manifest, where it is not",
                id.workflow
            ));
        }
    }
    Ok(())
}

/// The cell that gets an event; a new one if there is none.
fn receiver(
    state: &mut State,
    id: &CellId,
    seq: u64,
    left_behind: &[CellId],
) -> Outcome<SharedCell> {
    let shared = match state.cells.get(id)? {
        Some(shared) => shared,
        None => {
            let Some(workflow) = state.effective().workflows.get(&id.workflow) else {
                return Err(no_workflow(id, seq));
            };
            // The name is shared with the manifest, and not the record's own.
            let id = CellId { workflow: workflow.name.clone(), key: id.key.clone() };
            let mut cell = Cell::new(id, workflow.hash, workflow.module.hash);
            cell.version = mark(state, state.manifest_seq);
            let shared = state.cells.add(cell);
            state.cells.wake(&shared, seq)?;
            return Ok(shared);
        }
    };
    if !state.eras.is_one() {
        let cell = &mut *shared.borrow_mut();
        if cell.fault.is_none() && !stays(state, cell)? {
            if left_behind.contains(id) {
                cell.version = home(state, cell);
                cell.is_kept = true;
            } else {
                cell.version = mark(state, state.manifest_seq);
            }
        }
    }
    state.cells.wake(&shared, seq)?;
    Ok(shared)
}

fn deliver(state: &mut State, cell: &mut Cell, mail: Mail) {
    if cell.fault.is_some() {
        if (cell.mailbox.len() as u64) < state.effective().limits.mailbox {
            cell.mailbox.push_back(mail);
        } else {
            cell.mail_uncounted = cell.mail_uncounted.saturating_add(1);
        }
        return;
    }
    cell.mailbox.push_back(mail);
    make_ready(state, cell);
}

/// Put a cell with mail at the ring's tail, unless it is in the ring or may not run.
fn make_ready(state: &mut State, cell: &mut Cell) {
    if !cell.in_ring && !cell.runs && cell.fault.is_none() {
        cell.in_ring = true;
        state.ring.push_back(cell.id.clone());
    }
}

fn leave_ring(state: &mut State, cell: &mut Cell) {
    if cell.in_ring {
        cell.in_ring = false;
        if let Some(at) = state.ring.iter().position(|id| *id == cell.id) {
            state.ring.remove(at);
        }
    }
}

fn overload(state: &mut State, cell: &mut Cell, seq: u64) {
    let mailbox_max = state.effective().limits.mailbox;
    let message = format!("its mailbox was full: it held {mailbox_max} entries");
    cell.mail_uncounted = cell.mail_uncounted.saturating_add(1);
    fail(state, cell, &Fault::new(FaultKind::Overloaded, message), seq);
}

/// Fail an instance. If it has failed before, it keeps its first fault.
fn fail(state: &mut State, cell: &mut Cell, fault: &Fault, seq: u64) {
    if cell.fault.is_some() {
        return;
    }
    cell.fault = Some(fault.clone());
    cell.fault_seq = Some(seq);
    leave_ring(state, cell);
}

fn abandon(state: &mut State, cell: &mut Cell, intents: &[Hash], seq: u64) -> Outcome<()> {
    if !cell.inflight.iter().eq(intents) {
        return damage(format!(
            "record {seq} abandons other intents than those in flight of {}",
            cell.id.workflow
        ));
    }
    for hash in intents {
        if let Some(intent) = state.cells.end_intent(hash)? {
            state.abandoned.insert(*hash, intent);
        }
        forget_work(state, hash);
    }
    cell.inflight.clear();
    let abandoned_max = state.effective().limits.abandoned_intents;
    while state.abandoned.len() as u64 > abandoned_max {
        if let Some((forgotten, _)) = state.abandoned.pop_first() {
            state.cells.intents.attempts.get_mut().remove(&forgotten);
        }
    }
    Ok(())
}

/// A number as the reference shows it in a text.
pub(crate) fn shown(number: Option<u64>) -> String {
    number.map_or("None".to_string(), |number| number.to_string())
}

fn damage(text: String) -> Outcome<()> {
    Err(Failure::Damage(text))
}
