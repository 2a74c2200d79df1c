"""Find the reasons why a new manifest cannot come into force now (spec/kernel.md, K-70 to K-75).

The cheap checks of open work run first. Only if they find nothing are stored states read, and only
those of workflows whose schemas accept other values than before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from aos.core.decide.answers import Blocker
from aos.core.decide.fits import key_problem, state_problem, work_problems
from aos.core.decide.left_behind import next_under
from aos.core.journal.inputs import MIGRATE, PIN
from aos.core.journal.ports import BlobReader
from aos.core.journal.vocabulary import ApplyMode
from aos.core.state.cell import Cell, OpenIntent
from aos.core.state.state import State
from aos.core.state.version import (
    home,
    is_in_flight,
    is_terminal,
    manifest_under,
    stays,
    workflow_under,
)
from aos.manifest.effective import Effect, Effective, Workflow
from aos.manifest.names import KERNEL_EFFECTS
from aos.manifest.shapes import Shapes
from aos.values.digests import Hash

NOT_TERMINAL: Final = "instance_is_not_terminal"
INTENT_OPEN: Final = "intent_is_open"
MAIL_QUEUED: Final = "mail_is_queued"
REMOVED: Final = "workflow_has_cells"
NEEDED: Final = "effect_is_needed"
MISFIT: Final = "cell_does_not_fit"
FAILED_MIGRATION: Final = "migration_failed"

IN_FLIGHT: Final = frozenset({NOT_TERMINAL, INTENT_OPEN, MAIL_QUEUED})
"""The blockers that disappear by themselves if the world continues to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A manifest that an operator wants to put in force, and the mode."""

    in_force: Effective | None
    effective: Effective
    mode: ApplyMode
    leaves: tuple[str, ...] = ()

    def moves(self, workflow: str) -> bool:
        """Whether instances in flight of this workflow continue under the new manifest."""
        new_workflow = self.effective.workflows.get(workflow)
        return new_workflow is not None and (
            new_workflow.upgrade == "in_place" or self.migrates(workflow)
        )

    def migrates(self, workflow: str) -> bool:
        """Whether the new module converts the stored states of this workflow (K-76)."""
        if self.mode != MIGRATE or self.in_force is None:
            return False
        old = self.in_force.workflows.get(workflow)
        return old is not None and takes_over(old, self.effective.workflows.get(workflow))


def takes_over(old: Workflow, new: Workflow | None) -> bool:
    """Whether the new workflow converts states of the old one (K-76). An unchanged workflow never
    does."""
    return (
        new is not None
        and new.migrate is not None
        and new.migrate.source == old.state.name
        and (new.hash, new.module.hash) != (old.hash, old.module.hash)
    )


def migrates(state: State, change: Change, cell: Cell, read: BlobReader) -> bool:
    """Whether the new module converts the state of this cell, which may run under a manifest
    earlier than the one in force.

    Raises:
        Damage: Its state cannot be read.
    """
    if cell.state is None or not change.migrates(cell.id[0]):
        return False
    old = workflow_under(state, cell.id, next_under(state, cell, read))
    return old is not None and takes_over(old, change.effective.workflows[cell.id[0]])


def blockers(
    state: State,
    change: Change,
    read: BlobReader,
    *,
    since: int | None = None,
    is_recorded: bool = False,
    limit: int | None = None,
) -> tuple[Blocker, ...]:
    """The first blockers of a change, in the order of K-70a; none if the manifest can come into
    force.

    Args:
        limit: How many, instead of the limit.
        since: Stored states up to this record are known to fit.
        is_recorded: The change is replayed. Stored states were checked when it was first applied
            and are not checked again.

    Raises:
        Damage: A stored state or a manifest cannot be read.
    """
    if state.manifest is None:
        return ()
    at_once = chain(
        () if change.mode == PIN else _in_flight(state, change),
        () if is_recorded else _removed(state, change),
        _unserved(state, change, read),
    )
    limit = state.limits.blockers if limit is None else limit
    first_blockers = tuple(islice(at_once, limit))
    if first_blockers or is_recorded:
        return first_blockers
    return tuple(islice(misfits(state, change, read, since=since), limit))


def _in_flight(state: State, change: Change) -> Iterator[Blocker]:
    """Instances that are not terminal, open intents, cells with queued mail."""
    for cell in _unfinished(state):
        if not change.moves(cell.id[0]):
            yield Blocker(kind=NOT_TERMINAL, cell=cell.id, detail=f"status {cell.status}")
    for intent in state.intents.values():
        if not change.moves(intent.cell[0]):
            detail = f"{intent.effect.name} of record {intent.seq}"
            yield Blocker(kind=INTENT_OPEN, cell=intent.cell, detail=detail)
    for id in state.ring:
        if not change.moves(id[0]):
            detail = f"mail to run: {len(state.cells[id].mailbox)}"
            yield Blocker(kind=MAIL_QUEUED, cell=id, detail=detail)


def _unfinished(state: State) -> Iterator[Cell]:
    """Instances that are not terminal. Of those at rest, only ``explicit`` workflows have some."""
    yield from (cell for cell in state.cells.unrested() if not is_terminal(state, cell))
    for name in _explicit(state):
        for cell in state.cells.of(name):
            if cell.is_at_rest and cell.declared is None and not is_terminal(state, cell):
                yield cell


def _explicit(state: State) -> list[str]:
    """The workflows whose instances at rest may be in flight."""
    return [
        name
        for name, shelf in sorted(state.cells.shelves.items())
        if shelf.undeclared
        and any(version.lifecycle == "explicit" for version in versions(state, name))
    ]


def versions(state: State, workflow: str) -> Iterator[Workflow]:
    """The versions of a workflow in all eras that have it."""
    for era in state.eras.all:
        version = manifest_under(state, era.seq).workflows.get(workflow)
        if version is not None:
            yield version


def _removed(state: State, change: Change) -> Iterator[Blocker]:
    for name, shelf in sorted(state.cells.shelves.items()):
        is_removed = name not in change.effective.workflows and name in state.effective.workflows
        if shelf.count and is_removed and name not in change.leaves:
            cells = f"{shelf.count} cells" if shelf.count > 1 else "1 cell"
            yield Blocker(kind=REMOVED, cell=(name, b""), detail=f"it is removed, and has {cells}")


def _unserved(state: State, change: Change, read: BlobReader) -> Iterator[Blocker]:
    """Effects that are open, or that instances in flight may request, and that no executor could
    serve under the new manifest."""
    shapes: dict[Hash, Shapes] = {}
    # Thousands of open intents are of few effects: each is compared once.
    problems: dict[tuple[Hash, str], str | None] = {}

    def problem_of(intent: OpenIntent) -> str | None:
        hash, effect = intent.manifest, intent.effect
        if hash not in shapes:
            old = (
                state.effective
                if hash == state.effective.hash
                else Effective.from_document(read(hash))
            )
            shapes[hash] = Shapes(old, change.effective)
        if (hash, effect.name) not in problems:
            effect_problem = _effect_problem(effect, change.effective, shapes[hash])
            problems[hash, effect.name] = effect_problem
        return problems[hash, effect.name]

    for intent in state.intents.values():
        if change.mode == PIN or change.moves(intent.cell[0]):
            problem = problem_of(intent)
            if problem is not None:
                detail = f"{intent.effect.name} of record {intent.seq} is open: {problem}"
                yield Blocker(kind=NEEDED, cell=intent.cell, detail=detail)
    if change.mode != PIN:
        return
    for name, seq in sorted(_pinned(state, change)):
        old = manifest_under(state, seq)
        between = Shapes(old, change.effective)
        for effect in sorted(old.workflows[name].effects_emitted):
            problem = _effect_problem(old.effects[effect], change.effective, between)
            if problem is not None:
                detail = f"{effect}: its instances in flight may ask for it, and {problem}"
                yield Blocker(kind=NEEDED, cell=(name, b""), detail=detail)


def _pinned(state: State, change: Change) -> set[tuple[str, int]]:
    """The workflows, each with a manifest's record, whose instances would be pinned."""
    candidates = {
        (cell.id[0], home(state, cell))
        for cell in state.cells.unrested()
        if is_in_flight(state, cell)
    }
    for name in _explicit(state):
        candidates |= {
            (name, era.seq)
            for era in state.eras.all
            if name in manifest_under(state, era.seq).workflows
        }
    return {
        (name, seq)
        for name, seq in candidates
        if not change.moves(name) and name in manifest_under(state, seq).workflows
    }


