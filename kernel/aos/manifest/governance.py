"""The ``governance`` block of a manifest: the people who approve the next one (spec/governance.md,
GV-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.manifest.catalog import Findings, each_once
from aos.manifest.keys import parse_key
from aos.manifest.names import EXECUTOR_NAME
from aos.values.errors import ValueProblem

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


def governance(block: Mapping[str, Any], executors: Sequence[Mapping[str, Any]]) -> Findings:
    """Yield the problems of a block that JSON Schema cannot express, and of a forged one."""
    approvers, quorum = block["approvers"], block["quorum"]
    if not 0 < len(approvers) <= APPROVERS_MAX:
        yield (
            "/governance/approvers",
            f"expected 1 to {APPROVERS_MAX} approvers, found {len(approvers)}",
            None,
        )
    for index, name in each_once([approver["name"] for approver in approvers]):
        if index is None:
            yield "/governance/approvers", f"{name} is listed twice", None
        elif not EXECUTOR_NAME.fullmatch(name):
            yield (
                f"/governance/approvers/{index}/name",
                f"{name!r} cannot be the name of an approver",
                None,
            )
    yield from _keys(approvers, executors)
    if not 1 <= quorum <= max(len(approvers), 1):
        yield (
            "/governance/quorum",
            f"expected 1 to {len(approvers)}, the number of approvers, found {quorum}",
            "every manifest would wait for votes that no one can cast",
        )
    if not 0 <= block.get("shadow_records", 0) <= SHADOW_RECORDS_MAX:
        yield "/governance/shadow_records", f"expected 0 to {SHADOW_RECORDS_MAX}", None


def _keys(
    approvers: Sequence[Mapping[str, Any]], executors: Sequence[Mapping[str, Any]]
) -> Findings:
    """The key of an approver has no other owner: an executor must not approve its own manifest."""
    owners = {
        key: f"executor {executor['name']}" for executor in executors for key in _keys_of(executor)
    }
    for index, approver in enumerate(approvers):
        pointer, key = f"/governance/approvers/{index}/public_key", approver["public_key"]
        try:
            parse_key(key)
        except ValueProblem as problem:
            yield pointer, problem.message, None
            continue
        if key in owners:
            yield (
                pointer,
                f"this key is already that of {owners[key]}",
                "make a key that only the approver has: aos key new FILE",
            )
        owners.setdefault(key, f"approver {approver['name']}")


def _keys_of(executor: Mapping[str, Any]) -> list[str]:
    return [
        executor["public_key"],
        *executor.get("retired_keys", []),
        *executor.get("revoked_keys", []),
    ]
