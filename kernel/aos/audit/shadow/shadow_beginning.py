"""Put the proposed manifest in force in the shadow, in the place of a record (spec/shadow.md,
SH-4, SH-9)."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Final

from aos.audit.shadow.overlay import BlobOverlay
from aos.core.decide.answers import Blocker
from aos.core.decide.manifest_problems import keys_problem, leaves_problem
from aos.core.decide.migration import Failed, Puts, migrate
from aos.core.decide.quiescence import Change, blockers, misfits
from aos.core.journal.inputs import MIGRATE, PIN, STRICT
from aos.core.journal.ports import Runner
from aos.core.journal.records import Manifest, Migrated, Record, Ref, Snapshot, Start
from aos.core.journal.vocabulary import ApplyMode
from aos.core.state.fold import fold
from aos.core.state.state import State
from aos.errors import Refused
from aos.manifest.effective import Effective

NO_PRINCIPAL: Final = ""


_ReplacedRecord = Manifest | Snapshot | Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The manifest whose shadow is made, the mode of its apply and the workflows that it leaves;
    with ``leaves_removed``, these are all workflows of the base that it does not have."""

    effective: Effective
    mode: ApplyMode = STRICT
    leaves: tuple[str, ...] = ()
    leaves_removed: bool = False

    def over(self, base: Effective) -> Proposed:
        """Return it with the workflows that it leaves of ``base``."""
        if not self.leaves_removed:
            return self
        removed = base.workflows.keys() - self.effective.workflows.keys()
        return replace(self, leaves=tuple(sorted(removed)), leaves_removed=False)

    def runs_as(self, record: Record) -> ApplyMode:
        """The mode in which it comes into force in the place of ``record`` (SH-9).

        A strict apply waits until nothing is in flight. History has instances in flight, so the
        shadow pins them. In the place of the base itself, the world is as it was before the base,
        which came into force in its own mode: strict if nothing was in flight."""
        if self.mode != STRICT:
            return self.mode
        return (record.mode or STRICT) if isinstance(record, Manifest) else PIN


def put_in_force(
    state: State,
    proposed: Proposed,
    replaced_record: _ReplacedRecord,
    *,
    runner: Runner,
    overlay: BlobOverlay,
) -> tuple[tuple[Blocker, ...], bool]:
    """Make ``proposed`` the manifest in force, in the place of a record. Return what would block
    its apply there, and whether that keeps the shadow from running; then ``state`` is unchanged.

    Raises:
        Refused: This world could never take the manifest.
        Damage: A stored state cannot be read.
    """
    effective, mode = proposed.effective, proposed.runs_as(replaced_record)
    problem = keys_problem(effective, state) or leaves_problem(effective, proposed.leaves)
    if problem is not None:
        raise Refused(f"the manifest cannot be shadowed: {problem}")
    # All of them: which come first in memory depends on whether a snapshot was loaded.
    standing = blockers(
        state, _change(state, proposed, proposed.mode), overlay.read, limit=sys.maxsize
    )
    change = _change(state, proposed, mode)
    unfit = () if state.manifest is None else misfits(state, change, overlay.read)
    all_unfit = tuple(unfit)
    if all_unfit:
        return standing or all_unfit, True
    is_first = state.manifest is None
    migrated: tuple[Migrated, ...] = ()
    if mode == MIGRATE and not is_first:
        puts = Puts(overlay.read, None, kept_bytes=0)
        migration = migrate(state, change, runner, overlay.read, puts)
        if isinstance(migration, Failed):
            return migration.blockers, True
        overlay.keep(puts.uncommitted)
        migrated = migration
    overlay.put(effective.hash, effective.document)
    record = Manifest(
        seq=replaced_record.seq,
        stamp=replaced_record.stamp,
        document=Ref(effective.hash, len(effective.document)),
        principal=NO_PRINCIPAL,
        serial=state.serial,
        signature=b"",
        mode=None if is_first or mode == STRICT else mode,
        leaves=proposed.leaves,
        migrated=migrated,
    )
    state.next_seq = replaced_record.seq
    fold(state, record, overlay.read)
    return standing, False


def _change(state: State, proposed: Proposed, mode: ApplyMode) -> Change:
    return Change(
        in_force=state.manifest, effective=proposed.effective, mode=mode, leaves=proposed.leaves
    )
