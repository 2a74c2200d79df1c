"""Apply a governance record to the state: a proposal, a report, a vote, a withdrawal (GV-23 to
GV-26).

As the whole fold, this checks that the record can follow, and not who signed it.
"""

from __future__ import annotations

from aos.core.journal.governing import APPROVE, REJECT
from aos.core.journal.records import Governance
from aos.core.state.proposals import Cast, Proposal, Reported
from aos.core.state.state import State
from aos.errors import Damage
from aos.manifest.governance import GovernanceBlock


def fold_governance(state: State, record: Governance) -> None:
    """Apply ``record``.

    Raises:
        Damage: It cannot follow the state.
    """
    block = state.effective.governance
    if block is None:
        raise Damage(f"record {record.seq} is of kind governance, and the manifest names no one")
    if record.action == "propose":
        _propose(state, record)
        return
    proposal = None if record.proposal is None else state.proposals.open.get(record.proposal)
    if proposal is None:
        raise Damage(f"record {record.seq} is about a proposal that is not open: {record.proposal}")
    match record:
        case Governance(action="report") if record.report is not None:
            proposal.reports[record.report.hash] = Reported(record.seq, record.report.size)
        case Governance(action="approve" | "reject" as vote):
            _vote(proposal, record, block, vote == REJECT)
            proposal.votes[record.principal] = Cast(vote, record.seq)
            if proposal.status(block) == "rejected":
                state.proposals.close(proposal.seq, "rejected")
        case Governance(action="withdraw"):
            state.proposals.close(proposal.seq, "withdrawn")
        case _:
            raise Damage(f"record {record.seq} has no report")


def _propose(state: State, record: Governance) -> None:
    proposals = state.proposals
    if record.serial != proposals.count:
        raise Damage(
            f"record {record.seq}: proposal serial: expected {proposals.count}, found "
            f"{record.serial}"
        )
    if record.base != state.effective.hash or record.document is None or record.patch is None:
        raise Damage(f"record {record.seq} proposes nothing for the manifest in force")
    proposals.add(
        Proposal(
            seq=record.seq,
            principal=record.principal,
            base=record.base,
            document=record.document,
            patch=record.patch,
            mode=record.mode,
            leaves=record.leaves,
        )
    )


def _vote(proposal: Proposal, record: Governance, block: GovernanceBlock, is_reject: bool) -> None:
    cast = proposal.votes.get(record.principal)
    if block.key(record.principal) is None or not (
        cast is None or (cast.vote == APPROVE and is_reject)
    ):
        raise Damage(f"record {record.seq} is a vote that {record.principal} could not cast")
