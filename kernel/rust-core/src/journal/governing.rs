//! The governance input, and the bytes that proposers and approvers sign (spec/governance.md, GV-20
//! to GV-22; `kernel/aos/core/journal/governing.py`).

use std::rc::Rc;

use crate::journal::input_fields::{
    put_input_hash, put_input_text, InputHash, InputNat, InputText,
};
use crate::values::cbor::{put_array, put_bytes, put_null, put_text};
use crate::values::digests::{content_hash, Hash};
use crate::values::errors::Outcome;

/// Longest note, in bytes of UTF-8.
pub const NOTE_BYTES_MAX: usize = 1024;
/// Largest patch.
pub const PATCH_BYTES_MAX: usize = 16 << 20;

const STRICT: &str = "strict";

/// The change that a proposal would put in force: the hashes of the manifest in force, of the next
/// one and of the patch between them, and the mode and `leaves` of the apply. Every vote signs it.
#[derive(Clone, Debug)]
pub struct ProposedChange {
    pub base: InputHash,
    pub document: Hash,
    pub patch: Hash,
    /// None if it is strict, as in a record.
    pub mode: Option<InputText>,
    pub leaves: Vec<InputText>,
}

/// A signed proposal, or a report, vote or withdrawal that names a `proposal` by its record.
#[derive(Clone, Debug)]
pub struct GovernanceInput {
    pub action: InputText,
    pub principal: InputText,
    pub signature: Rc<[u8]>,
    pub proposal: Option<InputNat>,
    pub serial: Option<InputNat>,
    pub base: Option<InputHash>,
    pub document: Option<Rc<[u8]>>,
    pub patch: Option<Rc<[u8]>>,
    /// A word of `ApplyMode` if it is valid; `strict` if the sender named none.
    pub mode: InputText,
    pub leaves: Vec<InputText>,
    pub report: Option<Rc<[u8]>>,
    pub seen: Option<InputHash>,
    pub note: Option<InputText>,
}

impl GovernanceInput {
    /// The change that `propose` names; None if a part is missing.
    pub fn change(&self) -> Option<ProposedChange> {
        Some(ProposedChange {
            base: self.base.clone()?,
            document: content_hash(self.document.as_ref()?),
            patch: content_hash(self.patch.as_ref()?),
            mode: (!self.mode.is(STRICT)).then(|| self.mode.clone()),
            leaves: self.leaves.clone(),
        })
    }

    /// The names of the workflows that the apply would remove although they have cells.
    pub fn left_names(&self) -> Outcome<Vec<Rc<str>>> {
        self.leaves.iter().map(|name| name.written().cloned()).collect()
    }

    /// The bytes that the principal signs (J-44): null for what is absent. `change` is that of the
    /// proposal.
    ///
    /// The signature of a report, a vote or a withdrawal covers the whole change that is proposed,
    /// so it is valid for no other proposal, even in a journal that was written again.
    pub fn message(&self, world: &Hash, change: &ProposedChange) -> Outcome<Vec<u8>> {
        let mut out = Vec::with_capacity(384);
        let report = self.report.as_ref().map(|report| content_hash(report));
        put_array(&mut out, 13);
        put_text(&mut out, "aos/governance/1");
        put_bytes(&mut out, world);
        put_input_text(&mut out, &self.action)?;
        put_or_null(&mut out, self.proposal.as_ref(), |out, seq| seq.put(out))?;
        put_or_null(&mut out, self.serial.as_ref(), |out, serial| serial.put(out))?;
        put_input_hash(&mut out, &change.base);
        put_bytes(&mut out, &change.document);
        put_bytes(&mut out, &change.patch);
        put_or_null(&mut out, change.mode.as_ref(), put_input_text)?;
        if change.leaves.is_empty() {
            put_null(&mut out);
        } else {
            put_array(&mut out, change.leaves.len());
            for name in &change.leaves {
                put_input_text(&mut out, name)?;
            }
        }
        put_option(&mut out, report.as_ref(), |out, hash| put_bytes(out, hash));
        put_option(&mut out, self.seen.as_ref(), put_input_hash);
        put_or_null(&mut out, self.note.as_ref(), put_input_text)?;
        Ok(out)
    }
}

fn put_or_null<T>(
    out: &mut Vec<u8>,
    value: Option<T>,
    put: impl Fn(&mut Vec<u8>, T) -> Outcome<()>,
) -> Outcome<()> {
    match value {
        Some(value) => put(out, value),
        None => {
            put_null(out);
            Ok(())
        }
    }
}

/// Append a value by `put`, or null.
pub(crate) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl Fn(&mut Vec<u8>, T)) {
    match value {
        Some(value) => put(out, value),
        None => put_null(out),
    }
}
