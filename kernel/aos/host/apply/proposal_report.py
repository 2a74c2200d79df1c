"""A proposal with its changes and what it still lacks (spec/cli.md, C-143; node-api.md, N-118d)."""

from __future__ import annotations

from typing import Any

from aos.audit.shadow.report_document import checked_report
from aos.audit.views.proposal_view import proposal
from aos.audit.views.record_view import Document
from aos.audit.views.view import View
from aos.core.journal.shadow_report import REPORT_FORMAT, ReportInvalid
from aos.errors import BadUsage, Damage, sentence
from aos.host.apply.report import changes_document
from aos.manifest.difference import difference
from aos.manifest.effective import Effective
from aos.values.digests import Hash, parse_hash


def proposal_report(view: View, number: int) -> Document:
    """Return a proposal with ``changes``, None if one of the two manifests is not kept, and with
    ``missing``, None if it is closed.

    Raises:
        BadUsage: There is no such proposal.
    """
    document = proposal(view, number)
    is_open = number in view.state.proposals.open
    return {
        **document,
        "changes": _changes(view, document),
        "missing": _missing(document) if is_open else None,
    }


def journaled_report(view: View, number: int, hash: str) -> Document:
    """Return a journaled shadow report of a proposal (SH-50), with ``proposal`` and the ``record``
    that journaled it.

    Raises:
        BadUsage: There is no such proposal or report, or the report does not have its form.
        Erased: The report was erased.
    """
    name = f"blake3:{hash.removeprefix('blake3:')}"
    reports = {report["hash"]: report["seq"] for report in proposal(view, number)["reports"]}
    if name not in reports:
        raise BadUsage(
            sentence(
                f"proposal {number} has no journaled report {name}",
                expected="one of " + ", ".join(reports) if reports else None,
                hint=f"aos gov shadow {number} --record journals one",
            )
        )
    try:
        shadow_report = checked_report(view.journal.blob(parse_hash(name)))
    except ReportInvalid as problem:
        raise BadUsage(
            f"report {name} does not have the form of {REPORT_FORMAT}: {problem} (make it again: "
            f"aos gov shadow {number} --check {name})"
        ) from problem
    return {"proposal": number, **shadow_report, "record": reports[name]}


def proposed_manifest(view: View, hash: Hash) -> Effective:
    """Return a manifest that the journal keeps. Raises: Damage: It does not, or it is none."""
    return Effective.from_document(view.journal.blob(hash))


def _changes(view: View, document: Document) -> dict[str, Any] | None:
    try:
        base, proposed = (
            proposed_manifest(view, parse_hash(document[field])) for field in ("base", "document")
        )
    except (Damage, TypeError, KeyError):
        return None
    return changes_document(difference(base, proposed))


def _missing(document: Document) -> dict[str, Any]:
    """How many approvals an open proposal still needs, and who can give them."""
    voted = {vote["approver"]: vote["vote"] for vote in document["votes"]}
    approvers = document["approvers"]
    approvals = sum(voted.get(name) == "approve" for name in approvers)
    return {
        "approvals": max(document["quorum"] - approvals, 0),
        "from": [name for name in approvers if name not in voted],
        "report": bool(document["shadow_records"]) and not document["reports"],
    }
