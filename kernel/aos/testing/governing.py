"""Propose, vote and report in the world of a test (spec/testing.md, T-15c).

The operator and every approver of a manifest have keys of the test (T-3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nacl.signing import SigningKey

from aos.core.journal.governing import APPROVE, REJECT, REPORT, ProposedChange
from aos.core.journal.inputs import STRICT
from aos.core.journal.shadow_report import ReportHead
from aos.core.state.proposals import Proposal
from aos.errors import BadUsage
from aos.host.apply.signed_governance import sign_governance, sign_proposal
from aos.manifest.governance import GovernanceBlock
from aos.manifest.load import Loaded
from aos.manifest.patching import patch_between
from aos.testing.sources import OPERATOR_KEY, OPERATOR_NAME, approver_key
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash

if TYPE_CHECKING:  # ``desk`` applies with this module
    from aos.testing.desk import Desk


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalSeen:
    """A proposal and its ``status``: open, approved, rejected, withdrawn, applied or stale. Of a
    closed one, the names of those who voted are left out."""

    seq: int
    status: str
    approved: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


def read_proposal(desk: Desk, proposal: int) -> ProposalSeen:
    """Return a proposal as it is now. Raises: BadUsage: There is no such proposal."""
    proposals = desk.state.proposals
    open_proposal = proposals.open.get(proposal)
    if open_proposal is not None:
        return ProposalSeen(
            seq=proposal,
            status=open_proposal.status(_governance(desk)),
            approved=tuple(open_proposal.voters(APPROVE)),
            rejected=tuple(open_proposal.voters(REJECT)),
        )
    closed = proposals.closed.get(proposal)
    if closed is None:
        raise _unknown(desk, proposal)
    return ProposalSeen(seq=proposal, status=closed)


def propose(
    desk: Desk,
    manifest: Loaded,
    *,
    by: str = OPERATOR_NAME,
    mode: str = STRICT,
    leaves: tuple[str, ...] = (),
    note: str | None = None,
) -> int:
    """Propose a manifest in the name of the operator or of an approver; return its record.

    Raises:
        BadUsage: The world is not governed, or there is no such approver.
        InputRefused: The kernel refuses it.
    """
    _governance(desk)
    state = desk.state
    governance_input = sign_proposal(
        manifest.effective.document,
        patch_between(state.effective, manifest.effective),
        world=state.world,
        serial=state.proposals.count,
        principal=by,
        key=_key(desk, by),
        mode=mode,
        leaves=leaves,
        note=note,
    )
    answer = desk.admit(governance_input, manifest.modules)
    desk.seal()
    return answer.seq


def act(
    desk: Desk, action: str, proposal: int, name: str, *, note: str | None = None,
    report: bytes | None = None, report_hash: Hash | None = None,
) -> int:  # fmt: skip
    """Vote on a proposal, report on it or withdraw it in the name of ``name``; return the record.
    ``report_hash`` is the report that a voter has seen. Raises as ``propose``."""
    open_proposal = desk.state.proposals.open.get(proposal)
    governance_input = sign_governance(
        action,
        proposal,
        _no_change() if open_proposal is None else open_proposal.change,
        world=desk.world,
        principal=name,
        key=_key(desk, name),
        report=report,
        seen_report=report_hash,
        note=note,
    )
    answer = desk.admit(governance_input)
    desk.seal()
    return answer.seq


def approve(desk: Desk, proposal: int, names: tuple[str, ...], note: str | None = None) -> None:
    """Approve a proposal in these names; without any, in as many as it still lacks. If the manifest
    in force asks for shadow records, they see a report of the test. Raises as ``propose``."""
    governance = _governance(desk)
    open_proposal = desk.state.proposals.open.get(proposal)
    report_hash = None
    if governance.shadow_records and open_proposal is not None:
        report_hash = _reported(desk, open_proposal)
    for name in names or _lacking(desk, open_proposal):
        act(desk, APPROVE, proposal, name, note=note, report_hash=report_hash)


def ready(
    desk: Desk, manifest: Loaded, *, mode: str, leaves: tuple[str, ...]
) -> int | None:  # fmt: skip
    """Return an approved proposal of this manifest, which it proposes and approves if there is
    none; None in a world that is not governed. Raises as ``propose``."""
    in_force = desk.manifest
    if in_force is None or in_force.governance is None:
        return None
    change = (manifest.effective.hash, mode, leaves)
    proposal = next(
        (
            candidate.seq
            for candidate in desk.state.proposals.open.values()
            if (candidate.document.hash, candidate.mode or STRICT, candidate.leaves) == change
        ),
        None,
    )
    if proposal is None:
        proposal = propose(desk, manifest, mode=mode, leaves=leaves)
    approve(desk, proposal, ())
    return proposal


def _lacking(desk: Desk, proposal: Proposal | None) -> tuple[str, ...]:
    """The approvers whose votes make the quorum, in the order of their names."""
    governance = _governance(desk)
    if proposal is None:
        return tuple(approver.name for approver in governance.approvers[:1])
    missing = governance.quorum - len(proposal.voters(APPROVE))
    free = [
        approver.name for approver in governance.approvers if approver.name not in proposal.votes
    ]
    return tuple(free[: max(missing, 0)])


def _reported(desk: Desk, proposal: Proposal) -> Hash:
    """The hash of a journaled report of all records since the base. It lists no differences:
    ``aos shadow`` finds those."""
    state = desk.state
    head = ReportHead(
        world=state.world,
        base=proposal.base,
        document=proposal.document.hash,
        mode=proposal.mode or STRICT,
        leaves=proposal.leaves,
        first=state.manifest_seq,
        last=max(state.manifest_seq, proposal.seq - 1),
        frame=state.tip.frame,
    )
    existing_report = next(iter(proposal.reports), None)
    if existing_report is not None:
        return existing_report
    report = encode(head.fields())
    act(desk, REPORT, proposal.seq, OPERATOR_NAME, report=report)
    return content_hash(report)


def _governance(desk: Desk) -> GovernanceBlock:
    manifest = desk.manifest
    if manifest is None or manifest.governance is None:
        raise BadUsage(
            "the world is not governed",
            expected="a manifest in force with governance",
            hint='add {"governance": {"approvers": [...], "quorum": 1}} to the manifest',
        )
    return manifest.governance


def _key(desk: Desk, name: str) -> SigningKey:
    if name == OPERATOR_NAME:
        return OPERATOR_KEY
    approver_names = [approver.name for approver in _governance(desk).approvers]
    if name not in approver_names:
        raise BadUsage(
            "there is no such approver",
            expected=f"{OPERATOR_NAME} or {' or '.join(approver_names)}",
            actual=name,
        )
    return approver_key(name)


def _unknown(desk: Desk, proposal: int) -> BadUsage:
    proposal_seqs = [*desk.state.proposals.open, *desk.state.proposals.closed]
    return BadUsage(
        f"no proposal is record {proposal}",
        expected=" or ".join(map(str, proposal_seqs)) or "world.propose(…) first",
    )


def _no_change() -> ProposedChange:
    nothing = Hash(bytes(32))
    return ProposedChange(nothing, nothing, nothing, None, ())
