"""The proposals of a governed world, with their votes and reports so far (spec/governance.md, GV-23
to GV-26).

Open proposals are kept in full, the last closed ones by their status alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aos.core.journal.governing import ProposedChange
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Ref
from aos.core.journal.vocabulary import ApplyMode, ClosedStatus, ProposalStatus, Vote
from aos.errors import Erased
from aos.manifest.effective import Effective
from aos.manifest.governance import GovernanceBlock
from aos.values.digests import Hash

PROPOSALS_MAX: Final = 16
"""Proposals that may be open at the same time."""

REPORTS_MAX: Final = 64
"""Shadow reports of one proposal."""

CLOSED_KEPT: Final = 256
"""Closed proposals whose status a world remembers."""


@dataclass(frozen=True, slots=True)
class Cast:
    """The vote of one approver, and its record."""

    vote: Vote
    seq: int


@dataclass(frozen=True, slots=True)
class Reported:
    """A journaled shadow report: its record and its size in bytes."""

    seq: int
    size: int


@dataclass(slots=True)
class Proposal:
    """An open proposal, named by its record ``seq``. ``votes`` are by the names of approvers,
    ``reports`` by their content hash, both in the order of the journal."""

    seq: int
    principal: str
    base: Hash
    document: Ref
    patch: Ref
    mode: ApplyMode | None
    leaves: tuple[str, ...]
    votes: dict[str, Cast] = field(default_factory=dict)
    reports: dict[Hash, Reported] = field(default_factory=dict)

    @property
    def change(self) -> ProposedChange:
        """The change that every vote signs."""
        return ProposedChange(
            self.base, self.document.hash, self.patch.hash, self.mode, self.leaves
        )

    def voters(self, vote: Vote) -> list[str]:
        """Return the approvers who voted so, in the order of their votes."""
        return [name for name, cast in self.votes.items() if cast.vote == vote]

    def status(self, governance: GovernanceBlock) -> ProposalStatus:
        """Return the status under the governance in force: ``open``, ``approved`` or
        ``rejected``."""
        names = {approver.name for approver in governance.approvers}
        approving = sum(name in names for name in self.voters("approve"))
        rejecting = sum(name in names for name in self.voters("reject"))
        if len(names) - rejecting < governance.quorum:
            return "rejected"
        return "approved" if approving >= governance.quorum else "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProposal:
    """An open proposal as clients see it: what it would change, who voted, which reports it has."""

    seq: int
    principal: str
    change: ProposedChange
    approving: tuple[str, ...]
    rejecting: tuple[str, ...]
    reports: tuple[Hash, ...]


@dataclass(slots=True)
class Proposals:
    """All proposals of a world. ``count`` is how many there ever were, ``open`` and ``closed`` are
    by the records that name them."""

    count: int = 0
    open: dict[int, Proposal] = field(default_factory=dict)
    closed: OrderedDict[int, ClosedStatus] = field(default_factory=OrderedDict)

    def add(self, proposal: Proposal) -> None:
        self.count += 1
        self.open[proposal.seq] = proposal

    def open_proposals(self) -> tuple[OpenProposal, ...]:
        """Return the open proposals as values that no record changes."""
        return tuple(
            OpenProposal(
                seq=proposal.seq,
                principal=proposal.principal,
                change=proposal.change,
                approving=tuple(proposal.voters("approve")),
                rejecting=tuple(proposal.voters("reject")),
                reports=tuple(proposal.reports),
            )
            for proposal in self.open.values()
        )

    def close(self, seq: int, status: ClosedStatus) -> None:
        """Close a proposal for good; forget the oldest closed ones."""
        del self.open[seq]
        self.closed[seq] = status
        while len(self.closed) > CLOSED_KEPT:
            self.closed.popitem(last=False)

    def close_all(self, *, applied: int | None = None) -> None:
        """Another manifest came into force, or another world began: every proposal is stale, except
        the one that was applied."""
        for seq in list(self.open):
            self.close(seq, "applied" if seq == applied else "stale")


def proposal_blobs(proposal: Proposal, read: BlobReader) -> Iterator[tuple[Hash, str]]:
    """Yield the blobs that an open proposal needs, each with a description: its manifest with all
    modules, its patch and its reports (RT-10, K-104).

    Raises:
        Damage: The manifest cannot be read.
    """
    of = f"of proposal {proposal.seq}"
    yield proposal.document.hash, f"the manifest {of}"
    yield proposal.patch.hash, f"the patch {of}"
    for report in proposal.reports:
        yield report, f"a shadow report {of}"
    try:
        document = read(proposal.document.hash)
    except Erased:
        return  # the proposal was open in an earlier snapshot and is closed now
    for module in Effective.from_document(document).modules.values():
        yield module.hash, f"a module {of}"
