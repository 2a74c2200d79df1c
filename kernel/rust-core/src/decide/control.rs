//! Decide an operator's command: the record that admits it, or the rule that it breaks
//! (spec/kernel.md, K-100 to K-109b; `kernel/aos/core/decide/control.py`).

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::decide::answers::{refusal, Decided, NewBlobs, Refusal, Rule, Stop};
use crate::decide::dialect::Dialect;
use crate::decide::envelope::words;
use crate::decide::fits::cell_problem;
use crate::journal::input_fields::{option, InputHash, InputText};
use crate::journal::inputs::{has_fields_of, needed_fields, ControlCell, ControlInput};
use crate::journal::journal_clock::CLOCK_AHEAD_NS;
use crate::journal::ports::{BlobReader, Blobs, Verify};
use crate::journal::records::{CellId, Control, Record, Slot, Stamp};
use crate::journal::vocabulary::{
    CellStatus, ControlAction, ControlStatus, SettledStatus, TerminalStatus, Word,
};
use crate::manifest::builtins::is_kernel_effect;
use crate::snapshot::load::has_part;
use crate::state::cell::{Cell, Content, Mail, OpenIntent};
use crate::state::continuation::effect_error;
use crate::state::proposals::add_uses_of;
use crate::state::state::State;
use crate::state::version::{is_pinned, workflow_of};
use crate::values::digests::{hash_text, Hash, HASH_BYTES};
use crate::values::errors::{Failure, Outcome};

/// Maximum bytes of an operator's reason to end or remove an instance.
pub const WHY_BYTES_MAX: usize = 1024;

/// Admit an operator's command if it is signed, new and possible. Damage if a blob that the decision
/// needs is missing or altered; nothing has changed then.
pub fn admit_control(
    state: &State,
    control: &ControlInput,
    stamp: Stamp,
    read: &BlobReader,
    verify: &dyn Verify,
) -> Result<Decided, Stop> {
    check_authority(state, control, verify)?;
    decide_control(state, control, stamp, read)
}

/// Admit a command whose authority was checked, or does not matter.
pub fn decide_control(
    state: &State,
    control: &ControlInput,
    stamp: Stamp,
    read: &BlobReader,
) -> Result<Decided, Stop> {
    let Some(action) = control.action.text().and_then(|action| ControlAction::of(action)) else {
        let actual = control.action.quoted();
        let message = format!("action: expected {}, found {actual}", words::<ControlAction>());
        return Err(refusal(Rule::ControlIsInvalid, message).into());
    };
    check_shape(control, action)?;
    let cell = option(&control.cell, cell_id)?;
    check_possible(state, control, action, cell.as_ref(), &stamp, read)?;
    let ended = match (action, &cell) {
        (ControlAction::End | ControlAction::Remove, Some(id)) => state.cells.get(id)?,
        _ => None,
    };
    let ended = ended.as_ref().map(|cell| cell.borrow());
    let mut blobs = NewBlobs::default();
    let record = Control {
        seq: state.next_seq,
        stamp,
        action,
        cell: cell.clone(),
        intent: option(&control.intent, InputHash::written)?,
        value: option(&control.value, InputHash::written)?,
        principal: control.principal.written()?.clone(),
        serial: state.controls,
        signature: control.signature.clone(),
        status: status_of(control).and_then(ControlStatus::of),
        payload: control.payload.as_ref().map(|payload| blobs.slot(payload)),
        why: option(&control.why, |why| why.written().cloned())?,
        restamp: control.restamp,
        dropped: ended
            .as_ref()
            .map(|cell| cell.mailbox.len() as u64)
            .filter(|dropped| *dropped > 0),
        abandoned: ended.map_or(Vec::new(), |cell| cell.inflight.iter().copied().collect()),
    };
    Ok(Decided { record: Record::Control(record), blobs })
}

