"""Proposals of a governed world with their votes and reports (spec/audit.md, A-37h).

Open proposals are in the state. A closed one is read from the journal, from its record to the one
that closed it.

A shadow report is shown as a JSON document if it has the form of SH-50: the kernel checks only the
head of a report that is journaled, so the rest may be anything that a principal has signed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

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
from aos.read.views.view import View
from aos.values.cbor import decode_record, encode
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text, parse_hash

_GOVERNANCE: Final = encode("governance")

Fields: TypeAlias = dict[Any, Any]
"""A map of a report."""

_BYTES: Final = ("world", "base", "document", "frame", "answers")
"""Fields that are hashes; all others are as in JSON."""


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


@dataclass(frozen=True, slots=True)
class _MapOf:
    """A map of texts to values of one form."""

    form: object


@dataclass(frozen=True, slots=True)
class _Option:
    """A value of this form, or null."""

    form: object


_ANY: Final = object
"""Every JSON value."""

_CELL: Final = {"workflow": str, "key": _ANY}
_SIDE: Final = _Option({"status": str, "state": _ANY, "fault": _Option(str)})
_PLACE: Final = {"path": str, "recorded": _ANY, "shadow": _ANY}
_DIFFERENCE: Final = {"field": str, "recorded": _ANY, "shadow": _ANY, "places": [_PLACE]}
_SIDES: Final = {"recorded": _MapOf(_MapOf(int)), "shadow": _MapOf(_MapOf(int))}
_ASKED: Final = _MapOf({"asked": int, "receipts": _MapOf(int)})
_LIST: Final = _Option([str])

_BEGINNING: Final = {
    "same": bool,
    "blocked": bool,
    "blockers": {"total": int, "first": [{"kind": str, "cell": _CELL, "detail": str}]},
}
_REST: Final = {
    "clock_ns": int,
    "steps": dict.fromkeys(
        ("compared", "different", "missing", "extra", "erased", "environmental"), int
    ),
    "inputs": {"admitted": int, "refused": int},
    "by_class": _MapOf(int),
    "cells": _MapOf({"same": int, "different": int, "by_class": _MapOf(int)}),
    "differences": [
        {
            "cell": _CELL,
            "classes": [str],
            "first": {"record": int, "on": str, "classes": [str], "differences": [_DIFFERENCE]},
            "last": {"recorded": _SIDE, "shadow": _SIDE},
        }
    ],
    "left_out": int,
    "effects": {"recorded": _ASKED, "shadow": _ASKED},
    "answered": dict.fromkeys(("timers", "blobs", "core", "file"), int),
    "instances": _SIDES,
    "allowlists": _MapOf({"recorded": _LIST, "shadow": _LIST}),
    "pending": {"recorded": int, "shadow": int},
    "open": [{"effect": str, "cell": _CELL, "params": str, "recorded": bool}],
}
"""The other fields, of a shadow that was not blocked (SH-9)."""


def read_report(report: bytes) -> Fields:
    """Return a report as a JSON document.

    Raises:
        ValueProblem: It is not canonical CBOR.
    """
    fields: Any = decode_record(report)
    return {
        "hash": hash_text(content_hash(report)),
        **{
            name: hash_text(Hash(value)) if name in _BYTES and value is not None else value
            for name, value in fields.items()
        },
    }


def checked_report(report: bytes) -> Fields:
    """Return a report as a JSON document, as ``read_report``.

    Raises:
        ReportInvalid: It does not have the form of a report.
    """
    read_report_head(report)
    fields: Any = decode_record(report)
    answers = fields.get("answers")
    if answers is not None and (not isinstance(answers, bytes) or len(answers) != HASH_BYTES):
        raise ReportInvalid("answers: expected a hash or null")
    document = read_report(report)
    _check(document, _BEGINNING, "")
    if not document["blocked"]:
        _check(document, _REST, "")
    _check(document, _ANY, "")
    return document


def _check(value: Any, form: Any, path: str) -> None:
    """Raise ReportInvalid unless a value has a form: a type, a map of names, a list of one."""
    match form:
        case _Option():
            if value is not None:
                _check(value, form.form, path)
        case _MapOf():
            for name, part in _expected(value, dict, path).items():
                _check(part, form.form, f"{path}.{name}")
        case Mapping():
            _expected(value, dict, path)
            for name, part in form.items():
                if name not in value:
                    raise ReportInvalid(f"{path}.{name}: expected this field".lstrip("."))
                _check(value[name], part, f"{path}.{name}")
        case [part]:
            for index, item in enumerate(_expected(value, list, path)):
                _check(item, part, f"{path}[{index}]")
        case _ if form is _ANY:
            _check_json(value, path)
        case _:
            _expected(value, form, path)


def _check_json(value: Any, path: str) -> None:
    match value:
        case None | bool() | int() | str():
            pass
        case list():
            for index, part in enumerate(value):
                _check_json(part, f"{path}[{index}]")
        case dict() if all(isinstance(name, str) for name in value):
            for name, part in value.items():
                _check_json(part, f"{path}.{name}")
        case _:
            raise ReportInvalid(f"{path}: expected JSON, found {type(value).__name__}".lstrip("."))


def _expected(value: Any, kind: type, path: str) -> Any:
    if type(value) is not kind:
        problem = f"expected {kind.__name__}, found {type(value).__name__}"
        raise ReportInvalid(f"{path}: {problem}".lstrip("."))
    return value
