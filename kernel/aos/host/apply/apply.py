"""Check a new manifest, forecast its effect on cells, and sign it (spec/host.md, H-70 to H-73)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nacl.signing import SigningKey

from aos.core.decide.answers import Answer, Blocker
from aos.core.decide.left_behind import misfits_under
from aos.core.decide.manifest_problems import keys_problem
from aos.core.decide.migration import Converted
from aos.core.decide.quiescence import Change, migrates
from aos.core.journal.inputs import PIN, STRICT, ManifestInput
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Principal
from aos.core.journal.signing import is_signed
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import is_in_flight, stays
from aos.errors import Damage, Refused
from aos.host.apply.commands import principal_of
from aos.host.apply.stored_states import need_a_look
from aos.host.folder.group import check_shard
from aos.manifest.difference import Difference
from aos.manifest.effective import Effective, Module
from aos.manifest.judging import judge
from aos.values.digests import Hash, content_hash, hash_text

GOES_ON = "goes_on"
"""Idle: its next event runs under the new manifest."""
PINNED = "pinned"
"""In flight: it stays pinned to its present manifest until it is done."""
KEPT = "kept"
"""Finished: it stays with its present manifest, because its state does not fit the new one."""
IN_PLACE = "in_place"
"""In flight: its next step runs under the new manifest."""
MIGRATED = "migrated"
"""The new module migrates its state, in flight or not."""
WAITED_FOR = "waited_for"
"""In flight: it blocks the manifest."""
FAILED = "failed"
"""Failed by a fault: a retry continues under the new manifest if the cell fits it."""
LEFT = "left"
"""Its workflow is removed: the cell is kept but receives nothing."""
FATES = (GOES_ON, PINNED, KEPT, IN_PLACE, MIGRATED, WAITED_FOR, FAILED, LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """Number of instances by workflow and fate."""

    by_workflow: Mapping[str, Mapping[str, int]]

    def of(self, fate: str) -> int:
        """Return the number of instances of all workflows with this fate, one of ``FATES``."""
        return sum(counts.get(fate, 0) for counts in self.by_workflow.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The result of applying a manifest. A dry run has ``blockers`` and the ``fates`` of the
    instances, but no ``answer``; ``states`` are those that it was asked to show."""

    difference: Difference
    manifest: Hash
    blockers: tuple[Blocker, ...]
    answer: Answer | None
    fates: Fates | None = None
    states: tuple[Converted, ...] = ()


def left_by(in_force: Effective | None, new: Effective) -> tuple[str, ...]:
    """The workflows that the new manifest removes."""
    return tuple(sorted(set(in_force.workflows if in_force else ()) - set(new.workflows)))


def sign_manifest(
    effective: Effective,
    *,
    world: Hash,
    serial: int,
    operators: Iterable[Principal],
    key: SigningKey,
    mode: str = STRICT,
    leaves: tuple[str, ...] = (),
    proposal: int | None = None,
) -> ManifestInput:
    """Sign the command in the name of the operator who owns this key (H-70). ``proposal`` is the
    record of the approved proposal, in a governed world.

    Raises:
        Refused: It is not the key of an operator.
    """
    principal = principal_of(key, operators, action="apply a manifest to")
    message = ManifestInput.message(
        world, serial, effective.hash, mode=mode, leaves=leaves, proposal=proposal
    )
    return ManifestInput(
        document=effective.document,
        principal=principal,
        serial=serial,
        signature=key.sign(message).signature,
        mode=mode,
        leaves=leaves,
        proposal=proposal,
    )


def check_keys(effective: Effective, state: State) -> None:
    """Check the keys of executors and approvers as the core does, for a dry run (K-14, K-106).

    Raises:
        Refused: The world's own key has another executor's name, an earlier manifest revoked a
            key, or an approver's key has another owner.
    """
    problem = keys_problem(effective, state)
    if problem is not None:
        raise Refused(problem)


def by_hash(modules: Iterable[bytes]) -> dict[Hash, bytes]:
    """Key modules by their content hash, which is how a manifest names them."""
    return {content_hash(wasm): wasm for wasm in modules}


