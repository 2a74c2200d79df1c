"""Find the problems of a manifest that only this world knows: its keys, the workflows that it
leaves, its shard, and the patch of a proposal (K-14; spec/governance.md, GV-27).

``admit`` refuses a manifest for the first three, and ``governed`` a proposal for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aos.core.journal.governing import PATCH_BYTES_MAX, GovernanceInput
from aos.core.journal.signing import approver_with_used_key, back_from_revocation, is_misnamed
from aos.core.journal.vocabulary import MODES, word_of
from aos.core.state.state import State
from aos.errors import Damage
from aos.manifest.effective import Effective, Executor
from aos.manifest.judging import judge
from aos.manifest.names import NODE
from aos.manifest.patch import Patch, PatchInvalid
from aos.manifest.patching import check_patch
from aos.manifest.placement import Shard
from aos.values.digests import content_hash
from aos.values.errors import quoted


def keys_problem(effective: Effective, state: State) -> str | None:
    """The problem of an executor's or approver's key; None if there is none."""
    problem = _misnamed_executor(effective.executors or {}, state.world_key) or _revoked_key(
        effective, state
    )
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


def placement_problem(effective: Effective, state: State) -> str | None:
    """The problem of a manifest that would put cells of this world into other shards (GR-12,
    GR-13); None if there is none."""
    in_force = state.manifest
    if in_force is None:
        return None
    if effective.shard != in_force.shard:
        return (
            f"shard: expected {_shard_text(in_force.shard)}, as in the manifest in force, found "
            f"{_shard_text(effective.shard)} (a world stays the shard that it is: apply the "
            "manifest to the whole group)"
        )
    if effective.shard is None:
        return None
    for name, workflow in effective.workflows.items():
        old = in_force.workflows.get(name)
        if old is not None and old.placement != workflow.placement:
            return (
                f"routing.shards: {name} is placed {old.placement} in the manifest in force: "
                f"expected the same, found {workflow.placement} (its instances would be in other "
                "shards: give the workflow another name)"
            )
    return None


def _shard_text(shard: Shard | None) -> str:
    return "none" if shard is None else f"[{shard.index}, {shard.count}]"


def change_problems(state: State, governance_input: GovernanceInput) -> Iterator[str]:
    """The problems of the proposed manifest, as an apply would find them, and of its patch
    (GV-27)."""
    assert governance_input.document is not None
    assert governance_input.patch is not None
    if word_of(MODES, governance_input.mode) is None:
        yield f"mode: expected {' or '.join(MODES)}, found {quoted(governance_input.mode)}"
        return
    if content_hash(governance_input.document) == state.effective.hash:
        yield "this manifest is already in force: a proposal changes something"
        return
    try:
        effective = judge(governance_input.document)
    except Damage as error:
        yield f"the effective manifest cannot be read: {error}"
        return
    problem = (
        keys_problem(effective, state)
        or leaves_problem(effective, governance_input.leaves)
        or placement_problem(effective, state)
    )
    if problem is not None:
        yield problem
    if len(governance_input.patch) > PATCH_BYTES_MAX:
        yield (
            f"patch: expected at most {PATCH_BYTES_MAX} bytes, found {len(governance_input.patch)}"
        )
        return
    try:
        check_patch(state.effective, Patch.from_document(governance_input.patch), effective)
    except PatchInvalid as error:
        yield f"patch: {error}"


def _misnamed_executor(executors: Mapping[str, Executor], world_key: bytes) -> str | None:
    """The problem of an executor that has only one of the world's own key and the name ``node``."""
    for executor in executors.values():
        if is_misnamed(executor, world_key):
            return (
                f"{NODE} must have this world's own key and no other may: expected ed25519:"
                f"{world_key.hex()}, found {executor.name} with ed25519:{executor.public_key.hex()}"
            )
    return None


def _revoked_key(effective: Effective, state: State) -> str | None:
    """The problem of a manifest that uses a key that an earlier one revoked (K-106)."""
    back = back_from_revocation(effective.executors, state.revoked)
    if back is None:
        return None
    name, key = back
    return (
        f"{name} has ed25519:{key.hex()}, which an earlier manifest revoked: expected another key"
    )
