"""Read proposals, and find what blocks them (spec/cli.md, C-142 and C-143)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aos.audit.views.record_view import Document
from aos.audit.views.view import View
from aos.core.decide.answers import Refusal
from aos.core.decide.approved import open_proposal
from aos.core.journal.inputs import STRICT
from aos.core.state.proposals import Proposal
from aos.errors import BadUsage
from aos.host.apply.proposal_report import journaled_report, proposal_report, proposed_manifest
from aos.host.apply.signed_governance import declined
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded
from aos_cli.apply_target import ApplyTarget
from aos_cli.gov_node import governing
from aos_cli.node_option import client_of, from_node
from aos_cli.open_view import looking_at

NO_WAY: Final[Document] = {"blockers": [], "groups": [], "fates": None, "flows": None}
"""The fields of a dry run, for a proposal that is closed."""

NO_MANIFEST = "this world has no manifest yet (apply one: aos apply PATH)"


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


def stored(world: Path, number: int) -> tuple[Proposal, Loaded]:
    """Return an open proposal and its manifest. The modules are in the world.

    Raises:
        BadUsage: There is no such proposal.
        Refused: It is closed.
    """
    with looking_at(world) as view:
        return _stored(view, number)


def proposal_document(world: Path, node: str | None, number: int) -> Document:
    """Return a proposal with its changes and, if it is open, with what blocks it now.

    Raises:
        BadUsage: There is no such proposal.
    """
    if node is not None:
        return _from_node(node, number)
    with looking_at(world) as view:
        document = proposal_report(view, number)
        stored_proposal = _stored(view, number) if document["missing"] is not None else None
    if stored_proposal is None:
        return document | NO_WAY
    change, loaded = stored_proposal
    report = ApplyTarget(world, None, number).apply(
        loaded, dry_run=True, mode=change.mode or STRICT, leave_cells=bool(change.leaves),
        show=0, allow_diverged=False,
    )  # fmt: skip
    return document | {name: report[name] for name in NO_WAY}


def report_document(world: Path, node: str | None, number: int, hash: str) -> Document:
    """Return a journaled shadow report of a proposal.

    Raises:
        BadUsage: There is no such proposal or report, or the report does not have its form.
    """
    if node is not None:
        return from_node(node, "/v1/proposal", proposal=number, report=hash)
    with looking_at(world) as view:
        return journaled_report(view, number, hash)


def _from_node(node: str, number: int) -> Document:
    with client_of(node) as client:
        document = client.document("/v1/proposal", proposal=number)
        if document["missing"] is None:
            return {**document, **NO_WAY}
        report = client.try_manifest(number)
    return {**document, **{name: report[name] for name in NO_WAY}}


def _stored(view: View, number: int) -> tuple[Proposal, Loaded]:
    proposal = open_proposal(view.state, number)
    if isinstance(proposal, Refusal):
        raise declined(proposal)
    return proposal, Loaded(effective=proposed_manifest(view, proposal.document.hash), modules={})
