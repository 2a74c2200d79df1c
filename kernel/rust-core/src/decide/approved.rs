//! Find out whether a proposal is open, and whether the approvers let its manifest come into force
//! (spec/governance.md, GV-25 and GV-40; `kernel/aos/core/decide/approved.py`).

use crate::decide::answers::{refusal, Refusal, Rule};
use crate::journal::input_fields::InputNat;
use crate::journal::inputs::ManifestInput;
use crate::journal::vocabulary::{ApplyMode, ClosedStatus, ProposalStatus, Vote, Word};
use crate::state::proposals::Proposal;
use crate::state::state::State;
use crate::values::digests::{hash_text, Hash};

/// Refuse a signed manifest that may not come into force in this world without more votes (GV-40).
pub fn check_proposal(
    state: &State,
    manifest_input: &ManifestInput,
    document: &Hash,
) -> Result<(), Refusal> {
    let manifest = state.manifest.as_ref();
    let Some(block) = manifest.and_then(|manifest| manifest.governance.as_ref()) else {
        if manifest_input.proposal.is_none() {
            return Ok(());
        }
        return Err(refusal(
            Rule::WorldIsNotGoverned,
            "the manifest in force names no approvers, so no manifest has a proposal (aos apply \
             PATH)",
        ));
    };
    let Some(named) = &manifest_input.proposal else {
        return Err(refusal(
            Rule::ManifestNeedsProposal,
            format!(
                "{} of {} approvers must approve a manifest of this world (propose it: aos gov \
                 propose PATH)",
                block.quorum,
                block.approvers.len()
            ),
        ));
    };
    let proposal = open_proposal(state, Some(named))?;
    if proposal.status(block) != ProposalStatus::Approved {
        return Err(refusal(
            Rule::ProposalLacksQuorum,
            format!(
                "proposal {}: expected the approval of {} of {} approvers, found {} (aos gov \
                 approve)",
                proposal.seq,
                block.quorum,
                block.approvers.len(),
                proposal.voters(Vote::Approve).count()
            ),
        ));
    }
    let mode = mode_of(proposal);
    if *document != proposal.document.hash
        || !manifest_input.mode.is(mode)
        || !has_leaves(manifest_input, proposal)
    {
        return Err(refusal(
            Rule::ProposalDiffers,
            format!(
                "proposal {} is another manifest, mode or list of left workflows: expected {} in \
                 mode {mode}",
                proposal.seq,
                hash_text(&proposal.document.hash)
            ),
        ));
    }
    Ok(())
}

fn has_leaves(manifest_input: &ManifestInput, proposal: &Proposal) -> bool {
    let (leaves, proposed) = (&manifest_input.leaves, &proposal.leaves);
    leaves.len() == proposed.len() && leaves.iter().zip(proposed).all(|(name, leaf)| name.is(leaf))
}

/// The mode in which a proposal would be applied.
pub fn mode_of(proposal: &Proposal) -> &'static str {
    proposal.mode.unwrap_or(ApplyMode::Strict).word()
}

/// The open proposal of record `seq`, or the refusal of an input that names it.
pub fn open_proposal<'a>(
    state: &'a State,
    seq: Option<&InputNat>,
) -> Result<&'a Proposal, Refusal> {
    if let Some(proposal) = found_proposal(state, seq) {
        return Ok(proposal);
    }
    let closed =
        seq.and_then(InputNat::nat).and_then(|seq| Some((seq, *state.proposals.closed.get(&seq)?)));
    Err(match closed {
        None => refusal(Rule::ProposalIsUnknown, unknown_proposal(seq)),
        Some((seq, ClosedStatus::Stale)) => refusal(
            Rule::ProposalIsStale,
            format!(
                "proposal {seq} is for a manifest that is no longer in force here (propose it \
                 again)"
            ),
        ),
        Some((seq, status)) => refusal(
            Rule::ProposalIsClosed,
            format!("proposal {seq} is {}, for good (propose it again)", status.word()),
        ),
    })
}

/// The sentence about a record that is no proposal.
pub fn unknown_proposal(seq: Option<&InputNat>) -> String {
    let seq = seq.map_or("null".to_string(), InputNat::digits);
    format!("no proposal is record {seq} (see aos gov list)")
}

/// The open proposal of record `seq`; None if there is none.
pub fn found_proposal<'a>(state: &'a State, seq: Option<&InputNat>) -> Option<&'a Proposal> {
    state.proposals.open.get(&seq?.nat()?)
}
