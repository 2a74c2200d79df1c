//! Questions to the world itself: `sys/introspect.*@1`. The kernel answers them, at the sequence
//! that `meta` names.

use alloc::string::String;
use alloc::vec::Vec;

use crate::schema::{Key, encode};
use crate::types::Hash;
use crate::{Effect, Schema};

/// Where in the journal an answer holds.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/ReadMeta@1")]
pub struct ReadMeta {
    pub journal_height: u64,
    pub snapshot_hash: Option<Hash>,
    pub manifest_hash: Hash,
}

/// The manifest in force, as canonical CBOR.
#[derive(Effect, Clone, Debug, Default, PartialEq)]
#[effect(
    "sys/introspect.manifest@1",
    receipt = ManifestRead,
    executor = "kernel",
    params = "sys/IntrospectManifestParams@1"
)]
pub struct Manifest {
    /// Absent, or `head`.
    pub consistency: Option<String>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/IntrospectManifestReceipt@1")]
pub struct ManifestRead {
    pub manifest: Vec<u8>,
    pub meta: ReadMeta,
}

/// The state of another cell.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect(
    "sys/introspect.workflow_state@1",
    receipt = WorkflowStateRead,
    executor = "kernel",
    params = "sys/IntrospectWorkflowStateParams@1"
)]
pub struct WorkflowState {
    pub workflow: String,
    /// Canonical CBOR; none for a workflow without keys.
    pub key: Option<Vec<u8>>,
    pub consistency: Option<String>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/IntrospectWorkflowStateReceipt@1")]
pub struct WorkflowStateRead {
    /// None where the cell has no state. [`decode`](crate::decode) reads it.
    pub state: Option<Vec<u8>>,
    pub meta: ReadMeta,
}

/// How far the journal is.
#[derive(Effect, Clone, Debug, Default, PartialEq)]
#[effect(
    "sys/introspect.journal_head@1",
    receipt = JournalHeadRead,
    executor = "kernel",
    params = "sys/IntrospectJournalHeadParams@1"
)]
pub struct JournalHead {}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/IntrospectJournalHeadReceipt@1")]
pub struct JournalHeadRead {
    pub meta: ReadMeta,
}

/// The cells of a workflow, a page at a time.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect(
    "sys/introspect.list_cells@1",
    receipt = CellsListed,
    executor = "kernel",
    params = "sys/IntrospectListCellsParams@1"
)]
pub struct ListCells {
    pub workflow: String,
    /// The last key of the page before.
    pub after: Option<Vec<u8>>,
    /// At most 1,000.
    pub limit: Option<u64>,
    pub consistency: Option<String>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/IntrospectListCellsReceipt@1")]
pub struct CellsListed {
    pub cells: Vec<CellInfo>,
    /// If there are more cells: the key after which the next request continues.
    pub next: Option<Vec<u8>>,
    pub meta: ReadMeta,
}

#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/IntrospectCellInfo@1")]
pub struct CellInfo {
    pub key: Vec<u8>,
    pub state_hash: Hash,
    pub size: u64,
    pub last_active_ns: u64,
}

pub fn manifest() -> Manifest {
    Manifest::default()
}

/// The state of the one cell of a workflow without keys.
pub fn workflow_state(workflow: impl Into<String>) -> WorkflowState {
    WorkflowState { workflow: workflow.into(), key: None, consistency: None }
}

/// The state of the cell with this key.
pub fn cell_state<K: Key>(workflow: impl Into<String>, key: &K) -> WorkflowState {
    WorkflowState { key: Some(encode(key)), ..workflow_state(workflow) }
}

pub fn journal_head() -> JournalHead {
    JournalHead {}
}

/// At most `limit` cells after the key `after`, which is canonical CBOR.
pub fn list_cells(workflow: impl Into<String>, after: Option<Vec<u8>>, limit: u64) -> ListCells {
    ListCells { workflow: workflow.into(), after, limit: Some(limit), consistency: None }
}
