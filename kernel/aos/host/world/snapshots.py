"""Snapshots of a world while it is open for writing (spec/host.md, H-47).

A child process folds what is durable and says which blobs are new (``snapshot_child``). They become
durable in slices between commit groups, then a record says that the snapshot is there, and once
that is durable too the core goes on from it. The core's thread does nothing for it but to take that
record, so that no load can starve a snapshot and no snapshot can stop the world.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from aos.core.decide.answers import Admitted, Duplicate, Rule
from aos.core.journal.inputs import SnapshotInput
from aos.core.snapshot.load import layers
from aos.errors import AosError, Damage, Refused, Unavailable
from aos.host.errors import Stopping
from aos.host.fields import field
from aos.host.world.engine import Engine
from aos.host.world.pipeline import KIB, MIB
from aos.host.world.snapshot_child import BLOB, DONE, FAILED, LENGTH_BYTES
from aos.values.cbor import Value, decode_record
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text

SLICE_NS: Final = 500_000
"""So much longer than a group of frames takes of late may one transaction of a snapshot take: a
frame that comes meanwhile waits for it. Twelve milliseconds made p99 ten times what it was."""

SLICE_FIRST: Final = 128 * KIB
SLICE_LEAST: Final = 48 * KIB
SLICE_MOST: Final = 2 * MIB
"""What it writes: with each blob, the pages on the way to it are written anew."""

_BLOB_BYTES: Final = 4 * KIB
_PIPE_BYTES: Final = 64 * KIB

EVERY_RECORDS: Final = 50_000
EVERY_S: Final = 600.0
OLD_RECORDS: Final = 1_000
"""A snapshot that is old is made anew when there are so many records since."""

_LOOK_S: Final = 0.5
_PAUSE_FIRST_S: Final = 10.0
_PAUSE_MOST_S: Final = 600.0
_NICE: Final = 5
_TRIES: Final = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """When a snapshot is made by itself: after so many records, or after so long where there are
    ``OLD_RECORDS`` at least. 0 records: never."""

    records: int = EVERY_RECORDS
    seconds: float = EVERY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeSnapshot:
    """A snapshot that is durable: record ``seq`` says that the world as it was after record ``at``
    is kept under ``document``. ``blobs`` of together ``bytes`` were written for it."""

    seq: int
    at: int
    document: Hash
    cells: int
    blobs: int
    bytes: int
    took_ns: int

    def to_message(self) -> dict[str, Value]:
        return dataclasses.asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> MadeSnapshot:
        """Raises: BadUsage: It is not what ``to_message`` gives."""
        numbers = {
            each.name: field(dict(message), each.name, int)
            for each in dataclasses.fields(cls)
            if each.name != "document"
        }
        return cls(document=Hash(field(dict(message), "document", bytes)), **numbers)


class Snapshots:
    """Makes snapshots of the world of ``engine``, which lies at ``path``, one at a time."""

    def __init__(
        self,
        engine: Engine,
        path: Path,
        *,
        every: Every | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._path = path
        self._every = every or Every()
        self._report = report
        self._one = threading.Lock()
        self._over = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make them by themselves from here on."""
        if self._every.records:
            self._thread = threading.Thread(target=self._run, name="aos-snapshots", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Make no more; one in the making is given up, and leaves blobs that nothing names."""
        self._over.set()
        child = self._child
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
        if self._thread is not None:
            self._thread.join()

    @contextlib.contextmanager
    def between(self) -> Iterator[None]:
        """No snapshot is in the making inside the block; one that is, is waited for."""
        with self._one:
            yield

    def make(self) -> MadeSnapshot:
        """Make a snapshot of everything that is durable now. Waits for one in the making first.

        Raises:
            NoRoom: The file system is full. Blobs that were written stay, and count for the next.
            Stopping: The world stops.
            Refused: There is a newer one.
            Damage: The journal or the last snapshot cannot be read.
        """
        began = time.monotonic_ns()
        with self._one:
            written = _Written(self._engine, self._wait)
            tries = _TRIES
            while True:
                given, cells = self._written(written)
                [answer] = self._wait(self._engine.submit([given]))
                if isinstance(answer, Admitted | Duplicate):
                    break
                tries -= 1
                # A value may have been erased while it was made.
                if answer.rule is not Rule.SNAPSHOT_IS_OLD or not tries:
                    raise Refused(answer.message)
            self._engine.rebase(layers(given.document, self._engine.read))
            return MadeSnapshot(
                seq=answer.seq,
                at=given.at,
                document=given.document,
                cells=cells,
                blobs=written.blobs,
                bytes=written.bytes,
                took_ns=time.monotonic_ns() - began,
            )

    def _written(self, written: _Written) -> tuple[SnapshotInput, int]:
        """Have a snapshot made and everything of it durable. Returns how many cells it has, too."""
        with self._started() as child:
            assert child.stdout is not None
            done = self._take(child.stdout, written)
        written.flush()
        given = SnapshotInput(
            at=done["at"],
            frame=Hash(done["frame"]),
            document=Hash(done["document"]),
            size=done["size"],
        )
        return given, done["cells"]

    def _wait(self, done: Future[T]) -> T:
        """Raises Stopping when the end comes first: a full disk may hold an answer up for long."""
        while True:
            try:
                return done.result(_LOOK_S)
            except TimeoutError:
                if self._over.is_set():
                    raise Stopping("the world is stopping") from None

    @contextlib.contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        if self._over.is_set():
            raise Stopping("the world is stopping")
        paths = os.pathsep.join(each for each in sys.path if each)
        child = subprocess.Popen(  # noqa: S603  # this interpreter, a module of ours, a folder
            [sys.executable, "-m", "aos.host.world.snapshot_child", str(self._path), str(_NICE)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # Beside a busy core every read waits for the interpreter: few and large ones.
            bufsize=_PIPE_BYTES,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self._child = child
        try:
            with child:
                try:
                    yield child
                except BaseException:
                    child.kill()
                    raise
        finally:
            self._child = None

    def _take(self, stream: IO[bytes], written: _Written) -> dict[str, Any]:
        """Write what the child says is new; return what it says at its end."""
        while True:
            header = stream.read(1 + LENGTH_BYTES)
            size = int.from_bytes(header[1:], "big")
            body = stream.read(size)
            match header[:1]:
                case _ if len(header) <= LENGTH_BYTES or len(body) < size:
                    if self._over.is_set():
                        raise Stopping("the world is stopping")
                    raise Unavailable(
                        "the process that makes the snapshot ended before it was done (try again)"
                    )
                case kind if kind == BLOB:
                    written.add(Hash(body[:HASH_BYTES]), body[HASH_BYTES:])
                case kind if kind == DONE:
                    return _fields(body)
                case kind:
                    assert kind == FAILED, f"a message of kind {kind!r}"
                    said = _fields(body)
                    raise (Damage if said["is_damage"] else Unavailable)(said["message"])

    # By itself

    def _run(self) -> None:
        last_s, pause_s = time.monotonic(), _PAUSE_FIRST_S
        while not self._over.wait(_LOOK_S):
            if not self._is_due(time.monotonic() - last_s):
                continue
            try:
                self.make()
            except Stopping:
                return
            except AosError as problem:
                self._report(f"no snapshot was made: {problem} (tried again in {pause_s:.0f} s)")
                if self._over.wait(pause_s):
                    return
                pause_s = min(pause_s * 2, _PAUSE_MOST_S)
            else:
                last_s, pause_s = time.monotonic(), _PAUSE_FIRST_S

    def _is_due(self, age_s: float) -> bool:
        figures = self._engine.stats().figures
        since = figures.seq - (0 if figures.snapshot is None else figures.snapshot.seq)
        if since >= self._every.records:
            return True
        return age_s >= self._every.seconds and since >= min(OLD_RECORDS, self._every.records)


class _Written:
    """New blobs on their way to the disk, a slice at a time."""

    def __init__(self, engine: Engine, wait: Callable[[Future[int]], int]) -> None:
        self.blobs = 0
        self.bytes = 0
        self._engine = engine
        self._wait = wait
        self._most = SLICE_FIRST
        self._slice: dict[Hash, bytes] = {}
        self._size = 0

    def add(self, hash: Hash, data: bytes) -> None:
        if content_hash(data) != hash:
            raise Damage(f"the snapshot's process sent other bytes than {hash_text(hash)}")
        if hash in self._slice:
            return
        self._slice[hash] = data
        self._size += len(data)
        if self._weight >= self._most:
            self.flush()

    @property
    def _weight(self) -> int:
        return self._size + _BLOB_BYTES * len(self._slice)

    def flush(self) -> None:
        """Wait until everything so far is durable."""
        if not self._slice:
            return
        took_ns = self._wait(self._engine.keep(self._slice))
        self._most = slice_after(
            self._most, took_ns=took_ns, aim_ns=self._engine.commit_ns + SLICE_NS
        )
        self.blobs += len(self._slice)
        self.bytes += self._size
        self._slice, self._size = {}, 0


def slice_after(most: int, *, took_ns: int, aim_ns: int) -> int:
    """How much the next slice may write, after one of ``most`` that took so long: up to twice as
    much, or down to half."""
    fitting = most * aim_ns // max(took_ns, 1)
    return min(max(fitting, most // 2, SLICE_LEAST), most * 2, SLICE_MOST)


def _fields(body: bytes) -> dict[str, Any]:
    value = decode_record(body)
    assert isinstance(value, dict), "the snapshot's process says no map"
    return {str(name): each for name, each in value.items()}