def check_command(
    manifest_input: ManifestInput,
    modules: Mapping[Hash, bytes],
    *,
    world: Hash,
    operators: Iterable[Principal],
    in_force: Effective | None,
    path: Path | None,
) -> bool:
    """Check the modules of a signed command before it is admitted, as ``check_modules`` does.

    An unsigned command costs nothing here: the core refuses it (H-73).

    Returns:
        Whether stored states must be compared first (``stored_states``).

    Raises:
        ModuleRefused: A module is refused. The text has every reason.
        Refused: The document is not a valid manifest, or does not name one of the modules.
    """
    message = ManifestInput.message(
        world,
        manifest_input.serial,
        content_hash(manifest_input.document),
        mode=manifest_input.mode,
        leaves=manifest_input.leaves,
        proposal=manifest_input.proposal,
    )
    key = next(
        (operator.key for operator in operators if operator.name == manifest_input.principal), b""
    )
    if not is_signed(message, manifest_input.signature, key):
        return False
    try:
        effective = judge(manifest_input.document)
    except Damage as problem:
        raise Refused(f"the manifest is refused: {problem}") from problem
    check_modules(effective, modules, in_force=in_force, world=path)
    return need_a_look(in_force, effective, manifest_input.mode)


def check_modules(
    effective: Effective,
    modules: Mapping[Hash, bytes],
    *,
    in_force: Effective | None,
    world: Path | None,
) -> None:
    """Check each module for the workflows that run it, and compile it unless it is in use now. A
    shard of a group takes only its own manifest.

    Compiling a large module takes seconds, in a child process. The code goes to the user's cache,
    unless that is inside of the folder of ``world``; without a world there is no cache.

    Raises:
        ModuleRefused: A module is refused. The text has every reason.
        Refused: No definition names one of the modules, or the manifest is not that of the shard.
    """
    if world is not None:
        check_shard(world, effective.shard)
    modules_by_hash = {module.hash: module for module in effective.modules.values()}
    running = (
        set() if in_force is None else {old_module.hash for old_module in in_force.modules.values()}
    )
    for hash_, wasm in modules.items():
        module = modules_by_hash.get(hash_)
        if module is None:
            raise Refused(f"the manifest names no module {hash_text(hash_)}")
        _check_module(effective, module, wasm, is_new=hash_ not in running, world=world)


def _check_module(
    effective: Effective, module: Module, wasm: bytes, *, is_new: bool, world: Path | None
) -> None:
    # The engine is slow to import. All commands that write import this file, but only apply needs
    # the engine.
    from aos.sandbox.cache import standard_cache  # noqa: PLC0415
    from aos.sandbox.inspect import ModuleRefused, check_module  # noqa: PLC0415
    from aos.sandbox.trial import trial_problem  # noqa: PLC0415

    users = [
        workflow for workflow in effective.workflows.values() if workflow.module.hash == module.hash
    ]
    entrypoints = sorted(
        {workflow.entrypoint for workflow in users}
        | {workflow.migrate.entrypoint for workflow in users if workflow.migrate is not None}
    )
    least = min((workflow.limits.memory_bytes for workflow in users), default=None)
    problems = (
        check_module(wasm, entrypoints)
        if least is None
        else check_module(wasm, entrypoints, memory_bytes=least)
    )
    if not problems and is_new:
        cache = None if world is None else standard_cache(outside=world)
        problem = trial_problem(wasm, cache=cache)
        problems = [] if problem is None else [problem]
    if problems:
        raise ModuleRefused(module.name, problems)


def fates(state: State, change: Change, read: BlobReader) -> Fates:
    """Forecast how many instances a new manifest would affect, and how (H-71).

    Reads states only where they decide the fate of a cell.

    Raises:
        Damage: A stored state cannot be read.
    """
    counts: dict[str, Counter[str]] = {}
    if state.manifest is not None:
        for cell in state.cells.values():
            counts.setdefault(cell.id[0], Counter())[_fate_of(state, change, cell, read)] += 1
    return Fates(by_workflow=counts)


def _fate_of(state: State, change: Change, cell: Cell, read: BlobReader) -> str:
    in_flight, name = is_in_flight(state, cell), cell.id[0]
    if migrates(state, change, cell, read):
        return MIGRATED
    if change.moves(name):
        return IN_PLACE if in_flight else FAILED if cell.fault is not None else GOES_ON
    if change.mode == PIN and stays(state, cell):
        return PINNED
    if in_flight:
        return WAITED_FOR
    if cell.fault is not None:
        return FAILED
    if change.mode == PIN and misfits_under(state, cell, change.effective, read):
        return KEPT
    return GOES_ON if name in change.effective.workflows else LEFT
