"""The journal that a proof or a checkpoint is made of, and the records in it that a proof shows
(spec/proofs.md, PF-34 to PF-37).

Records that were pruned are read from the archives that the user names.

A store has rows that name the records of an intent or a cell. For a bundle, all records are read
once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aos.core.journal.frame import Frame, Head
from aos.core.journal.merkle import Tree
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis, KernelReceipt, Manifest, Receipt, Record, Step
from aos.errors import BadUsage, Damage, Erased, Pruned
from aos.prove.proofs.proof_file import WorldKey
from aos.store.bundle.reader import Bundle
from aos.store.cut import Cut
from aos.store.rows import IntentRow, SnapshotRow
from aos.store.store import head_of
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, hash_text

_MANIFEST: Final = encode("kind") + encode(Manifest.KIND)


class StoredJournal(Protocol):
    """The part of a store that is read; ``aos.store.store.Store`` implements it."""

    def head(self) -> Head | None:
        """The last frame's number and hash; None without a frame."""

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]: ...

    def frame_at(self, seq: int) -> Frame | None: ...

    def blob(self, hash: Hash, /) -> bytes: ...

    def cut(self) -> Cut | None:
        """The last record that was pruned."""

    def intent(self, hash: Hash) -> IntentRow | None: ...

    def intents(self) -> Iterator[tuple[Hash, IntentRow]]: ...

    def snapshots(self) -> Iterator[SnapshotRow]: ...

    def snapshot_before(self, seq: int | None = None) -> SnapshotRow | None: ...


