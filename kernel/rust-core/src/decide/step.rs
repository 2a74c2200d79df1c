//! Decide a step of the ring's head: a `Step` or a `Faulted` (spec/kernel.md, K-30 to K-50;
//! `kernel/aos/core/decide/step.py`).
//!
//! A step is atomic: if its output breaks a rule, the core drops the whole output and fails the
//! instance with a record that names the rule; all other cells continue. Nothing here changes the
//! state.
//!
//! The core never runs a module: `start` returns the call that the host makes, and `finish` decides
//! when it has run. Nothing may change the state between the two.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::decide::answers::{Decided, Misfit, NewBlobs};
use crate::decide::dialect::Dialect;
use crate::decide::envelope::{
    input_envelope, misfit, read_output, DomainEvent, EffectRequest, Output,
};
use crate::decide::fits::{as_received, completed, key_problem, stored_problem};
use crate::decide::left_behind::kept_of;
use crate::decide::routing::{pinned_problem, place_event, route, shard_problem, MailCounts};
use crate::journal::faults::{Fault, FaultKind};
use crate::journal::identity::{
    event_hash, idempotency_key, intent_hash, step_entropy, IntentParts,
};
use crate::journal::ports::{Blobs, Call, Ran};
use crate::journal::records::{CellId, Emitted, Faulted, Intent, Record, Slot, Step};
use crate::journal::vocabulary::{CellStatus, DeclaredStatus, TerminalStatus};
use crate::manifest::builtins::{CONTINUATIONS, ONLY_DELIVERED};
use crate::manifest::effective::{Effective, IdempotencyScope, Workflow};
use crate::manifest::secret_use::problem as secret_problem;
use crate::state::cell::{Cell, Content, Mail, SharedCell};
use crate::state::continuation::Fields;
use crate::state::state::State;
use crate::state::version::{manifest_under, runs_under};
use crate::values::cbor::Value;
use crate::values::digests::{content_hash, hash_text, hex, Hash};
use crate::values::errors::{quoted, Failure, Outcome, ValueProblem};

/// The decision of one step, in progress.
///
/// `workflow` is from `manifest`, which record `under` put in force. Everything that concerns others
/// (routes, schemas of events, effects, secrets, bounds of the world) is from `effective`, the
/// manifest in force.
pub struct Run {
    effective: Rc<Effective>,
    under: u64,
    manifest: Rc<Effective>,
    workflow: Rc<Workflow>,
    dialect: Dialect,
    cell: SharedCell,
    mail: Mail,
    seq: u64,
    blobs: NewBlobs,
}

/// How a step begins: with a call that the host makes, or with its fault.
pub enum Started {
    Runs(Run, Call),
    Faulted(Decided),
}

/// Begin a step of the first entry of the ring's head, which must be there. Damage if a blob that the
/// step needs is missing or altered; nothing has changed then.
pub fn start(state: &State, blobs: &dyn Blobs) -> Outcome<Started> {
    let Some(id) = state.ring.front() else {
        return Err(Failure::Damage("the ring is empty".to_string()));
    };
    let cell = state.cells.known(id, state.next_seq)?;
    let under = runs_under(state, &cell.borrow())?;
    let manifest = manifest_under(state, under)?;
    let mail = cell.borrow().mailbox.front().cloned();
    let (Some(workflow), Some(mail)) = (manifest.workflows.get(&id.workflow).cloned(), mail) else {
        return Err(Failure::Damage(format!("{} cannot run its mail", id.workflow)));
    };
    let mut run = Run {
        effective: state.effective().clone(),
        under,
        manifest,
        dialect: Dialect::of(&workflow),
        workflow,
        cell,
        mail,
        seq: state.next_seq,
        blobs: NewBlobs::default(),
    };
    let steps_max = run.effective.limits.cascade_steps;
    if run.mail.root.steps.get() >= steps_max {
        let message = format!("record {} has caused {steps_max} steps already", run.mail.root.seq);
        let fault = Fault::new(FaultKind::CascadeTooLong, message);
        return Ok(Started::Faulted(faulted(state, &run, fault, None)));
    }
    let call = call(state, &mut run, blobs)?;
    Ok(Started::Runs(run, call))
}

