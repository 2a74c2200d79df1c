"""Make frames durable in groups, then publish them: the committer's thread (H-20 to H-28).

Rule 1: one thread begins, fills and commits every transaction. A group is everything that waits
when the last group ends; there is no timer (H-20).

Rule 2: nothing is published before its group is durable; then the whole group is, in order (H-21).

Rule 3: a commit that finds no room is retried with the same frames (H-24). After any other failure
nothing more is written: what the disk holds is unknown, and only opening the world again finds out
(H-25).

Rule 4: if a commit finds no room during a collection, the store's reserve is freed for it. From
then on nothing else is put until the collection ends or there is room again (RT-25 to RT-28).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from nacl.signing import SigningKey

from aos.core.journal.frame import Head
from aos.errors import Refused, Unavailable
from aos.host.errors import NoRoomLeft, Stopping
from aos.host.world.unit import Unit
from aos.store.errors import NoRoom
from aos.store.store import Store
from aos.values.digests import Hash

T = TypeVar("T")

KIB: Final = 1024
MIB: Final = 1024 * KIB

FRAMES_MAX: Final = 64
BYTES_MAX: Final = 8 * MIB
"""How much may wait for the disk before the core waits too (H-22). One larger frame may wait."""

COMMITS_MEAN: Final = 8
"""``commit_ns`` is a moving average over about this many groups."""

RETRY_FIRST_S: Final = 0.05
RETRY_MOST_S: Final = 5.0
"""Seconds between two tries of a commit that finds no room, and between two looks whether there is
room again during a collection."""


@dataclass(slots=True, eq=False)
class _Chore:
    """A transaction of its own, between two groups, once ``after_units`` units are released."""

    act: Callable[[], object]
    after_units: int
    future: Future[Any] = field(default_factory=Future)


class Collection(Protocol):
    """A collection in progress, as its pipeline sees it."""

    def refuse(self, problem: NoRoom) -> None:
        """End it: a group of frames has no room although the reserve is free. The committer's
        thread calls this."""


@dataclass(slots=True)
class _Shortage:
    """A disk that takes nothing, and the collection that makes room on it."""

    reason: str | None = None
    """Set by a failed commit; None again after the same group is durable and no collection is in
    progress, or there is room for the reserve. Meanwhile ``put`` waits."""
    group_waits: bool = False
    """Whether a group has found no room and is not durable yet."""
    collection: Collection | None = None
    """The collection in progress, which may use the store's reserve."""
    _is_marking: bool = False
    """Whether the marking of the collection has begun."""
    _lets_pass: bool = False
    """Whether one unit is admitted without room, before the marking begins."""

    @property
    def admits(self) -> bool:
        """Whether a unit may be put."""
        return self.reason is None or self._lets_pass

    def unit_taken(self) -> None:
        if self.reason is not None:
            self._lets_pass = False

    def begin(self, collection: Collection) -> None:
        """Begin a collection, in place of one in progress."""
        self.collection = collection
        self._is_marking = self._lets_pass = False

    def let_pass(self, collection: Collection) -> bool:
        """Admit one unit without room; False if this collection has ended or marks already."""
        if self.collection is not collection or self._is_marking:
            return False
        self._lets_pass = True
        return True

    def begin_marking(self, collection: Collection) -> bool:
        """Admit nothing without room any more; False if this collection has ended."""
        if self.collection is not collection:
            return False
        self._is_marking, self._lets_pass = True, False
        return True

    def end_collection(self) -> bool:
        """No collection is in progress any more. Return whether this ends the shortage."""
        self.collection, self._lets_pass = None, False
        if self.reason is None or self.group_waits:
            return False
        self.reason = None
        return True