fn cell_id(cell: &ControlCell) -> Outcome<CellId> {
    Ok(CellId { workflow: cell.workflow.written()?.clone(), key: cell.key.clone() })
}

fn status_of(control: &ControlInput) -> Option<&str> {
    control.status.as_ref().and_then(InputText::text).map(|status| &**status)
}

/// Refuse a command that the state does not allow. `id` is the cell that it names.
fn check_possible(
    state: &State,
    control: &ControlInput,
    action: ControlAction,
    id: Option<&CellId>,
    stamp: &Stamp,
    read: &BlobReader,
) -> Result<(), Stop> {
    let cell = || id.ok_or_else(lacks_field);
    let hash = |field: &Option<InputHash>| {
        field.as_ref().and_then(InputHash::hash).ok_or_else(lacks_field)
    };
    match action {
        ControlAction::Retry | ControlAction::Skip => {
            check_retriable(state, cell()?, action == ControlAction::Skip, &**read)
        }
        ControlAction::Cancel => Ok(cancelable(state, &hash(&control.intent)?).map(|_| ())?),
        ControlAction::Settle => check_settleable(state, control, &hash(&control.intent)?),
        ControlAction::End | ControlAction::Remove => {
            check_endable(state, control, cell()?, action == ControlAction::Remove)
        }
        ControlAction::Erase => check_erasable(state, &hash(&control.value)?, read),
        ControlAction::Unpin => check_movable(state, cell()?, &**read),
        ControlAction::Clock => Ok(check_clock(state, stamp)?),
    }
}

fn lacks_field() -> Stop {
    Failure::damage("a command has its fields").into()
}

fn check_authority(state: &State, control: &ControlInput, verify: &dyn Verify) -> Result<(), Stop> {
    let mut operators = state.operators.iter();
    let Some(operator) = operators.find(|operator| control.principal.is(&operator.name)) else {
        let names: Vec<&str> = state.operators.iter().map(|operator| &*operator.name).collect();
        return Err(refusal(
            Rule::ControlPrincipalIsUnknown,
            format!(
                "{} is not an operator of this world: expected {}",
                control.principal.quoted(),
                names.join(" or ")
            ),
        )
        .into());
    };
    if !control.serial.is(state.controls) {
        return Err(refusal(
            Rule::ControlSerialIsWrong,
            format!(
                "control serial: expected {}, found {} (another command came in meanwhile: look \
                 and try again)",
                state.controls,
                control.serial.described()
            ),
        )
        .into());
    }
    let message = control.message(state.world(), state.controls)?;
    if !verify.verify(&message, &control.signature, &operator.key)? {
        return Err(refusal(
            Rule::ControlSignatureIsWrong,
            format!(
                "the signature is not {}'s over this command with serial {}",
                operator.name, state.controls
            ),
        )
        .into());
    }
    if state.manifest.is_none() {
        return Err(refusal(
            Rule::WorldHasNoManifest,
            "this world has no manifest yet (apply one: aos apply PATH)",
        )
        .into());
    }
    Ok(())
}

