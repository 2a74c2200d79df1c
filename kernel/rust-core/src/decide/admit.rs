//! Decide an input: the record that admits it, or the rule that it breaks
//! (`kernel/aos/core/decide/admit.py`).
//!
//! Rule 1: nothing here changes the state. The kernel folds the record; a refusal leaves everything
//! as it was.
//!
//! Rule 2: the checks run in the order of the specification and the first broken rule is the answer.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::decide::answers::{refusal, Blocker, Decided, NewBlobs, Refusal, Rule, Stop};
use crate::decide::approved::check_proposal;
use crate::decide::envelope::words;
use crate::decide::left_behind::kept_of;
use crate::decide::manifest_problems::{judged, keys_problem, leaves_problem, placement_problem};
use crate::decide::migration::{MigratedCells, Migration, Progress};
use crate::decide::quiescence::{blockers, is_in_flight_kind, Change};
use crate::decide::routing::{
    cell_text, pinned_problem, place_event, route, shard_problem, MailCounts,
};
use crate::decide::suggestion::nearest;
use crate::journal::faults::clipped;
use crate::journal::identity::submission_hash;
use crate::journal::input_fields::{option, InputNat, InputText};
use crate::journal::inputs::{
    manifest_message, EventInput, ManifestInput, SnapshotInput, StartInput,
};
use crate::journal::ports::{BlobReader, Blobs, Judge, Ran, Verify};
use crate::journal::records::{
    CellId, Event, HostFacts, Manifest, Record, Ref, Snapshot, Stamp, Start,
};
use crate::journal::vocabulary::{ApplyMode, Word};
use crate::manifest::builtins::{CONTINUATIONS, ONLY_DELIVERED};
use crate::manifest::effective::{Effective, ONLY_OWN_STEPS};
use crate::state::state::State;
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::{quoted, Failure, Outcome};

pub const SUBMISSION_ID_BYTES_MAX: usize = 256;
const NAMES_SAID: usize = 8;

/// Record the software that executes from now on. It is never refused.
pub fn admit_start(state: &State, start: &StartInput, stamp: Stamp) -> Decided {
    let mut host = start.host.clone();
    host.sort_unstable();
    Decided::of(Record::Start(Start { seq: state.next_seq, stamp, host: HostFacts(host) }))
}

/// Admit a snapshot if it is newer than the last one (SN-3).
pub fn admit_snapshot(
    state: &State,
    snapshot: &SnapshotInput,
    stamp: Stamp,
) -> Result<Decided, Stop> {
    let last = state.snapshot.as_ref();
    if let Some(last) = last {
        if snapshot.at.is(last.at) && snapshot.document.hash() == Some(last.document) {
            return Err(Stop::Duplicate { seq: last.seq });
        }
    }
    let previous_at = last.map_or(0, |last| last.at);
    let is_new = |at: &u64| previous_at < *at && *at < state.next_seq;
    let Some(at) = snapshot.at.nat().filter(is_new) else {
        return Err(refusal(
            Rule::SnapshotIsOld,
            format!(
                "a snapshot after record {}: expected one after record {previous_at}, of which \
                 the last is, and before record {}",
                snapshot.at.digits(),
                state.next_seq
            ),
        )
        .into());
    };
    let size = snapshot.size.nat().ok_or(Failure::Unwritable)?;
    Ok(Decided::of(Record::Snapshot(Snapshot {
        seq: state.next_seq,
        stamp,
        at,
        frame: snapshot.frame.written()?,
        document: Ref { hash: snapshot.document.written()?, size },
    })))
}

/// A manifest that comes into force at once, or when its migration is over.
pub enum Applying {
    Decided(Decided),
    Migrates(Box<MigratingApply>),
}

/// An apply whose migration is in progress.
pub struct MigratingApply {
    manifest_input: Rc<ManifestInput>,
    stamp: Stamp,
    migration: Migration,
}

/// The next need of a migrating apply.
pub enum Applied {
    Runs(Progress),
    Decided(Decided),
}

impl MigratingApply {
    /// Continue until the host must do something, or to the end. `Progress::Done` and
    /// `Progress::Failed` are never the answer.
    pub fn next(&mut self, state: &State, blobs: &dyn Blobs) -> Result<Applied, Stop> {
        match self.migration.next(state, blobs)? {
            Progress::Done(cells) => {
                let decided = applied(state, &self.manifest_input, self.stamp, cells)?;
                Ok(Applied::Decided(decided))
            }
            Progress::Failed(standing) => Err(in_the_way(standing).into()),
            need => Ok(Applied::Runs(need)),
        }
    }

