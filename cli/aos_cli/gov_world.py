"""Read proposals in the world of a folder or of a node, find what blocks them, and govern a world
through its node (spec/cli.md, C-139, C-142, C-143).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from nacl.signing import SigningKey

from aos.client import Client
from aos.core.decide.answers import Answer, Refusal
from aos.core.decide.approved import open_proposal
from aos.core.journal.governing import PROPOSE, GovernanceInput, ProposedChange
from aos.core.journal.inputs import STRICT
from aos.core.journal.records import Principal
from aos.core.state.proposals import OpenProposal
from aos.errors import BadUsage, Refused
from aos.host.apply.apply import left_by
from aos.host.apply.signed_governance import VoteFile, declined
from aos.host.door.governance_signing import governance_for, proposal_for
from aos.host.door.way import SignedState
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.manifest.keys import parse_key
from aos.manifest.load import Loaded
from aos.manifest.patch import Patch
from aos.read.operations.proposal_reads import READ_PROPOSAL
from aos.read.views.proposal_view import proposed_manifest
from aos.read.views.record_view import Document
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.spelling import base64_text
from aos_cli.apply_target import ApplyTarget
from aos_cli.open_view import looking_at
from aos_cli.options import client_of
from aos_cli.world_reading import reading_of

_OPEN_STATUSES: Final = ("open", "approved")

NO_WAY: Final[Document] = {"blockers": [], "groups": [], "fates": None, "flows": None}
"""The fields of a dry run, for a proposal that is closed."""

NO_MANIFEST = "this world has no manifest yet (apply one: aos apply PATH)"


class GovNode:
    """Submits to one node. Without a key the node signs, if it was started with
    ``--operator-key``; it signs no vote. Its methods raise as ``Client``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def signed_state(self) -> SignedState:
        """Return the state that signatures cover, as of now."""
        world = self._client.document("/v1/world")
        listing = self._client.document("/v1/proposals")
        manifest = self.manifest(world)
        return SignedState(
            world=parse_hash(world["world"]),
            serial=0,
            controls=0,
            operators=tuple(
                Principal(operator["name"], parse_key(operator["public_key"]))
                for operator in world["operators"]
            ),
            manifest=manifest,
            proposed=listing["proposed"],
            proposals=tuple(
                _proposal_of_row(row)
                for row in listing["proposals"]
                if row["status"] in _OPEN_STATUSES
            ),
        )

    def manifest(self, world: Document | None = None) -> Effective | None:
        """The manifest in force; None if there is none yet."""
        in_force = (world or self._client.document("/v1/world"))["manifest"]
        if in_force is None:
            return None
        return judge(self._client.blob(in_force["hash"]))

    def propose(
        self,
        loaded: Loaded,
        *,
        patch: Patch | None,
        key: SigningKey | None,
        mode: str,
        leave_cells: bool,
        note: str | None,
    ) -> Answer:
        """Propose a manifest."""
        if key is None:
            leaves = left_by(self.manifest(), loaded.effective) if leave_cells else ()
            patch_fields: dict[str, Any] = {}
            if patch is not None:
                patch_fields = {"base": hash_text(patch.base), "patch": base64_text(patch.document)}
            return self._client.govern(
                PROPOSE, loaded, mode=mode, leaves=list(leaves), note=note, **patch_fields
            )
        governance_input = proposal_for(
            self.signed_state(), loaded, key=key, patch=patch, mode=mode, leave_cells=leave_cells,
            note=note,
        )  # fmt: skip
        return self.submit_governance(governance_input, loaded)

    def govern(
        self,
        action: str,
        proposal: int,
        *,
        key: SigningKey | None,
        seen_report: Hash | None,
        note: str | None,
    ) -> Answer:
        """Submit a vote or a withdrawal."""
        if key is None:
            return self._client.govern(
                action, proposal=proposal, seen=_hash_or_none(seen_report), note=note
            )
        return self.submit_governance(
            governance_for(
                self.signed_state(), action, proposal, key=key, seen_report=seen_report, note=note
            )
        )

    def submit_governance(
        self, governance_input: GovernanceInput, loaded: Loaded | None = None
    ) -> Answer:
        """Submit what was signed before, perhaps elsewhere."""
        # An unsigned vote is refused for its proposal, which is not open.
        signature = governance_input.signature or bytes(64)
        return self._client.govern(
            governance_input.action,
            loaded,
            principal=governance_input.principal,
            signature=base64_text(signature),
            proposal=governance_input.proposal,
            serial=governance_input.serial,
            base=_hash_or_none(governance_input.base),
            patch=None if governance_input.patch is None else base64_text(governance_input.patch),
            mode=None if governance_input.mode == STRICT else governance_input.mode,
            leaves=list(governance_input.leaves) or None,
            seen=_hash_or_none(governance_input.seen),
            note=governance_input.note,
        )

    def signed_away(
        self,
        action: str,
        proposal: int,
        *,
        key: SigningKey,
        seen_report: Hash | None,
        note: str | None,
    ) -> tuple[VoteFile, Document]:
        """Sign a vote without submitting it; return it with the changes of the proposal.

        Raises:
            BadUsage: There is no such proposal.
            Refused: The proposal is closed, or the key is no approver's.
        """
        signed_state = self.signed_state()
        changes = self._client.document("/v1/proposal", proposal=proposal)["changes"]
        open_proposal = next(
            (candidate for candidate in signed_state.proposals if candidate.seq == proposal), None
        )
        if open_proposal is None:
            raise Refused(f"there is no open proposal {proposal} (see aos gov list)")
        vote = governance_for(
            signed_state, action, proposal, key=key, seen_report=seen_report, note=note
        )
        return VoteFile(world=signed_state.world, change=open_proposal.change, vote=vote), changes

    def name_of(self, seq: int) -> str:
        """The name in which a record was signed."""
        principal: str = self._client.document("/v1/record", seq=seq)["principal"]
        return principal


