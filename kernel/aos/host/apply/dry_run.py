"""The changes and blockers of a new manifest, without applying it (spec/host.md, H-71)."""

from __future__ import annotations

from pathlib import Path

from aos.core.decide.migration import Converted
from aos.core.decide.quiescence import Change
from aos.core.journal.inputs import (
    MIGRATE,
    STRICT,
)
from aos.core.journal.vocabulary import MODES, word_of
from aos.host.apply.apply import (
    Applied,
    check_keys,
    check_modules,
    left_by,
)
from aos.host.apply.forecast import fates
from aos.host.apply.migrator import dry_migration, sample
from aos.host.folder.reader import open_reader
from aos.host.folder.restore import Progress
from aos.host.schedules import standing_blockers
from aos.manifest.difference import difference
from aos.manifest.load import Loaded


def dry_run_of(
    path: Path,
    loaded: Loaded,
    *,
    mode: str = STRICT,
    leave_cells: bool = False,
    show: int = 0,
    progress: Progress | None = None,
) -> Applied:
    """Forecast the changes and blockers of applying ``loaded`` to the world at ``path``.

    With the mode ``migrate``, the result has up to ``show`` states before and after, those that
    fail first. Needs neither the lock nor the process that runs the world.

    Raises:
        Refused: A module is refused, or an executor may not have its key.
    """
    apply_mode = word_of(MODES, mode)
    assert apply_mode is not None, f"mode: expected one of {MODES}, found {mode!r}"
    with open_reader(path, progress=progress) as reader:
        check_modules(loaded.effective, loaded.modules, in_force=reader.manifest)
        check_keys(loaded.effective, reader.state)
        leaves = left_by(reader.manifest, loaded.effective) if leave_cells else ()
        change = Change(
            in_force=reader.manifest, effective=loaded.effective, mode=apply_mode, leaves=leaves
        )
        standing = standing_blockers(reader.state, change, reader.store.blob)
        if mode == MIGRATE and not standing:
            standing = dry_migration(reader.state, change, reader.store.blob, loaded.modules)
        states: tuple[Converted, ...] = ()
        if mode == MIGRATE and show:
            read = reader.store.blob
            states = sample(reader.state, change, read, loaded.modules, limit=show)
        return Applied(
            difference=difference(reader.manifest, loaded.effective),
            manifest=loaded.effective.hash,
            blockers=standing,
            answer=None,
            fates=fates(reader.state, change, reader.store.blob),
            states=states,
        )
