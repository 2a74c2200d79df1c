"""The governance input, and the bytes that proposers and approvers sign (spec/governance.md,
GV-20 to GV-22)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash

PROPOSE: Final = "propose"
REPORT: Final = "report"
APPROVE: Final = "approve"
REJECT: Final = "reject"
WITHDRAW: Final = "withdraw"

NOTE_BYTES_MAX: Final = 1024
"""Longest note, in bytes of UTF-8."""

PATCH_BYTES_MAX: Final = 16 << 20
"""Largest patch."""

_STRICT: Final = "strict"


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """The change that a proposal would put in force: the hashes of the manifest in force, of the
    next one and of the patch between them, and the mode and ``leaves`` of the apply. Every vote
    signs it."""

    base: Hash
    document: Hash
    patch: Hash
    mode: str | None
    """None if it is strict, as in a record."""
    leaves: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceInput:
    """A signed proposal, or a report, vote or withdrawal that names a ``proposal`` by its record.

    ``propose`` has a ``serial``, the number of proposals before it, the hash ``base`` of the
    manifest in force, and the bytes of the next ``document`` and of the ``patch``. ``report`` has
    the bytes of a shadow report; a vote may name the hash of the journaled report that the approver
    has ``seen``.
    """

    action: str
    principal: str
    signature: bytes
    proposal: int | None = None
    serial: int | None = None
    base: Hash | None = None
    document: bytes | None = None
    patch: bytes | None = None
    mode: str = _STRICT
    leaves: tuple[str, ...] = ()
    report: bytes | None = None
    seen: Hash | None = None
    note: str | None = None

    @property
    def change(self) -> ProposedChange | None:
        """The change that ``propose`` names; None if a part is missing."""
        if self.base is None or self.document is None or self.patch is None:
            return None
        return ProposedChange(
            self.base,
            content_hash(self.document),
            content_hash(self.patch),
            None if self.mode == _STRICT else self.mode,
            self.leaves,
        )

    @property
    def size(self) -> int:
        """How many bytes of blobs it brings."""
        return sum(len(blob or b"") for blob in (self.document, self.patch, self.report))

    def message(self, world: Hash, change: ProposedChange) -> bytes:
        """The bytes that the principal signs. ``change`` is that of the proposal."""
        return governance_message(
            world,
            self.action,
            change,
            proposal=self.proposal,
            serial=self.serial,
            report=None if self.report is None else content_hash(self.report),
            seen=self.seen,
            note=self.note,
        )


def governance_message(
    world: Hash,
    action: str,
    change: ProposedChange,
    *,
    proposal: int | None = None,
    serial: int | None = None,
    report: Hash | None = None,
    seen: Hash | None = None,
    note: str | None = None,
) -> bytes:
    """The bytes that an operator or approver signs (J-44): null for what is absent.

    The signature of a report, a vote or a withdrawal covers the whole change that is proposed, so
    it is valid for no other proposal, even in a journal that was written again.
    """
    return encode(
        [
            "aos/governance/1", world, action, proposal, serial, change.base, change.document,
            change.patch, change.mode, list(change.leaves) or None, report, seen, note,
        ]
    )  # fmt: skip