def _effect_problem(old: Effect, new: Effective, shapes: Shapes) -> str | None:
    if old.name in KERNEL_EFFECTS:
        return None
    new_effect = new.effects.get(old.name)
    if new_effect is None:
        return "the manifest does not have it"
    if not shapes.same_effect(old, new_effect):
        return "the manifest gives it other params, another receipt or another executor"
    return None


# Stored states


def misfits(
    state: State, change: Change, read: BlobReader, *, since: int | None = None
) -> Iterator[Blocker]:
    """Cells that would continue under the new manifest and do not fit it (K-71).

    Failed cells are left out: they are checked when an operator retries them (K-102).

    Raises:
        Damage: A stored state cannot be read.
    """
    for name, shelf in sorted(state.cells.shelves.items()):
        workflow = change.effective.workflows.get(name)
        if workflow is None or not shelf.count:
            continue
        checks = _checks(state, change, workflow, read)
        if not (checks.reads or change.moves(name)):
            continue
        for cell in _looked_at(state, name, since, reads=checks.reads):
            if cell.fault is None and (checks.all or _is_homeless(state, cell)):
                for problem in checks.problems(cell):
                    yield Blocker(kind=MISFIT, cell=cell.id, detail=problem)


@dataclass(frozen=True, slots=True)
class _Checks:
    """The checks of one workflow's cells: of ``all`` cells, or only of those that cannot stay with
    their own manifest; and whether the checks read their states."""

    all: bool
    reads: bool
    problems: Callable[[Cell], Iterator[str]]


