"""Read proposals, and find what blocks them (spec/cli.md, C-142 and C-143)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aos.audit.views.proposal_view import proposal
from aos.audit.views.record_view import Document
from aos.audit.views.view import View
from aos.core.decide.answers import Refusal
from aos.core.decide.approved import open_proposal
from aos.core.journal.inputs import STRICT
from aos.core.state.proposals import Proposal
from aos.errors import BadUsage, Damage, Refused
from aos.host.apply.report import changes_document
from aos.manifest.difference import difference
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded
from aos.values.digests import Hash, parse_hash
from aos_cli.apply_target import ApplyTarget
from aos_cli.open_view import looking_at

NO_MANIFEST = "this world has no manifest yet (apply one: aos apply PATH)"


def in_force(world: Path) -> Effective:
    """Return the manifest in force. Raises: BadUsage: There is none yet."""
    with looking_at(world) as view:
        if view.state.manifest is None:
            raise BadUsage(NO_MANIFEST)
        return view.state.manifest


def stored(world: Path, number: int) -> tuple[Proposal, Loaded]:
    """Return an open proposal and its manifest. The modules are in the world.

    Raises:
        Refused: The proposal is unknown or closed.
    """
    with looking_at(world) as view:
        return _stored(view, number)


def proposal_document(world: Path, number: int) -> Document:
    """Return a proposal with its changes and, if it is open, with what blocks it now.

    Raises:
        BadUsage: There is no such proposal.
    """
    with looking_at(world) as view:
        found = proposal(view, number)
        opened = _stored(view, number) if number in view.state.proposals.open else None
        changes = _changes(view, found)
    way: Document = {"missing": None, "blockers": [], "groups": [], "fates": None, "flows": None}
    if opened is not None:
        change, loaded = opened
        report = ApplyTarget(world, None, number).apply(
            loaded, dry_run=True, mode=change.mode or STRICT, leave_cells=bool(change.leaves),
            show=0, allow_diverged=False,
        )  # fmt: skip
        way = {name: report[name] for name in ("blockers", "groups", "fates", "flows")}
        way = {"missing": missing(found), **way}
    return {**found, "changes": changes, **way}


def missing(found: Document) -> dict[str, Any]:
    """How many approvals an open proposal still needs, and who can give them."""
    voted = {each["approver"]: each["vote"] for each in found["votes"]}
    approvers = found["approvers"]
    given = sum(voted.get(name) == "approve" for name in approvers)
    return {
        "approvals": max(found["quorum"] - given, 0),
        "from": [name for name in approvers if name not in voted],
        "report": bool(found["shadow_records"]) and not found["reports"],
    }


def _changes(view: View, found: Document) -> dict[str, Any] | None:
    """The changes of a proposal; None if one of the two manifests is not kept."""
    try:
        before, after = (_manifest(view, parse_hash(found[each])) for each in ("base", "document"))
    except (Damage, TypeError, KeyError):
        return None
    return changes_document(difference(before, after))


def _stored(view: View, number: int) -> tuple[Proposal, Loaded]:
    found = open_proposal(view.state, number)
    if isinstance(found, Refusal):
        raise Refused(found.message)
    return found, Loaded(effective=_manifest(view, found.document.hash), modules={})


def _manifest(view: View, hash: Hash) -> Effective:
    return Effective.from_document(view.journal.blob(hash))