class Source:
    """Frames, values and the head of one journal. ``store`` is None for a bundle alone."""

    def __init__(
        self, store: StoredJournal | None, *, bundle: Bundle | None = None,
        archives: Sequence[Bundle] = (),
    ) -> None:  # fmt: skip
        """``archives`` may be given in any order."""
        self.store = store
        self._bundle = bundle
        self._archives = sorted(archives, key=first_of)

    def head(self) -> Head:
        """The signed end.

        Raises:
            Damage: There is none, or it cannot be read.
        """
        if self._bundle is not None:
            return self._bundle.head()
        assert self.store is not None
        return head_of(self.store)

    def begins(self) -> tuple[int, Tree]:
        """The record before the first one that is here, 0 if all are, and the log up to there."""
        if self._archives:
            return _tip_before(self._archives[0])
        if self._bundle is not None:
            return _tip_before(self._bundle)
        assert self.store is not None
        cut = self.store.cut()
        return (0, Tree()) if cut is None else (cut.seq, cut.log)

    def cut(self) -> Cut | None:
        """Where the store begins, if it was pruned."""
        return None if self.store is None else self.store.cut()

    def blob(self, hash: Hash, /) -> bytes:
        """The value with this content hash.

        Raises:
            Erased: It was erased.
            Damage: It is missing or altered.
        """
        first: Damage | None = None
        for reader in (self.store, self._bundle, *self._archives):
            if reader is None:
                continue
            try:
                return reader.blob(hash)
            except Damage as problem:
                if first is None or isinstance(problem, Erased):
                    first = problem
        assert first is not None, "nowhere to read from"
        raise first

    def frames(self, first: int, last: int) -> Iterator[Frame]:
        """The frames from the one with record ``first`` to the one with ``last``.

        Raises:
            Pruned: One of them was pruned, and is in no archive that was named.
            Damage: One cannot be read.
        """
        seq = first
        for archive in (*self._archives, *(() if self._bundle is None else (self._bundle,))):
            if first_of(archive) <= seq <= min(last, archive.head().seq):
                for frame in archive.frames():
                    if seq <= frame.header.last and frame.header.first <= last:
                        yield frame
                        seq = frame.header.last + 1
        if seq <= last:
            if self.store is None:
                raise BadUsage(f"record {seq}: the file does not have it")
            yield from self.store.frames(seq, last)

    def frame_at(self, seq: int) -> Frame:
        """The frame with the record ``seq``.

        Raises:
            BadUsage: There is no such record.
            Pruned: It was pruned, and is in no archive that was named.
            Damage: It cannot be read.
        """
        last = self.head().seq
        if not 1 <= seq <= last:
            raise BadUsage(
                "there is no such record", location=f"record {seq}", expected=f"1 to {last}"
            )
        if self.store is not None:
            with contextlib.suppress(Pruned):
                frame = self.store.frame_at(seq)
                assert frame is not None, "the head says that there is one"
                return frame
        return next(self.frames(seq, seq))

    def key_of(self, world: Hash) -> WorldKey:
        """The nonce and key of a world that has frames here.

        A fork's are in its first record, which is found by the worlds that headers name.

        Raises:
            Damage: No record begins this world.
            Pruned: The record that does was pruned.
        """
        cut = self.cut()
        if cut is not None:
            genesis_key = _beginning(cut.genesis)
            if genesis_key is not None and genesis_key.world == world:
                return genesis_key
        is_first = self.frame_at(1).header.world == world
        first = self.frame_at(1 if is_first else self._first_of(world))
        world_key = _beginning(first.records[0])
        if world_key is None or world_key.world != world:
            raise _no_beginning(world)
        return world_key

    def _first_of(self, world: Hash) -> int:
        """The first record of a fork: worlds follow one another, so that it can be bisected."""
        low, high = self.begins()[0] + 1, self.head().seq
        while high >= low:
            high_world = self.frame_at(high).header.world
            first = self._start(high_world, low, high)
            if high_world == world:
                return first
            high = first - 1
        raise _no_beginning(world)

    def _start(self, world: Hash, low: int, high: int) -> int:
        """The first record of the run of frames of ``world`` that ends with record ``high``."""
        while low < high:
            middle = self.frame_at((low + high) // 2).header
            if middle.world == world:
                high = max(middle.first, low)
            else:
                low = middle.last + 1
        return self.frame_at(high).header.first


def first_of(archive: Bundle) -> int:
    """The first record in a bundle or an archive."""
    tip = archive.header.after
    return 1 if tip is None else tip.seq + 1


def _tip_before(bundle: Bundle) -> tuple[int, Tree]:
    tip = bundle.header.after
    return (0, Tree()) if tip is None else (tip.seq, tip.log)


def _beginning(data: bytes) -> WorldKey | None:
    record = from_bytes(data)
    return WorldKey.of(record) if isinstance(record, Genesis | Fork) else None


def _no_beginning(world: Hash) -> Damage:
    return Damage(f"no record of the journal begins world {hash_text(world)} (aos verify)")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentRecords:
    """The step that asked for an effect, the receipt that settled it, and the manifest record that
    was in force at the step; None where there is none, or it is not needed."""

    request: int
    settled: int | None
    manifest: int | None


def record_at(source: Source, seq: int) -> Record:
    """A record. Raises as ``Source.frame_at``."""
    frame = source.frame_at(seq)
    return from_bytes(frame.records[seq - frame.header.first])


def intent_records(source: Source, intent: Hash, *, bare: bool) -> IntentRecords:
    """Find the records of an intent. With ``bare``, the manifest is not looked for.

    Raises:
        BadUsage: The journal has no such intent.
        Pruned: A record was pruned, and is in no archive that was named.
        Damage: The journal cannot be read.
    """
    row = None if source.store is None else source.store.intent(intent)
    if row is not None:
        request, settled = row.opened_seq, row.settled_seq
    else:
        request, settled = _scan_for_intent(source, intent)
    signed = settled is not None and isinstance(record_at(source, settled), Receipt)
    manifest = manifest_before(source, request) if signed and not bare else None
    return IntentRecords(request=request, settled=settled, manifest=manifest)


def _scan_for_intent(source: Source, intent: Hash) -> tuple[int, int | None]:
    request = settled = None
    for record in _records_with(source, intent, source.begins()[0] + 1, source.head().seq):
        if isinstance(record, Step) and any(
            candidate.intent == intent for candidate in record.intents
        ):
            request = record.seq
        elif isinstance(record, Receipt | KernelReceipt) and record.intent == intent:
            settled = record.seq
    if request is None:
        raise BadUsage(
            "the journal has no record that asked for this effect",
            location=hash_text(intent),
            hint="of a pruned journal, name the archives too: --archive FILE",
        )
    return request, settled


def manifest_before(source: Source, seq: int) -> int:
    """The manifest record in force at record ``seq``.

    It begins with the newest snapshot before, so that few records are read.

    Raises:
        Pruned: The record was pruned, and is in no archive that was named.
        Damage: No manifest came before.
    """
    manifest_seq, first = 0, source.begins()[0] + 1
    row = None if source.store is None else source.store.snapshot_before(seq)
    if row is not None:
        document: Any = decode_record(source.blob(row.document))
        manifest_seq, first = document["manifest_seq"], row.at + 1
    elif first > 1:
        cut = source.cut()
        if cut is not None:
            document = decode_record(source.blob(cut.document))
            manifest_seq = document["manifest_seq"]
    for record in _records_with(source, _MANIFEST, first, seq):
        if isinstance(record, Manifest) and record.seq < seq:
            manifest_seq = record.seq
    if not manifest_seq:
        raise Damage(f"no manifest came before record {seq} (aos verify)")
    return manifest_seq


def _records_with(source: Source, part: bytes, first: int, last: int) -> Iterator[Record]:
    """The records from ``first`` to ``last`` whose bytes contain ``part``."""
    if first > last:
        return
    for frame in source.frames(first, last):
        for data in frame.records:
            if part in data:
                yield from_bytes(data)


def find_intent(source: Source, digits: str) -> Hash:
    """The intent whose hash begins with these hex digits.

    Raises:
        BadUsage: There is none, or several.
    """
    if len(digits) == 64:
        return Hash(bytes.fromhex(digits))
    if source.store is None:
        hashes = {
            intent.intent
            for frame in source.frames(source.begins()[0] + 1, source.head().seq)
            for record in map(from_bytes, frame.records)
            if isinstance(record, Step)
            for intent in record.intents
        }
    else:
        hashes = {hash for hash, _ in source.store.intents()}
    matches = sorted(intent_hash for intent_hash in hashes if intent_hash.hex().startswith(digits))
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise BadUsage(f"no intent of this world begins with {digits}")
    raise BadUsage(f"{len(matches)} intents begin with {digits}: name more digits")
