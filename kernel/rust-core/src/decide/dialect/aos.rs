//! The kernel's own ABI, `aos/1` (spec/kernel.md, K-32; `kernel/aos/core/decide/dialect/aos.py`).

use crate::journal::ports::Blobs;
use crate::manifest::effective::Workflow;
use crate::state::cell::{Content, Mail};
use crate::state::continuation::{continuation, stream_frame, Fields};
use crate::values::cbor::{encode, put_map, put_text};
use crate::values::errors::{Failure, Outcome};

/// The canonical bytes of an event as its receiver takes it: the event itself, or in its arm of a
/// variant. The bytes were checked when the event was admitted or emitted.
pub fn wrapped(workflow: &Workflow, schema: &str, value: &[u8]) -> Outcome<Vec<u8>> {
    if schema == &*workflow.event.name {
        return Ok(value.to_vec());
    }
    let Some(arm) = workflow.arms.get(schema) else {
        return Err(Failure::Damage(format!(
            "{} takes no {schema}, and has one in its mail",
            workflow.name
        )));
    };
    let mut out = Vec::with_capacity(value.len() + arm.len() + 16);
    put_map(&mut out, 2);
    put_text(&mut out, "$tag");
    put_text(&mut out, arm);
    put_text(&mut out, "$value");
    out.extend_from_slice(value);
    Ok(out)
}

pub fn context(fields: Fields) -> Vec<u8> {
    encode(&fields.into_value())
}

pub fn delivered(workflow: &Workflow, mail: &Mail, blobs: &dyn Blobs) -> Outcome<Vec<u8>> {
    let value = match &mail.content {
        Content::Event { schema, value } => {
            return wrapped(workflow, schema, &value.bytes(blobs)?);
        }
        Content::Stream { intent, frame } => stream_frame(workflow, intent, frame, blobs)?,
        Content::Receipt { intent, receipt } => continuation(workflow, intent, receipt, blobs)?,
    };
    Ok(encode(&value))
}
