"""``aos rebuild``: write a world's derived rows again, from a journal that verifies (H-78)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from aos.errors import Damage
from aos.host.folder.folder import open_folder
from aos.prove.verify.verify import verify_store
from aos.store.derived import RebuiltStore
from aos.store.lock import world_locked
from aos.store.store import Store
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltRows:
    """The rows of each table, and how many of them were written or removed. ``seq`` is the last
    record that they were made from."""

    world: Hash
    seq: int
    rows: Mapping[str, int]
    changed: Mapping[str, int]


def rebuild_world(path: Path, *, on_progress: Callable[[int], None] | None = None) -> RebuiltRows:
    """Verify the journal of the world at ``path`` with the rows that its records make, and store
    these rows in one transaction. Rows that are as they should be are not written.

    Raises:
        BadUsage: There is no such world.
        Unavailable: A process runs the world, or the disk has no room. Nothing has changed.
        Refused: The journal is being pruned. Nothing has changed.
        Damage: The journal itself does not verify. Nothing has changed.
    """
    folder = open_folder(path)
    with world_locked(path), folder.open_store(in_any_place=True) as store:
        rebuilt = RebuiltStore(store)
        report = verify_store(cast("Store", rebuilt), on_progress=on_progress)
        if not report.is_sound:
            raise Damage(
                "the journal does not verify, so that no rows can be made from it",
                location=str(folder.path),
                actual=str(report.findings[0]),
                hint="nothing was changed; aos verify lists everything; restore a backup",
            )
        tables = rebuilt.tables()
        return RebuiltRows(
            world=folder.world,
            seq=report.seq,
            rows={name: len(rows) for name, rows in tables.items()},
            changed=store.replace_rows(tables),
        )
