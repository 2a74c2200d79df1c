"""Find out whether a proposal is open, and whether the approvers let its manifest come into force
(spec/governance.md, GV-25 and GV-40)."""

from __future__ import annotations

from aos.core.decide.answers import Refusal, Rule, refusal
from aos.core.journal.inputs import STRICT, ManifestInput
from aos.core.state.proposals import Proposal
from aos.core.state.state import State
from aos.values.digests import Hash, hash_text
from aos.values.show import describe


def proposal_problem(state: State, manifest_input: ManifestInput, document: Hash) -> Refusal | None:
    """Why a signed manifest may not come into force in this world without more votes (GV-40)."""
    block = None if state.manifest is None else state.manifest.governance
    if block is None:
        if manifest_input.proposal is None:
            return None
        return refusal(
            Rule.WORLD_IS_NOT_GOVERNED,
            "the manifest in force names no approvers, so no manifest has a proposal (aos apply "
            "PATH)",
        )
    if manifest_input.proposal is None:
        return refusal(
            Rule.MANIFEST_NEEDS_PROPOSAL,
            f"{block.quorum} of {len(block.approvers)} approvers must approve a manifest of this "
            "world (propose it: aos gov propose PATH)",
        )
    proposal = open_proposal(state, manifest_input.proposal)
    if isinstance(proposal, Refusal):
        return proposal
    if proposal.status(block) != "approved":
        return refusal(
            Rule.PROPOSAL_LACKS_QUORUM,
            f"proposal {proposal.seq}: expected the approval of {block.quorum} of "
            f"{len(block.approvers)} approvers, found {len(proposal.voters('approve'))} "
            "(aos gov approve)",
        )
    applied = (document, manifest_input.mode, manifest_input.leaves)
    if applied != (proposal.document.hash, proposal.mode or STRICT, proposal.leaves):
        return refusal(
            Rule.PROPOSAL_DIFFERS,
            f"proposal {proposal.seq} is another manifest, mode or list of left workflows: "
            f"expected {hash_text(proposal.document.hash)} in mode {proposal.mode or STRICT}",
        )
    return None


def open_proposal(state: State, seq: object) -> Proposal | Refusal:
    """Return the open proposal of record ``seq``, or the refusal of an input that names it."""
    proposal = found_proposal(state, seq)
    if proposal is not None:
        return proposal
    closed = state.proposals.closed.get(seq) if type(seq) is int else None
    if closed is None:
        return refusal(Rule.PROPOSAL_IS_UNKNOWN, unknown_proposal(seq))
    if closed == "stale":
        return refusal(
            Rule.PROPOSAL_IS_STALE,
            f"proposal {seq} is for a manifest that is no longer in force here (propose it again)",
        )
    return refusal(
        Rule.PROPOSAL_IS_CLOSED, f"proposal {seq} is {closed}, for good (propose it again)"
    )


def unknown_proposal(seq: object) -> str:
    """The sentence about a record that is no proposal."""
    seq_text = str(seq) if type(seq) is int else describe(seq)
    return f"no proposal is record {seq_text} (see aos gov list)"


def found_proposal(state: State, seq: object) -> Proposal | None:
    """Return the open proposal of record ``seq``; None if there is none."""
    return state.proposals.open.get(seq) if type(seq) is int else None
