"""Proposals of a governed world with their votes and reports (spec/audit.md, A-37h).

Open proposals are in the state. A closed one is read from the journal, from its record to the one
that closed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from aos.core.decide.approved import unknown_proposal
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Governance, Record
from aos.core.journal.shadow_report import REPORT_FORMAT, ReportInvalid, read_report_head
from aos.core.state.proposals import Cast
from aos.errors import BadUsage, Damage, Pruned
from aos.manifest.difference import difference
from aos.manifest.effective import Effective
from aos.read.lens.ports import first_kept
from aos.read.views.manifest_changes import changes_document
from aos.read.views.record_view import Document, document
from aos.read.views.report_form import checked_report
from aos.read.views.view import View
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text, parse_hash

_GOVERNANCE: Final = encode("governance")


def proposals(view: View) -> list[Document]:
    """Return every proposal that the world remembers, oldest first, without votes and reports of
    the closed ones."""
    all_proposals = view.state.proposals
    return [
        proposal(view, seq) if seq in all_proposals.open else _head(view, seq)
        for seq in sorted([*all_proposals.open, *all_proposals.closed])
    ]


def proposal_list(view: View) -> Document:
    """Return ``proposals``, and how many there ever were: the serial of the next one."""
    return {"proposed": view.state.proposals.count, "proposals": proposals(view)}


def proposal(view: View, seq: int) -> Document:
    """Return one proposal with its votes and reports.

    Raises:
        BadUsage: There is no such proposal.
        Pruned: Its record was pruned, and it is closed.
    """
    all_proposals = view.state.proposals
    if seq not in all_proposals.open and seq not in all_proposals.closed:
        raise BadUsage(unknown_proposal(seq))
    head = _head(view, seq)
    history = _History()
    for record in _records_of(view, seq):
        history.take(record)
    open_proposal = all_proposals.open.get(seq)
    if open_proposal is not None:
        # The records of an open proposal may be pruned; its votes are in the state.
        history.votes = {
            name: (cast, history.notes(cast)) for name, cast in open_proposal.votes.items()
        }
        history.reports = {
            hash: (report.seq, report.size) for hash, report in open_proposal.reports.items()
        }
    return {
        **head,
        "votes": [
            {"approver": name, "vote": cast.vote, "seq": cast.seq, **notes}
            for name, (cast, notes) in history.votes.items()
        ],
        "reports": [_report(view, hash, at, size) for hash, (at, size) in history.reports.items()],
    }


def _head(view: View, seq: int) -> Document:
    """The proposal itself, with its status and the quorum that counts for it."""
    open_proposal = view.state.proposals.open.get(seq)
    manifest = view.state.manifest
    governance = None if manifest is None else manifest.governance
    head: Document = {"proposal": seq, "quorum": None, "approvers": []}
    if open_proposal is not None and governance is not None:
        head |= {
            "status": open_proposal.status(governance),
            "quorum": governance.quorum,
            "approvers": [approver.name for approver in governance.approvers],
            "shadow_records": governance.shadow_records,
        }
    else:
        head["status"] = view.state.proposals.closed[seq]
    try:
        record: Document = document(view.records.at(seq), view.lens)
    except Pruned:
        record = {}
    names = ("at_ns", "principal", "base", "document", "patch", "mode", "leaves", "note")
    head |= {name: record.get(name) for name in names}
    if open_proposal is not None:
        head |= {
            "principal": open_proposal.principal,
            "base": hash_text(open_proposal.base),
            "document": hash_text(open_proposal.document.hash),
            "patch": hash_text(open_proposal.patch.hash),
            "mode": open_proposal.mode or "strict",
            "leaves": list(open_proposal.leaves),
        }
    return head


@dataclass(slots=True)
class _History:
    """The votes and reports of one proposal, as its records name them."""

    votes: dict[str, tuple[Cast, Document]] = field(default_factory=dict)
    reports: dict[Hash, tuple[int, int]] = field(default_factory=dict)
    _notes: dict[int, Document] = field(default_factory=dict)

    def take(self, record: Governance) -> None:
        match record:
            case Governance(action="approve" | "reject" as vote):
                notes: Document = {
                    "at_ns": record.stamp.ns,
                    "seen": None if record.seen is None else hash_text(record.seen),
                    "note": record.note,
                }
                self._notes[record.seq] = notes
                self.votes[record.principal] = Cast(vote, record.seq), notes
            case Governance(action="report") if record.report is not None:
                self.reports.setdefault(record.report.hash, (record.seq, record.report.size))
            case _:
                pass

    def notes(self, cast: Cast) -> Document:
        """Return the other fields of the record of a vote; none of them if it was pruned."""
        return self._notes.get(cast.seq, {"at_ns": None, "seen": None, "note": None})


def _records_of(view: View, seq: int) -> Iterator[Governance]:
    """The records about a proposal that the journal still has."""
    first = max(seq, first_kept(view.journal))
    for frame in view.journal.frames(first, view.state.next_seq - 1):
        for data in frame.records:
            if _GOVERNANCE not in data:
                continue
            record: Record = from_bytes(data)
            if isinstance(record, Governance) and record.proposal == seq:
                yield record


def _report(view: View, hash: Hash, at: int, size: int) -> Document:
    row: dict[str, Any] = {"hash": hash_text(hash), "seq": at, "size": size}
    try:
        head = read_report_head(view.journal.blob(hash))
    except (Damage, ReportInvalid):
        return {**row, "from": None, "to": None, "records": None}
    return {**row, "from": head.first, "to": head.last, "records": head.records}


def proposal_report(view: View, number: int) -> Document:
    """Return a proposal with its changes and what it still lacks (spec/cli.md, C-143; node-api.md,
    N-118d): ``changes`` is None if one of the two manifests is not kept, ``missing`` if the
    proposal is closed.

    Raises:
        BadUsage: There is no such proposal.
    """
    document = proposal(view, number)
    is_open = number in view.state.proposals.open
    return {
        **document,
        "changes": _proposed_changes(view, document),
        "missing": _missing_to_approve(document) if is_open else None,
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
            f"proposal {number} has no journaled report {name}",
            expected="one of " + ", ".join(reports) if reports else None,
            hint=f"aos gov shadow {number} --record journals one",
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


def _proposed_changes(view: View, document: Document) -> dict[str, Any] | None:
    try:
        base, proposed = (
            proposed_manifest(view, parse_hash(document[field])) for field in ("base", "document")
        )
    except (Damage, TypeError, KeyError):
        return None
    return changes_document(difference(base, proposed))


def _missing_to_approve(document: Document) -> dict[str, Any]:
    """How many approvals an open proposal still needs, and who can give them."""
    voted = {vote["approver"]: vote["vote"] for vote in document["votes"]}
    approvers = document["approvers"]
    approvals = sum(voted.get(name) == "approve" for name in approvers)
    return {
        "approvals": max(document["quorum"] - approvals, 0),
        "from": [name for name in approvers if name not in voted],
        "report": bool(document["shadow_records"]) and not document["reports"],
    }
