"""Sign for a world as it is now, whichever way leads to it (spec/host.md, H-72a)."""

from __future__ import annotations

from nacl.signing import SigningKey

from aos.core.journal.governing import PROPOSE, GovernanceInput
from aos.host.apply.apply import left_by
from aos.host.apply.signed_governance import governor_of, sign_governance, sign_proposal
from aos.host.door.way import About
from aos.manifest.load import Loaded
from aos.manifest.patch import Patch
from aos.manifest.patching import patch_between
from aos.values.digests import Hash


def proposal_for(
    about: About,
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
    governance = None if about.manifest is None else about.manifest.governance
    principal = governor_of(key, PROPOSE, governance=governance, operators=about.operators)
    assert about.manifest is not None, "it names approvers"
    return sign_proposal(
        loaded.effective.document,
        patch or patch_between(about.manifest, loaded.effective),
        world=about.world,
        serial=about.proposed,
        principal=principal,
        key=key,
        mode=mode,
        leaves=left_by(about.manifest, loaded.effective) if leave_cells else (),
        note=note,
    )


def governance_for(
    about: About,
    action: str,
    proposal: int,
    *,
    key: SigningKey,
    report: bytes | None = None,
    seen: Hash | None = None,
    note: str | None = None,
) -> GovernanceInput:
    """Sign a report, a vote or a withdrawal. For a proposal that is not open it is unsigned: the
    core's refusal says whether it was ever proposed.

    Raises:
        Refused: The world is not governed, or the key is no one's who may.
    """
    governance = None if about.manifest is None else about.manifest.governance
    principal = governor_of(key, action, governance=governance, operators=about.operators)
    known = next((each for each in about.proposals if each.seq == proposal), None)
    if known is None:
        return GovernanceInput(action=action, principal=principal, signature=b"", proposal=proposal)
    return sign_governance(
        action, proposal, known.change, world=about.world, principal=principal, key=key,
        report=report, seen=seen, note=note,
    )  # fmt: skip
