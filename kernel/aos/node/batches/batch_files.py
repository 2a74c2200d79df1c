"""The files of batches: ``DIR/node/batches/ID/``, 0600 (spec/batch.md, BA-4).

items         a line for each item, written once, before the batch begins
batch.json    order, status and counts; replaced after each group of items, and synced
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from aos.errors import Damage
from aos.host.folder.folder import WorldFolder
from aos.node.batches.batch import BatchJob
from aos.node.batches.batch_items import BatchItem
from aos.node.tokens import NODE
from aos.store.plain_files import PlainFolder

FOLDER: Final = "batches"
KEPT_MAX: Final = 1_000
"""Batches whose files stay; the oldest ones that are over go first."""

_FORMAT: Final = 1
_BATCH: Final = "batch.json"
_ITEMS: Final = "items"
_BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
_ITEMS_BYTES_MAX: Final = 1 << 30


class BatchFiles:
    """The batches of a world's folder. Every method raises OSError as the system reports it."""

    def __init__(self, folder: WorldFolder) -> None:
        self._folder = folder

    def begin(self, batch: BatchJob, lines: Sequence[str]) -> None:
        """Keep a new batch with the lines of its items. It is durable on return."""
        with self._open_batches(make=True) as batches, batches.inner(batch.id, make=True) as folder:
            for name in (_BATCH, _ITEMS):
                folder.remove(name)
            folder.put(_ITEMS, "".join(f"{line}\n" for line in lines).encode())
            _replace(folder, batch)
            batches.sync()

    def save(self, batch: BatchJob) -> None:
        """Replace the state of a batch. It is durable on return."""
        with self._open_batches() as batches, batches.inner(batch.id) as folder:
            _replace(folder, batch)

    def load(self) -> tuple[list[BatchJob], list[str]]:
        """All batches by time, and the names of those that are damaged."""
        jobs, damaged = [], []
        try:
            batches = self._open_batches()
        except FileNotFoundError:
            return [], []
        with batches:
            for name in batches.names():
                try:
                    with batches.inner(name) as folder:
                        row = json.loads(folder.read(_BATCH, _BATCH_BYTES_MAX))
                    if row.get("version") != _FORMAT or row["id"] != name:
                        raise ValueError("another format")
                    jobs.append(BatchJob.from_row(row))
                except FileNotFoundError:
                    continue  # it had not begun
                except (ValueError, KeyError, TypeError, AttributeError, Damage):
                    damaged.append(name)
        return sorted(jobs, key=lambda job: (job.created_ns, job.id)), sorted(damaged)

    def items(self, batch: BatchJob) -> list[BatchItem]:
        """The items of a batch.

        Raises:
            Damage: The file is not as it was written.
        """
        try:
            with self._open_batches() as batches, batches.inner(batch.id) as folder:
                lines = folder.read(_ITEMS, _ITEMS_BYTES_MAX).decode().splitlines()
            items = [BatchItem.from_line(line) for line in lines]
        except (ValueError, FileNotFoundError) as error:
            raise Damage(f"the items of batch {batch.id} are damaged") from error
        if len(items) != batch.total:
            raise Damage(
                f"the items of batch {batch.id} are damaged: expected {batch.total:,}, found "
                f"{len(items):,}"
            )
        return items

    def remove(self, batches: Iterable[BatchJob]) -> None:
        """Remove the files of batches. Their empty folders stay; they are no batches."""
        with self._open_batches() as root:
            for batch in batches:
                with root.inner(batch.id) as folder:
                    for name in (_BATCH, _ITEMS):
                        folder.remove(name)

    def _open_batches(self, *, make: bool = False) -> PlainFolder:
        with self._folder.open_plain() as world, world.inner(NODE, make=make) as node:
            return node.inner(FOLDER, make=make)


def stop_batches(folder: WorldFolder, now_ns: int) -> None:
    """Stop the batches of a copy of a world: they are those of another folder (``aos adopt``)."""
    files = BatchFiles(folder)
    for batch in files.load()[0]:
        if not batch.is_over:
            files.save(batch.ended("stopped", now_ns, "the world was adopted as a copy"))


def _replace(folder: PlainFolder, batch: BatchJob) -> None:
    folder.put(_BATCH, json.dumps({"version": _FORMAT, **batch.to_row()}).encode())
