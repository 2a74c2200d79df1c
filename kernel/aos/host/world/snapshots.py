"""Make snapshots of a world while it is open for writing (spec/host.md, H-47).

A child process folds everything that is durable and sends the new blobs (``snapshot_child``). They
become durable in slices between commit groups, then a record announces the snapshot. Once that is
durable too, the core continues from it. The core's thread only admits that record, so no load can
starve a snapshot, and no snapshot can stop the world.
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
from aos.core.snapshot.take import FORMATS
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError, BadUsage, Damage, Refused, Unavailable
from aos.fastcore.core_kind import CoreKind
from aos.host.errors import Stopping
from aos.host.world.engine import Engine
from aos.host.world.pipeline import KIB, MIB
from aos.host.world.snapshot_child import BLOB, DONE, FAILED, LENGTH_BYTES
from aos.message_fields import field
from aos.values.cbor import Value, decode_record
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text

SLICE_NS: Final = 500_000
"""How much longer than a recent group of frames one transaction of a snapshot may take, since a
frame that comes meanwhile waits for it (H-47a). With 12 ms, p99 was ten times as high."""

SLICE_FIRST: Final = 128 * KIB
SLICE_LEAST: Final = 48 * KIB
SLICE_MOST: Final = 2 * MIB
"""Bytes that one transaction may write. Each blob also rewrites the pages on the way to it."""

_BLOB_BYTES: Final = 4 * KIB
_PIPE_BYTES: Final = 64 * KIB

EVERY_RECORDS: Final = 50_000
EVERY_S: Final = 600.0
OLD_RECORDS: Final = 1_000
"""An old snapshot is replaced only if there are at least so many records since (H-47b)."""

FORMAT_VARIABLE: Final = "AOS_SNAPSHOT_FORMAT"

_LOOK_S: Final = 0.5
_PAUSE_FIRST_S: Final = 10.0
_PAUSE_MOST_S: Final = 600.0
_NICE: Final = 5
_TRIES: Final = 3
_CHILD: Final = (sys.executable, *QUICK_PROGRAM, "aos.host.world.snapshot_child")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """When a snapshot is made automatically: after so many records, or after so many seconds if
    there are at least ``OLD_RECORDS``. With 0 records, never."""

    records: int = EVERY_RECORDS
    seconds: float = EVERY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeSnapshot:
    """A durable snapshot. Record ``seq`` announces the snapshot of the world after record ``at``,
    whose document is ``document``. ``blobs`` is how many new blobs it took, of ``bytes`` bytes
    together."""

    seq: int
    at: int
    document: Hash
    cells: int
    blobs: int
    bytes: int
    took_ns: int

    def to_message(self) -> dict[str, Value]:
        """Encode it for a client of the socket."""
        return dataclasses.asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> MadeSnapshot:
        """Read a message of ``to_message``. Raises: BadUsage: It is not one."""
        numbers = {
            figure.name: field(dict(message), figure.name, int)
            for figure in dataclasses.fields(cls)
            if figure.name != "document"
        }
        return cls(document=Hash(field(dict(message), "document", bytes)), **numbers)


def format_of_environment() -> int | None:
    """The format of snapshots that ``AOS_SNAPSHOT_FORMAT`` names (H-47f); None without it.

    Raises:
        BadUsage: It names none.
    """
    word = os.environ.get(FORMAT_VARIABLE)
    if not word:
        return None
    if word not in map(str, FORMATS):
        raise BadUsage(f"{FORMAT_VARIABLE}: expected 1 or 2, found {word!r}")
    return int(word)


class Snapshots:
    """Makes snapshots of the world at ``path`` that ``engine`` runs, one at a time."""

    def __init__(
        self,
        engine: Engine,
        path: Path,
        *,
        core: CoreKind = CoreKind.PYTHON,
        every: Every | None = None,
        report: Callable[[str], None] = lambda _: None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """``core`` is the kernel that runs the world. ``look`` is called during each wait, which
        ends if it raises.

        Raises:
            BadUsage: As ``format_of_environment``.
        """
        self._format = format_of_environment()
        self._engine = engine
        self._path = path
        self._core = core
        self._every = every or Every()
        self._report = report
        self._look = look
        self._make_lock = threading.Lock()
        self._over = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make snapshots automatically from now on."""
        if self._every.records:
            self._thread = threading.Thread(target=self._run, name="aos-snapshots", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Make no more snapshots. One in progress is given up; its blobs stay, unused (H-47c)."""
        self._over.set()
        child = self._child
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
        if self._thread is not None:
            self._thread.join()

    @contextlib.contextmanager
    def between(self, look: Callable[[], None]) -> Iterator[None]:
        """Wait for a snapshot in progress; inside the block none is made. ``look`` is called during
        the wait, which ends if it raises. Raises Stopping if the world ends."""
        while not self._make_lock.acquire(timeout=_LOOK_S):
            if self._over.is_set():
                raise Stopping("the world is stopping")
            look()
        try:
            yield
        finally:
            self._make_lock.release()

    def make(self) -> MadeSnapshot:
        """Make a snapshot of everything that is durable now, after one that is in progress.

        Raises:
            NoRoom: The file system is full. Blobs that were written stay, and count for the next.
            Stopping: The world is stopping.
            Refused: There is a newer one.
            Damage: The journal or the last snapshot cannot be read.
        """
        began = time.monotonic_ns()
        with self._make_lock:
            written = _Written(self._engine, self._wait)
            tries = _TRIES
            while True:
                snapshot, cells = self._written(written)
                [answer] = self._wait(self._engine.submit([snapshot]))
                if isinstance(answer, Admitted | Duplicate):
                    break
                tries -= 1
                # A value may have been erased while it was made.
                if answer.rule is not Rule.SNAPSHOT_IS_OLD or not tries:
                    raise Refused(answer.message)
            self._wait(self._engine.rebase(snapshot.document))
            return MadeSnapshot(
                seq=answer.seq,
                at=snapshot.at,
                document=snapshot.document,
                cells=cells,
                blobs=written.blobs,
                bytes=written.bytes,
                took_ns=time.monotonic_ns() - began,
            )

    def _written(self, written: _Written) -> tuple[SnapshotInput, int]:
        """Let the child make a snapshot and make it durable; return its input and its cells."""
        with self._started() as child:
            assert child.stdout is not None
            fields = self._take(child.stdout, written)
        written.flush()
        snapshot = SnapshotInput(
            at=fields["at"],
            frame=Hash(fields["frame"]),
            document=Hash(fields["document"]),
            size=fields["size"],
        )
        return snapshot, fields["cells"]

    def _wait(self, future: Future[T]) -> T:
        """Wait for a future, long if the disk is full. Raises Stopping if the world ends."""
        while True:
            try:
                return future.result(_LOOK_S)
            except TimeoutError:
                if self._over.is_set():
                    raise Stopping("the world is stopping") from None
                self._look()

    @contextlib.contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        if self._over.is_set():
            raise Stopping("the world is stopping")
        paths = os.pathsep.join(folder for folder in sys.path if folder)
        child = subprocess.Popen(  # noqa: S603  # this interpreter, a module of ours, a folder
            [
                *_CHILD,
                str(self._path),
                str(_NICE),
                self._core.value,
                str(self._format or 0),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # While the core is busy each read waits for the interpreter, so make few, large ones.
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
        """Write the new blobs that the child sends; return the fields of its last message."""
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
                    failure = _fields(body)
                    raise (Damage if failure["is_damage"] else Unavailable)(failure["message"])

    # Automatically

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
                self._report(f"no snapshot was made: {problem} (next try in {pause_s:.0f} s)")
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
        self._weight_max = SLICE_FIRST
        self._slice: dict[Hash, bytes] = {}
        self._size = 0

    def add(self, hash: Hash, data: bytes) -> None:
        if content_hash(data) != hash:
            raise Damage(f"the snapshot's process sent other bytes than {hash_text(hash)}")
        if hash in self._slice:
            return
        self._slice[hash] = data
        self._size += len(data)
        if self._weight >= self._weight_max:
            self.flush()

    @property
    def _weight(self) -> int:
        return self._size + _BLOB_BYTES * len(self._slice)

    def flush(self) -> None:
        """Wait until everything so far is durable."""
        if not self._slice:
            return
        took_ns = self._wait(self._engine.keep(self._slice))
        self._weight_max = slice_after(
            self._weight_max, took_ns=took_ns, aim_ns=self._engine.commit_ns + SLICE_NS
        )
        self.blobs += len(self._slice)
        self.bytes += self._size
        self._slice, self._size = {}, 0


def slice_after(weight: int, *, took_ns: int, aim_ns: int) -> int:
    """How much the next slice may write, given that one of ``weight`` took ``took_ns``: between
    half and twice as much."""
    fitting = weight * aim_ns // max(took_ns, 1)
    return min(max(fitting, weight // 2, SLICE_LEAST), weight * 2, SLICE_MOST)


def _fields(body: bytes) -> dict[str, Any]:
    value = decode_record(body)
    assert isinstance(value, dict), "the snapshot's process says no map"
    return {str(name): field_value for name, field_value in value.items()}
