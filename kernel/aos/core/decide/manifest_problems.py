"""Find the problems of a manifest that only this world knows: its keys, and what it leaves (K-14).

``admit`` refuses a manifest for them, and ``governing`` the proposal of one.
"""

from __future__ import annotations

from collections.abc import Mapping

from aos.core.journal.signing import approver_with_used_key, back_from_revocation, is_misnamed
from aos.core.state.state import State
from aos.manifest.effective import Effective, Executor
from aos.manifest.names import NODE


def keys_problem(effective: Effective, state: State) -> str | None:
    """The problem of an executor's or approver's key; None if there is none."""
    problem = _misnamed(effective.executors or {}, state.world_key) or _revoked(effective, state)
    if problem is not None:
        return f"executors: {problem}"
    revoked = state.revoked
    reused_key = approver_with_used_key(effective.governance, revoked, state.world_key)
    if reused_key is None:
        return None
    name, owner = reused_key
    return f"governance: approver {name} has {owner}: expected a key that only the approver has"


def leaves_problem(effective: Effective, leaves: tuple[str, ...]) -> str | None:
    """The problem of ``leaves``: not sorted and unique, or a workflow is still in the manifest."""
    if list(leaves) != sorted(set(leaves)):
        return "leaves: expected names of workflows, each once, in order"
    for name in leaves:
        if name in effective.workflows:
            return f"leaves: {name} is still in the manifest"
    return None


def _misnamed(executors: Mapping[str, Executor], world_key: bytes) -> str | None:
    """The problem of an executor that has only one of the world's own key and the name ``node``."""
    for executor in executors.values():
        if is_misnamed(executor, world_key):
            return (
                f"{NODE} must have this world's own key and no other may: expected ed25519:"
                f"{world_key.hex()}, found {executor.name} with ed25519:{executor.public_key.hex()}"
            )
    return None


def _revoked(effective: Effective, state: State) -> str | None:
    """The problem of a manifest that uses a key that an earlier one revoked (K-106)."""
    back = back_from_revocation(effective.executors, state.revoked)
    if back is None:
        return None
    name, key = back
    return (
        f"{name} has ed25519:{key.hex()}, which an earlier manifest revoked: expected another key"
    )
