//! The proposals of a governed world, with their votes and reports so far (spec/governance.md,
//! GV-23 to GV-26; `kernel/aos/core/state/proposals.py`).
//!
//! Open proposals are kept in full, the last closed ones by their status alone.

use std::rc::Rc;

use crate::collections::OrderedMap;
use crate::journal::ports::Blobs;
use crate::journal::records::Ref;
use crate::journal::vocabulary::{ApplyMode, ClosedStatus, ProposalStatus, Vote};
use crate::manifest::effective::Effective;
use crate::manifest::governance::GovernanceBlock;
use crate::values::digests::Hash;
use crate::values::errors::{Failure, Outcome};

/// Proposals that may be open at the same time.
pub const PROPOSALS_MAX: usize = 16;

/// Shadow reports of one proposal.
pub const REPORTS_MAX: usize = 64;

/// Closed proposals whose status a world remembers.
pub const CLOSED_KEPT: usize = 256;

/// The vote of one approver, and its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    pub vote: Vote,
    pub seq: u64,
}

/// A journaled shadow report: its record and its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    pub seq: u64,
    pub size: u64,
}

/// An open proposal, named by its record `seq`. `votes` are by the names of approvers, `reports` by
/// their content hash, both in the order of the journal.
pub struct Proposal {
    pub seq: u64,
    pub principal: Rc<str>,
    pub base: Hash,
    pub document: Ref,
    pub patch: Ref,
    pub mode: Option<ApplyMode>,
    pub leaves: Vec<Rc<str>>,
    pub votes: OrderedMap<Rc<str>, Cast>,
    pub reports: OrderedMap<Hash, Reported>,
}

impl Proposal {
    /// The approvers who voted so, in the order of their votes.
    pub fn voters(&self, vote: Vote) -> impl Iterator<Item = &Rc<str>> {
        self.votes.iter().filter(move |(_, cast)| cast.vote == vote).map(|(name, _)| name)
    }

    /// The status under the governance in force: `open`, `approved` or `rejected`.
    pub fn status(&self, governance: &GovernanceBlock) -> ProposalStatus {
        let mut names: Vec<&str> = governance.approvers.iter().map(|one| &*one.name).collect();
        names.sort_unstable();
        names.dedup();
        let count = |vote| self.voters(vote).filter(|name| names.contains(&&***name)).count();
        let (approving, rejecting) = (count(Vote::Approve) as u64, count(Vote::Reject) as u64);
        if (names.len() as u64) < governance.quorum.saturating_add(rejecting) {
            ProposalStatus::Rejected
        } else if approving >= governance.quorum {
            ProposalStatus::Approved
        } else {
            ProposalStatus::Open
        }
    }
}

/// Add what an open proposal needs a blob for: as its manifest or a module of that, as its patch or
/// as a report (RT-10, K-104). Nothing more is looked for when there are `most` uses. Damage if the
/// manifest cannot be read. Python: `proposal_blobs`.
pub fn add_uses_of(
    proposal: &Proposal,
    blob: &Hash,
    blobs: &dyn Blobs,
    most: usize,
    uses: &mut Vec<String>,
) -> Outcome<()> {
    let seq = proposal.seq;
    let named = [
        (proposal.document.hash == *blob, "the manifest"),
        (proposal.patch.hash == *blob, "the patch"),
        (proposal.reports.contains_key(blob), "a shadow report"),
    ];
    for (_, part) in named.into_iter().filter(|(is_it, _)| *is_it) {
        if uses.len() < most {
            uses.push(format!("{part} of proposal {seq}"));
        }
    }
    if uses.len() >= most {
        return Ok(());
    }
    let document = match blobs.read(&proposal.document.hash) {
        // The proposal was open in an earlier snapshot and is closed now.
        Err(Failure::Erased) => return Ok(()),
        document => document?,
    };
    let effective = Effective::from_document(&document)?;
    let modules = effective.modules.values().filter(|module| module.hash == *blob);
    let room = most - uses.len();
    uses.extend(modules.take(room).map(|_| format!("a module of proposal {seq}")));
    Ok(())
}

/// All proposals of a world. `count` is how many there ever were, `open` and `closed` are by the
/// records that name them.
#[derive(Default)]
pub struct Proposals {
    pub count: u64,
    pub open: OrderedMap<u64, Proposal>,
    pub closed: OrderedMap<u64, ClosedStatus>,
}

impl Proposals {
    pub fn add(&mut self, proposal: Proposal) {
        self.count += 1;
        self.open.insert(proposal.seq, proposal);
    }

    /// Close a proposal for good; forget the oldest closed ones.
    pub fn close(&mut self, seq: u64, status: ClosedStatus) {
        self.open.remove(&seq);
        self.closed.insert(seq, status);
        while self.closed.len() > CLOSED_KEPT {
            self.closed.pop_first();
        }
    }

    /// Another manifest came into force, or another world began: every proposal is stale, except
    /// the one that was applied.
    pub fn close_all(&mut self, applied: Option<u64>) {
        let open: Vec<u64> = self.open.keys().copied().collect();
        for seq in open {
            let is_applied = applied == Some(seq);
            self.close(seq, if is_applied { ClosedStatus::Applied } else { ClosedStatus::Stale });
        }
    }
}
