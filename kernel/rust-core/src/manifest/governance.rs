//! The `governance` block of a manifest: the people who approve the next one (spec/governance.md,
//! GV-1; `kernel/aos/manifest/governance.py`).

use crate::manifest::keys::parse_key;
use crate::manifest::node::{list, number, number_or, text, Reading};
use crate::values::cbor::Value;

/// A person whose vote counts. `public_key` is 32 raw Ed25519 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approver {
    pub name: String,
    pub public_key: [u8; 32],
}

/// A manifest comes into force only if `quorum` approvers voted for it. `approvers` are in the
/// order of their names. With `shadow_records`, an approval must name a shadow report of so many
/// records; 0 asks for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovernanceBlock {
    pub approvers: Vec<Approver>,
    pub quorum: u64,
    pub shadow_records: u64,
}

impl GovernanceBlock {
    /// The typed view of a block of a document.
    pub fn of(node: &Value) -> Reading<Self> {
        let approver = |entry: &Value| {
            Ok(Approver {
                name: text(entry, "name")?.to_string(),
                public_key: parse_key(text(entry, "public_key")?)?,
            })
        };
        Ok(GovernanceBlock {
            approvers: list(node, "approvers")?.iter().map(approver).collect::<Reading<_>>()?,
            quorum: number(node, "quorum")?,
            shadow_records: number_or(node, "shadow_records", 0)?,
        })
    }

    /// The key of the approver with this name.
    pub fn key(&self, name: &str) -> Option<&[u8; 32]> {
        self.approvers.iter().find(|approver| approver.name == name).map(|a| &a.public_key)
    }
}
