"""Sign for a world as it is now, whichever way leads to it (spec/host.md, H-72a)."""

from __future__ import annotations

from nacl.signing import SigningKey

from aos.core.journal.governing import PROPOSE, GovernanceInput
from aos.host.apply.apply import left_by
from aos.host.apply.signed_governance import governor_of, sign_governance, sign_proposal
from aos.host.door.way import SignedState
from aos.manifest.load import Loaded
from aos.manifest.patch import Patch
from aos.manifest.patching import patch_between
from aos.values.digests import Hash


def proposal_for(
    signed_state: SignedState,
    loaded: Loaded,
    *,
    key: SigningKey,
    patch: Patch | None,
    mode: str,
    leave_cells: bool,
    note: str | None,
) -> GovernanceInput:
    """Sign the proposal of a manifest. ``patch`` is by default the one between the two manifests.

    Raises:
        Refused: The world is not governed, the manifests are the same, or the key is no one's who
            may.
    """
    governance = None if signed_state.manifest is None else signed_state.manifest.governance
    principal = governor_of(key, PROPOSE, governance=governance, operators=signed_state.operators)
    assert signed_state.manifest is not None, "it names approvers"
    return sign_proposal(
        loaded.effective.document,
        patch or patch_between(signed_state.manifest, loaded.effective),
        world=signed_state.world,
        serial=signed_state.proposed,
        principal=principal,
        key=key,
        mode=mode,
        leaves=left_by(signed_state.manifest, loaded.effective) if leave_cells else (),
        note=note,
    )


def governance_for(
    signed_state: SignedState,
    action: str,
    proposal: int,
    *,
    key: SigningKey,
    report: bytes | None = None,
    seen_report: Hash | None = None,
    note: str | None = None,
) -> GovernanceInput:
    """Sign a report, a vote or a withdrawal. For a proposal that is not open it is unsigned: the
    core's refusal says whether it was ever proposed.

    Raises:
        Refused: The world is not governed, or the key is no one's who may.
    """
    governance = None if signed_state.manifest is None else signed_state.manifest.governance
    principal = governor_of(key, action, governance=governance, operators=signed_state.operators)
    open_proposal = next(
        (candidate for candidate in signed_state.proposals if candidate.seq == proposal), None
    )
    if open_proposal is None:
        return GovernanceInput(action=action, principal=principal, signature=b"", proposal=proposal)
    return sign_governance(
        action, proposal, open_proposal.change, world=signed_state.world, principal=principal,
        key=key,
        report=report, seen_report=seen_report, note=note,
    )  # fmt: skip
