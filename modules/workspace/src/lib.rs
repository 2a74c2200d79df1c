//! `sys/Workspace@1`: the versions of one tree of files (`spec/agentos.md`, AG-54).
//!
//! A workspace is a cell, keyed by its name. A commit adds a version, unless it expects another head:
//! then it changes nothing, and its sender finds out by asking for the head
//! (`sys/workspace.resolve@1`). It is no fault, because a fault would keep out all later commits.
//!
//! Every step is annotated with `aos/WorkspaceAnswer@1`.

#![no_std]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("sys/WorkspaceName@1")]
pub struct WorkspaceName(pub String);

#[derive(Schema)]
#[schema("sys/WorkspaceCommitMeta@1")]
pub struct CommitMeta {
    pub root_hash: Hash,
    pub owner: String,
    pub created_at: Time,
}

#[derive(Schema)]
#[schema("sys/WorkspaceCommit@1")]
pub struct Commit {
    pub workspace: String,
    pub expected_head: Option<u64>,
    pub meta: CommitMeta,
}

#[derive(Schema, Default)]
#[schema("sys/WorkspaceHistory@1")]
pub struct History {
    /// The head; 0 before the first version.
    pub latest: u64,
    pub versions: Map<u64, CommitMeta>,
}

/// The annotation of every step: the version that the commit is, or the head that it did not expect.
#[derive(Schema)]
#[schema("aos/WorkspaceAnswer@1")]
pub enum Answer {
    Added { version: u64 },
    Refused { head: u64 },
}

/// The versions of one tree of files, from 1.
#[workflow(
    "sys/Workspace@1",
    key = WorkspaceName,
    module = "aos/workspace.module@1",
    annotations = Answer,
    upgrade = "in_place",
    limits(fuel = 20000000000, memory_bytes = 268435456, output_bytes = 16777216, state_bytes = 16777216, events = 0, effects = 0)
)]
fn workspace(history: &mut History, commit: Commit, cx: &mut Context) -> Result<(), Fault> {
    let head = history.latest;
    if commit.expected_head.is_some_and(|expected| expected != head) {
        if cx.is_new() {
            cx.delete();
        }
        cx.annotate(Answer::Refused { head });
        return Ok(());
    }
    history.latest = head + 1;
    history.versions.insert(history.latest, commit.meta);
    cx.annotate(Answer::Added { version: history.latest });
    Ok(())
}
