"""Govern a world through its node (spec/cli.md, C-139)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from nacl.signing import SigningKey

from aos.audit.views.record_view import Document
from aos.client import Client
from aos.core.decide.answers import Answer
from aos.core.journal.governing import PROPOSE, GovernanceInput, ProposedChange
from aos.core.journal.inputs import STRICT
from aos.core.journal.records import Principal
from aos.core.state.proposals import OpenProposal
from aos.errors import BadUsage, Refused, sentence
from aos.host.apply.apply import left_by
from aos.host.apply.vote_file import VoteFile
from aos.host.door.governance_signing import governance_for, proposal_for
from aos.host.door.way import About
from aos.manifest.effective import Effective
from aos.manifest.keys import parse_key
from aos.manifest.load import Loaded
from aos.manifest.patch import Patch
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.spelling import base64_text
from aos_cli.node_option import client_of

_OPEN: Final = ("open", "approved")


class GovNode:
    """Submits to one node. Without a key the node signs, if it was started with
    ``--operator-key``; it signs no vote. Its methods raise as ``Client``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def about(self) -> About:
        """Return the state that signatures cover, as of now."""
        world = self._client.document("/v1/world")
        found = self._client.document("/v1/proposals")
        manifest = self.manifest(world)
        return About(
            world=parse_hash(world["world"]),
            serial=0,
            controls=0,
            operators=tuple(
                Principal(each["name"], parse_key(each["public_key"]))
                for each in world["operators"]
            ),
            manifest=manifest,
            proposed=found["proposed"],
            proposals=tuple(_open(each) for each in found["proposals"] if each["status"] in _OPEN),
        )

    def manifest(self, world: Document | None = None) -> Effective | None:
        """The manifest in force; None if there is none yet."""
        in_force = (world or self._client.document("/v1/world"))["manifest"]
        if in_force is None:
            return None
        return Effective.from_document(self._client.blob(in_force["hash"]))

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
            more: dict[str, Any] = {}
            if patch is not None:
                more = {"base": hash_text(patch.base), "patch": base64_text(patch.document)}
            return self._client.govern(
                PROPOSE, loaded, mode=mode, leaves=list(leaves), note=note, **more
            )
        given = proposal_for(
            self.about(), loaded, key=key, patch=patch, mode=mode, leave_cells=leave_cells,
            note=note,
        )  # fmt: skip
        return self.submit_governance(given, loaded)

    def govern(
        self,
        action: str,
        proposal: int,
        *,
        key: SigningKey | None,
        seen: Hash | None,
        note: str | None,
    ) -> Answer:
        """Submit a vote or a withdrawal."""
        if key is None:
            return self._client.govern(action, proposal=proposal, seen=_hash(seen), note=note)
        return self.submit_governance(
            governance_for(self.about(), action, proposal, key=key, seen=seen, note=note)
        )

    def submit_governance(self, given: GovernanceInput, loaded: Loaded | None = None) -> Answer:
        """Submit what was signed before, perhaps elsewhere."""
        # An unsigned vote is refused for its proposal, which is not open.
        signature = given.signature or bytes(64)
        return self._client.govern(
            given.action,
            loaded,
            principal=given.principal,
            signature=base64_text(signature),
            proposal=given.proposal,
            serial=given.serial,
            base=_hash(given.base),
            patch=None if given.patch is None else base64_text(given.patch),
            mode=None if given.mode == STRICT else given.mode,
            leaves=list(given.leaves) or None,
            seen=_hash(given.seen),
            note=given.note,
        )

    def signed_away(
        self, action: str, proposal: int, *, key: SigningKey, seen: Hash | None, note: str | None
    ) -> tuple[VoteFile, Document]:
        """Sign a vote without submitting it; return it with the changes of the proposal.

        Raises:
            BadUsage: There is no such proposal.
            Refused: The proposal is closed, or the key is no approver's.
        """
        about = self.about()
        changes = self._client.document("/v1/proposal", proposal=proposal)["changes"]
        found = next((each for each in about.proposals if each.seq == proposal), None)
        if found is None:
            raise Refused(f"there is no open proposal {proposal} (see aos gov list)")
        vote = governance_for(about, action, proposal, key=key, seen=seen, note=note)
        return VoteFile(world=about.world, change=found.change, vote=vote), changes

    def name_of(self, seq: int) -> str:
        """The name in which a record was signed."""
        found: str = self._client.document("/v1/record", seq=seq)["principal"]
        return found


@contextmanager
def governing(node: str) -> Iterator[GovNode]:
    """Open a node for the block."""
    with client_of(node) as client:
        yield GovNode(client)


def _open(row: Document) -> OpenProposal:
    base, document, patch = (_named(row, each) for each in ("base", "document", "patch"))
    mode = row["mode"]
    votes = {each["approver"]: each["vote"] for each in row["votes"]}
    return OpenProposal(
        seq=row["proposal"],
        principal=row["principal"],
        change=ProposedChange(
            base, document, patch, None if mode == STRICT else mode, tuple(row["leaves"])
        ),
        approving=tuple(name for name, vote in votes.items() if vote == "approve"),
        rejecting=tuple(name for name, vote in votes.items() if vote == "reject"),
        reports=tuple(parse_hash(each["hash"]) for each in row["reports"]),
    )


def _named(row: Document, name: str) -> Hash:
    found = row[name]
    if not isinstance(found, str):
        raise BadUsage(
            sentence("the node does not name what is proposed", where=name, expected="a hash")
        )
    return parse_hash(found)


def _hash(found: Hash | None) -> str | None:
    return None if found is None else hash_text(found)