    pub fn ran(&mut self, state: &State, ran: Ran) -> Outcome<()> {
        self.migration.ran(state, ran)
    }
}

/// The functions of the host that `admit_manifest` needs.
pub struct ApplyPorts<'a> {
    pub read: &'a BlobReader,
    pub verify: &'a dyn Verify,
    pub judge: &'a dyn Judge,
    /// Whether the host makes blobs of a migration durable in transactions of their own.
    pub keeps: bool,
}

/// Put a manifest in force if an operator signed it, once, and nothing blocks it. Damage if a stored
/// state or an earlier manifest cannot be read; nothing has changed then.
pub fn admit_manifest(
    state: &State,
    manifest_input: &Rc<ManifestInput>,
    stamp: Stamp,
    ports: &ApplyPorts,
) -> Result<Applying, Stop> {
    let document = content_hash(&manifest_input.document);
    check_signature(state, manifest_input, &document, ports.verify)?;
    let Some(mode) = manifest_input.mode.text().and_then(|mode| ApplyMode::of(mode)) else {
        let actual = manifest_input.mode.quoted();
        let message = format!("mode: expected {}, found {actual}", words::<ApplyMode>());
        return Err(refusal(Rule::ManifestModeIsUnknown, message).into());
    };
    check_proposal(state, manifest_input, &document)?;
    if state.manifest.as_ref().is_some_and(|manifest| manifest.hash == document) {
        let message = "this manifest is already in force; nothing to do";
        return Err(refusal(Rule::ManifestIsInForce, message).into());
    }
    let invalid = |problem: String| Stop::from(refusal(Rule::ManifestIsInvalid, problem));
    let effective = judged(&manifest_input.document, ports.judge)?.map_err(invalid)?;
    let leaves = manifest_input.left_names()?;
    let problem = keys_problem(&effective, state)
        .or_else(|| leaves_problem(&effective, &leaves))
        .or_else(|| placement_problem(&effective, state));
    if let Some(problem) = problem {
        return Err(invalid(problem));
    }
    let checked = manifest_input.checked.as_ref();
    let is_old = |checked: &&InputNat| {
        checked.is_negative() || checked.nat().is_some_and(|checked| checked < state.cells.at)
    };
    if let Some(checked) = checked.filter(is_old) {
        return Err(refusal(
            Rule::ManifestCheckIsOld,
            format!(
                "stored states were checked up to record {}, and later changes are known only \
                 from record {} on (check them again)",
                checked.digits(),
                state.cells.at
            ),
        )
        .into());
    }
    let change = Change { in_force: state.manifest.clone(), effective, mode, leaves };
    let since = checked.map(|checked| checked.nat().unwrap_or(u64::MAX));
    let is_recorded = manifest_input.is_recorded;
    let limit = state.limits.blockers;
    let standing = blockers(state, &change, &**ports.read, since, is_recorded, limit)?;
    if !standing.is_empty() {
        return Err(in_the_way(standing).into());
    }
    if mode == ApplyMode::Migrate {
        let migration = Migration::new(state, change, ports.read, ports.keeps);
        let manifest_input = manifest_input.clone();
        let apply = MigratingApply { manifest_input, stamp, migration };
        return Ok(Applying::Migrates(Box::new(apply)));
    }
    Ok(Applying::Decided(applied(state, manifest_input, stamp, MigratedCells::default())?))
}

fn applied(
    state: &State,
    manifest_input: &ManifestInput,
    stamp: Stamp,
    taken_over: MigratedCells,
) -> Outcome<Decided> {
    let mut blobs = NewBlobs::default();
    for (hash, data) in taken_over.blobs {
        blobs.add(hash, data);
    }
    let document = content_hash(&manifest_input.document);
    blobs.add(document, manifest_input.document.clone());
    let record = Manifest {
        seq: state.next_seq,
        stamp,
        document: Ref { hash: document, size: manifest_input.document.len() as u64 },
        principal: manifest_input.principal.written()?.clone(),
        serial: state.serial,
        signature: manifest_input.signature.clone(),
        mode: ApplyMode::of(manifest_input.mode.written()?)
            .filter(|mode| *mode != ApplyMode::Strict),
        leaves: manifest_input.left_names()?,
        migrated: taken_over.migrated,
        proposal: manifest_input.proposal.as_ref().and_then(InputNat::nat),
    };
    Ok(Decided { record: Record::Manifest(record), blobs })
}

