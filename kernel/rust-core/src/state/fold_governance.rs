//! Apply a governance record to the state: a proposal, a report, a vote, a withdrawal (GV-23 to
//! GV-26; `kernel/aos/core/state/fold_governance.py`).
//!
//! As the whole fold, this checks that the record can follow, and not who signed it.

use crate::collections::OrderedMap;
use crate::journal::records::Governance;
use crate::journal::vocabulary::{ClosedStatus, GovernanceAction, ProposalStatus, Vote};
use crate::state::fold::shown;
use crate::state::proposals::{Cast, Proposal, Reported};
use crate::state::state::State;
use crate::values::errors::{Failure, Outcome};

/// Apply `record`. Damage if it cannot follow the state.
pub fn fold_governance(state: &mut State, record: &Governance) -> Outcome<()> {
    let seq = record.seq;
    let effective = state.effective().clone();
    let Some(block) = &effective.governance else {
        return damage(format!(
            "record {seq} is of kind governance, and the manifest names no one"
        ));
    };
    if record.action == GovernanceAction::Propose {
        return propose(state, record);
    }
    let named = record.proposal.and_then(|named| state.proposals.open.get_mut(&named));
    let Some(proposal) = named else {
        return damage(format!(
            "record {seq} is about a proposal that is not open: {}",
            shown(record.proposal)
        ));
    };
    let vote = match (record.action, record.report) {
        (GovernanceAction::Report, Some(report)) => {
            proposal.reports.insert(report.hash, Reported { seq, size: report.size });
            return Ok(());
        }
        (GovernanceAction::Withdraw, _) => {
            let named = proposal.seq;
            state.proposals.close(named, ClosedStatus::Withdrawn);
            return Ok(());
        }
        (GovernanceAction::Approve, _) => Vote::Approve,
        (GovernanceAction::Reject, _) => Vote::Reject,
        (GovernanceAction::Report | GovernanceAction::Propose, _) => {
            return damage(format!("record {seq} has no report"));
        }
    };
    let cast = proposal.votes.get(&record.principal);
    let may_vote = cast.is_none_or(|cast| cast.vote == Vote::Approve && vote == Vote::Reject);
    if block.key(&record.principal).is_none() || !may_vote {
        return damage(format!("record {seq} is a vote that {} could not cast", record.principal));
    }
    proposal.votes.insert(record.principal.clone(), Cast { vote, seq });
    if proposal.status(block) == ProposalStatus::Rejected {
        let named = proposal.seq;
        state.proposals.close(named, ClosedStatus::Rejected);
    }
    Ok(())
}

fn propose(state: &mut State, record: &Governance) -> Outcome<()> {
    let seq = record.seq;
    if record.serial != Some(state.proposals.count) {
        return damage(format!(
            "record {seq}: proposal serial: expected {}, found {}",
            state.proposals.count,
            shown(record.serial)
        ));
    }
    let in_force = state.effective().hash;
    let (Some(base), Some(document), Some(patch)) = (record.base, record.document, record.patch)
    else {
        return damage(format!("record {seq} proposes nothing for the manifest in force"));
    };
    if base != in_force {
        return damage(format!("record {seq} proposes nothing for the manifest in force"));
    }
    state.proposals.add(Proposal {
        seq,
        principal: record.principal.clone(),
        base,
        document,
        patch,
        mode: record.mode,
        leaves: record.leaves.clone(),
        votes: OrderedMap::default(),
        reports: OrderedMap::default(),
    });
    Ok(())
}

fn damage(text: String) -> Outcome<()> {
    Err(Failure::Damage(text))
}
