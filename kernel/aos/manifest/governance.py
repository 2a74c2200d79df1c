"""The ``governance`` block of a manifest: the people who approve the next one (spec/governance.md,
GV-1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.manifest.keys import parse_key

APPROVERS_MAX: Final = 64
SHADOW_RECORDS_MAX: Final = 10**9


@dataclass(frozen=True, slots=True)
class Approver:
    """A person whose vote counts. ``public_key`` is 32 raw Ed25519 bytes."""

    name: str
    public_key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceBlock:
    """A manifest comes into force only if ``quorum`` approvers voted for it.

    ``approvers`` are in the order of their names. With ``shadow_records``, an approval must name a
    shadow report of so many records; 0 asks for none.
    """

    approvers: tuple[Approver, ...]
    quorum: int
    shadow_records: int = 0

    def key(self, name: str) -> bytes | None:
        """Return the key of the approver with this name; None if there is none."""
        return next(
            (approver.public_key for approver in self.approvers if approver.name == name), None
        )


def governance_of(node: Mapping[str, Any] | None) -> GovernanceBlock | None:
    """Return the typed view of a block without findings; None if the manifest has none."""
    if node is None:
        return None
    return GovernanceBlock(
        approvers=tuple(
            Approver(entry["name"], parse_key(entry["public_key"])) for entry in node["approvers"]
        ),
        quorum=node["quorum"],
        shadow_records=node.get("shadow_records", 0),
    )
