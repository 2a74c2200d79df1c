//! The governance input, and the bytes that proposers and approvers sign (spec/governance.md, GV-20
//! to GV-22; `kernel/aos/core/journal/governing.py`).

use std::rc::Rc;

use crate::values::cbor::{put_array, put_bytes, put_nat, put_null, put_text};
use crate::values::digests::{content_hash, Hash};

/// Longest note, in bytes of UTF-8.
pub const NOTE_BYTES_MAX: usize = 1024;
/// Largest patch.
pub const PATCH_BYTES_MAX: usize = 16 << 20;

const STRICT: &str = "strict";

/// The change that a proposal would put in force: the hashes of the manifest in force, of the next
/// one and of the patch between them, and the mode and `leaves` of the apply. Every vote signs it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProposedChange {
    pub base: Hash,
    pub document: Hash,
    pub patch: Hash,
    /// None if it is strict, as in a record.
    pub mode: Option<Rc<str>>,
    pub leaves: Vec<Rc<str>>,
}

/// A signed proposal, or a report, vote or withdrawal that names a `proposal` by its record.
#[derive(Clone, Debug)]
pub struct GovernanceInput {
    pub action: Rc<str>,
    pub principal: Rc<str>,
    pub signature: Rc<[u8]>,
    pub proposal: Option<u64>,
    pub serial: Option<u64>,
    pub base: Option<Hash>,
    pub document: Option<Rc<[u8]>>,
    pub patch: Option<Rc<[u8]>>,
    /// A word of `ApplyMode` if it is valid; `strict` if the sender named none.
    pub mode: Rc<str>,
    pub leaves: Vec<Rc<str>>,
    pub report: Option<Rc<[u8]>>,
    pub seen: Option<Hash>,
    pub note: Option<Rc<str>>,
}

impl GovernanceInput {
    /// The change that `propose` names; None if a part is missing.
    pub fn change(&self) -> Option<ProposedChange> {
        Some(ProposedChange {
            base: self.base?,
            document: content_hash(self.document.as_ref()?),
            patch: content_hash(self.patch.as_ref()?),
            mode: (&*self.mode != STRICT).then(|| self.mode.clone()),
            leaves: self.leaves.clone(),
        })
    }

    /// How many bytes of blobs it brings.
    pub fn size(&self) -> usize {
        [&self.document, &self.patch, &self.report]
            .into_iter()
            .flatten()
            .map(|blob| blob.len())
            .sum()
    }

    /// The bytes that the principal signs. `change` is that of the proposal.
    pub fn message(&self, world: &Hash, change: &ProposedChange) -> Vec<u8> {
        governance_message(
            world,
            &self.action,
            change,
            &Details {
                proposal: self.proposal,
                serial: self.serial,
                report: self.report.as_ref().map(|report| content_hash(report)),
                seen: self.seen,
                note: self.note.as_deref(),
            },
        )
    }
}

/// The fields of an action about a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details<'a> {
    pub proposal: Option<u64>,
    pub serial: Option<u64>,
    pub report: Option<Hash>,
    pub seen: Option<Hash>,
    pub note: Option<&'a str>,
}

/// The bytes that an operator or approver signs (J-44): null for what is absent.
///
/// The signature of a report, a vote or a withdrawal covers the whole change that is proposed, so it
/// is valid for no other proposal, even in a journal that was written again.
pub fn governance_message(
    world: &Hash,
    action: &str,
    change: &ProposedChange,
    details: &Details,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(384);
    put_array(&mut out, 13);
    put_text(&mut out, "aos/governance/1");
    put_bytes(&mut out, world);
    put_text(&mut out, action);
    put_option(&mut out, details.proposal, put_nat);
    put_option(&mut out, details.serial, put_nat);
    put_bytes(&mut out, &change.base);
    put_bytes(&mut out, &change.document);
    put_bytes(&mut out, &change.patch);
    put_option(&mut out, change.mode.as_deref(), put_text);
    if change.leaves.is_empty() {
        put_null(&mut out);
    } else {
        put_array(&mut out, change.leaves.len());
        for name in &change.leaves {
            put_text(&mut out, name);
        }
    }
    put_option(&mut out, details.report.as_ref(), |out, hash| put_bytes(out, hash));
    put_option(&mut out, details.seen.as_ref(), |out, hash| put_bytes(out, hash));
    put_option(&mut out, details.note, put_text);
    out
}

/// Append a value by `put`, or null.
pub(crate) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl Fn(&mut Vec<u8>, T)) {
    match value {
        Some(value) => put(out, value),
        None => put_null(out),
    }
}
