"""Votes as JSON files: signed away from the world, and submitted later (spec/governance.md,
GV-35)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aos.core.journal.governing import GovernanceInput, ProposedChange
from aos.core.journal.inputs import STRICT
from aos.core.journal.vocabulary import VOTES, word_of
from aos.errors import BadUsage, excerpt
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem

KIND: Final = "vote"

_FIELDS: Final = frozenset(
    {"$kind", "world", "action", "proposal", "principal", "signature", "seen", "note", "base",
     "document", "patch", "mode", "leaves"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteFile:
    """A signed vote with all that its signature covers."""

    world: Hash
    change: ProposedChange
    vote: GovernanceInput

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the file."""
        vote, change = self.vote, self.change
        return {
            "$kind": KIND,
            "world": hash_text(self.world),
            "action": vote.action,
            "proposal": vote.proposal,
            "principal": vote.principal,
            "signature": vote.signature.hex(),
            "seen": None if vote.seen is None else hash_text(vote.seen),
            "note": vote.note,
            "base": hash_text(change.base),
            "document": hash_text(change.document),
            "patch": hash_text(change.patch),
            "mode": change.mode or STRICT,
            "leaves": list(change.leaves),
        }


def read_vote_file(value: object) -> VoteFile:
    """Read parsed JSON.

    Raises:
        BadUsage: It is no vote, with the field that is malformed.
    """
    if not isinstance(value, dict) or value.get("$kind") != KIND or set(value) != _FIELDS:
        raise BadUsage(
            "this is no vote: expected a file that aos gov approve or reject wrote with --out"
        )
    leaves, mode = value["leaves"], _text(value, "mode")
    if not isinstance(leaves, list) or not all(isinstance(workflow, str) for workflow in leaves):
        raise _malformed("leaves", "a list of texts", leaves)
    proposal = value["proposal"]
    if type(proposal) is not int or not 0 < proposal < 2**63:
        raise _malformed("proposal", "the number of a record", proposal)
    if word_of(VOTES, value["action"]) is None:
        raise _malformed("action", " or ".join(VOTES), value["action"])
    return VoteFile(
        world=_hash(value, "world"),
        change=ProposedChange(
            _hash(value, "base"),
            _hash(value, "document"),
            _hash(value, "patch"),
            None if mode == STRICT else mode,
            tuple(leaves),
        ),
        vote=GovernanceInput(
            action=_text(value, "action"),
            principal=_text(value, "principal"),
            signature=_signature(value),
            proposal=proposal,
            seen=None if value["seen"] is None else _hash(value, "seen"),
            note=None if value["note"] is None else _text(value, "note"),
        ),
    )


def _text(value: dict[str, Any], name: str) -> str:
    text = value[name]
    if not isinstance(text, str) or any("\ud800" <= character <= "\udfff" for character in text):
        raise _malformed(name, "text", text)
    return text


def _hash(value: dict[str, Any], name: str) -> Hash:
    try:
        return parse_hash(_text(value, name))
    except ValueProblem as problem:
        raise BadUsage(f"{name}: {problem.message}") from problem


def _signature(value: dict[str, Any]) -> bytes:
    try:
        return bytes.fromhex(_text(value, "signature"))
    except ValueError as problem:
        raise _malformed("signature", "128 hex digits", value["signature"]) from problem


def _malformed(name: str, expected: str, actual: object) -> BadUsage:
    return BadUsage(
        f"{name}: expected {expected}, found {excerpt(repr(actual), characters_max=80)}"
    )
