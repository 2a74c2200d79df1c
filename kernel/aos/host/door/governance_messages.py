"""Encode and decode proposals, reports, votes and withdrawals for the socket (spec/host.md,
H-53)."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from aos.core.journal.governing import GovernanceInput, ProposedChange
from aos.core.journal.inputs import STRICT
from aos.core.journal.vocabulary import MODES, word_of
from aos.core.state.proposals import OpenProposal
from aos.errors import BadUsage
from aos.message_fields import Message, field
from aos.values.cbor import Value
from aos.values.digests import HASH_BYTES, Hash

T = TypeVar("T")

LEAVES_MAX: Final = 100_000


def governance_fields(governance_input: GovernanceInput) -> dict[str, Value]:
    """Encode an input; fields that are absent are left out."""
    fields: dict[str, Value] = {
        "action": governance_input.action,
        "principal": governance_input.principal,
        "signature": governance_input.signature,
        "proposal": governance_input.proposal,
        "serial": governance_input.serial,
        "base": governance_input.base,
        "document": governance_input.document,
        "patch": governance_input.patch,
        "mode": None if governance_input.mode == STRICT else governance_input.mode,
        "leaves": list(governance_input.leaves) or None,
        "report": governance_input.report,
        "seen": governance_input.seen,
        "note": governance_input.note,
    }
    return {name: value for name, value in fields.items() if value is not None}


def read_governance(request: Message) -> GovernanceInput:
    """Decode an input, for the core to check.

    Raises:
        BadUsage: A field is missing or of another type.
    """
    leaves = field({"leaves": [], **request}, "leaves", list)
    if len(leaves) > LEAVES_MAX or not all(isinstance(workflow, str) for workflow in leaves):
        raise BadUsage(f"leaves: expected a list of at most {LEAVES_MAX} names")
    return GovernanceInput(
        action=field(request, "action", str),
        principal=field(request, "principal", str),
        signature=field(request, "signature", bytes),
        proposal=_optional(request, "proposal", int),
        serial=_optional(request, "serial", int),
        base=_hash(request, "base"),
        document=_optional(request, "document", bytes),
        patch=_optional(request, "patch", bytes),
        mode=field({"mode": STRICT, **request}, "mode", str),
        leaves=tuple(leaves),
        report=_optional(request, "report", bytes),
        seen=_hash(request, "seen"),
        note=_optional(request, "note", str),
    )


def _optional(request: Message, name: str, kind: type[T]) -> T | None:
    value: T | None = field(request, name, kind) if name in request else None
    return value


def _hash(request: Message, name: str) -> Hash | None:
    value = _optional(request, name, bytes)
    if value is not None and len(value) != HASH_BYTES:
        raise BadUsage(f"{name}: expected a hash of {HASH_BYTES} bytes, found {len(value)} bytes")
    return None if value is None else Hash(value)


def proposal_row(proposal: OpenProposal) -> Value:
    """Encode an open proposal."""
    change = proposal.change
    return [
        proposal.seq, proposal.principal, change.base, change.document, change.patch, change.mode,
        list(change.leaves), list(proposal.approving), list(proposal.rejecting),
        list(proposal.reports),
    ]  # fmt: skip


def read_proposal_row(row: Any) -> OpenProposal:
    """Decode an open proposal. Raises: BadUsage: It is none."""
    match row:
        case [
            int(seq), str(principal), bytes(base), bytes(document), bytes(patch), mode,
            [*leaves], [*approving], [*rejecting], [*reports],
        ] if mode is None or word_of(MODES, mode) is not None:  # fmt: skip
            change = ProposedChange(Hash(base), Hash(document), Hash(patch), mode, tuple(leaves))
            return OpenProposal(
                seq=seq,
                principal=principal,
                change=change,
                approving=tuple(approving),
                rejecting=tuple(rejecting),
                reports=tuple(map(Hash, reports)),
            )
    raise BadUsage(f"the world answered {row!r:.200}, which is no proposal")
