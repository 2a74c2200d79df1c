"""Nodes on a log: each has a journal in memory, made of the entries that count for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from nacl.signing import SigningKey

from aos.core.journal.frame import Frame, Head, Tip, seal
from aos.core.journal.identity import world_id
from aos.store.log.counting import CountedEntry, EntryCounter
from aos.store.log.entry import BlobsEntry, FramesEntry, LogEntry, parts_of
from aos.store.log.log import Log
from aos.store.log.log_writer import EntryWriter
from aos.store.log.memory_log import SharedStream
from aos.values.digests import Hash

KEY = SigningKey(b"w" * 32)
OTHER_KEY = SigningKey(b"o" * 32)
WORLD = world_id(b"n" * 32, KEY.verify_key.encode())


def frames_after(
    tip: Tip, *records: bytes, key: SigningKey = KEY, salt: bytes = b"s" * 32
) -> FramesEntry:
    """An entry with one frame for each record."""
    frames = []
    for record in records:
        frame, tip = seal(tip, [record], salt)
        frames.append(frame)
    return FramesEntry(frames=tuple(frames), head=Head.of(tip).signed(key), blobs=(b"blob",))


def blobs_after(tip: Tip, *blobs: bytes, key: SigningKey = KEY) -> BlobsEntry:
    return BlobsEntry.signed(tip.world, tip.frame, blobs, key)


@dataclass
class LogNode:
    """One node. ``journal`` are the records that count for it, ``ends`` the hash of the frame that
    ends with each record."""

    log: Log
    part_bytes: int = 64
    journal: list[bytes] = field(default_factory=list)
    ends: dict[int, Hash] = field(default_factory=dict)
    blobs: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counter = EntryCounter(
            tip=Tip(world=WORLD), world_key=KEY.verify_key.encode(), position=0, log=self.log,
            frame_at=self.ends.get, on_counted=self._note,
        )  # fmt: skip
        self.writer = EntryWriter(self.log, self.counter, part_bytes=self.part_bytes)

    @property
    def tip(self) -> Tip:
        return self.counter.tip

    def _note(self, counted: CountedEntry) -> None:
        entry: LogEntry = counted.entry
        if isinstance(entry, FramesEntry):
            for frame in entry.frames:
                self._add(frame)
        else:
            self.blobs += entry.blobs

    def _add(self, frame: Frame) -> None:
        self.journal += frame.records
        self.ends[frame.header.last] = frame.hash

    def read(self) -> None:
        """Read to the tail."""
        for _ in self.counter.counted():
            pass


def stream_of(*entries: LogEntry, part_bytes: int = 64) -> SharedStream:
    """A stream with whole entries."""
    stream = SharedStream()
    for entry in entries:
        for part in parts_of(entry.to_bytes(), part_bytes):
            stream.publish(part)
    return stream
