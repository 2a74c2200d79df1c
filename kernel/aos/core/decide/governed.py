"""Decide proposals, shadow reports, votes and withdrawals (spec/governance.md, GV-20 to GV-35).

Nothing here changes the state, and the first broken rule is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from aos.core.decide.answers import Duplicate, Refusal, Rule
from aos.core.decide.approved import found_proposal, open_proposal
from aos.core.decide.decided import Decided
from aos.core.decide.proposing import change_problems
from aos.core.decide.refusing import refusal
from aos.core.journal.governing import (
    NOTE_BYTES_MAX,
    PROPOSE,
    WITHDRAW,
    GovernanceInput,
    ProposedChange,
)
from aos.core.journal.inputs import STRICT
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Governance, Ref, Stamp
from aos.core.journal.shadow_report import ReportHead, ReportInvalid, read_report_head
from aos.core.journal.signing import is_signed
from aos.core.journal.vocabulary import (
    GOVERNANCE_ACTIONS,
    MODES,
    VOTES,
    GovernanceAction,
    Vote,
    word_of,
)
from aos.core.state.proposals import PROPOSALS_MAX, REPORTS_MAX, Proposal
from aos.core.state.state import State
from aos.manifest.governance import GovernanceBlock
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text
from aos.values.errors import quoted
from aos.values.show import describe

_FIELDS: Final[dict[GovernanceAction, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "propose": (("serial", "base", "document", "patch"), ("mode", "leaves", "note")),
    "report": (("proposal", "report"), ("note",)),
    "approve": (("proposal",), ("seen", "note")),
    "reject": (("proposal",), ("seen", "note")),
    "withdraw": (("proposal",), ("note",)),
}
"""The fields of each action: those that it needs, and those that it may have."""


def admit_governance(
    state: State, given: GovernanceInput, stamp: Stamp, read: BlobReader
) -> Decided | Duplicate | Refusal:
    """Admit a proposal, a shadow report, a vote or a withdrawal.

    Raises:
        Damage: A blob of an open proposal is missing or altered. Nothing has changed.
    """
    block = None if state.manifest is None else state.manifest.governance
    if block is None:
        return refusal(
            Rule.WORLD_IS_NOT_GOVERNED,
            "the manifest in force names no approvers: an operator applies the next one "
            "(aos apply PATH)",
        )
    keys = _keys_of(state, block, given)
    if isinstance(keys, Refusal):
        return keys
    if given.action == PROPOSE:
        return _propose(state, given, stamp, keys)
    proposal = open_proposal(state, given.proposal)
    if isinstance(proposal, Refusal):
        return proposal
    problem = _unsigned(state, given, proposal.change, keys) or _misshapen(given)
    if problem is not None:
        return problem
    action = word_of(GOVERNANCE_ACTIONS, given.action)
    match action:
        case "report":
            found = _report_problem(state, given, proposal)
        case "approve" | "reject":
            found = _vote_problem(state, given, proposal, action, read)
        case "withdraw":
            found = None
        case "propose" | None:
            raise AssertionError("checked before")
        case _:
            assert_never(action)
    return _decided(state, given, stamp) if found is None else found


def _decided(state: State, given: GovernanceInput, stamp: Stamp) -> Decided:
    action = word_of(GOVERNANCE_ACTIONS, given.action)
    assert action is not None, "checked before"
    blobs: dict[Hash, bytes] = {}

    def kept(data: bytes | None) -> Ref | None:
        if data is None:
            return None
        hash_ = content_hash(data)
        blobs[hash_] = data
        return Ref(hash_, len(data))

    record = Governance(
        seq=state.next_seq,
        stamp=stamp,
        action=action,
        principal=given.principal,
        signature=given.signature,
        proposal=given.proposal,
        serial=given.serial,
        base=given.base,
        document=kept(given.document),
        patch=kept(given.patch),
        mode=None if given.mode == STRICT else word_of(MODES, given.mode),
        leaves=given.leaves,
        report=kept(given.report),
        seen=given.seen,
        note=given.note,
    )
    return Decided(record=record, blobs=blobs)


# Authority


def _keys_of(state: State, block: GovernanceBlock, given: GovernanceInput) -> list[bytes] | Refusal:
    """The keys of which one must have signed. An operator and an approver may have one name."""
    approvers = [each.name for each in block.approvers]
    keys = [each.public_key for each in block.approvers if each.name == given.principal]
    if word_of(VOTES, given.action) is not None:
        expected = f"an approver in force, {' or '.join(approvers)}"
    else:
        keys += [each.key for each in state.operators if each.name == given.principal]
        operators = [each.name for each in state.operators]
        expected = f"an operator or approver, {' or '.join(dict.fromkeys(operators + approvers))}"
    proposal = found_proposal(state, given.proposal)
    if given.action == WITHDRAW and proposal is not None:
        keys = keys if proposal.principal == given.principal else []
        expected = f"{quoted(proposal.principal)}, who proposed it"
    if keys:
        return keys
    return refusal(
        Rule.GOVERNANCE_PRINCIPAL_IS_UNKNOWN,
        f"{quoted(given.principal)} may not {quoted(given.action)}: expected {expected}",
    )


def _unsigned(
    state: State, given: GovernanceInput, change: ProposedChange, keys: list[bytes]
) -> Refusal | None:
    try:
        message = given.message(state.world, change)
    except (TypeError, ValueError):  # a number or text that has no CBOR
        return _invalid(given.action, "expected UTF-8 text, and numbers below 2^64")
    if any(is_signed(message, given.signature, key) for key in keys):
        return None
    return refusal(
        Rule.GOVERNANCE_SIGNATURE_IS_WRONG,
        f"the signature is not {given.principal}'s over this {given.action} in this world (look at "
        "the proposal and sign again)",
    )


def _misshapen(given: GovernanceInput) -> Refusal | None:
    """The input has the fields of its action and no others, each well-formed."""
    action = word_of(GOVERNANCE_ACTIONS, given.action)
    if action is None:
        return _invalid(
            "action", f"expected {' or '.join(GOVERNANCE_ACTIONS)}, found {quoted(given.action)}"
        )
    needed, options = _FIELDS[action]
    found = {
        "proposal": given.proposal is not None, "serial": given.serial is not None,
        "base": given.base is not None, "document": given.document is not None,
        "patch": given.patch is not None, "mode": given.mode != STRICT,
        "leaves": bool(given.leaves), "report": given.report is not None,
        "seen": given.seen is not None, "note": given.note is not None,
    }  # fmt: skip
    present = {name for name, is_there in found.items() if is_there}
    if not set(needed) <= present <= {*needed, *options}:
        return _invalid(
            action, f"expected {' and '.join(needed)}, and of others at most {', '.join(options)}"
        )
    for name, hash_ in (("base", given.base), ("seen", given.seen)):
        if hash_ is not None and len(hash_) != HASH_BYTES:
            return _invalid(name, f"expected a hash of {HASH_BYTES} bytes")
    if given.note is not None and not 0 < len(given.note.encode()) <= NOTE_BYTES_MAX:
        return _invalid("note", f"expected 1 to {NOTE_BYTES_MAX} bytes of UTF-8")
    return None


def _invalid(what: str, message: str) -> Refusal:
    return refusal(Rule.PROPOSAL_IS_INVALID, f"{what}: {message}")


# Propose


def _propose(
    state: State, given: GovernanceInput, stamp: Stamp, keys: list[bytes]
) -> Decided | Refusal:
    expected = state.proposals.count
    if type(given.serial) is not int or given.serial != expected:
        return refusal(
            Rule.GOVERNANCE_SERIAL_IS_WRONG,
            f"proposal serial: expected {expected}, found {describe(given.serial)} (another "
            "proposal came in meanwhile: look and try again)",
        )
    change = given.change
    problem = (
        _misshapen(given)
        if change is None
        else _unsigned(state, given, change, keys) or _misshapen(given)
    )
    if problem is not None:
        return problem
    assert change is not None, "it has the fields of a proposal"
    if change.base != state.effective.hash:
        return refusal(
            Rule.PROPOSAL_IS_STALE,
            f"base: expected {hash_text(state.effective.hash)}, the manifest in force, found "
            f"{hash_text(change.base)} (make the patch again)",
        )
    found = next(change_problems(state, given), None)
    if found is not None:
        return refusal(Rule.PROPOSAL_IS_INVALID, found)
    if len(state.proposals.open) >= PROPOSALS_MAX:
        return refusal(
            Rule.TOO_MANY_PROPOSALS,
            f"{PROPOSALS_MAX} proposals are open, the most that may be (apply, reject or withdraw "
            "one)",
        )
    return _decided(state, given, stamp)


# Report


def _report_problem(
    state: State, given: GovernanceInput, proposal: Proposal
) -> Duplicate | Refusal | None:
    assert given.report is not None
    earlier = proposal.reports.get(content_hash(given.report))
    if earlier is not None:
        return Duplicate(seq=earlier.seq)
    try:
        head = read_report_head(given.report)
    except ReportInvalid as error:
        return refusal(Rule.REPORT_IS_INVALID, f"this is no shadow report: {error}")
    problem = next(_lies(state, head, proposal), None)
    if problem is not None:
        return refusal(Rule.REPORT_IS_INVALID, problem)
    if len(proposal.reports) >= REPORTS_MAX:
        return refusal(
            Rule.TOO_MANY_REPORTS, f"proposal {proposal.seq} has {REPORTS_MAX} reports, the most"
        )
    return None


def _lies(state: State, head: ReportHead, proposal: Proposal) -> Iterator[str]:
    """The parts of a report that cannot be true of this proposal and this journal."""
    for what, found, expected in (
        ("world", head.world, state.world),
        ("base", head.base, proposal.base),
        ("document", head.document, proposal.document.hash),
    ):
        if found != expected:
            yield f"{what}: expected {hash_text(expected)}, found {hash_text(found)}"
    mode = proposal.mode or STRICT
    if head.mode != mode:
        yield f"mode: expected {mode}, found {quoted(head.mode)}"
    if head.leaves != proposal.leaves:
        yield f"leaves: expected those of proposal {proposal.seq}"
    if not state.manifest_seq <= head.first <= head.last < state.next_seq:
        yield (
            f"from and to: expected records {state.manifest_seq} to {state.next_seq - 1}, found "
            f"{head.first} to {head.last}"
        )


# Vote


def _vote_problem(
    state: State, given: GovernanceInput, proposal: Proposal, vote: Vote, read: BlobReader
) -> Refusal | None:
    cast = proposal.votes.get(given.principal)
    if cast is not None and not (cast.vote == "approve" and vote == "reject"):
        return refusal(
            Rule.VOTE_IS_TAKEN,
            f"{given.principal} has voted on proposal {proposal.seq} already: {cast.vote}, in "
            f"record {cast.seq} (an approval may be taken back once, with reject)",
        )
    if given.seen is not None and given.seen not in proposal.reports:
        return refusal(
            Rule.REPORT_IS_NEEDED,
            f"seen: expected a journaled report of proposal {proposal.seq}, found "
            f"{hash_text(given.seen)}",
        )
    block = state.effective.governance
    needed = block.shadow_records if block is not None and vote == "approve" else 0
    if needed and not _covers(state, proposal, given.seen, needed, read):
        return refusal(
            Rule.REPORT_IS_NEEDED,
            f"seen: an approval needs a journaled report of {needed} records, or of all from "
            f"record {state.manifest_seq} to the proposal (aos gov shadow {proposal.seq} "
            "--record)",
        )
    return None


def _covers(
    state: State, proposal: Proposal, seen: Hash | None, needed: int, read: BlobReader
) -> bool:
    """Whether the report that the approver has seen covers enough records (GV-32)."""
    if seen is None:
        return False
    head = read_report_head(read(seen))
    is_whole = head.first == state.manifest_seq and head.last >= proposal.seq - 1
    return is_whole or head.records >= needed
