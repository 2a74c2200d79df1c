"""Check who proposed, voted and applied in a governed world (spec/audit.md, A-25a).

Votes are counted here once more, apart from the state: a manifest that came into force without its
quorum is found even if the owner of the world's key sealed the whole journal again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aos.core.journal.governing import (
    APPROVE,
    PROPOSE,
    REJECT,
    REPORT,
    WITHDRAW,
    ProposedChange,
    governance_message,
)
from aos.core.journal.inputs import STRICT
from aos.core.journal.records import Governance, Manifest
from aos.core.state.state import State
from aos.errors import Damage, sentence
from aos.manifest.effective import Effective
from aos.manifest.governance import GovernanceBlock
from aos.manifest.judging import judge
from aos.manifest.patch import Patch, PatchInvalid
from aos.manifest.patching import check_patch
from aos.prove.verify.checking import Checking, RecordedValues
from aos.prove.verify.findings import FindingKind
from aos.values.digests import hash_text


@dataclass(slots=True)
class _Proposal:
    principal: str
    change: ProposedChange
    votes: dict[str, str] = field(default_factory=dict)
    """Approver -> vote, of votes with a valid signature."""


class GovernedManifests:
    """One pass over the governance records of a world, in the order of the journal."""

    def __init__(self, checking: Checking, values: RecordedValues) -> None:
        self._checking = checking
        self._values = values
        self._open: dict[int, _Proposal] = {}

    def go_on(self, state: State) -> None:
        """Begin with the state of a world, instead of the records that led to it."""
        for seq, proposal in state.proposals.open.items():
            votes: dict[str, str] = {name: cast.vote for name, cast in proposal.votes.items()}
            self._open[seq] = _Proposal(proposal.principal, proposal.change, votes)

    def forked(self) -> None:
        """Another world begins: votes for its parent are no votes here."""
        self._open.clear()

    def record(self, record: Governance) -> None:
        """Check the signature of a record, and who made it."""
        for value in (record.document, record.patch, record.report):
            if value is not None:
                self._values.bytes_of(value)
        effective = self._checking.effective
        if effective is None:
            return  # an unreadable manifest was reported
        block = effective.governance
        if block is None:
            self._checking.add(
                FindingKind.AUTHORITY_MISSING, "the manifest in force names no approvers"
            )
            return
        change = self._change(record)
        if change is None:
            self._checking.add(
                FindingKind.VALUE_INVALID, "it names no open proposal, or proposes nothing"
            )
            return
        is_signed = self._is_signed(record, change, block)
        if record.action == PROPOSE:
            self._open[record.seq] = _Proposal(record.principal, change)
            self._patch(record, effective)
        elif record.proposal is not None and is_signed:
            self._act(record, record.proposal, block)

    def _act(self, record: Governance, seq: int, block: GovernanceBlock) -> None:
        match record.action:
            case "approve" | "reject":
                votes = self._open[seq].votes
                if votes.get(record.principal) not in (None, APPROVE):
                    self._checking.add(
                        FindingKind.AUTHORITY_MISSING, f"{record.principal} has rejected it before"
                    )
                    return
                votes[record.principal] = record.action
                rejects = sum(vote == REJECT for vote in votes.values())
                if len(block.approvers) - rejects < block.quorum:
                    del self._open[seq]
            case "withdraw":
                del self._open[seq]
            case _:
                pass

    def _change(self, record: Governance) -> ProposedChange | None:
        """Return the change that the record or its proposal proposes; None if it names no open
        proposal."""
        if record.action != PROPOSE:
            proposal = None if record.proposal is None else self._open.get(record.proposal)
            return None if proposal is None else proposal.change
        if record.base is None or record.document is None or record.patch is None:
            return None
        return ProposedChange(
            record.base, record.document.hash, record.patch.hash, record.mode, record.leaves
        )

    def _is_signed(
        self, record: Governance, change: ProposedChange, block: GovernanceBlock
    ) -> bool:
        """Whether one of the keys that may act so has signed; else it is a finding."""
        keys = self._keys(record, block)
        if not keys:
            self._checking.add(
                FindingKind.AUTHORITY_MISSING, f"{record.principal!r} may not {record.action}"
            )
            return False
        message = governance_message(
            self._checking.world,
            record.action,
            change,
            proposal=record.proposal,
            serial=record.serial,
            report=None if record.report is None else record.report.hash,
            seen=record.seen,
            note=record.note,
        )
        return self._checking.signature_of_one(
            message, record.signature, keys, f"{record.principal}'s"
        )

    def _keys(self, record: Governance, block: GovernanceBlock) -> list[bytes]:
        approver = block.key(record.principal)
        keys = [] if approver is None else [approver]
        genesis = self._checking.genesis
        if record.action in (PROPOSE, REPORT, WITHDRAW) and genesis is not None:
            keys += [
                operator.key for operator in genesis.operators if operator.name == record.principal
            ]
        if record.action == WITHDRAW and record.proposal is not None:
            proposal = self._open.get(record.proposal)
            keys = keys if proposal is not None and proposal.principal == record.principal else []
        return keys

    def _patch(self, record: Governance, base: Effective) -> None:
        """Check that the patch, which people read, leads to the manifest that they vote on."""
        assert record.document is not None
        assert record.patch is not None
        document, patch = (
            self._values.checked_bytes(record.document),
            self._values.checked_bytes(record.patch),
        )
        if document is None or patch is None:
            return
        try:
            check_patch(base, Patch.from_document(patch), judge(document))
        except (Damage, PatchInvalid) as problem:
            self._checking.add(FindingKind.MANIFEST_INVALID, f"it is proposed in vain: {problem}")

    def manifest(self, record: Manifest) -> None:
        """Check the quorum of a manifest, by the manifest that was in force before it."""
        effective = self._checking.effective
        block = None if effective is None else effective.governance
        proposal = None if record.proposal is None else self._open.get(record.proposal)
        self._open.clear()
        if block is None:
            return
        if proposal is None:
            self._missing("no open proposal", block, "none")
            return
        approvals = sum(
            proposal.votes.get(approver.name) == APPROVE for approver in block.approvers
        )
        if approvals < block.quorum:
            self._missing(f"the votes for proposal {record.proposal}", block, f"{approvals}")
        applied = (record.document.hash, record.mode or STRICT, record.leaves)
        approved = (
            proposal.change.document,
            proposal.change.mode or STRICT,
            proposal.change.leaves,
        )
        if applied != approved:
            self._checking.add(
                FindingKind.AUTHORITY_MISSING,
                sentence(
                    f"it is another manifest than proposal {record.proposal}",
                    expected=f"{hash_text(approved[0])} in mode {approved[1]}",
                    actual=f"{hash_text(applied[0])} in mode {applied[1]}",
                ),
            )

    def _missing(self, reason: str, block: GovernanceBlock, actual: str) -> None:
        self._checking.add(
            FindingKind.AUTHORITY_MISSING,
            sentence(
                f"the approvers did not approve it: {reason}",
                expected=f"{block.quorum} of {len(block.approvers)} approvals",
                actual=actual,
            ),
        )
