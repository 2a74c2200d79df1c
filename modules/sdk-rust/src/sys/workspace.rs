//! Trees of files as blobs: `sys/workspace.*@1`, and the event with which a tree becomes a version of a workspace.
//!
//! The kernel answers [`Resolve`]; the others need `--executors workspace`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::types::{Hash, Map, Time};
use crate::{Effect, Schema};

/// Ask for the head and one version of a workspace.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.resolve@1", receipt = ResolveReceipt, executor = "kernel", params = "sys/WorkspaceResolveParams@1")]
pub struct Resolve {
    pub workspace: String,
    pub version: Option<u64>,
}

/// `sys/WorkspaceResolveReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceResolveReceipt@1")]
pub struct ResolveReceipt {
    pub exists: bool,
    pub resolved_version: Option<u64>,
    pub head: Option<u64>,
    pub root_hash: Option<Hash>,
}

/// Ask for the root of a tree without files.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.empty_root@1", receipt = EmptyRootReceipt, executor = "node", params = "sys/WorkspaceEmptyRootParams@1")]
pub struct EmptyRoot {
    pub workspace: String,
}

/// `sys/WorkspaceEmptyRootReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceEmptyRootReceipt@1")]
pub struct EmptyRootReceipt {
    pub root_hash: Hash,
}

/// List the entries of a folder of a tree.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.list@1", receipt = ListReceipt, executor = "node", params = "sys/WorkspaceListParams@1")]
pub struct List {
    pub root_hash: Hash,
    pub path: Option<String>,
    pub scope: Option<String>,
    pub cursor: Option<String>,
    pub limit: u64,
}

/// `sys/WorkspaceListReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceListReceipt@1")]
pub struct ListReceipt {
    pub entries: Vec<ListEntry>,
    pub next_cursor: Option<String>,
}

/// Ask for what is at a path of a tree.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.read_ref@1", receipt = ReadRefReceipt, executor = "node", params = "sys/WorkspaceReadRefParams@1")]
pub struct ReadRef {
    pub root_hash: Hash,
    pub path: String,
}

/// `sys/WorkspaceReadRefReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceReadRefReceipt@1")]
pub struct ReadRefReceipt(pub Option<RefEntry>);

/// Read a file of a tree.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.read_bytes@1", receipt = ReadBytesReceipt, executor = "node", params = "sys/WorkspaceReadBytesParams@1")]
pub struct ReadBytes {
    pub root_hash: Hash,
    pub path: String,
    pub range: Option<ReadBytesRange>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct ReadBytesRange {
    pub start: u64,
    pub end: u64,
}

/// `sys/WorkspaceReadBytesReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceReadBytesReceipt@1")]
pub struct ReadBytesReceipt(pub Vec<u8>);

/// Write a file: the answer has the root of a new tree.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.write_bytes@1", receipt = WriteBytesReceipt, executor = "node", params = "sys/WorkspaceWriteBytesParams@1")]
pub struct WriteBytes {
    pub root_hash: Hash,
    pub path: String,
    pub bytes: Vec<u8>,
    pub mode: Option<u64>,
}

/// `sys/WorkspaceWriteBytesReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceWriteBytesReceipt@1")]
pub struct WriteBytesReceipt {
    pub new_root_hash: Hash,
    pub blob_hash: Hash,
}

/// Write a blob of the world as a file of a new tree.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.write_ref@1", receipt = WriteRefReceipt, executor = "node", params = "sys/WorkspaceWriteRefParams@1")]
pub struct WriteRef {
    pub root_hash: Hash,
    pub path: String,
    pub blob_hash: Hash,
    pub mode: Option<u64>,
}

/// `sys/WorkspaceWriteRefReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceWriteRefReceipt@1")]
pub struct WriteRefReceipt {
    pub new_root_hash: Hash,
    pub blob_hash: Hash,
}

/// Remove a file or an empty folder: the answer has the root of a new tree.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.remove@1", receipt = RemoveReceipt, executor = "node", params = "sys/WorkspaceRemoveParams@1")]
pub struct Remove {
    pub root_hash: Hash,
    pub path: String,
}

/// `sys/WorkspaceRemoveReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceRemoveReceipt@1")]
pub struct RemoveReceipt {
    pub new_root_hash: Hash,
}

/// Compare two trees.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.diff@1", receipt = DiffReceipt, executor = "node", params = "sys/WorkspaceDiffParams@1")]
pub struct Diff {
    pub root_a: Hash,
    pub root_b: Hash,
    pub prefix: Option<String>,
}

/// `sys/WorkspaceDiffReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceDiffReceipt@1")]
pub struct DiffReceipt {
    pub changes: Vec<DiffChange>,
}

/// Ask for the annotations of a path.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.annotations_get@1", receipt = AnnotationsGetReceipt, executor = "node", params = "sys/WorkspaceAnnotationsGetParams@1")]
pub struct AnnotationsGet {
    pub root_hash: Hash,
    pub path: Option<String>,
}

/// `sys/WorkspaceAnnotationsGetReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceAnnotationsGetReceipt@1")]
pub struct AnnotationsGetReceipt {
    pub annotations: Option<Annotations>,
}

/// Set and remove annotations of a path, in a new tree.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/workspace.annotations_set@1", receipt = AnnotationsSetReceipt, executor = "node", params = "sys/WorkspaceAnnotationsSetParams@1")]
pub struct AnnotationsSet {
    pub root_hash: Hash,
    pub path: Option<String>,
    pub annotations_patch: AnnotationsPatch,
}

/// `sys/WorkspaceAnnotationsSetReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceAnnotationsSetReceipt@1")]
pub struct AnnotationsSetReceipt {
    pub new_root_hash: Hash,
    pub annotations_hash: Hash,
}

/// `sys/WorkspaceCommit@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceCommit@1")]
pub struct Commit {
    pub workspace: String,
    pub expected_head: Option<u64>,
    pub meta: CommitMeta,
}

/// `sys/WorkspaceHistory@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceHistory@1")]
pub struct History {
    pub latest: u64,
    pub versions: Map<u64, CommitMeta>,
}

/// `sys/WorkspaceListEntry@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceListEntry@1")]
pub struct ListEntry {
    pub path: String,
    pub kind: String,
    pub hash: Option<Hash>,
    pub size: Option<u64>,
    pub mode: Option<u64>,
}

/// `sys/WorkspaceRefEntry@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceRefEntry@1")]
pub struct RefEntry {
    pub kind: String,
    pub hash: Hash,
    pub size: u64,
    pub mode: u64,
}

/// `sys/WorkspaceDiffChange@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceDiffChange@1")]
pub struct DiffChange {
    pub path: String,
    pub kind: String,
    pub old_hash: Option<Hash>,
    pub new_hash: Option<Hash>,
}

/// `sys/WorkspaceAnnotations@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceAnnotations@1")]
pub struct Annotations(pub Map<String, Hash>);

/// `sys/WorkspaceAnnotationsPatch@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceAnnotationsPatch@1")]
pub struct AnnotationsPatch(pub Map<String, Option<Hash>>);

/// `sys/WorkspaceCommitMeta@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/WorkspaceCommitMeta@1")]
pub struct CommitMeta {
    pub root_hash: Hash,
    pub owner: String,
    pub created_at: Time,
}