def _checks(state: State, change: Change, workflow: Workflow, read: BlobReader) -> _Checks:
    moves = change.moves(workflow.name)
    everybody = change.mode != PIN or moves
    key_differs, state_differs = (
        _differs(state, change, workflow)
        if everybody
        else (_was_removed(state, workflow.name),) * 2
    )

    def problems(cell: Cell) -> Iterator[str]:
        stored_problems = (
            key_problem(workflow, cell.id[1]) if key_differs else None,
            state_problem(workflow, cell.state, read)
            if state_differs and not migrates(state, change, cell, read)
            else None,
        )
        yield from filter(None, stored_problems)
        if moves:
            intents = state.intents.of(cell)
            yield from work_problems(change.effective, workflow, cell.mailbox, intents, read)

    return _Checks(everybody, key_differs or state_differs, problems)


def _is_homeless(state: State, cell: Cell) -> bool:
    """Whether a finished instance cannot stay with its own manifest: that has no such workflow."""
    if stays(state, cell):
        return False
    return cell.id[0] not in manifest_under(state, home(state, cell)).workflows


def _was_removed(state: State, workflow: str) -> bool:
    return any(workflow not in manifest_under(state, era.seq).workflows for era in state.eras.all)


def _differs(state: State, change: Change, workflow: Workflow) -> tuple[bool, bool]:
    """Whether keys, and whether states, of this workflow may not fit the new manifest."""
    key_differs = state_differs = False
    for era in state.eras.all:
        old = manifest_under(state, era.seq)
        old_workflow = old.workflows.get(workflow.name)
        if old_workflow is None:
            return True, True
        shapes = Shapes(old, change.effective)
        key_differs |= not shapes.same(old_workflow.key, workflow.key)
        state_differs |= not shapes.same(old_workflow.state, workflow.state)
        # The content of an opaque state was never checked.
        state_differs |= old_workflow.has_opaque_state != workflow.has_opaque_state
    return key_differs, state_differs


def _looked_at(state: State, workflow: str, since: int | None, *, reads: bool) -> Iterator[Cell]:
    unrested = state.cells.unrested_of(workflow)
    if not reads:
        yield from unrested
    elif since is None:
        yield from state.cells.of(workflow)
    else:
        yield from state.cells.changed(workflow, since)
        for cell in unrested:
            if cell.changed <= since:
                yield cell
