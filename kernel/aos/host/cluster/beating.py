"""Write the beats of one process to a bucket, and read those of the others (spec/cluster.md, CL-72
to CL-76).

    STREAM.owner            the beat of the owner
    STREAM.standby.NODE     the beat of each standby
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nacl.signing import SigningKey

from aos import __version__
from aos.errors import Refused
from aos.host.cluster.beat import Beat, read_beat
from aos.store.log.bucket import Bucket, BucketConflict, BucketEntry
from aos.store.log.logged_store import LogEnd
from aos.values.digests import Hash

TRIES: Final = 3
"""Attempts to replace a value that an earlier attempt without an answer may have replaced."""


NAMESAKE_BEATS: Final = 3
"""After so many beats of another process under the name of this node, that process is alive. Of one
that has ended, a beat may still arrive."""


def owner_key(stream: str) -> str:
    """The key of the owner's beat of a world whose log is ``stream`` (CL-72)."""
    return f"{stream}.owner"


@dataclass(frozen=True, slots=True)
class ReadBeat:
    """A value of the bucket: the ``beat`` is None if it is none of this world. ``revision`` and
    ``written_ns`` are those of the bucket."""

    beat: Beat | None
    revision: int
    written_ns: int


NO_BEAT: Final = ReadBeat(None, 0, 0)


@dataclass(slots=True)
class _Namesake:
    """The beats of one other process under the name of this node, under one key."""

    instance: bytes = b""
    revision: int = 0
    count: int = 0

    def note(self, read: ReadBeat) -> None:
        """Count a beat that was not counted yet.

        Raises:
            Refused: The process is alive.
        """
        assert read.beat is not None, "a beat"
        if read.beat.instance != self.instance:
            self.instance, self.count = read.beat.instance, 0
        if read.revision != self.revision:
            self.revision = read.revision
            self.count += 1
        if self.count > NAMESAKE_BEATS:
            raise Refused(
                "another process runs under the name of this node",
                location=f"node {read.beat.node}",
                expected="one process for each node of a world",
                actual=f"process {read.beat.instance.hex()}, which takes requests at "
                f"{read.beat.inbox}",
                hint="is this folder a copy? Each node has its own folder and name: aos join",
            )


class Beats:
    """The beats of the process ``instance`` of a node, on the bucket of a world whose log is
    ``stream``. Used by one thread."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        stream: str,
        world: Hash,
        key: SigningKey,
        node: str,
        instance: bytes,
        inbox: str,
        release: str = __version__,
    ) -> None:
        self.node = node
        self.program_release = release
        self.instance = instance
        self._bucket = bucket
        self._world = world
        self._key = key
        self._world_key = key.verify_key.encode()
        self._inbox = inbox
        self._owner_key = owner_key(stream)
        self._standbys = f"{stream}.standby."
        self._revisions: dict[str, int] = {}
        """The revision of each key that this process wrote last, as far as it knows."""
        self._earlier: bytes | None = None
        """The process that wrote the beat of this standby before this one; None before the first
        beat, empty without one."""
        self._standby_namesake, self._owner_namesake = _Namesake(), _Namesake()

    def stand_by(self, end: LogEnd) -> int:
        """Write the beat of a standby; return the server's time of it, in ns since 1970.

        Raises:
            Refused: Another process, which was there before, is alive under the name of this node
                (CL-116).
            BucketUnreachable: It is unknown whether it was written.
            BucketConflict: Another process of the same node writes it, too.
        """
        key = f"{self._standbys}{self.node}"
        self._check_name(self._bucket.get(key))
        self._take(key, self._beat(end))
        entry = self._bucket.get(key)
        return 0 if entry is None else entry.written_ns

    def claim(self, end: LogEnd) -> None:
        """Write the first beat of an owner, in the place of the last owner's. Raises as
        ``stand_by``."""
        self._take(self._owner_key, self._beat(end))

    def renew(self, end: LogEnd, *, to: str | None = None) -> int | None:
        """Replace the last beat of this owner; return the server's time of it. None if another
        process has replaced it. ``to`` is the node to which this owner hands over.

        Raises:
            BucketUnreachable: It is unknown whether it was written.
        """
        return self._replace_own(self._beat(end, to=to))

    def release(self, end: LogEnd, *, to: str | None = None) -> None:
        """Tell the standbys that this owner has stopped, unless another one is there already. The
        node ``to`` takes over, if it is named. Raises BucketUnreachable."""
        self._replace_own(self._beat(end, released=True, to=to))

    def owner(self) -> ReadBeat:
        """Return the beat of the owner, for a standby. Raises as ``stand_by``."""
        entry = self._bucket.get(self._owner_key)
        if entry is None:
            return NO_BEAT
        read = self._read(entry)
        if read.beat is not None and read.beat.node == self.node and self._is_of_other(read):
            self._owner_namesake.note(read)
        return read

    def _check_name(self, entry: BucketEntry | None) -> None:
        """Note the beat that this process is about to replace. Raises Refused as ``stand_by``."""
        read = NO_BEAT if entry is None else self._read(entry)
        if self._earlier is None:
            self._earlier = b"" if read.beat is None else read.beat.instance
        # Of two such processes, the one that was there first does not know the other one.
        is_earlier = read.beat is not None and read.beat.instance == self._earlier
        if is_earlier and self._is_of_other(read):
            self._standby_namesake.note(read)

    def _is_of_other(self, read: ReadBeat) -> bool:
        return read.beat is not None and read.beat.instance != self.instance

    def standbys(self) -> list[ReadBeat]:
        """Return the beats of all standbys, this one's too. Raises BucketUnreachable."""
        return [
            self._read(entry)
            for key, entry in self._bucket.entries()
            if key.startswith(self._standbys)
        ]

    def _beat(self, end: LogEnd, *, released: bool = False, to: str | None = None) -> bytes:
        return (
            Beat(
                world=self._world,
                node=self.node,
                instance=self.instance,
                inbox=self._inbox,
                end=end,
                released=released,
                release=self.program_release,
                to=to,
            )
            .signed(self._key)
            .to_bytes()
        )

    def _read(self, entry: BucketEntry) -> ReadBeat:
        beat = read_beat(entry.value, self._world, self._world_key)
        return ReadBeat(beat, entry.revision, entry.written_ns)

    def _take(self, key: str, value: bytes) -> None:
        """Write a value in the place of whichever is there."""
        for attempt in range(TRIES):
            entry = self._bucket.get(key)
            try:
                self._write(key, value, 0 if entry is None else entry.revision)
            except BucketConflict:
                if attempt == TRIES - 1:
                    raise
            else:
                return

    def _replace_own(self, value: bytes) -> int | None:
        """Replace the owner's beat, if it is this process's; return the server's time."""
        key = self._owner_key
        for _ in range(TRIES):
            try:
                self._write(key, value, self._revisions.get(key, 0))
            except BucketConflict:
                # An earlier attempt that had no answer may have written it (CL-52).
                entry = self._bucket.get(key)
                beat = None if entry is None else self._read(entry).beat
                if entry is not None and (beat is None or beat.instance != self.instance):
                    return None
                self._revisions[key] = 0 if entry is None else entry.revision
            else:
                entry = self._bucket.get(key)
                return 0 if entry is None else entry.written_ns
        return None

    def _write(self, key: str, value: bytes, revision: int) -> None:
        if revision == 0:
            self._revisions[key] = self._bucket.create(key, value)
        else:
            self._revisions[key] = self._bucket.replace(key, value, revision)
