//! The `governance` block of a manifest: the people who approve the next one (spec/governance.md,
//! GV-1; `kernel/aos/manifest/governance.py`).

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
    /// The key of the approver with this name.
    pub fn key(&self, name: &str) -> Option<&[u8; 32]> {
        self.approvers.iter().find(|approver| approver.name == name).map(|a| &a.public_key)
    }
}