@contextmanager
def governing(node: str) -> Iterator[GovNode]:
    """Open a node for the block."""
    with client_of(node) as client:
        yield GovNode(client)


def _proposal_of_row(row: Document) -> OpenProposal:
    base, document, patch = (_hash_field(row, name) for name in ("base", "document", "patch"))
    mode = row["mode"]
    votes = {vote["approver"]: vote["vote"] for vote in row["votes"]}
    return OpenProposal(
        seq=row["proposal"],
        principal=row["principal"],
        change=ProposedChange(
            base, document, patch, None if mode == STRICT else mode, tuple(row["leaves"])
        ),
        approving=tuple(name for name, vote in votes.items() if vote == "approve"),
        rejecting=tuple(name for name, vote in votes.items() if vote == "reject"),
        reports=tuple(parse_hash(report["hash"]) for report in row["reports"]),
    )


def _hash_field(row: Document, name: str) -> Hash:
    text = row[name]
    if not isinstance(text, str):
        raise BadUsage("the node does not name what is proposed", location=name, expected="a hash")
    return parse_hash(text)


def _hash_or_none(digest: Hash | None) -> str | None:
    return None if digest is None else hash_text(digest)


def in_force(world: Path, node: str | None) -> Effective:
    """Return the manifest in force. Raises: BadUsage: There is none yet."""
    if node is not None:
        with governing(node) as governor:
            manifest = governor.manifest()
    else:
        with looking_at(world) as view:
            manifest = view.state.manifest
    if manifest is None:
        raise BadUsage(NO_MANIFEST)
    return manifest


def proposed(world: Path, node: str | None, number: int) -> tuple[Loaded | None, str, bool]:
    """Return the manifest of an open proposal, its mode, and whether it leaves cells, as an
    ``ApplyTarget`` takes them: a node has all three itself. The modules are in the world.

    Raises:
        BadUsage: There is no such proposal.
        Refused: It is closed.
    """
    if node is not None:
        return None, STRICT, False
    with looking_at(world) as view:
        proposal = open_proposal(view.state, number)
        if isinstance(proposal, Refusal):
            raise declined(proposal)
        manifest = proposed_manifest(view, proposal.document.hash)
    loaded = Loaded(effective=manifest, modules={})
    return loaded, proposal.mode or STRICT, bool(proposal.leaves)


def proposal_document(world: Path, node: str | None, number: int) -> Document:
    """Return a proposal with its changes and, if it is open, with what blocks it now.

    Raises:
        BadUsage: There is no such proposal.
    """
    document = reading_of(world, node).document(READ_PROPOSAL, {"proposal": number})
    if document["missing"] is None:
        return document | NO_WAY
    loaded, mode, leaves = proposed(world, node, number)
    report = ApplyTarget(world, node, number).apply(
        loaded, dry_run=True, mode=mode, leave_cells=leaves, show=0, allow_diverged=False
    )
    return document | {name: report[name] for name in NO_WAY}
