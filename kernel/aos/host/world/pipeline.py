"""Frames in order -> durable, then known: the committer thread (spec/host.md, H-20 to H-28).

Rule 1: one thread begins, fills and commits; a group is all that waits when the last one ends.

Rule 2: nothing is told before its group is durable; then everything is, in order.

Rule 3: what failed for lack of room is tried again, the same frames. After any other failure
nothing is written any more: what the disk holds is unknown, so only opening the world again may
go on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from nacl.signing import SigningKey

from aos.core.decide.answers import Answer
from aos.core.journal.frame import Head
from aos.core.journal.inputs import Input
from aos.core.journal.records import CellId
from aos.core.pending import Sealed
from aos.core.state.state import Mark
from aos.errors import Refused, Unavailable
from aos.host.errors import NoRoomLeft, Stopping
from aos.manifest.effective import Effective
from aos.store.errors import NoRoom
from aos.store.store import Store
from aos.values.digests import Hash

T = TypeVar("T")

KIB: Final = 1024
MIB: Final = 1024 * KIB

FRAMES_MAX: Final = 64
BYTES_MAX: Final = 8 * MIB
"""What may wait to become durable before the core waits itself. One larger frame alone may wait."""

COMMITS_MEAN: Final = 8
"""``commit_ns`` goes so slowly after the last group's."""

RETRY_FIRST_S: Final = 0.05
RETRY_MOST_S: Final = 5.0


@dataclass(slots=True, eq=False)
class InputBatch:
    """Inputs that came together; ``future`` has their answers, in order, once all are durable."""

    inputs: Sequence[Input]
    blobs: dict[Hash, bytes]
    size: int
    future: Future[list[Answer]] = field(default_factory=Future)
    answers: list[Answer] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the world is at the end of one frame. Counts are of this process.

    ``seq`` is the last record, ``serial`` the number of manifest records, ``controls`` that of
    control records, ``snapshot`` the last one.
    """

    seq: int
    clock_ns: int
    serial: int
    controls: int
    manifest: Effective | None
    cells: int
    ready_cells: int
    open_intents: int
    snapshot: Mark | None = None
    events: int = 0
    receipts: int = 0
    steps: int = 0
    faults: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultNote:
    """An instance failed. ``engine_text`` is the engine's own wording, which no record holds: the
    store keeps it as a note."""

    seq: int
    cell: CellId
    kind: str
    message: str
    engine_text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A frame (none when there were only refusals), and all that waits for it to be durable."""

    sealed: Sealed | None
    batches: tuple[InputBatch, ...]
    figures: Figures
    faults: tuple[FaultNote, ...]
    size: int


@dataclass(slots=True, eq=False)
class _Chore:
    """A transaction beside the journal."""

    act: Callable[[], object]
    done: Future[Any] = field(default_factory=Future)