class Pipeline:
    """Makes units durable in the order in which they are put.

    A unit passes through these steps, and the callbacks run on the committer's thread:

    1. ``put`` (core's thread) queues it in ``_waiting``; ``_frames`` and ``_bytes`` count it.
    2. ``_take`` makes a group of everything in ``_waiting``.
    3. ``noted`` gets the hashes of the group's blobs, so that a marking keeps them. This comes
       before the write: afterwards a removal could already have chosen them.
    4. ``Store.append`` writes the group after frame ``_follows``, with a head that ``_key`` signs,
       and returns once all of it is durable. ``_follows`` moves on.
    5. ``durable`` gets the group and publishes it.
    6. The group stops counting, ``put`` has room again, and ``released`` is called. A world is
       therefore idle (``is_idle``) only after everything is published.

    One chore may run after each group. If a step fails, ``failed`` is called once with the problem
    and the units that are lost, and ``_is_over`` stays set: nothing is written any more.
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
        """Hash of the last durable frame. Only the committer's thread uses it."""
        self._durable = durable
        self._released = released
        self._failed = failed
        self._lock = threading.Lock()
        """Guards changes of the fields below, except ``commit_ns``. Not held while the disk is
        written or a callback runs."""
        self._work = threading.Condition(self._lock)
        """The committer's thread waits here for units, chores, the end, or its next retry."""
        self._room = threading.Condition(self._lock)
        """The core's thread waits here in ``put``, until a group is released or the end comes."""
        self._waiting: list[Unit] = []
        """Units that no group has taken: not on the disk, and lost by a crash."""
        self._chores: deque[_Chore] = deque()
        """Transactions that wait for the end of the current group. Each future resolves after its
        own commit. Those left at the end never ran, and raise Stopping."""
        self._frames = 0
        """Units that were put and not released: waiting, being written, or being published."""
        self._released_units = 0
        """Units that were released since the start."""
        self._bytes = 0
        """The bytes of these units."""
        self._is_hurrying = False
        """Set by ``hurry``: a group that finds no room is retried once, and no chore is taken."""
        self._is_closing = False
        """Set by ``close``: the thread ends once every unit is durable and published."""
        self._is_over = False
        """Nothing is written any more: the thread has ended, or a step has failed (H-25)."""
        self._shortage = _Shortage()
        self.commit_ns = 0
        """How long recent groups took to become durable; a moving average."""
        self._thread = threading.Thread(target=self._run, name="aos-commit", daemon=True)

    @property
    def is_collecting(self) -> bool:
        """Whether a collection is in progress."""
        return self._shortage.collection is not None

    @property
    def no_room(self) -> str | None:
        """Why the disk takes nothing at the moment; None if it does."""
        return self._shortage.reason

    @property
    def frames(self) -> int:
        """How many units are not published yet."""
        return self._frames

    @property
    def is_idle(self) -> bool:
        """Whether every unit is durable and published."""
        return self._frames == 0

    def start(self) -> None:
        """Start the committer's thread."""
        self._thread.start()

    def put(self, unit: Unit) -> bool:
        """Queue a unit, once there is room for it. False if nothing is written any more."""
        with self._lock:
            while not self._is_over and self._is_full(unit):
                self._room.wait()
            if self._is_over:
                return False
            self._shortage.unit_taken()
            self._waiting.append(unit)
            self._frames += 1
            self._bytes += unit.size
            self._work.notify()
            return True

    def keep(self, blobs: Mapping[Hash, bytes]) -> Future[int]:
        """Make blobs durable after the current group, in a transaction of their own.

        The future returns how long that took, in ns. It raises NoRoom if the file system is full
        (without a retry), and Stopping if the world ends first.
        """

        def put() -> int:
            if self.no_room is not None:
                # Only the collection may use the space that its reserve has freed.
                raise NoRoom(self.no_room, needed_bytes=sum(map(len, blobs.values())), free=0)
            self._noted(blobs)
            began_ns = time.monotonic_ns()
            self._store.put_blobs(blobs)
            return time.monotonic_ns() - began_ns

        return self.between(put)

    def between(self, act: Callable[[], T]) -> Future[T]:
        """Call ``act`` between two groups, once everything that was put before is durable. It may
        write to the store, and must return soon.

        The future raises what ``act`` raises, and Stopping if the world ends first. NoRoom,
        Unavailable and Refused concern only the caller; any other exception stops the world.
        """
        with self._lock:
            chore = _Chore(act, after_units=self._released_units + self._frames)
            chore.future.set_running_or_notify_cancel()
            is_late = self._is_over or self._is_hurrying
            if not is_late:
                self._queue(chore)
        if is_late:
            chore.future.set_exception(Stopping("the world is stopping"))
        return chore.future

    def make_reserve(self) -> None:
        """Have the store reserve its disk space soon, if it can (ST-100)."""
        self.between(self._store.make_reserve)

    # Collections, which may use the store's reserve

    def collect(self, collection: Collection) -> None:
        """Let ``collection`` begin, in place of one in progress: a group that has no room, now or
        later, gets the store's reserve."""
        with self._lock:
            self._shortage.begin(collection)
            self._work.notify()

    def let_pass(self, collection: Collection) -> None:
        """Have ``put`` take one unit without room, the frame in progress: the marking begins only
        between two frames. Without effect if it has begun, or if the collection has ended."""
        with self._lock:
            if self._shortage.let_pass(collection):
                self._room.notify_all()

    def hold(self, collection: Collection) -> bool:
        """On the core's thread, between two frames: the marking begins. From now on, ``put`` waits
        while there is no room; everything that was put before becomes durable first. False if the
        collection has ended."""
        with self._lock:
            return self._shortage.begin_marking(collection)

    def use_reserve(self, problem: NoRoom) -> bool:
        """On the committer's thread: after ``problem``, free the store's reserve for the collection
        and admit nothing until it ends. False if there is no reserve."""
        with self._lock:
            self._shortage.reason = str(problem)
        return self._store.release_reserve()

    def end_collection(self, collection: Collection) -> None:
        """End a collection, unless another one has begun, and admit inputs again."""
        with self._lock:
            if self._shortage.collection is collection:
                self._admit_again()

    def _admit_again(self) -> None:
        """No collection is in progress any more. The caller holds the lock."""
        if self._shortage.end_collection():
            self._room.notify_all()
            self._queue(_Chore(self._store.make_reserve, after_units=0))

    def _look_for_room(self) -> None:
        """Admit inputs again if there is room for the reserve, although the collection continues:
        its client may be suspended."""
        if self._store.make_reserve():
            with self._lock:
                self._shortage.reason = None
                self._room.notify_all()

    def _queue(self, chore: _Chore) -> None:
        """Add a chore. The caller holds the lock."""
        self._chores.append(chore)
        self._work.notify()

    def hurry(self) -> None:
        """Prepare for the end: from now on a group that finds no room is retried only once."""
        with self._lock:
            self._is_hurrying = True
            self._work.notify()
            self._room.notify_all()

    def close(self) -> None:
        """Make all queued units durable, then end the thread. Call ``hurry`` first."""
        with self._lock:
            self._is_closing = True
            self._work.notify()
        self._thread.join()

    def _is_full(self, unit: Unit) -> bool:
        if not (self._shortage.admits or self._is_hurrying):
            return True
        return self._frames > 0 and (
            self._frames >= FRAMES_MAX or self._bytes + unit.size > BYTES_MAX
        )

    def _run(self) -> None:
        group: list[Unit] = []
        try:
            while (units := self._take()) is not None:
                if group := units:
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
        """Wait for units or a chore, and take all units. None at the end, if all are durable."""
        with self._lock:
            while not self._waiting and not self._chores and not self._is_closing:
                is_short = self.no_room is not None
                if not self._work.wait(RETRY_MOST_S if is_short else None) and is_short:
                    self._chores.append(_Chore(self._look_for_room, after_units=0))
            group, self._waiting = self._waiting, []
            if not group and self._is_closing:
                self._is_over = True
                self._room.notify_all()
                return None
            return group

    def _do_chore(self) -> None:
        """Do one chore: frames that were put meanwhile do not wait for a second one."""
        with self._lock:
            # Units that were put before the first chore may still wait for their group.
            if not self._chores or self._chores[0].after_units > self._released_units:
                return
            chore = self._chores.popleft()
        try:
            result = chore.act()
        except (Unavailable, Refused) as problem:
            chore.future.set_exception(problem)
        except BaseException as problem:
            chore.future.set_exception(problem)
            raise
        else:
            chore.future.set_result(result)

    def _refuse_chores(self) -> None:
        with self._lock:
            self._is_over = True
            chores = self._taken_chores()
        for chore in chores:
            chore.future.set_exception(Stopping("the world is stopping"))

    def _taken_chores(self) -> Iterable[_Chore]:
        """Take all chores, to fail them. The caller holds the lock."""
        chores, self._chores = self._chores, deque()
        return chores

    def _release(self, group: list[Unit]) -> list[Unit]:
        with self._lock:
            self._bytes -= sum(unit.size for unit in group)
            self._released_units += len(group)
            self._frames -= len(group)  # the last: it says that the pipeline is idle
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
                        needed_bytes=problem.needed_bytes,
                        free=problem.free,
                    ) from problem
                self._shortage.group_waits = True
                collection = self._shortage.collection
                if collection is not None:
                    if self.use_reserve(problem):
                        continue
                    self._give_up(collection, problem)
                self._wait_for_room(str(problem), pause_s)
                pause_s = min(pause_s * 2, RETRY_MOST_S)
            else:
                break
        self._follows = frames[-1].frame.hash
        if self._shortage.group_waits:
            with self._lock:
                self._shortage.group_waits = False
                if self._shortage.collection is None:
                    self._admit_again()

    def _give_up(self, collection: Collection, problem: NoRoom) -> None:
        """End a collection because a group has no room although the reserve is free (RT-28). Slices
        of snapshots and migrations that wait for the group are given up, too (RT-26)."""
        with self._lock:
            if self._shortage.collection is not collection:
                return  # it has ended; one that has replaced it is given up at the next try
            self._admit_again()
            chores = self._taken_chores()
        collection.refuse(
            NoRoom(
                "nothing can be removed: the running world must first commit the frames that wait "
                "for the disk, and with the store's reserve there is still too little room: "
                f"{problem}",
                needed_bytes=problem.needed_bytes,
                free=problem.free,
            )
        )
        for chore in chores:
            chore.future.set_exception(problem)

    def _wait_for_room(self, problem: str, pause_s: float) -> None:
        with self._lock:
            self._shortage.reason = problem
            if not self._is_hurrying:
                self._work.wait(pause_s)
