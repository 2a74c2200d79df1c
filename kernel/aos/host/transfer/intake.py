"""Take the frames of a journal that another process made: verify, fold and group them for a store
(spec/bundle.md, B-41 and B-42; spec/cluster.md, CL-60)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from aos.core.journal.frame import Frame
from aos.core.journal.inputs import ERASE
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control, Fork, Governance, Manifest, Record, Snapshot
from aos.core.kernel_protocol import KernelProtocol
from aos.core.pending import Sealed
from aos.core.state.state import Mark
from aos.errors import Damage, Erased
from aos.manifest.judging import judge
from aos.read.lens.record_finding import references
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import Hash


class Values(Protocol):
    """The source of the journal's values."""

    def blob(self, hash: Hash, /) -> bytes:
        """Return the bytes of a value of the journal.

        Raises:
            Erased: They were erased.
            Damage: They are missing or altered.
        """


class FrameIntake:
    """Makes of the frames of a journal the groups that ``store`` appends. Every frame is verified
    and folded by ``kernel`` as in a running world, so that the store gets the same index rows.

    ``source_path`` names their source in errors; ``keeps_snapshot`` decides whether the row of a
    snapshot is stored. ``group`` are the frames since ``end_group``, which the store does not have
    yet, and ``group_bytes`` their bytes. ``manifests`` are all manifests of these frames with their
    modules.
    """

    def __init__(
        self,
        kernel: KernelProtocol,
        *,
        values: Values,
        store: LmdbStore,
        source_path: str,
        keeps_snapshot: Callable[[Mark], bool],
    ) -> None:
        self.kernel = kernel
        self.values = values
        self.store = store
        self.group: list[Sealed] = []
        self.group_bytes = 0
        self.manifests: set[Hash] = set()
        self._source_path = source_path
        self._keeps_snapshot = keeps_snapshot
        self._group_values: dict[Hash, bytes] = {}
        """Values of the current group of frames."""
        self._erased_values: set[Hash] = set()
        """Values that the group erases and the store still has."""

    def take(self, frame: Frame, records: Sequence[Record] | None = None) -> Sealed:
        """Add a frame to the group; ``records`` are its records, if they are decoded already.

        Raises:
            Damage: It does not follow, or one of its values is missing. The kernel cannot be used
                any more.
        """
        for record in map(from_bytes, frame.records) if records is None else records:
            self.append(record)
        sealed = self.seal(frame.salt)
        if sealed.frame != frame:
            raise Damage(
                f"frame {frame.header.first} does not follow the one before it, or was altered",
                location=self._source_path,
                expected=f"hash {sealed.frame.hash.hex()[:16]}",
                actual=frame.hash.hex()[:16],
                hint="run aos verify for details",
            )
        return sealed

    def append(self, record: Record) -> None:
        """Add a record with the values that it needs and the store does not have. Raises Damage."""
        self.kernel.append(record, dict(self._values(record)))
        for value in erased_by(record):
            self._group_values.pop(value, None)
            self._erased_values.add(value)

    def seal(self, salt: bytes) -> Sealed:
        """Seal the records since the last frame, as the next frame of the group."""
        sealed = self.kernel.seal(salt)
        assert sealed is not None, "a frame holds records"
        sealed = replace(sealed, snapshots=tuple(filter(self._keeps_snapshot, sealed.snapshots)))
        self._group_values.update(sealed.blobs)
        self.group.append(sealed)
        self.group_bytes += sum(map(len, (*sealed.frame.records, *sealed.blobs.values())))
        return sealed

    def end_group(self) -> list[Sealed]:
        """Return the group, and begin the next one. From now on the store is asked for its values,
        so append it first."""
        group, self.group, self.group_bytes = self.group, [], 0
        self._group_values, self._erased_values = {}, set()
        return group

    def needed_values(self, record: Record) -> Iterator[Hash]:
        """Yield the values that a record names, a manifest's modules too, but no part of a
        snapshot: nothing that is folded needs one. A value may occur more than once."""
        if isinstance(record, Snapshot):
            return
        for _, reference in references(record):
            yield reference.hash
        if isinstance(record, Manifest):
            effective = judge(self.values.blob(record.document.hash))
            modules = [module.hash for module in effective.modules.values()]
            self.manifests.update((record.document.hash, *modules))
            yield from modules
        if isinstance(record, Governance) and record.document is not None:
            with contextlib.suppress(Erased):
                judge(self.values.blob(record.document.hash))

    def _values(self, record: Record) -> Iterator[tuple[Hash, bytes]]:
        """The values that come with a record: those that are not stored. One that was erased later
        has no bytes any more."""
        for value in self.needed_values(record):
            if value in self._group_values or (
                value not in self._erased_values and self.store.has_blob(value)
            ):
                continue
            try:
                data = self.values.blob(value)
            except Erased:
                continue
            self._group_values[value] = data
            self._erased_values.discard(value)
            yield value, data

    def _read(self, hash: Hash, /) -> bytes:
        """Return a value of the group or of the source, for a kernel that has no other reader."""
        value = self._group_values.get(hash)
        return self.values.blob(hash) if value is None else value


def erased_by(record: Record) -> tuple[Hash, ...]:
    """Return the values that a record erases."""
    if isinstance(record, Fork):
        return record.erased
    if isinstance(record, Control) and record.action == ERASE and record.value is not None:
        return (Hash(record.value),)
    return ()