/// Decide the record of a step when its module has run.
pub fn finish(state: &State, mut run: Run, ran: Ran, blobs: &dyn Blobs) -> Outcome<Decided> {
    let data = match &ran.result {
        Ok(data) => data,
        Err(fault) => return Ok(faulted(state, &run, fault.clone(), Some(&ran))),
    };
    let output_bytes = run.workflow.limits.output_bytes as usize;
    let taken = read_output(data, output_bytes, run.dialect.effect_fields())
        .and_then(|output| Taking { state, run: &mut run, blobs }.take(output, data, &ran));
    match taken {
        Ok(record) => Ok(Decided { record: Record::Step(record), blobs: run.blobs }),
        Err(Misfit::Fault(fault)) => Ok(faulted(state, &run, fault, Some(&ran))),
        Err(Misfit::Failure(failure)) => Err(failure),
    }
}

fn faulted(state: &State, run: &Run, fault: Fault, ran: Option<&Ran>) -> Decided {
    let output = ran.and_then(|ran| ran.result.as_ref().ok()).map(|data| content_hash(data));
    Decided::of(Record::Faulted(Faulted {
        seq: run.seq,
        cell: run.cell.borrow().id.clone(),
        entry: run.mail.entry,
        root: run.mail.root.seq,
        depth: run.mail.depth,
        fault,
        fuel: ran.map_or(0, |ran| ran.fuel),
        pages: ran.map_or(0, |ran| ran.pages),
        output,
        under: pinned_under(state, run),
    }))
}

/// The record's `under`: None if the cell runs under the manifest in force.
fn pinned_under(state: &State, run: &Run) -> Option<u64> {
    (run.under != state.manifest_seq).then_some(run.under)
}

fn call(state: &State, run: &mut Run, blobs: &dyn Blobs) -> Outcome<Call> {
    let mail = whole_mail(state, run, blobs)?;
    let workflow = &run.workflow;
    let value = run.dialect.delivered(workflow, &run.manifest, &mail, blobs, &mut run.blobs)?;
    let cell = run.cell.borrow();
    let ctx = workflow.context.then(|| {
        let text = |text: &str| Value::Text(text.to_string());
        let hash = |hash: &Hash| Value::Text(hash_text(hash));
        let nat = |n: u64| Value::Int(n as i128);
        let key = &cell.id.key;
        let stamp = run.mail.root.stamp.get();
        let fields = vec![
            ("now_ns", nat(stamp.ns)),
            ("logical_now_ns", nat(state.clock_ns)),
            ("journal_height", nat(run.seq)),
            ("entropy", Value::Bytes(step_entropy(&stamp, &cell.id, run.seq))),
            ("event_hash", hash(&event_hash(&workflow.event.name, &value))),
            ("manifest_hash", hash(&run.manifest.manifest_hash)),
            ("workflow", text(&workflow.name)),
            ("workflow_hash", hash(&workflow.hash)),
            ("key", if key.is_empty() { Value::Null } else { Value::Bytes(key.to_vec()) }),
            ("cell_mode", Value::Bool(workflow.key.is_some())),
        ];
        run.dialect.context(Fields::from(fields))
    });
    let stored = match &cell.state {
        None => None,
        Some(stored) => Some(stored.bytes(blobs)?),
    };
    let whole = stored.as_deref().map(|stored| whole_state(state, run, &cell, stored));
    Ok(Call {
        module: workflow.module.hash,
        entrypoint: workflow.entrypoint.clone(),
        input: input_envelope(
            whole.as_deref(),
            &workflow.event.name,
            &value,
            &run.dialect.shown_key(&cell.id.key),
            ctx.as_deref(),
        ),
        fuel: workflow.limits.fuel,
        memory_bytes: workflow.limits.memory_bytes,
        output_bytes: workflow.limits.output_bytes,
    })
}

/// The state with null for the optional fields that its workflow got since it was stored (K-71d).
fn whole_state<'a>(state: &State, run: &Run, cell: &Cell, stored: &'a [u8]) -> Cow<'a, [u8]> {
    let is_whole = state.serial == 1 || cell.stepped_under == run.under;
    match is_whole || run.workflow.has_opaque_state() {
        true => Cow::Borrowed(stored),
        false => completed(&run.workflow.state, stored),
    }
}

