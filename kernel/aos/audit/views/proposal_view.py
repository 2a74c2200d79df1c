"""Proposals of a governed world with their votes and reports (spec/audit.md, A-37h).

Open proposals are in the state. A closed one is read from the journal, from its record to the one
that closed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from aos.audit.lens.ports import first_kept
from aos.audit.views.record_view import Document, document
from aos.audit.views.view import View
from aos.core.decide.approved import unknown_proposal
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Governance, Record
from aos.core.journal.shadow_report import ReportInvalid, read_report_head
from aos.core.state.proposals import Cast
from aos.errors import BadUsage, Damage, Pruned
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text

_GOVERNANCE: Final = encode("governance")


def proposals(view: View) -> list[Document]:
    """Return every proposal that the world remembers, oldest first, without votes and reports of
    the closed ones."""
    known = view.state.proposals
    return [
        proposal(view, seq) if seq in known.open else _head(view, seq)
        for seq in sorted([*known.open, *known.closed])
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
    known = view.state.proposals
    if seq not in known.open and seq not in known.closed:
        raise BadUsage(unknown_proposal(seq))
    found = _head(view, seq)
    history = _History()
    for record in _about(view, seq):
        history.take(record)
    opened = known.open.get(seq)
    if opened is not None:
        # The records of an open proposal may be pruned; its votes are in the state.
        history.votes = {name: (cast, history.notes(cast)) for name, cast in opened.votes.items()}
        history.reports = {hash: (each.seq, each.size) for hash, each in opened.reports.items()}
    return {
        **found,
        "votes": [
            {"approver": name, "vote": cast.vote, "seq": cast.seq, **more}
            for name, (cast, more) in history.votes.items()
        ],
        "reports": [_report(view, hash, at, size) for hash, (at, size) in history.reports.items()],
    }


def _head(view: View, seq: int) -> Document:
    """The proposal itself, with its status and the quorum that counts for it."""
    opened = view.state.proposals.open.get(seq)
    manifest = view.state.manifest
    governance = None if manifest is None else manifest.governance
    found: Document = {"proposal": seq, "quorum": None, "approvers": []}
    if opened is not None and governance is not None:
        found |= {
            "status": opened.status(governance),
            "quorum": governance.quorum,
            "approvers": [each.name for each in governance.approvers],
            "shadow_records": governance.shadow_records,
        }
    else:
        found["status"] = view.state.proposals.closed[seq]
    try:
        record: Document = document(view.records.at(seq), view.lens)
    except Pruned:
        record = {}
    names = ("at_ns", "principal", "base", "document", "patch", "mode", "leaves", "note")
    found |= {name: record.get(name) for name in names}
    if opened is not None:
        found |= {
            "principal": opened.principal,
            "base": hash_text(opened.base),
            "document": hash_text(opened.document.hash),
            "patch": hash_text(opened.patch.hash),
            "mode": opened.mode or "strict",
            "leaves": list(opened.leaves),
        }
    return found


@dataclass(slots=True)
class _History:
    """The votes and reports of one proposal, as its records name them."""

    votes: dict[str, tuple[Cast, Document]] = field(default_factory=dict)
    reports: dict[Hash, tuple[int, int]] = field(default_factory=dict)
    _more: dict[int, Document] = field(default_factory=dict)

    def take(self, record: Governance) -> None:
        match record:
            case Governance(action="approve" | "reject" as vote):
                more: Document = {
                    "at_ns": record.stamp.ns,
                    "seen": None if record.seen is None else hash_text(record.seen),
                    "note": record.note,
                }
                self._more[record.seq] = more
                self.votes[record.principal] = Cast(vote, record.seq), more
            case Governance(action="report") if record.report is not None:
                self.reports.setdefault(record.report.hash, (record.seq, record.report.size))
            case _:
                pass

    def notes(self, cast: Cast) -> Document:
        """Return the other fields of the record of a vote; none of them if it was pruned."""
        return self._more.get(cast.seq, {"at_ns": None, "seen": None, "note": None})


def _about(view: View, seq: int) -> Iterator[Governance]:
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
    found: dict[str, Any] = {"hash": hash_text(hash), "seq": at, "size": size}
    try:
        head = read_report_head(view.journal.blob(hash))
    except (Damage, ReportInvalid):
        return {**found, "from": None, "to": None, "records": None}
    return {**found, "from": head.first, "to": head.last, "records": head.records}