/// Refuse a manifest that no operator has signed for this world as it is now.
fn check_signature(
    state: &State,
    manifest_input: &ManifestInput,
    document: &Hash,
    verify: &dyn Verify,
) -> Result<(), Stop> {
    let mut operators = state.operators.iter();
    let principal = &manifest_input.principal;
    let Some(operator) = operators.find(|operator| principal.is(&operator.name)) else {
        let names: Vec<&str> = state.operators.iter().map(|operator| &*operator.name).collect();
        return Err(refusal(
            Rule::ManifestPrincipalIsUnknown,
            format!(
                "{} is not an operator of this world: expected {}",
                principal.quoted(),
                names.join(" or ")
            ),
        )
        .into());
    };
    if !manifest_input.serial.is(state.serial) {
        return Err(refusal(
            Rule::ManifestSerialIsWrong,
            format!(
                "manifest serial: expected {}, found {} (another manifest was applied meanwhile: \
                 look at it and apply again)",
                state.serial,
                manifest_input.serial.described()
            ),
        )
        .into());
    }
    let message = manifest_message(state.world(), state.serial, document, manifest_input)?;
    if !verify.verify(&message, &manifest_input.signature, &operator.key)? {
        return Err(refusal(
            Rule::ManifestSignatureIsWrong,
            format!(
                "the signature is not {}'s over this manifest with serial {}",
                operator.name, state.serial
            ),
        )
        .into());
    }
    Ok(())
}

/// The refusal of a manifest that cannot come into force now, for at least one reason.
pub fn in_the_way(standing: Vec<Blocker>) -> Refusal {
    let first = &standing[0];
    let many = match standing.len() {
        1 => "1 blocker".to_string(),
        count => format!("{count} blockers"),
    };
    let summary =
        format!("{many}, first {}: {}, {}", first.cell.workflow, first.kind, first.detail);
    let (rule, message) = match is_in_flight_kind(first.kind) {
        true => (
            Rule::WorldIsNotQuiescent,
            format!("the world is not quiescent: {summary} (let it run until they are done)"),
        ),
        false => (
            Rule::ManifestDoesNotFit,
            clipped(&format!("the manifest does not fit what this world holds: {summary}")),
        ),
    };
    Refusal { rule, message, blockers: standing }
}

/// Validate, deduplicate and route one event. An event without a route is admitted, too. Damage if
/// the state of a receiver or an earlier manifest cannot be read; nothing has changed then.
pub fn admit_event(
    state: &State,
    event: &EventInput,
    stamp: Stamp,
    blobs: &dyn Blobs,
) -> Result<Decided, Stop> {
    let refuse = |rule, message: String| Err(Stop::from(refusal(rule, message)));
    let Some(effective) = &state.manifest else {
        let message = "this world has no manifest yet (apply one: aos apply PATH)";
        return refuse(Rule::WorldHasNoManifest, message.to_string());
    };
    let Some(name) = event.schema.text() else {
        return refuse(Rule::EventSchemaIsUnknown, unknown_schema(effective, &event.schema));
    };
    let name = &**name;
    if CONTINUATIONS.contains(&name) {
        return refuse(Rule::EventSchemaIsUnknown, format!("{name} {ONLY_DELIVERED}"));
    }
    let Some(schema) = effective.schemas.get(name) else {
        return refuse(Rule::EventSchemaIsUnknown, unknown_schema(effective, &event.schema));
    };
    if !effective.is_open(name) {
        return refuse(Rule::EventIsInternal, format!("{name} {ONLY_OWN_STEPS}"));
    }
    let data = match schema.from_ingress(&event.value, effective.limits.event_bytes as usize) {
        Ok(data) => data,
        Err(problem) => return refuse(Rule::EventIsInvalid, format!("{name}: {problem}")),
    };
    check_new(state, event, name, &stamp, &data)?;
    let open = state.cells.intents.count;
    if open >= effective.limits.open_intents {
        let message = format!("{open} intents are open, the world's limit (send it again later)");
        return refuse(Rule::WorldIsBusy, message);
    }
    let routes = effective.routes(name);
    let deliveries_max = state.limits.deliveries;
    if routes.len() as u64 > deliveries_max {
        let message =
            format!("{name} has {} subscriptions: expected at most {deliveries_max}", routes.len());
        return refuse(Rule::EventReachesTooMany, message);
    }
    let targets = match route(effective, schema, &data) {
        Ok(targets) => targets,
        Err(problem) => return refuse(Rule::EventKeyIsInvalid, format!("{name}: {problem}")),
    };
    if let Some(problem) = shard_problem(effective, &targets)? {
        let message = format!("{name}: {problem} (send it to the group)");
        return refuse(Rule::KeyOfAnotherShard, message);
    }
    let left_behind = kept_of(state, &targets, blobs)?;
    if let Some(problem) = pinned_problem(state, &targets, name, &data, &left_behind)? {
        return refuse(Rule::EventDoesNotFitInstance, format!("{name}: {problem}"));
    }
    let placed = place_event(state, routes, targets, &mut MailCounts::default())?;
    if let Some(id) = placed.unknown.first() {
        return refuse(Rule::InstanceIsUnknown, unknown_instance(effective, name, id)?);
    }
    let mut new_blobs = NewBlobs::default();
    let record = Event {
        seq: state.next_seq,
        stamp,
        schema: schema.name.clone(),
        value: new_blobs.slot(&data),
        submission_id: option(&event.submission_id, |id| id.written().cloned())?,
        to: placed.to,
        overloaded: placed.overloaded,
        kept: left_behind,
    };
    Ok(Decided { record: Record::Event(record), blobs: new_blobs })
}

