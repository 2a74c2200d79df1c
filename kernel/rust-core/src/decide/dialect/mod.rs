//! The ABIs that a module may be written for, where they differ
//! (`kernel/aos/core/decide/dialect`; spec/kernel.md, K-32).
//!
//! A `Dialect` is what an ABI changes about a step: the form in which the module gets its input, and
//! the form in which its output is read. The journal always holds our forms, so a dialect converts
//! on the way in and on the way out, and replay converts again.

pub mod agentos;
pub mod aos;

use std::borrow::Cow;

use crate::decide::answers::NewBlobs;
use crate::decide::envelope::EFFECT_FIELDS;
use crate::journal::ports::Blobs;
use crate::journal::records::Slot;
use crate::manifest::effective::{Effect, Effective, Workflow};
use crate::manifest::forms::AGENTOS;
use crate::state::cell::{Content, Mail};
use crate::state::continuation::Fields;
use crate::values::errors::{Outcome, ValueProblem};
use crate::values::schema::Schema;

/// `aos/1`: the module gets and returns the forms of the journal. `agentos`: modules of the AgentOS
/// SDK, which have other forms and SHA-256 hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Aos,
    Agentos,
}

impl Dialect {
    /// The dialect of a workflow's module.
    pub fn of(workflow: &Workflow) -> Self {
        match &*workflow.module.abi {
            AGENTOS => Dialect::Agentos,
            _ => Dialect::Aos,
        }
    }

    /// The fields that a requested effect may have, sorted.
    pub fn effect_fields(self) -> &'static [&'static str] {
        match self {
            Dialect::Aos => &EFFECT_FIELDS,
            Dialect::Agentos => &agentos::EFFECT_FIELDS,
        }
    }

    /// Whether an annotation is dropped, not refused, if the workflow declares no schema.
    pub fn drops_annotations(self) -> bool {
        self == Dialect::Agentos
    }

    /// Encode a `sys/WorkflowContext@1` in the module's form.
    pub fn context(self, fields: Fields) -> Vec<u8> {
        match self {
            Dialect::Aos => aos::context(fields),
            Dialect::Agentos => agentos::context(fields),
        }
    }

    /// A cell's key in the module's form; it is empty for an unkeyed workflow.
    pub fn shown_key(self, key: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Dialect::Aos => Cow::Borrowed(key),
            Dialect::Agentos => Cow::Owned(agentos::shown_key(key)),
        }
    }

    /// Convert a key that the module named to our form.
    pub fn own_key(self, key: &[u8]) -> &[u8] {
        match self {
            Dialect::Aos => key,
            Dialect::Agentos => agentos::own_key(key),
        }
    }

    /// The event that the module is called with. Blobs that must be stored with the step because
    /// the module may name them are added to `names`. `manifest` is the workflow's. Damage if a blob
    /// of the mail is missing or altered.
    pub fn delivered(
        self,
        workflow: &Workflow,
        manifest: &Effective,
        mail: &Mail,
        blobs: &dyn Blobs,
        names: &mut NewBlobs,
    ) -> Outcome<Vec<u8>> {
        match self {
            Dialect::Aos => aos::delivered(workflow, mail, blobs),
            Dialect::Agentos => agentos::delivered(workflow, manifest, mail, blobs, names),
        }
    }

    /// The value, other than the mail's own, that delivering this mail reads.
    pub fn reads_of(self, mail: &Mail) -> Option<Slot> {
        match (self, &mail.content) {
            // A stream frame is delivered with the hash of its intent's params.
            (Dialect::Agentos, Content::Stream { intent, .. }) => Some(intent.params.clone()),
            _ => None,
        }
    }

    /// Convert a value that the module emitted to the canonical bytes of its normal form. Refused if
    /// it does not fit `schema`, or has more than `max_bytes` bytes.
    pub fn normal_form<'a>(
        self,
        manifest: &Effective,
        schema: &Schema,
        data: &'a [u8],
        max_bytes: usize,
    ) -> Result<Cow<'a, [u8]>, ValueProblem> {
        match self {
            Dialect::Aos => schema.from_ingress(data, max_bytes),
            Dialect::Agentos => agentos::read_foreign(manifest, schema, data, max_bytes),
        }
    }

    /// Complete the params of a requested effect, which are in normal form. Refused if they cannot
    /// be completed, or become longer than `max_bytes` bytes.
    pub fn params<'a>(
        self,
        effect: &Effect,
        params: Cow<'a, [u8]>,
        max_bytes: usize,
    ) -> Result<Cow<'a, [u8]>, ValueProblem> {
        match self {
            Dialect::Aos => Ok(params),
            Dialect::Agentos => agentos::completed(effect, params, max_bytes),
        }
    }
}