class Pipeline:
    """Makes units durable in the order in which they are put.

    All callbacks run on the committer's thread: ``durable`` with each group after its commit,
    ``released`` once the group no longer counts, ``failed`` once, with what went wrong and the
    units that are lost.
    """

    def __init__(
        self,
        store: Store,
        key: SigningKey,
        *,
        follows: Hash,
        durable: Callable[[Sequence[Unit]], None],
        released: Callable[[], None],
        failed: Callable[[BaseException, Sequence[Unit]], None],
        noted: Callable[[Iterable[Hash]], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._noted = noted
        self._key = key
        self._follows = follows
        self._durable = durable
        self._released = released
        self._failed = failed
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._waiting: list[Unit] = []
        self._chores: deque[_Chore] = deque()
        self._frames = 0
        self._bytes = 0
        self._is_hurrying = False
        self._is_closing = False
        self._is_over = False
        self.no_room: str | None = None
        self.commit_ns = 0
        """How long a group takes to become durable, of late."""
        self._thread = threading.Thread(target=self._run, name="aos-commit", daemon=True)

    @property
    def frames(self) -> int:
        """Units that are not durable yet."""
        return self._frames

    @property
    def is_idle(self) -> bool:
        return self._frames == 0

    def start(self) -> None:
        self._thread.start()

    def put(self, unit: Unit) -> bool:
        """Hand a unit over; wait while too much waits. False when nothing is written any more."""
        with self._lock:
            while not self._is_over and self._is_full(unit):
                self._room.wait()
            if self._is_over:
                return False
            self._waiting.append(unit)
            self._frames += 1
            self._bytes += unit.size
            self._work.notify()
            return True

    def keep(self, blobs: Mapping[Hash, bytes]) -> Future[int]:
        """Make blobs durable after the group at hand, in a transaction of their own; tell how long
        that took, in ns.

        The future raises NoRoom where the file system is full (nothing is tried again), and
        Stopping when the end came first.
        """

        def put() -> int:
            self._noted(blobs)
            began_ns = time.monotonic_ns()
            self._store.put_blobs(blobs)
            return time.monotonic_ns() - began_ns

        return self.between(put)

    def between(self, act: Callable[[], T]) -> Future[T]:
        """Call ``act`` between two groups; it may write to the store, and must be quick about it.

        The future raises what it raises, and Stopping when the end came first. NoRoom, Unavailable
        and Refused are its caller's alone; anything else stops the world.
        """
        chore = _Chore(act)
        chore.done.set_running_or_notify_cancel()
        with self._lock:
            is_late = self._is_over or self._is_hurrying
            if not is_late:
                self._chores.append(chore)
                self._work.notify()
        if is_late:
            chore.done.set_exception(Stopping("the world is stopping"))
        return chore.done

    def hurry(self) -> None:
        """The end is near: from here on, what finds no room is tried once more and then lost."""
        with self._lock:
            self._is_hurrying = True
            self._work.notify()
            self._room.notify_all()

    def close(self) -> None:
        """After ``hurry``: make durable what was put, then end."""
        with self._lock:
            self._is_closing = True
            self._work.notify()
        self._thread.join()

    def _is_full(self, unit: Unit) -> bool:
        if self.no_room is not None and not self._is_hurrying:
            return True
        return self._frames > 0 and (
            self._frames >= FRAMES_MAX or self._bytes + unit.size > BYTES_MAX
        )

    def _run(self) -> None:
        group: list[Unit] = []
        try:
            while (taken := self._take()) is not None:
                if group := taken:
                    self._commit(group)
                    self._durable(group)
                    group = self._release(group)
                    self._released()
                self._do_chore()
            self._refuse_chores()
        except BaseException as problem:  # noqa: BLE001  # the last stop of this thread: passed on whole
            with self._lock:
                self._is_over = True
                lost = [*group, *self._waiting]
                self._waiting = []
                self._frames = 0
                self._room.notify_all()
            self._refuse_chores()
            self._failed(problem, lost)

    def _take(self) -> list[Unit] | None:
        """Wait for units or a chore and take all units; None when closing and all is durable."""
        with self._lock:
            while not self._waiting and not self._chores and not self._is_closing:
                self._work.wait()
            group, self._waiting = self._waiting, []
            if not group and self._is_closing:
                self._is_over = True
                self._room.notify_all()
                return None
            return group

    def _do_chore(self) -> None:
        """One of them, so that frames do not wait for more."""
        with self._lock:
            chore = self._chores.popleft() if self._chores else None
        if chore is None:
            return
        try:
            found = chore.act()
        except (Unavailable, Refused) as problem:
            chore.done.set_exception(problem)
        except BaseException as problem:
            chore.done.set_exception(problem)
            raise
        else:
            chore.done.set_result(found)

    def _refuse_chores(self) -> None:
        with self._lock:
            self._is_over = True
            chores, self._chores = self._chores, deque()
        for chore in chores:
            chore.done.set_exception(Stopping("the world is stopping"))

    def _release(self, group: list[Unit]) -> list[Unit]:
        with self._lock:
            self._frames -= len(group)
            self._bytes -= sum(unit.size for unit in group)
            self._room.notify_all()
        return []

    def _commit(self, group: Sequence[Unit]) -> None:
        frames = [unit.sealed for unit in group if unit.sealed is not None]
        if not frames:
            return
        texts = {
            note.seq: note.engine_text
            for unit in group
            for note in unit.faults
            if note.engine_text is not None
        }
        for frame in frames:
            self._noted(frame.blobs)
        head = Head.of(frames[-1].tip).signed(self._key)
        pause_s = RETRY_FIRST_S
        while True:
            was_hurrying = self._is_hurrying
            try:
                began_ns = time.monotonic_ns()
                self._store.append(frames, head, expected=self._follows, notes=texts)
                self.commit_ns += (time.monotonic_ns() - began_ns - self.commit_ns) // COMMITS_MEAN
            except NoRoom as problem:
                if was_hurrying:
                    raise NoRoomLeft(
                        f"the world stopped before there was room: {problem}",
                        needed=problem.needed,
                        free=problem.free,
                    ) from problem
                self._wait_for_room(str(problem), pause_s)
                pause_s = min(pause_s * 2, RETRY_MOST_S)
            else:
                break
        self._follows = frames[-1].frame.hash
        if self.no_room is not None:
            with self._lock:
                self.no_room = None
                self._room.notify_all()

    def _wait_for_room(self, problem: str, pause_s: float) -> None:
        with self._lock:
            self.no_room = problem
            if not self._is_hurrying:
                self._work.wait(pause_s)