/// The command has its own fields and nothing else, each well-formed.
fn check_shape(control: &ControlInput, action: ControlAction) -> Result<(), Refusal> {
    let invalid = |message: String| Err(refusal(Rule::ControlIsInvalid, message));
    let presence = [
        ("cell", control.cell.is_some()),
        ("intent", control.intent.is_some()),
        ("value", control.value.is_some()),
        ("status", control.status.is_some()),
        ("payload", control.payload.is_some()),
        ("why", control.why.is_some()),
        ("restamp", control.restamp),
    ];
    let present: Vec<&str> =
        presence.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    if !has_fields_of(action, &present) {
        let required = needed_fields(action).join(" and ");
        let expected = match required.is_empty() {
            true => "no field".to_string(),
            false => format!("{required} and nothing else"),
        };
        return invalid(format!("{}: expected {expected}", action.word()));
    }
    for (name, field) in [("intent", &control.intent), ("value", &control.value)] {
        if field.as_ref().is_some_and(|hash| hash.hash().is_none()) {
            return invalid(format!("{name}: expected a hash of {HASH_BYTES} bytes"));
        }
    }
    if let Some(status) = &control.status {
        let text = status.text();
        let (is_one, expected) = match action {
            ControlAction::End => (
                text.is_some_and(|text| TerminalStatus::of(text).is_some()),
                words::<TerminalStatus>(),
            ),
            _ => (
                text.is_some_and(|text| SettledStatus::of(text).is_some()),
                words::<SettledStatus>(),
            ),
        };
        if !is_one {
            return invalid(format!("status: expected {expected}, found {}", status.quoted()));
        }
    }
    if control.why.as_ref().is_some_and(|why| !(1..=WHY_BYTES_MAX).contains(&why.size())) {
        return invalid(format!("why: expected 1 to {WHY_BYTES_MAX} bytes of UTF-8"));
    }
    Ok(())
}

/// The open intent that an operator may cancel or settle.
fn cancelable(state: &State, intent: &Hash) -> Result<Rc<OpenIntent>, Stop> {
    match state.cells.open_intent(intent)? {
        Some(open) if !is_kernel_effect(&open.effect.name) => Ok(open),
        _ => Err(refusal(
            Rule::IntentIsNotOpen,
            format!("intent {} is not open (it may be settled)", hash_text(intent)),
        )
        .into()),
    }
}

// Settle: the operator states how an effect ended (K-108).

fn check_settleable(state: &State, control: &ControlInput, hash: &Hash) -> Result<(), Stop> {
    let Some(payload) = &control.payload else { return Err(lacks_field()) };
    let intent = cancelable(state, hash)?;
    if state.owed.iter().any(|owed| owed.intent == *hash) {
        let message = format!("intent {} is ending already, by an earlier record", hash_text(hash));
        return Err(refusal(Rule::IntentIsNotOpen, message).into());
    }
    let status = status_of(control).unwrap_or("None");
    let schema = match status {
        "ok" => intent.effect.receipt.clone(),
        _ => effect_error(),
    };
    let max_bytes = state.effective().limits.event_bytes as usize;
    if let Err(problem) = schema.from_ingress(payload, max_bytes) {
        return Err(refusal(
            Rule::SettlementDoesNotFit,
            format!(
                "a receipt of {} with status {status} is a {}: {problem}",
                intent.effect.name, schema.name
            ),
        )
        .into());
    }
    Ok(())
}

// End and remove: no work of an instance is left (K-109).

/// Refuse a command that would change nothing.
fn check_endable(
    state: &State,
    control: &ControlInput,
    id: &CellId,
    removes: bool,
) -> Result<(), Stop> {
    let name = &id.workflow;
    let Some(cell) = state.cells.get(id)? else {
        return Err(refusal(
            Rule::CellIsUnknown,
            format!("{name} has no cell with this key: nothing has reached it, or it was deleted"),
        )
        .into());
    };
    let cell = cell.borrow();
    let declared = cell.declared.map(Word::word);
    if removes || !cell.is_at_rest() || declared != status_of(control) {
        return Ok(());
    }
    let message =
        format!("this instance of {name} is {} already, and has no work", cell.status().word());
    Err(refusal(Rule::CellHasEnded, message).into())
}

// Retry: a cell that a fault has failed continues under the manifest in force now.