/// The message for an event to an instance that it may not create (K-42a).
fn unknown_instance(effective: &Effective, event: &str, id: &CellId) -> Outcome<String> {
    Ok(format!(
        "{} does not exist, and {event} is only for instances that do (check the key; the route \
         says creates: false)",
        cell_text(effective, id)?
    ))
}

/// The message for an unknown schema; it suggests events that a subscription takes.
fn unknown_schema(effective: &Effective, name: &InputText) -> String {
    let routed: BTreeSet<&str> =
        effective.subscriptions.iter().map(|route| &*route.event).collect();
    let event_names = name.text().map_or(String::new(), |name| events_of(effective, name));
    if !event_names.is_empty() {
        return format!(
            "{} is a workflow: expected an event that it takes, {event_names}",
            name.quoted()
        );
    }
    let text = format!("event schema {} is not in the manifest in force", name.quoted());
    if let Some(near) = nearest(&name.points(), routed.iter().copied()) {
        return format!("{text} (did you mean {near}?)");
    }
    if routed.is_empty() {
        return text;
    }
    let said: Vec<&str> = routed.iter().copied().take(NAMES_SAID).collect();
    let tail = match routed.len() > NAMES_SAID {
        true => format!(" and {} more", routed.len() - NAMES_SAID),
        false => String::new(),
    };
    format!("{text}: expected one of {}{tail}", said.join(", "))
}

/// The events that the workflow of this name takes; empty if there is none. The name may lack its
/// namespace and version.
fn events_of(effective: &Effective, name: &str) -> String {
    let after_slash = |text: &str| text.split_once('/').map_or("", |(_, rest)| rest).to_string();
    let is_of = |workflow: &str| {
        let base = workflow.split_once('@').map_or(workflow, |(base, _)| base);
        name == workflow
            || name == base
            || name == after_slash(workflow)
            || name == after_slash(base)
    };
    let routes = effective.subscriptions.iter().filter(|route| is_of(&route.workflow));
    let events: BTreeSet<&str> = routes.map(|route| &*route.event).collect();
    events.into_iter().take(NAMES_SAID).collect::<Vec<_>>().join(" or ")
}

/// Stop if an earlier event has the same submission id.
fn check_new(
    state: &State,
    event: &EventInput,
    schema: &str,
    stamp: &Stamp,
    data: &[u8],
) -> Result<(), Stop> {
    let Some(submission_id) = &event.submission_id else { return Ok(()) };
    let is_size = |text: &&Rc<str>| (1..=SUBMISSION_ID_BYTES_MAX).contains(&text.len());
    let Some(submission_id) = submission_id.text().filter(is_size) else {
        let actual = match submission_id.text() {
            None => "text that is not Unicode".to_string(),
            Some(text) => text.len().to_string(),
        };
        return Err(refusal(
            Rule::SubmissionIdIsInvalid,
            format!(
                "submission_id: expected 1 to {SUBMISSION_ID_BYTES_MAX} bytes of UTF-8, found \
                 {actual}"
            ),
        )
        .into());
    };
    let Some(earlier) = state.submissions.borrow_mut().get(submission_id)? else { return Ok(()) };
    // The dedup window may have expired, by the window time after this input.
    let window_ns = state.window_at(stamp.ns);
    if earlier.at_ns < window_ns.saturating_sub(state.effective().limits.dedup_ns) {
        return Ok(());
    }
    if earlier.payload == submission_hash(schema, &content_hash(data)) {
        return Err(Stop::Duplicate { seq: earlier.seq });
    }
    Err(refusal(
        Rule::SubmissionIdIsTaken,
        format!(
            "submission_id {} is record {}, which is another event (an id names one event: choose \
             a new one)",
            quoted(submission_id),
            earlier.seq
        ),
    )
    .into())
}
