//! Find the parts of a cell that a version of its workflow cannot take (K-71, K-102;
//! `kernel/aos/core/decide/fits.py`).
//!
//! A cell was made under one manifest and may continue under another: its key, state, mail and open
//! intents must fit the workflow there. A state or event that lacks only fields of type option fits:
//! its module is given it with null for them (K-71d). An event may also have null fields that its
//! receiver does not know: the module is given it without them (K-73a).

use std::borrow::Cow;
use std::rc::Rc;

use crate::journal::ports::Blobs;
use crate::journal::records::Slot;
use crate::journal::vocabulary::{ReceiptOutcome, ReceiptStatus};
use crate::manifest::builtins::{REJECTED, STREAM};
use crate::manifest::effective::{Effective, Workflow};
use crate::state::cell::{Cell, Content, Mail, OpenIntent};
use crate::state::continuation::{settled_arm, takes};
use crate::values::errors::Outcome;
use crate::values::schema::Schema;

/// `data` with null for every field of type option that an earlier form of `schema` lacked (K-71d).
/// Bytes that do not fit stay as they are: a manifest of a release that did not compare stored
/// states may have left some (K-71c).
pub fn completed<'a>(schema: &Schema, data: &'a [u8]) -> Cow<'a, [u8]> {
    schema.completed(data).unwrap_or(Cow::Borrowed(data))
}

/// An event that was recorded under another form of `schema`, as its receiver gets it (K-73a). Bytes
/// that do not fit stay as they are (K-71c).
pub fn as_received<'a>(schema: &Schema, data: &'a [u8]) -> Cow<'a, [u8]> {
    schema.fitted(data).unwrap_or(Cow::Borrowed(data))
}

pub fn key_problem(workflow: &Workflow, key: &[u8]) -> Option<String> {
    let Some(schema) = &workflow.key else {
        return (!key.is_empty()).then(|| "its workflow has no keys any more".to_string());
    };
    if key.is_empty() {
        return Some("its workflow has keys now, and it has none".to_string());
    }
    let problem = schema.check_record(key).err()?;
    Some(format!("its key is no {}: {problem}", schema.name))
}

/// The problem of a state with the workflow's schema; None if it fits. Damage if the state cannot be
/// read.
pub fn state_problem(
    workflow: &Workflow,
    state: Option<&Slot>,
    blobs: &dyn Blobs,
) -> Outcome<Option<String>> {
    match state {
        // An opaque state always fits (AG-12).
        Some(state) if !workflow.has_opaque_state() => {
            Ok(stored_problem(workflow, &state.bytes(blobs)?))
        }
        _ => Ok(None),
    }
}

/// As `state_problem`, of bytes.
pub fn stored_problem(workflow: &Workflow, state: &[u8]) -> Option<String> {
    if workflow.has_opaque_state() {
        return None;
    }
    let problem = workflow.state.completed(state).err()?;
    Some(format!("its state is no {}: {problem}", workflow.state.name))
}

/// The mail and the open intents of a cell that the workflow cannot take, in their order, until
/// `take` returns false. Damage if mail cannot be read.
pub fn work_problems<'a>(
    effective: &Effective,
    workflow: &Workflow,
    mails: impl Iterator<Item = &'a Mail>,
    intents: &[Rc<OpenIntent>],
    blobs: &dyn Blobs,
    take: &mut dyn FnMut(String) -> bool,
) -> Outcome<bool> {
    for mail in mails {
        if let Some(problem) = mail_problem(effective, workflow, mail, blobs)? {
            if !take(format!("the entry of record {}: {problem}", mail.entry.0)) {
                return Ok(false);
            }
        }
    }
    Ok(open_problems(workflow, intents).all(take))
}

/// The open intents for whose receipts the workflow has no arm.
pub fn open_problems<'a>(
    workflow: &'a Workflow,
    intents: &'a [Rc<OpenIntent>],
) -> impl Iterator<Item = String> + 'a {
    let is_served =
        |intent: &&Rc<OpenIntent>| settled_arm(workflow, intent, ReceiptStatus::Ok).is_none();
    intents.iter().filter(is_served).map(|intent| {
        format!(
            "it waits for {} of record {}: {} has no arm for its receipt",
            intent.effect.name, intent.seq, workflow.name
        )
    })
}

pub fn mail_problem(
    effective: &Effective,
    workflow: &Workflow,
    mail: &Mail,
    blobs: &dyn Blobs,
) -> Outcome<Option<String>> {
    let takes_no = |schema: &str| {
        (!takes(workflow, schema)).then(|| format!("{} takes no {schema}", workflow.name))
    };
    Ok(match &mail.content {
        Content::Event { schema, value } => {
            event_problem(effective, workflow, schema, &value.bytes(blobs)?)
        }
        Content::Stream { .. } => takes_no(STREAM),
        Content::Receipt { receipt, .. } if receipt.outcome() == ReceiptOutcome::Rejected => {
            takes_no(REJECTED)
        }
        Content::Receipt { intent, receipt } => {
            match settled_arm(workflow, intent, receipt.status()) {
                Some(_) => None,
                None => Some(format!(
                    "{} has no arm for a receipt of {}",
                    workflow.name, intent.effect.name
                )),
            }
        }
    })
}

/// The reason why `workflow` of `effective` cannot take an event of this schema (K-73).
pub fn event_problem(
    effective: &Effective,
    workflow: &Workflow,
    schema: &str,
    value: &[u8],
) -> Option<String> {
    let event_schema = effective.schemas.get(schema).filter(|_| takes(workflow, schema));
    let Some(event_schema) = event_schema else {
        return Some(format!("{} takes no {schema}", workflow.name));
    };
    let problem = event_schema.fitted(value).err()?;
    Some(format!("it is no {schema}: {problem}"))
}

/// The first part of a failed cell that does not fit; `skips` drops the entry that failed. With
/// `intents`, those are checked last.
pub fn cell_problem(
    effective: &Effective,
    workflow: &Workflow,
    cell: &Cell,
    intents: &[Rc<OpenIntent>],
    blobs: &dyn Blobs,
    skips: bool,
) -> Outcome<Option<String>> {
    if let Some(problem) = key_problem(workflow, &cell.id.key) {
        return Ok(Some(problem));
    }
    if let Some(problem) = state_problem(workflow, cell.state.as_ref(), blobs)? {
        return Ok(Some(problem));
    }
    let mut first = None;
    let mails = cell.mailbox.iter().skip(skips.into());
    work_problems(effective, workflow, mails, intents, blobs, &mut |problem| {
        first = Some(problem);
        false
    })?;
    Ok(first)
}
