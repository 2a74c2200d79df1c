"""Write records to an archive before they are pruned, and check one (spec/state.md, RT-5).

An archive is a bundle. A world's first archive begins at the genesis, as every bundle does; a later
one names the frame that its frames follow, and contains the snapshot of that moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nacl.signing import SigningKey

from aos.core.journal.frame import Head
from aos.core.journal.identity import world_id
from aos.core.journal.records import Snapshot
from aos.core.snapshot.load import references as snapshot_references
from aos.host.folder.folder import WorldFolder
from aos.host.folder.restore import Progress
from aos.host.transfer.exporting import Export
from aos.prove.verify.pruned_journal import as_genesis
from aos.store.bundle.items import ArchiveBase, BundleHeader
from aos.store.bundle.reader import open_bundle
from aos.store.bundle.writer import BundleWriter
from aos.store.cut import Cut
from aos.store.rows import SnapshotRow
from aos.store.store import Store
from aos.values.digests import Hash


def write_archive(
    folder: WorldFolder,
    store: Store,
    snapshot: SnapshotRow,
    target: Path,
    key: SigningKey,
    *,
    progress: Progress | None = None,
) -> Head:
    """Write the stored records up to ``snapshot`` into ``target``, durably, and return the head at
    the end of the file, signed with ``key``.

    If it raises, no file is left behind.

    Raises:
        Refused: The file already exists.
        Damage: A frame does not follow the one before, or one of its values is damaged.
        Unavailable: The file cannot be written.
    """
    with BundleWriter(target) as writer:
        archive = _Archive(folder, store, writer, progress)
        cut = store.cut()
        if cut is not None:
            archive.begin_behind(cut)
        archive.write(snapshot.at)
        head = Head.of(archive.tip).signed(key)
        writer.finish(head)
        return head


def is_archive(path: Path, world: Hash, first: int, head: Head) -> bool:
    """Whether the file at ``path`` is the complete archive of the records from ``first`` to
    ``head``. The whole file is read once.

    Raises:
        BadUsage: It is not a bundle.
        Damage: The bundle is damaged.
    """
    with open_bundle(path) as bundle:
        base = bundle.header.after
        begins = 1 if base is None else base.seq + 1
        if (bundle.header.world, begins) != (world, first):
            return False
        if bundle.head().message() != head.message():
            return False
        bundle.check()
        return True


class _Archive(Export):
    """An export without snapshots, whose content follows from the records."""

    def begin_behind(self, cut: Cut) -> None:
        """Write the header, and the snapshot from which the frames continue."""
        genesis = as_genesis(cut.genesis)
        self.world_key = genesis.world_key
        self.tip = cut.tip(world_id(genesis.nonce, genesis.world_key))
        base = ArchiveBase(
            seq=cut.seq,
            frame=cut.frame,
            log=cut.log,
            document=cut.document,
            genesis=cut.genesis,
        )
        self._writer.header(
            BundleHeader(
                world=self._folder.world,
                created=self._folder.created,
                world_key=genesis.world_key,
                operators=genesis.operators,
                executors=self._folder.executors,
                after=base,
            )
        )
        parts = snapshot_references(cut.document, self._store.blob, self._writer.has)
        self._values((value for value, _ in parts), ())

    def _snapshot(self, record: Snapshot) -> Iterator[Hash]:  # noqa: ARG002
        return iter(())
