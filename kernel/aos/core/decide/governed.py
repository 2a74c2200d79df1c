"""Decide proposals, shadow reports, votes and withdrawals (spec/governance.md, GV-20 to GV-35).

Nothing here changes the state, and the first broken rule is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from aos.core.decide.answers import Decided, Duplicate, Refusal, Rule, refusal
from aos.core.decide.approved import found_proposal, open_proposal
from aos.core.decide.manifest_problems import change_problems
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
    state: State, governance_input: GovernanceInput, stamp: Stamp, read: BlobReader
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
    keys = _keys_of(state, block, governance_input)
    if isinstance(keys, Refusal):
        return keys
    if governance_input.action == PROPOSE:
        return _propose(state, governance_input, stamp, keys)
    proposal = open_proposal(state, governance_input.proposal)
    if isinstance(proposal, Refusal):
        return proposal
    problem = _unsigned(state, governance_input, proposal.change, keys) or _misshapen(
        governance_input
    )
    if problem is not None:
        return problem
    action = word_of(GOVERNANCE_ACTIONS, governance_input.action)
    match action:
        case "report":
            answer = _report_problem(state, governance_input, proposal)
        case "approve" | "reject":
            answer = _vote_problem(state, governance_input, proposal, action, read)
        case "withdraw":
            answer = None
        case "propose" | None:
            raise AssertionError("checked before")
        case _:
            assert_never(action)
    return _decided(state, governance_input, stamp) if answer is None else answer


def _decided(state: State, governance_input: GovernanceInput, stamp: Stamp) -> Decided:
    action = word_of(GOVERNANCE_ACTIONS, governance_input.action)
    assert action is not None, "checked before"
    blobs: dict[Hash, bytes] = {}

    def ref_of(data: bytes | None) -> Ref | None:
        if data is None:
            return None
        hash_ = content_hash(data)
        blobs[hash_] = data
        return Ref(hash_, len(data))

    record = Governance(
        seq=state.next_seq,
        stamp=stamp,
        action=action,
        principal=governance_input.principal,
        signature=governance_input.signature,
        proposal=governance_input.proposal,
        serial=governance_input.serial,
        base=governance_input.base,
        document=ref_of(governance_input.document),
        patch=ref_of(governance_input.patch),
        mode=None if governance_input.mode == STRICT else word_of(MODES, governance_input.mode),
        leaves=governance_input.leaves,
        report=ref_of(governance_input.report),
        seen=governance_input.seen,
        note=governance_input.note,
    )
    return Decided(record=record, blobs=blobs)


# Authority


def _keys_of(
    state: State, block: GovernanceBlock, governance_input: GovernanceInput
) -> list[bytes] | Refusal:
    """The keys of which one must have signed. An operator and an approver may have one name."""
    approvers = [approver.name for approver in block.approvers]
    keys = [
        approver.public_key
        for approver in block.approvers
        if approver.name == governance_input.principal
    ]
    if word_of(VOTES, governance_input.action) is not None:
        expected = f"an approver in force, {' or '.join(approvers)}"
    else:
        keys += [
            operator.key
            for operator in state.operators
            if operator.name == governance_input.principal
        ]
        operators = [operator.name for operator in state.operators]
        expected = f"an operator or approver, {' or '.join(dict.fromkeys(operators + approvers))}"
    proposal = found_proposal(state, governance_input.proposal)
    if governance_input.action == WITHDRAW and proposal is not None:
        keys = keys if proposal.principal == governance_input.principal else []
        expected = f"{quoted(proposal.principal)}, who proposed it"
    if keys:
        return keys
    return refusal(
        Rule.GOVERNANCE_PRINCIPAL_IS_UNKNOWN,
        f"{quoted(governance_input.principal)} may not {quoted(governance_input.action)}: "
        f"expected {expected}",
    )


def _unsigned(
    state: State, governance_input: GovernanceInput, change: ProposedChange, keys: list[bytes]
) -> Refusal | None:
    try:
        message = governance_input.message(state.world, change)
    except (TypeError, OverflowError):  # a number or text that has no CBOR
        return _invalid(governance_input.action, "expected UTF-8 text, and numbers below 2^64")
    if any(is_signed(message, governance_input.signature, key) for key in keys):
        return None
    return refusal(
        Rule.GOVERNANCE_SIGNATURE_IS_WRONG,
        f"the signature is not {governance_input.principal}'s over this "
        f"{governance_input.action} in this world (look at "
        "the proposal and sign again)",
    )


def _misshapen(governance_input: GovernanceInput) -> Refusal | None:
    """The input has the fields of its action and no others, each well-formed."""
    action = word_of(GOVERNANCE_ACTIONS, governance_input.action)
    if action is None:
        return _invalid(
            "action",
            f"expected {' or '.join(GOVERNANCE_ACTIONS)}, found {quoted(governance_input.action)}",
        )
    required, options = _FIELDS[action]
    presence = {
        "proposal": governance_input.proposal is not None,
        "serial": governance_input.serial is not None,
        "base": governance_input.base is not None,
        "document": governance_input.document is not None,
        "patch": governance_input.patch is not None, "mode": governance_input.mode != STRICT,
        "leaves": bool(governance_input.leaves), "report": governance_input.report is not None,
        "seen": governance_input.seen is not None, "note": governance_input.note is not None,
    }  # fmt: skip
    present = {name for name, is_there in presence.items() if is_there}
    if not set(required) <= present <= {*required, *options}:
        return _invalid(
            action, f"expected {' and '.join(required)}, and of others at most {', '.join(options)}"
        )
    for name, hash_ in (("base", governance_input.base), ("seen", governance_input.seen)):
        if hash_ is not None and len(hash_) != HASH_BYTES:
            return _invalid(name, f"expected a hash of {HASH_BYTES} bytes")
    if (
        governance_input.note is not None
        and not 0 < len(governance_input.note.encode()) <= NOTE_BYTES_MAX
    ):
        return _invalid("note", f"expected 1 to {NOTE_BYTES_MAX} bytes of UTF-8")
    return None


def _invalid(subject: str, message: str) -> Refusal:
    return refusal(Rule.PROPOSAL_IS_INVALID, f"{subject}: {message}")


# Propose


def _propose(
    state: State, governance_input: GovernanceInput, stamp: Stamp, keys: list[bytes]
) -> Decided | Refusal:
    expected = state.proposals.count
    if type(governance_input.serial) is not int or governance_input.serial != expected:
        return refusal(
            Rule.GOVERNANCE_SERIAL_IS_WRONG,
            f"proposal serial: expected {expected}, found {describe(governance_input.serial)} "
            "(another proposal came in meanwhile: look and try again)",
        )
    change = governance_input.change
    problem = (
        _misshapen(governance_input)
        if change is None
        else _unsigned(state, governance_input, change, keys) or _misshapen(governance_input)
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
    change_problem = next(change_problems(state, governance_input), None)
    if change_problem is not None:
        return refusal(Rule.PROPOSAL_IS_INVALID, change_problem)
    if len(state.proposals.open) >= PROPOSALS_MAX:
        return refusal(
            Rule.TOO_MANY_PROPOSALS,
            f"{PROPOSALS_MAX} proposals are open, the most that may be (apply, reject or withdraw "
            "one)",
        )
    return _decided(state, governance_input, stamp)


# Report


def _report_problem(
    state: State, governance_input: GovernanceInput, proposal: Proposal
) -> Duplicate | Refusal | None:
    assert governance_input.report is not None
    earlier = proposal.reports.get(content_hash(governance_input.report))
    if earlier is not None:
        return Duplicate(seq=earlier.seq)
    try:
        head = read_report_head(governance_input.report)
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
    for field, actual, expected in (
        ("world", head.world, state.world),
        ("base", head.base, proposal.base),
        ("document", head.document, proposal.document.hash),
    ):
        if actual != expected:
            yield f"{field}: expected {hash_text(expected)}, found {hash_text(actual)}"
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
    state: State,
    governance_input: GovernanceInput,
    proposal: Proposal,
    vote: Vote,
    read: BlobReader,
) -> Refusal | None:
    cast = proposal.votes.get(governance_input.principal)
    if cast is not None and not (cast.vote == "approve" and vote == "reject"):
        return refusal(
            Rule.VOTE_IS_TAKEN,
            f"{governance_input.principal} has voted on proposal {proposal.seq} already: "
            f"{cast.vote}, in record {cast.seq} (an approval may be taken back once, with reject)",
        )
    if governance_input.seen is not None and governance_input.seen not in proposal.reports:
        return refusal(
            Rule.REPORT_IS_NEEDED,
            f"seen: expected a journaled report of proposal {proposal.seq}, found "
            f"{hash_text(governance_input.seen)}",
        )
    block = state.effective.governance
    records_min = block.shadow_records if block is not None and vote == "approve" else 0
    if records_min and not _covers(state, proposal, governance_input.seen, records_min, read):
        return refusal(
            Rule.REPORT_IS_NEEDED,
            f"seen: an approval needs a journaled report of {records_min} records, or of all from "
            f"record {state.manifest_seq} to the proposal (aos gov shadow {proposal.seq} "
            "--record)",
        )
    return None


def _covers(
    state: State, proposal: Proposal, report: Hash | None, records_min: int, read: BlobReader
) -> bool:
    """Whether the report that the approver has seen covers enough records (GV-32)."""
    if report is None:
        return False
    head = read_report_head(read(report))
    is_whole = head.first == state.manifest_seq and head.last >= proposal.seq - 1
    return is_whole or head.records >= records_min
