"""Records that are about to be pruned -> a file that holds them whole (spec/state.md, RT-5).

An archive is a bundle. The first of a world begins at the genesis, like any; a later one says what
its frames follow, and has the snapshot of the world as it was then.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nacl.signing import SigningKey

from aos.audit.verify.beginning import as_genesis
from aos.core.journal.frame import Head
from aos.core.journal.identity import world_id
from aos.core.journal.records import Snapshot
from aos.core.snapshot.load import references as snapshot_references
from aos.host.folder.folder import WorldFolder
from aos.host.folder.restore import Progress
from aos.host.transfer.exporting import Export
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
    """Write what the store has of the records up to ``snapshot`` into ``target``, durably; return
    the head that the file ends with, signed with ``key``.

    Raises:
        Refused: The file is there already.
        Damage: A frame does not follow, or a value of one is damaged.
        Unavailable: The file cannot be written.

    Nothing is left behind then.
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
    """Whether the file at ``path`` is the whole archive of the records from ``first`` to where
    ``head`` says; read once from end to end.

    Raises:
        BadUsage: It is no bundle at all.
        Damage: It is a damaged one.
    """
    with open_bundle(path) as bundle:
        after = bundle.header.after
        begins = 1 if after is None else after.seq + 1
        if (bundle.header.world, begins) != (world, first):
            return False
        if bundle.head().message() != head.message():
            return False
        bundle.check()
        return True


class _Archive(Export):
    """An export without snapshots: what they hold, these records make."""

    def begin_behind(self, cut: Cut) -> None:
        """Write the header, and the snapshot that the frames go on from."""
        genesis = as_genesis(cut.genesis)
        self.world_key = genesis.world_key
        self.tip = cut.tip(world_id(genesis.nonce, genesis.world_key))
        after = ArchiveBase(
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
                after=after,
            )
        )
        parts = snapshot_references(cut.document, self._store.blob, self._writer.has)
        self._values((value for value, _ in parts), ())

    def _snapshot(self, record: Snapshot) -> Iterator[Hash]:  # noqa: ARG002
        return iter(())