fn check_retriable(state: &State, id: &CellId, skips: bool, blobs: &dyn Blobs) -> Result<(), Stop> {
    let name = &id.workflow;
    let has_not_failed = |actual: String| {
        let message = format!("no fault has failed {name}: {actual}");
        Err(refusal(Rule::CellHasNotFailed, message).into())
    };
    let Some(cell) = state.cells.get(id)? else {
        return has_not_failed("there is no such cell".to_string());
    };
    let cell = &*cell.borrow();
    let Some(fault) = &cell.fault else {
        let status: CellStatus = cell.status();
        return has_not_failed(format!("its status is {}", status.word()));
    };
    if skips && !fault.by_entry() {
        return Err(refusal(
            Rule::CellHasNothingToSkip,
            format!(
                "{name} failed on no entry of its mailbox but by {}: expected retry",
                fault.kind.word()
            ),
        )
        .into());
    }
    match misfit(state, cell, blobs, skips)? {
        None => Ok(()),
        Some(problem) => Err(refusal(
            Rule::CellDoesNotFit,
            format!(
                "{name} cannot continue under the manifest in force: {problem} (apply a manifest \
                 that takes it, or skip)"
            ),
        )
        .into()),
    }
}

/// The first part of the cell that was made for another manifest and does not fit this one.
fn misfit(state: &State, cell: &Cell, blobs: &dyn Blobs, skips: bool) -> Outcome<Option<String>> {
    if is_pinned(state, cell)? {
        return Ok(None);
    }
    let effective = state.effective();
    let Some(workflow) = effective.workflows.get(&cell.id.workflow) else {
        return Ok(Some("it has no such workflow".to_string()));
    };
    // All parts were checked by the manifest in force when they arrived.
    if cell.fault_seq.is_some_and(|seq| seq > state.manifest_seq) {
        return Ok(None);
    }
    cell_problem(effective, workflow, cell, &[], blobs, skips)
}

// Unpin: an instance takes the manifest in force before it is done.

fn check_movable(state: &State, id: &CellId, blobs: &dyn Blobs) -> Result<(), Stop> {
    let name = &id.workflow;
    let not_pinned = |actual: &str| {
        let message = format!("{name} is not pinned: {actual}");
        Err(refusal(Rule::CellIsNotPinned, message).into())
    };
    let Some(cell) = state.cells.get(id)? else {
        return not_pinned("there is no such cell");
    };
    let cell = &*cell.borrow();
    if !is_pinned(state, cell)? {
        return not_pinned("it runs under the manifest in force");
    }
    let effective = state.effective();
    let problem = match effective.workflows.get(name) {
        None => Some("that has no such workflow".to_string()),
        Some(workflow) => {
            let intents = state.cells.intents_of(cell)?;
            cell_problem(effective, workflow, cell, &intents, blobs, false)?
        }
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(refusal(
            Rule::CellDoesNotFit,
            format!("{name} cannot continue under the manifest in force: {problem}"),
        )
        .into()),
    }
}

// Clock: the journal clock is set back to the stamp of the command (K-109b).

fn check_clock(state: &State, stamp: &Stamp) -> Result<(), Refusal> {
    let ahead_ns = state.clock_ns as i128 - stamp.ns as i128;
    if ahead_ns > CLOCK_AHEAD_NS as i128 {
        return Ok(());
    }
    let actual = match ahead_ns <= 0 {
        true => "behind it or equal".to_string(),
        false => format!("{}.{} s ahead", ahead_ns / 1_000_000_000, ahead_ns / 100_000_000 % 10),
    };
    Err(refusal(
        Rule::ClockIsNotAhead,
        format!(
            "the journal clock is not ahead of this machine's clock: expected more than {} s, \
             found {actual} (nothing is to be set)",
            CLOCK_AHEAD_NS / 1_000_000_000
        ),
    ))
}

// Erase: only values that nothing needs any more.

fn check_erasable(state: &State, value: &Hash, read: &BlobReader) -> Result<(), Stop> {
    match use_in_world(state, value, read)? {
        None => Ok(()),
        Some(used) => Err(refusal(
            Rule::ValueIsInUse,
            format!(
                "value {} is {used} (it can be erased once nothing needs it)",
                hash_text(value)
            ),
        )
        .into()),
    }
}

