"""Sign proposals, reports, votes and withdrawals (spec/host.md, H-72a), and keep votes as JSON
files, which are signed away from the world and submitted later (spec/governance.md, GV-35).

Everything here works without the world: an approver needs a key, and the proposal from a bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from nacl.signing import SigningKey

from aos.core.decide.answers import Refusal, Rule
from aos.core.journal.governing import PROPOSE, GovernanceInput, ProposedChange
from aos.core.journal.inputs import STRICT
from aos.core.journal.records import Principal
from aos.core.journal.signing import is_signed
from aos.core.journal.vocabulary import VOTES, word_of
from aos.errors import AosError, BadUsage, Damage, Refused, excerpt
from aos.host.apply.apply import check_modules
from aos.manifest.effective import Effective
from aos.manifest.governance import GovernanceBlock
from aos.manifest.judging import judge
from aos.manifest.keys import key_text
from aos.manifest.patch import Patch
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem

KIND: Final = "vote"

_FIELDS: Final = frozenset(
    {"$kind", "world", "action", "proposal", "principal", "signature", "seen", "note", "base",
     "document", "patch", "mode", "leaves"}
)  # fmt: skip


def governor_of(
    key: SigningKey,
    action: str,
    *,
    governance: GovernanceBlock | None,
    operators: Iterable[Principal],
) -> str:
    """The name in which this key may ``action``: an approver's, or an operator's for all but votes.

    Raises:
        Refused: The key is no one's who may, or the world is not governed.
    """
    if governance is None:
        raise Refused(
            "the manifest in force names no approvers: an operator applies the next one (aos apply "
            "PATH)"
        )
    governors = [(approver.name, approver.public_key) for approver in governance.approvers]
    if action not in VOTES:
        governors = [*[(operator.name, operator.key) for operator in operators], *governors]
    public = bytes(key.verify_key)
    for name, owned in governors:
        if owned == public:
            return name
    raise Refused(
        f"this key may not {action} in this world",
        expected=" or ".join(f"{name}'s {key_text(owned)}" for name, owned in governors),
        actual=key_text(public),
    )


def sign_proposal(
    document: bytes,
    patch: Patch,
    *,
    world: Hash,
    serial: int,
    principal: str,
    key: SigningKey,
    mode: str = STRICT,
    leaves: tuple[str, ...] = (),
    note: str | None = None,
) -> GovernanceInput:
    """Sign the proposal of a manifest. ``serial`` is the number of proposals so far."""
    unsigned = GovernanceInput(
        action=PROPOSE,
        principal=principal,
        signature=b"",
        serial=serial,
        base=patch.base,
        document=document,
        patch=patch.document,
        mode=mode,
        leaves=leaves,
        note=note,
    )
    change = unsigned.change
    assert change is not None, "it names base, document and patch"
    return replace(unsigned, signature=key.sign(unsigned.message(world, change)).signature)


def sign_governance(
    action: str,
    proposal: int,
    change: ProposedChange,
    *,
    world: Hash,
    principal: str,
    key: SigningKey,
    report: bytes | None = None,
    seen_report: Hash | None = None,
    note: str | None = None,
) -> GovernanceInput:
    """Sign a report, a vote or a withdrawal of the proposal of record ``proposal``."""
    unsigned = GovernanceInput(
        action=action,
        principal=principal,
        signature=b"",
        proposal=proposal,
        report=report,
        seen=seen_report,
        note=note,
    )
    return replace(unsigned, signature=key.sign(unsigned.message(world, change)).signature)


def check_proposal(
    governance_input: GovernanceInput,
    modules: Mapping[Hash, bytes],
    *,
    world: Hash,
    operators: Iterable[Principal],
    in_force: Effective | None,
    path: Path | None,
) -> None:
    """Check the modules of a signed proposal before it is admitted, as those of a manifest (H-72).

    An unsigned proposal costs nothing here: the core refuses it.

    Raises:
        ModuleRefused: A module is refused. The text has every reason.
        Refused: The document is not a valid manifest, or does not name one of the modules.
    """
    change, governance = governance_input.change, None if in_force is None else in_force.governance
    if change is None or governance is None or governance_input.document is None:
        return
    keys = [operator.key for operator in operators if operator.name == governance_input.principal]
    keys += [
        approver.public_key
        for approver in governance.approvers
        if approver.name == governance_input.principal
    ]
    message = governance_input.message(world, change)
    if not any(is_signed(message, governance_input.signature, key) for key in keys):
        return
    try:
        effective = judge(governance_input.document)
    except Damage as problem:
        raise Refused(f"the manifest is refused: {problem}") from problem
    check_modules(effective, modules, in_force=in_force, world=path)


def declined(refusal: Refusal) -> AosError:
    """The error of a refusal: a number that names no proposal is wrong usage, as for a reader."""
    is_unknown = refusal.rule is Rule.PROPOSAL_IS_UNKNOWN
    return (BadUsage if is_unknown else Refused)(refusal.message)


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
