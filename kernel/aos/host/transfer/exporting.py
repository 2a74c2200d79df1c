"""Export a world to one file with all that is needed to read it (spec/bundle.md, B-1 to B-7).

It takes no lock, so that it works while another process runs the world.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from nacl.signing import SigningKey

from aos.core.decide.migration import migrated_blobs
from aos.core.journal.frame import Frame, Head, Tip, follow
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Governance, Manifest, Record, Snapshot, Stream
from aos.core.snapshot.load import references as snapshot_references
from aos.errors import AosError, BadUsage, Damage, Erased, Refused
from aos.host.folder.folder import KEYS, WorldFolder, open_folder
from aos.host.folder.restore import Progress
from aos.manifest.effective import Effective
from aos.manifest.keys import key_text
from aos.read.lens.record_finding import references
from aos.store.bundle.items import BundleHeader, ErasedValue
from aos.store.bundle.writer import BundleWriter
from aos.store.store import Store, head_of
from aos.store.stored_world import identity_at
from aos.values.digests import Hash, hash_text
from aos.values.sha256 import Name, parse_sha256

_NAMED: Final = re.compile(rb"blake3:([0-9a-f]{64})")
"""The text form of a hash in a value (spec/values.md)."""

_NAMED_SO: Final = re.compile(r"sha256:[0-9a-f]{64}")
"""The text form of a SHA-256 name in a value (spec/agentos.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The result of an export. ``seq`` is the last record, ``size`` the size of the file."""

    path: Path
    world: Hash
    seq: int
    frame: Hash
    frames: int
    blobs: int
    erased: int
    size: int


def export_world(
    world: Path,
    target: Path,
    *,
    to: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write the world at ``world`` into the file ``target``, up to the frame with record ``to``.

    Without ``to`` it is written to its durable end. ``progress`` is called with (records written,
    records in all). If it raises, no file is left behind.

    Raises:
        BadUsage: There is no such world or record.
        Refused: The file exists and must not be replaced, or the world's key, which signs the end
            of the bundle, is missing.
        Damage: The journal or one of its values is damaged.
        Unavailable: The file cannot be written.
    """
    folder = open_folder(world)
    with folder.open_store(readonly=True) as store:
        check_unpruned(
            folder,
            store,
            hint="copy the folder and the archives instead; aos adopt makes a copy run",
        )
        last, head = _end(store, to)
        key = None if head is not None else _world_key(folder, last)
        with BundleWriter(target, force=force) as writer:
            export = Export(folder, store, writer, progress)
            export.write(last)
            while to is None and export.erased_by > last:
                # A value was erased meanwhile: the bundle must include the record of that.
                last, head = _end(store, None)
                export.write(last)
            writer.finish(_signed(folder, export, head, key))
            return Exported(
                path=target,
                world=folder.world,
                seq=export.tip.seq,
                frame=export.tip.frame,
                frames=writer.frames,
                blobs=writer.blobs,
                erased=writer.erased,
                size=writer.size,
            )


def check_unpruned(folder: WorldFolder, store: Store, *, hint: str) -> None:
    """Raise ``Refused`` with ``hint`` if records of the journal were pruned."""
    cut = store.cut()
    if cut is not None:
        raise Refused(
            f"records 2 to {cut.seq} of this world were pruned",
            location=str(folder.path),
            expected="a journal that begins with its genesis",
            hint=hint,
        )


def _end(store: Store, to: int | None) -> tuple[int, Head | None]:
    """The last record to write, and its signed head if the journal has one."""
    head = head_of(store)
    if to is None:
        return head.seq, head
    frame = store.frame_at(to) if to <= head.seq else None
    if frame is None:
        raise BadUsage(
            "there is no such record", location=f"record {to}", expected=f"1 to {head.seq}"
        )
    last = frame.header.last
    return last, head if last == head.seq else None


def _signed(folder: WorldFolder, export: Export, head: Head | None, key: SigningKey | None) -> Head:
    """The head of the exported journal: the journal's own, or one that is signed now."""
    exported_head = Head.of(export.tip)
    if head is not None:
        if exported_head.message() != head.message():
            raise Damage(
                "the journal does not end as its head says",
                location=str(folder.path),
                hint="run aos verify for details",
            )
        return head
    assert key is not None, "no head, and no key to sign one"
    if bytes(key.verify_key) != export.world_key:
        raise Refused(
            "this is not the world's key; nothing was written",
            location=str(folder.path / KEYS / "world.key"),
            expected=key_text(export.world_key),
            actual=key_text(bytes(key.verify_key)),
            hint="restore the world's own key, or leave out --to",
        )
    return exported_head.signed(key)


class Sink(Protocol):
    """Receives the parts of a journal in the order of a bundle: the header, then for each frame
    the values that its records need, and then the frame (``spec/bundle.md``). Each value comes
    once, with its bytes or as erased. Its owner makes it durable afterwards."""

    def has(self, value: Hash, /) -> bool:
        """Whether this value was written, or its erasure was."""

    def header(self, header: BundleHeader) -> None:
        """Write the header, before everything else and once."""

    def frame(self, data: bytes) -> None:
        """Write the next frame, as the journal has it."""

    def blob(self, value: Hash, data: bytes) -> None:
        """Write a value. ``has`` was False for it, and the caller has checked its hash."""

    def erase(self, erased: ErasedValue) -> None:
        """Write the command that erased a value, in place of its bytes."""


class Export:
    """One export. ``tip`` is its last frame, ``erased_by`` the last record that erased a value that
    could not be written."""

    def __init__(
        self, folder: WorldFolder, store: Store, writer: Sink, progress: Progress | None
    ) -> None:
        self._folder = folder
        self._store = store
        self._writer = writer
        self._progress = progress
        first = store.frame_at(1)
        self.tip = Tip(world=folder.world if first is None else first.header.world)
        self.erased_by = 0
        self.world_key = b""
        self._nodes: set[Hash] = set()

    def write(self, last: int) -> None:
        """Write the frames up to record ``last``, and the values that they need.

        Raises:
            Refused: Record ``last`` belongs to the world from which this one was forked.
        """
        if not self.tip.seq:
            self._header(last)
        for frame in self._store.frames(self.tip.seq + 1, last):
            self._frame(frame)
            if self._progress is not None:
                self._progress(self.tip.seq, last)

    def _frame(self, frame: Frame) -> None:
        self.tip = follow(self.tip, frame)
        self.records(frame.records)
        self._writer.frame(frame.to_bytes())

    def records(self, encoded_records: Iterable[bytes]) -> None:
        """Write the values that these records need, and those that they name."""
        for data in encoded_records:
            record = from_bytes(data)
            hashes = self._named_hashes(data)
            if isinstance(record, Stream) and record.payload_ref is not None:
                hashes.append(record.payload_ref)
            self._values(self._needed_values(record), hashes)

    def _header(self, last: int) -> None:
        identity = identity_at(self._store, last)
        if identity.world != self._folder.world:
            raise Refused(
                f"record {last} is of the world that this one was forked of",
                location=str(self._folder.path),
                expected=f"a record of {hash_text(self._folder.world)}",
                actual=f"one of {hash_text(identity.world)}",
                hint="export that world, or a later record",
            )
        self.world_key = identity.world_key
        self._writer.header(
            BundleHeader(
                world=self._folder.world,
                created=self._folder.created,
                world_key=identity.world_key,
                operators=identity.operators,
                executors=self._folder.executors,
            )
        )

    def _needed_values(self, record: Record) -> Iterator[Hash]:
        """The values without which a record cannot be read."""
        if isinstance(record, Snapshot):
            yield from self._snapshot(record)
            return
        for _, reference in references(record):
            yield reference.hash
        if isinstance(record, Manifest):
            document = self._store.blob(record.document.hash)
            for module in Effective.from_document(document).modules.values():
                yield module.hash
            for migrated in record.migrated:
                for value, _ in migrated_blobs(migrated, self._store.blob, self._is_walked):
                    yield value

        if isinstance(record, Governance) and record.document is not None:
            yield from self._proposed_modules(record.document.hash)

    def _proposed_modules(self, document: Hash) -> Iterator[Hash]:
        """The modules of a proposed manifest, as far as the world still has them, so that an
        approver can run the proposal from a bundle."""
        with contextlib.suppress(Erased):
            for module in Effective.from_document(self._store.blob(document)).modules.values():
                if self._store.has_blob(module.hash):
                    yield module.hash

    def _snapshot(self, record: Snapshot) -> Iterator[Hash]:
        """All parts of a snapshot, if the world still has it."""
        row = self._store.snapshot_before(record.at)
        if row is None or row.seq != record.seq:
            return
        for value, _ in snapshot_references(
            record.document.hash, self._store.blob, self._is_walked
        ):
            yield value

    def _is_walked(self, node: Hash) -> bool:
        """Whether a node, and so everything below it, was written before. Only nodes are recorded,
        because a state may have the bytes of one. It takes some 100 bytes for each node, 7 MB for a
        million cells."""
        if node in self._nodes:
            return True
        self._nodes.add(node)
        return False

    def _values(self, needed_values: Iterable[Hash], named_hashes: Iterable[Hash]) -> None:
        """Write values that were not written yet, and the values of this world that they name."""
        waiting = list(named_hashes)
        for value in needed_values:
            waiting.extend(self._named_hashes(self._value(value)))
        while waiting:
            value = waiting.pop()
            # A named hash may be that of a value of this world, or of anything else.
            if not self._writer.has(value) and self._store.has_blob(value):
                waiting.extend(self._named_hashes(self._value(value)))

    def _named_hashes(self, data: bytes) -> list[Hash]:
        """The hashes that ``data`` names, last one first; a SHA-256 name gives blob and name
        document."""
        hashes = list(named_in(data))
        for sha256 in map(parse_sha256, _NAMED_SO.findall(data.decode("latin-1"))):
            blob = None if sha256 is None else self._store.hash_by_sha256(sha256)
            if sha256 is not None and blob is not None:
                hashes += [Name(sha256, blob).hash, blob]
        return hashes

    def _value(self, value: Hash) -> bytes:
        """Write a value or its erasure. Return its bytes, empty if it was written before."""
        if self._writer.has(value):
            return b""
        try:
            data = self._store.blob(value)
        except Erased:
            return self._erased(value)
        self._writer.blob(value, data)
        return data

    def _erased(self, value: Hash) -> bytes:
        row = self._store.erased(value)
        frame = None if row is None else self._store.frame_at(row.seq)
        if row is None or frame is None:
            # Its bytes were stored again between the two reads.
            data = self._store.blob(value)
            self._writer.blob(value, data)
            return data
        record = frame.records[row.seq - frame.header.first]
        self._writer.erase(ErasedValue(value=value, seq=row.seq, record=record))
        self.erased_by = max(self.erased_by, row.seq)
        return b""


def named_in(data: bytes) -> Iterator[Hash]:
    """The hashes of other values that occur in ``data`` as text."""
    for match in _NAMED.finditer(data):
        yield Hash(bytes.fromhex(match[1].decode()))


def _world_key(folder: WorldFolder, last: int) -> SigningKey:
    try:
        return folder.world_key()
    except AosError as problem:
        raise Refused(
            f"a bundle that ends with record {last} needs the world's key, which signs that "
            f"end: {problem}",
            hint=f"put world.key into {folder.path / KEYS}, or leave out --to",
        ) from problem
