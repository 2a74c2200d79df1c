"""Try a new manifest on a world without applying it (spec/host.md, H-71, H-71a, H-77)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aos.core.decide.answers import Blocker
from aos.core.decide.flow_gate import NO_FLOWS, FlowGate, flow_gate, taken_over
from aos.core.decide.migration import Converted
from aos.core.decide.quiescence import MISFIT, REMOVED, Change, blockers
from aos.core.journal.inputs import MIGRATE, PIN, STRICT
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId
from aos.core.journal.vocabulary import MODES, ApplyMode, word_of
from aos.core.state.state import State
from aos.host.apply.apply import Applied, check_keys, check_modules, fates, left_by
from aos.host.apply.migrator import dry_migration, migrator_with, sample
from aos.host.folder.reader import WorldReader, open_reader
from aos.host.folder.restore import Progress
from aos.host.schedules import schedule_blockers
from aos.manifest.difference import difference
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded
from aos.manifest.schedules import SCHEDULE
from aos.sandbox.stack import run_on_big_stack
from aos.values.digests import Hash

EXAMPLES: Final = 3
"""Most instances that one group names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The blockers of one kind that one workflow has. ``detail`` is that of the first."""

    workflow: str
    kind: str
    count: int
    examples: tuple[CellId, ...]
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysOut:
    """The modes that would work now instead of a refused apply. Nothing of it was done.

    Attributes:
        modes: The modes that the world would accept now, the least change for instances first.
        leaves_cells: Whether these need the removal of workflows that have cells to be allowed.
        in_place: The workflows that block a strict apply; it would work if the manifest declared
            ``upgrade: "in_place"`` for them. Empty if it would not.
        to_migrate: The workflows whose stored states do not fit, for which the manifest declares no
            migration from the schema in force.
    """

    modes: tuple[ApplyMode, ...]
    leaves_cells: bool
    in_place: tuple[str, ...]
    to_migrate: tuple[str, ...]


def dry_run_of(
    path: Path,
    loaded: Loaded,
    *,
    mode: str = STRICT,
    leave_cells: bool = False,
    show: int = 0,
    progress: Progress | None = None,
) -> Applied:
    """Forecast the changes and blockers of applying ``loaded`` to the world at ``path`` (H-71).

    With the mode ``migrate``, the result has up to ``show`` states before and after, those that
    fail first. Needs neither the lock nor the process that runs the world.

    Raises:
        Refused: A module is refused, or an executor may not have its key.
    """
    apply_mode = word_of(MODES, mode)
    assert apply_mode is not None, f"mode: expected one of {MODES}, found {mode!r}"
    with open_reader(path, progress=progress) as reader:
        check_modules(loaded.effective, loaded.modules, in_force=reader.manifest, world=path)
        check_keys(loaded.effective, reader.state)
        leaves = left_by(reader.manifest, loaded.effective) if leave_cells else ()
        change = Change(
            in_force=reader.manifest, effective=loaded.effective, mode=apply_mode, leaves=leaves
        )
        standing = _standing(reader.state, change, reader.store.blob)
        if mode == MIGRATE and not standing:
            standing = dry_migration(
                reader.state, change, reader.store.blob, loaded.modules, world=path
            )
        states: tuple[Converted, ...] = ()
        if mode == MIGRATE and show:
            read = reader.store.blob
            states = sample(reader.state, change, read, loaded.modules, world=path, limit=show)
        return Applied(
            difference=difference(reader.manifest, loaded.effective),
            manifest=loaded.effective.hash,
            blockers=standing,
            answer=None,
            fates=fates(reader.state, change, reader.store.blob),
            states=states,
        )


def gate_flows(path: Path, loaded: Loaded, *, progress: Progress | None = None) -> FlowGate:
    """Try every flow in progress of the world at ``path`` that ``loaded`` would take over (H-77).

    Reads the durable world, and needs neither the lock nor the process that runs it. Without a flow
    in the manifest, the world is not opened.

    Raises:
        Refused: A module is refused.
        Damage: A stored state cannot be read.
    """
    flow_statuses = taken_over(loaded.effective)
    if not flow_statuses:
        return NO_FLOWS
    with open_reader(path, progress=progress) as reader:
        if reader.manifest is None:
            return NO_FLOWS
        check_modules(loaded.effective, loaded.modules, in_force=reader.manifest, world=path)

        def run() -> FlowGate:
            read = reader.store.blob
            migrator = migrator_with(read, loaded.modules, world=path)
            try:
                return flow_gate(
                    reader.state, loaded.effective, flow_statuses, runner=migrator, read=read
                )
            finally:
                migrator.close()

        return run_on_big_stack(run)


def groups(blockers: Sequence[Blocker]) -> tuple[Group, ...]:
    """Group blockers by workflow and kind, in the order of the first of each group."""
    blockers_by_group: dict[tuple[str, str], list[Blocker]] = {}
    for blocker in blockers:
        blockers_by_group.setdefault((blocker.cell[0], blocker.kind), []).append(blocker)
    return tuple(
        Group(
            workflow=workflow,
            kind=kind,
            count=len(group_blockers),
            examples=tuple(
                dict.fromkeys(blocker.cell for blocker in group_blockers if blocker.cell[1])
            )[:EXAMPLES],
            detail=group_blockers[0].detail,
        )
        for (workflow, kind), group_blockers in blockers_by_group.items()
    )


def ways_out(
    path: Path, loaded: Loaded, blockers: Sequence[Blocker], *, mode: str, leave_cells: bool
) -> WaysOut:
    """Find out what would work instead of an apply in ``mode`` that ``blockers`` blocks (H-71a).

    Reads the durable world: needs neither the lock nor the process that runs the world. Runs the
    migrations that the manifest declares, and discards the results.

    Raises:
        Damage: A stored state cannot be read.
    """
    with open_reader(path) as reader:
        attempt = _Attempt(path, reader, loaded.effective, loaded.modules)
        removes = any(blocker.kind == REMOVED for blocker in blockers)
        leaves = left_by(reader.manifest, loaded.effective) if leave_cells or removes else ()
        return WaysOut(
            modes=tuple(
                apply_mode
                for apply_mode in (STRICT, MIGRATE, PIN)
                if (apply_mode != mode or removes) and attempt.works(apply_mode, leaves)
            ),
            leaves_cells=bool(leaves),
            in_place=attempt.in_place(blockers, leaves),
            to_migrate=tuple(attempt.to_migrate(blockers)),
        )


@dataclass(slots=True)
class _Attempt:
    path: Path
    reader: WorldReader
    new: Effective
    modules: Mapping[Hash, bytes]

    def works(self, mode: ApplyMode, leaves: tuple[str, ...]) -> bool:
        change = self._change(self.new, mode, leaves)
        if mode == MIGRATE and not any(map(change.migrates, self.new.workflows)):
            return False
        state, read = self.reader.state, self.reader.store.blob
        if _standing(state, change, read):
            return False
        return mode != MIGRATE or not dry_migration(
            state, change, read, self.modules, world=self.path
        )

    def in_place(self, blockers: Sequence[Blocker], leaves: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(sorted({blocker.cell[0] for blocker in blockers} & set(self.new.workflows)))
        if not names or all(self.new.workflows[name].upgrade == "in_place" for name in names):
            return ()
        moved = {name: replace(self.new.workflows[name], upgrade="in_place") for name in names}
        new = replace(self.new, workflows={**self.new.workflows, **moved})
        change = self._change(new, STRICT, leaves)
        return () if _standing(self.reader.state, change, self.reader.store.blob) else names

    def to_migrate(self, blockers: Sequence[Blocker]) -> Iterator[str]:
        change = self._change(self.new, MIGRATE, ())
        for name in sorted({blocker.cell[0] for blocker in blockers if blocker.kind == MISFIT}):
            if not change.migrates(name):
                yield name

    def _change(self, new: Effective, mode: ApplyMode, leaves: tuple[str, ...]) -> Change:
        return Change(in_force=self.reader.manifest, effective=new, mode=mode, leaves=leaves)


def _standing(state: State, change: Change, read: BlobReader) -> tuple[Blocker, ...]:
    """Everything that keeps a manifest from being applied now: the kernel's blockers, and schedules
    that do not fit."""
    cells = state.cells.of(SCHEDULE)
    return (*blockers(state, change, read), *schedule_blockers(cells, change.effective, read))