fn use_in_world(state: &State, value: &Hash, read: &BlobReader) -> Outcome<Option<String>> {
    if state.pinned.contains(value) {
        return Ok(Some("a manifest of this world or a module of one".to_string()));
    }
    if let Some(mark) = &state.snapshot {
        if has_part(&mark.document, value, read)? {
            return Ok(Some("a part of the newest snapshot".to_string()));
        }
    }
    Ok(uses_in_state(state, value, &**read, 1)?.pop())
}

/// The parts of the current state that need a value: all, or the first `most`, which are looked for
/// no further. Damage if the manifest of an open proposal cannot be read.
pub fn uses_in_state(
    state: &State,
    value: &Hash,
    blobs: &dyn Blobs,
    most: usize,
) -> Outcome<Vec<String>> {
    let mut uses = Vec::new();
    for proposal in state.proposals.open.values() {
        add_uses_of(proposal, value, blobs, most, &mut uses)?;
        if uses.len() >= most {
            return Ok(uses);
        }
    }
    // Sorted, because the order of cells depends on the layers of memory.
    for part in [uses_in_cells, uses_in_mail, uses_in_work] {
        uses.extend(part(state, value)?);
        if uses.len() >= most {
            uses.truncate(most);
            return Ok(uses);
        }
    }
    Ok(uses)
}

fn uses_in_cells(state: &State, value: &Hash) -> Outcome<Vec<String>> {
    let mut uses = BTreeSet::new();
    for cell in state.cells.naming(*value) {
        let cell = cell?;
        let cell = cell.borrow();
        let is_state = cell.state.as_ref().is_some_and(|state| state.hash() == *value);
        let part = if is_state { "state" } else { "keys" };
        uses.insert(format!("the {part} of a cell of {}", cell.id.workflow));
    }
    Ok(uses.into_iter().collect())
}

fn uses_in_mail(state: &State, value: &Hash) -> Outcome<Vec<String>> {
    let mut uses = BTreeSet::new();
    for cell in state.cells.active.values() {
        let cell = &*cell.borrow();
        for mail in &cell.mailbox {
            if is_read_by(state, cell, mail, value)? {
                uses.insert(format!("mail of a cell of {}", cell.id.workflow));
            }
        }
    }
    Ok(uses.into_iter().collect())
}

fn uses_in_work(state: &State, value: &Hash) -> Outcome<Vec<String>> {
    let settlements = state.owed.iter().filter_map(|owed| owed.settlement.as_ref());
    let payloads = settlements
        .filter(|settlement| is_at(&settlement.payload, value))
        .map(|_| "the payload of a receipt that the core is about to make".to_string());
    let mut uses: Vec<String> = payloads.collect();
    let open = state.cells.each_intent()?.map(|item| item.map(|(intent, _)| intent));
    for intent in open.chain(state.abandoned.values().cloned().map(Ok)) {
        let intent = intent?;
        if is_at(&intent.params, value) {
            uses.push(format!("the params of an intent of {}", intent.cell.workflow));
        }
    }
    Ok(uses)
}

/// Whether delivering the mail reads the value.
fn is_read_by(state: &State, cell: &Cell, mail: &Mail, value: &Hash) -> Outcome<bool> {
    let is_named = match &mail.content {
        Content::Event { value: slot, .. } => is_at(slot, value),
        Content::Receipt { intent, receipt } => {
            is_at(receipt.payload(), value) || is_at(&intent.params, value)
        }
        Content::Stream { frame, .. } => is_at(&frame.payload, value),
    };
    // The values that are read again when the mail is delivered.
    let workflow = workflow_of(state, cell)?;
    let read = workflow.and_then(|workflow| Dialect::of(&workflow).reads_of(mail));
    Ok(is_named || read.is_some_and(|slot| is_at(&slot, value)))
}

fn is_at(slot: &Slot, value: &Hash) -> bool {
    slot.as_ref().is_some_and(|reference| reference.hash == *value)
}