/// The entry that runs; an event in the form that its schema has here, if it was admitted under
/// another manifest (K-71d, K-73a).
fn whole_mail(state: &State, run: &Run, blobs: &dyn Blobs) -> Outcome<Mail> {
    let mail = &run.mail;
    let is_from_here = mail.entry.0 > run.under && run.under == state.manifest_seq;
    let (false, Content::Event { schema, value }) = (is_from_here, &mail.content) else {
        return Ok(mail.clone());
    };
    let Some(form) = run.manifest.schemas.get(schema) else {
        return Err(Failure::Damage(format!("mail of schema {schema} is not in the manifest")));
    };
    let data = value.bytes(blobs)?;
    let value = Slot::Bytes(as_received(form, &data).into());
    let content = Content::Event { schema: schema.clone(), value };
    Ok(Mail { content, ..mail.clone() })
}

/// The checks of an output.
struct Taking<'a> {
    state: &'a State,
    run: &'a mut Run,
    blobs: &'a dyn Blobs,
}

impl Taking<'_> {
    /// Check the output in the order in which a reader would: state, ann, events, effects.
    fn take(&mut self, output: Output, data: &[u8], ran: &Ran) -> Result<Step, Misfit> {
        let state = match &output.state {
            None => None,
            Some(data) => {
                self.check_state(data)?;
                Some(self.run.blobs.slot(data))
            }
        };
        let ann = match &output.ann {
            None => None,
            Some(data) => self.annotation(data)?,
        };
        let limits = &self.run.workflow.limits;
        let counts = (output.events.len() as u64, output.effects.len() as u64);
        if counts.0 > limits.events {
            too_many(FaultKind::TooManyEvents, "domain events", limits.events, counts.0)?;
        }
        if counts.1 > limits.effects {
            too_many(FaultKind::TooManyEffects, "effects", limits.effects, counts.1)?;
        }
        let effective = self.run.effective.clone();
        let reached = output.events.iter().map(|event| effective.routes(&event.schema).len());
        let reached = reached.sum::<usize>() as u64;
        let deliveries_max = self.state.limits.deliveries;
        if reached > deliveries_max {
            too_many(FaultKind::TooManyEvents, "deliveries", deliveries_max, reached)?;
        }
        let cell = self.run.cell.clone();
        let cell = cell.borrow();
        // The entry that runs leaves its mailbox before anything new comes in.
        let mut mail_counts = MailCounts::default();
        let mut events = Vec::with_capacity(output.events.len());
        if !output.events.is_empty() {
            mail_counts.insert(cell.id.clone(), -1);
        }
        for (index, event) in output.events.iter().enumerate() {
            events.push(self.emitted(index, event, &mut mail_counts)?);
        }
        let intents = self.intents(&cell, &output)?;
        let abandoned = match output.state {
            None => cell.inflight.iter().copied().collect(),
            Some(_) => Vec::new(),
        };
        Ok(Step {
            seq: self.run.seq,
            cell: cell.id.clone(),
            entry: self.run.mail.entry,
            root: self.run.mail.root.seq,
            depth: self.run.mail.depth,
            state,
            status: status(&cell, &output, !intents.is_empty()),
            events,
            intents,
            abandoned,
            ann,
            fuel: ran.fuel,
            pages: ran.pages,
            output: content_hash(data),
            under: pinned_under(self.state, self.run),
            fits: self.fits(&cell, output.state.as_deref()),
        })
    }

    /// The record of the manifest in force if a pinned instance could continue under it (K-74).
    fn fits(&self, cell: &Cell, state: Option<&[u8]>) -> Option<u64> {
        let seq = self.state.manifest_seq;
        if self.run.under == seq {
            return None;
        }
        let workflow = self.run.effective.workflows.get(&cell.id.workflow)?;
        let fits = key_problem(workflow, &cell.id.key).is_none()
            && state.is_none_or(|state| stored_problem(workflow, state).is_none());
        fits.then_some(seq)
    }

    fn check_state(&self, data: &[u8]) -> Result<(), Misfit> {
        let workflow = &self.run.workflow;
        let max_bytes = workflow.limits.state_bytes;
        if data.len() as u64 > max_bytes {
            let message =
                format!("state: expected at most {max_bytes} bytes, found {}", data.len());
            return misfit(FaultKind::StateInvalid, message);
        }
        if workflow.has_opaque_state() {
            return Ok(());
        }
        workflow.state.check_record(data).or_else(|problem| {
            misfit(FaultKind::StateInvalid, format!("{}: {problem}", workflow.state.name))
        })
    }

    fn annotation(&mut self, data: &[u8]) -> Result<Option<Slot>, Misfit> {
        let run = &mut *self.run;
        let Some(schema) = &run.workflow.annotations else {
            if run.dialect.drops_annotations() {
                return Ok(None);
            }
            let message = format!("{} declares no annotations schema", run.workflow.name);
            return misfit(FaultKind::AnnotationInvalid, message);
        };
        let max_bytes = run.workflow.limits.output_bytes as usize;
        match run.dialect.normal_form(&run.manifest, schema, data, max_bytes) {
            Ok(normal) => Ok(Some(run.blobs.slot(&normal))),
            Err(problem) => {
                misfit(FaultKind::AnnotationInvalid, format!("{}: {problem}", schema.name))
            }
        }
    }

    fn emitted(
        &mut self,
        index: usize,
        event: &DomainEvent,
        mail_counts: &mut MailCounts,
    ) -> Result<Emitted, Misfit> {
        let path = || format!("$.domain_events[{index}]");
        let (state, run) = (self.state, &mut *self.run);
        let name = &event.schema;
        if CONTINUATIONS.contains(&name.as_str()) {
            let message = format!("{}: {name} {ONLY_DELIVERED}", path());
            return misfit(FaultKind::EventInvalid, message);
        }
        let Some(schema) = run.effective.schemas.get(name.as_str()) else {
            let message = format!("{}: schema {} is not in the manifest", path(), quoted(name));
            return misfit(FaultKind::EventInvalid, message);
        };
        let refused = |kind, problem: &dyn std::fmt::Display| {
            misfit(kind, format!("{}: {name}: {problem}", path()))
        };
        let limits = &run.effective.limits;
        let max_bytes = limits.event_bytes as usize;
        let data = match run.dialect.normal_form(&run.effective, schema, &event.value, max_bytes) {
            Ok(data) => data,
            Err(problem) => return refused(FaultKind::EventInvalid, &problem),
        };
        let targets = match route(&run.effective, schema, &data) {
            Ok(targets) => targets,
            Err(problem) => return refused(FaultKind::KeyInvalid, &problem),
        };
        if let Some(own_key) = event.key.as_ref().map(|key| run.dialect.own_key(key)) {
            for CellId { workflow, key } in &targets {
                // A receiver without keys ignores the key of the event.
                if !key.is_empty() && **key != *own_key {
                    let message = format!(
                        "{}: key: expected {}, by which {workflow} is routed, found {}",
                        path(),
                        shown(key),
                        shown(own_key)
                    );
                    return misfit(FaultKind::KeyInvalid, message);
                }
            }
        }
        if let Some(problem) = shard_problem(&run.effective, &targets)? {
            return refused(FaultKind::KeyInvalid, &problem);
        }
        let left_behind = kept_of(state, &targets, self.blobs)?;
        if let Some(problem) = pinned_problem(state, &targets, name, &data, &left_behind)? {
            return refused(FaultKind::EventInvalid, &problem);
        }
        let depth = run.mail.depth + 1;
        if !targets.is_empty() && depth > limits.cascade_depth {
            let message = format!(
                "{}: it would be {depth} events away from record {}, expected at most {}",
                path(),
                run.mail.root.seq,
                limits.cascade_depth
            );
            return misfit(FaultKind::CascadeTooDeep, message);
        }
        let placed = place_event(state, run.effective.routes(name), targets, mail_counts)?;
        Ok(Emitted {
            schema: schema.name.clone(),
            value: run.blobs.slot(&data),
            to: placed.to,
            overloaded: placed.overloaded,
            unknown: placed.unknown,
            kept: left_behind,
        })
    }

    fn intents(&mut self, cell: &Cell, output: &Output) -> Result<Vec<Intent>, Misfit> {
        let count = output.effects.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        if output.state.is_none() {
            let message =
                format!("state null deletes the cell, and {count} effects stand beside it");
            return misfit(FaultKind::DeletedWithEffects, message);
        }
        let limits = &self.run.effective.limits;
        let kind = FaultKind::OpenWorkExceeded;
        let (of_cell, most) = ((cell.inflight.len() + count) as u64, limits.instance_intents);
        if of_cell > most {
            too_many(kind, "open intents an instance", most, of_cell)?;
        }
        let (of_world, most) = (self.state.cells.intents.count + count as u64, limits.open_intents);
        if of_world > most {
            too_many(kind, "open intents in the world", most, of_world)?;
        }
        let mut params_by_key = BTreeMap::new();
        let requests = output.effects.iter().enumerate();
        requests
            .map(|(index, request)| self.intent(cell, index, request, &mut params_by_key))
            .collect()
    }

    fn intent(
        &mut self,
        cell: &Cell,
        index: usize,
        request: &EffectRequest,
        params_by_key: &mut BTreeMap<String, Hash>,
    ) -> Result<Intent, Misfit> {
        let path = || format!("$.effects[{index}]");
        let (state, run) = (self.state, &mut *self.run);
        let name = request.effect.as_str();
        if !run.workflow.effects_emitted.contains(name) {
            let declared: Vec<&str> =
                run.workflow.effects_emitted.iter().map(|effect| &**effect).collect();
            let message = format!(
                "{}: {} is not in effects_emitted of {}: expected one of {}",
                path(),
                quoted(name),
                run.workflow.name,
                if declared.is_empty() { "none".to_string() } else { declared.join(", ") }
            );
            return misfit(FaultKind::EffectUndeclared, message);
        }
        let effective = run.effective.clone();
        let Some(effect) = effective.effects.get(name) else {
            let message = format!("{}: {} is not in the manifest in force", path(), quoted(name));
            return misfit(FaultKind::EffectUndeclared, message);
        };
        let invalid = |problem: &dyn std::fmt::Display| {
            misfit(FaultKind::ParamsInvalid, format!("{}: {name}: {problem}", path()))
        };
        let max_bytes = effective.limits.event_bytes as usize;
        let params = run
            .dialect
            .normal_form(&effective, &effect.params, &request.params, max_bytes)
            .and_then(|params| run.dialect.params(effect, params, max_bytes));
        let params = match params {
            Ok(params) => params,
            Err(problem) => return invalid(&problem),
        };
        if effect.takes_secrets {
            let value = effect.params.from_record(&params).map_err(as_damage)?;
            if let Some(problem) = secret_problem(&effective, &run.workflow.name, name, &value) {
                return invalid(&problem);
            }
        }
        let params = run.blobs.slot(&params);
        let params_hash = params.hash();
        if let Some(requested) = &request.key {
            let scope = effect.idempotency_scope;
            let key = idempotency_key(state.world(), &cell.id, name, requested, scope);
            let known = match scope {
                IdempotencyScope::Cell => cell.keys.get(key.as_str()),
                IdempotencyScope::World => state.world_keys.get(key.as_str()),
            };
            let known = known.copied().unwrap_or(params_hash);
            if *params_by_key.entry(key).or_insert(known) != params_hash {
                let message = format!(
                    "{}: {name} was asked for under the same idempotency key with other params",
                    path()
                );
                return misfit(FaultKind::IdempotencyConflict, message);
            }
        }
        let intent = intent_hash(&IntentParts {
            world: state.world(),
            cell: &cell.id,
            workflow_hash: &run.workflow.hash,
            seq: run.seq,
            index: index as u64,
            effect: name,
            effect_hash: &effect.hash,
            params_hash: &params_hash,
            key: request.key.as_ref(),
        });
        Ok(Intent {
            intent,
            effect: effect.name.clone(),
            effect_hash: effect.hash,
            params,
            key: request.key.clone(),
            issuer_ref: request.issuer_ref.clone(),
        })
    }
}

/// The status after the step: the declared one, else by the work that is in flight.
fn status(cell: &Cell, output: &Output, opens: bool) -> CellStatus {
    if output.state.is_none() {
        return CellStatus::Running;
    }
    match (output.status, cell.declared) {
        (Some(DeclaredStatus::Completed), _) => CellStatus::Completed,
        (Some(DeclaredStatus::Failed), _) => CellStatus::Failed,
        (None, Some(TerminalStatus::Completed)) => CellStatus::Completed,
        (None, Some(TerminalStatus::Failed)) => CellStatus::Failed,
        _ if opens || !cell.inflight.is_empty() => CellStatus::Waiting,
        _ => CellStatus::Running,
    }
}

fn as_damage(problem: ValueProblem) -> Failure {
    Failure::Damage(problem.to_string())
}

fn shown(data: &[u8]) -> String {
    if data.len() <= 32 {
        hex(data)
    } else {
        format!("{}… of {} bytes", hex(&data[..32]), data.len())
    }
}

fn too_many(kind: FaultKind, noun: &str, limit: u64, count: u64) -> Result<(), Misfit> {
    misfit(kind, format!("expected at most {limit} {noun}, found {count}"))
}
