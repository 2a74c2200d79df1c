"""Remove what nothing needs while the world runs (spec/state.md, RT-20 to RT-24).

A separate process marks the blobs that are needed and names the others. The committer's thread
removes those between two groups, except blobs that have arrived since the marking began. So a blob
stays if it was marked, or if it arrived later.

On a full disk, a marking and its removals may use the store's reserve (RT-25 to RT-28). Meanwhile
the pipeline takes no frame that could use it up.
"""

from __future__ import annotations

import contextlib
import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from aos.core.kernel_protocol import KernelProtocol
from aos.errors import AosError, Unavailable
from aos.host.world.inbox import Inbox
from aos.host.world.pipeline import Pipeline
from aos.store.errors import NoRoom
from aos.store.rows import FORGET_MAX, Forget
from aos.store.store import Store
from aos.values.digests import Hash, content_hash

OPEN_S: Final = 600.0
"""Seconds after which a marking that has sent no sign of life counts as given up."""

WORD_BYTES: Final = 8
"""Number of bytes of each hash that ``StillNeeded`` holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A marking has begun: everything that is durable now may be marked.

    ``base`` is the record of the snapshot that the running core reads from, 0 for none. That
    snapshot is needed too.
    """

    token: int
    base: int


class Arrivals:
    """The blobs that arrived since a marking began. A later marking ends an earlier one.

    ``spilled`` are blobs that the core needs although no durable record names them.
    """

    def __init__(self, spilled: Container[Hash]) -> None:
        self._spilled = spilled
        self._lock = threading.RLock()
        self._token = 0
        self._since: set[Hash] | None = None
        self._heard_s = 0.0

    def begin(self) -> int:
        """Note blobs for a new marking, on the core's thread between two frames: a later frame may
        rely on a blob long before it is put. To note more blobs than necessary is always safe."""
        with self._lock:
            self._token += 1
            self._since = set()
            self._heard_s = time.monotonic()
            return self._token

    def note(self, hashes: Iterable[Hash]) -> None:
        """Keep blobs that are about to be put, whether or not the store has them already."""
        with self._lock:
            if self._since is None:
                return
            if time.monotonic() - self._heard_s > OPEN_S:
                self._since = None
            else:
                self._since.update(hashes)

    def is_needed(self, hash: Hash, has: Callable[[Hash], bool]) -> bool:
        """Whether the world has ``hash``; if so, it stays."""
        with self._lock:
            is_present = has(hash)
            if is_present:
                self.note((hash,))
            return is_present

    @contextlib.contextmanager
    def taking(self, token: int, hashes: Sequence[Hash]) -> Iterator[list[Hash]]:
        """Those of ``hashes`` that may be removed; inside the block no blob becomes needed.

        Raises:
            Unavailable: The marking was given up, or another one has begun.
        """
        with self._lock:
            if self._since is None or token != self._token:
                raise Unavailable(
                    "the marking took too long, another one began, or the disk is full (try again)"
                )
            self._heard_s = time.monotonic()
            since = self._since
            yield [
                blob_hash
                for blob_hash in hashes
                if blob_hash not in since and blob_hash not in self._spilled
            ]

    def keep_open(self, token: int) -> None:
        """Keep the marking open: its client is still at work. Raises as ``taking``."""
        with self.taking(token, ()):
            pass

    def end(self, token: int) -> None:
        """End the marking, unless a later one has begun."""
        with self._lock:
            if token == self._token:
                self._since = None

    def give_up(self) -> None:
        """End the marking in progress: its client has to begin again."""
        with self._lock:
            self._since = None


class Marking:
    """A marking from the request for it to its end: the ``Collection`` of the pipeline."""

    def __init__(self, arrivals: Arrivals, pipeline: Pipeline) -> None:
        self.begun: Future[Begun] = Future()
        self.begun.set_running_or_notify_cancel()
        self.token: int | None = None
        self.refusal: AosError | None = None
        """Why it ended before its client ended it, if so."""
        self._arrivals = arrivals
        self._pipeline = pipeline

    def begin(self, base: int) -> None:
        """On the core's thread, between two frames: note blobs from now on."""
        if not self._pipeline.hold(self):
            self.refuse(_replaced())
            return
        token = self.token = self._arrivals.begin()

        def durable() -> Begun:
            self._arrivals.keep_open(token)
            return Begun(token=token, base=base)

        self._pipeline.between(durable).add_done_callback(self._answer)
        if self.refusal is not None:
            self.end()  # refused meanwhile

    def refuse(self, problem: AosError) -> None:
        """End the marking, on any thread. If its client still waits for it, it gets ``problem``."""
        self.refusal = self.refusal or problem
        self.end()
        with contextlib.suppress(InvalidStateError):
            self.begun.set_exception(self.refusal)

    def end(self) -> None:
        """End the marking, and admit inputs again if it is the collection in progress."""
        if self.token is not None:
            self._arrivals.end(self.token)
        self._pipeline.end_collection(self)

    def _answer(self, future: Future[Begun]) -> None:
        problem = future.exception()
        if problem is not None:
            assert isinstance(problem, AosError), "Unavailable, or why the pipeline failed it"
            self.refuse(problem)
            return
        with contextlib.suppress(InvalidStateError):
            self.begun.set_result(future.result())


def _replaced() -> Unavailable:
    return Unavailable("another marking began (try again)")


class Collecting:
    """The markings of a running world, and the removals that follow them. For any thread."""

    def __init__(
        self,
        kernel: KernelProtocol,
        store: Store,
        arrivals: Arrivals,
        inbox: Inbox,
        pipeline: Pipeline,
    ) -> None:
        self._kernel = kernel
        self._store = store
        self._arrivals = arrivals
        self._inbox = inbox
        self._pipeline = pipeline
        self._lock = threading.Lock()
        """Held while ``_marking`` is replaced, so that the pipeline has the same collection."""
        self._marking: Marking | None = None
        """The newest marking."""

    @property
    def is_open(self) -> bool:
        """Whether a marking is in progress or about to begin."""
        return self._pipeline.is_collecting

    def prepare(self) -> Marking:
        """End or commit the work that ``begin`` waits for, with the store's reserve if necessary.
        The new marking is in place of an earlier one. Pass it to ``begin``."""
        marking = Marking(self._arrivals, self._pipeline)
        with self._lock:
            earlier, self._marking = self._marking, marking
            self._pipeline.collect(marking)
        if earlier is not None:
            earlier.refuse(_replaced())
        return marking

    def let_pass(self, marking: Marking) -> None:
        """Let one more frame be committed although there is no room: the caller waits for something
        that a frame has to end.

        Raises:
            NoRoom: A frame has no room even with the store's reserve.
            Unavailable: Another marking began.
        """
        if marking.refusal is not None:
            raise marking.refusal
        self._pipeline.let_pass(marking)

    def begin(self, marking: Marking | None = None) -> Future[Begun]:
        """Begin a marking, by default a new one: keep every blob that arrives from now on.

        It begins at the end of a frame, so that the blobs that a record of this frame has put are
        durable together with the record. If there is no room for the frames before it, they get the
        store's reserve. The future raises NoRoom if that is not enough, and Unavailable if another
        marking begins.

        Raises:
            Stopping, WorldStopped: As ``Engine.submit``.
        """
        marking = marking or self.prepare()
        self._inbox.between_frames(partial(self._begin, marking), refuse=marking.refuse)
        self._pipeline.let_pass(marking)
        return marking.begun

    def _begin(self, marking: Marking) -> None:
        marking.begin(self._kernel.base)

    def forget(self, token: int, rows: Forget) -> Future[int]:
        """Remove what a marking found unneeded, except blobs that arrived meanwhile.

        It is done in parts, with groups of frames in between. The future returns how many blobs
        were removed. It raises Unavailable if the marking was given up, and NoRoom if there is no
        room even with the store's reserve; then the marking has ended.
        """
        marking = self._marking

        def act(part: Forget) -> int:
            try:
                with self._arrivals.taking(token, part.blobs) as blobs:
                    return self._remove(replace(part, blobs=blobs))
            except NoRoom:
                self.end(token)
                raise

        removed: Future[int] = Future()
        removed.set_running_or_notify_cancel()
        # At least one part, so that a world that is stopping reports it.
        each_part = list(parts(rows)) or [Forget()]
        removals = [self._pipeline.between(partial(act, part)) for part in each_part]

        def finish(_: Future[int]) -> None:
            try:
                removed.set_result(sum(removal.result() for removal in removals))
            except BaseException as problem:  # noqa: BLE001  # passed on to the caller
                refusal = None if marking is None else marking.refusal
                removed.set_exception(
                    refusal if isinstance(problem, NoRoom) and refusal else problem
                )

        # Parts are done in order, so the last one ends last.
        removals[-1].add_done_callback(finish)
        return removed

    def _remove(self, rows: Forget) -> int:
        """Remove rows, in smaller transactions if there is no room for one: each frees pages for
        the later ones (RT-27)."""
        try:
            return self._store.forget(rows)
        except NoRoom as problem:
            if self._pipeline.use_reserve(problem):
                return self._remove(rows)
            if len(rows) < 2:
                raise
            return sum(map(self._remove, parts(rows, len(rows) // 2)))

    def keep_open(self, token: int) -> None:
        """Keep the marking open. Raises: Unavailable: The marking was given up."""
        self._arrivals.keep_open(token)

    def end(self, token: int) -> None:
        """End the marking, unless a later one has begun."""
        marking = self._marking
        if marking is not None and marking.token == token:
            marking.end()


def parts(forget: Forget, limit: int = FORGET_MAX) -> Iterator[Forget]:
    """Split ``forget`` into parts of at most ``limit`` rows. Rows of snapshots and puts come first:
    a row must not outlive the blobs that it names."""
    for field in ("snapshots", "puts", "blobs"):
        rows = getattr(forget, field)
        for at in range(0, len(rows), limit):
            yield Forget(**{field: rows[at : at + limit]})


@dataclass(frozen=True, slots=True)
class StillNeeded:
    """Rows that must stay when a client asks to remove them, and put rows that may be removed
    (RT-20a).

    ``blobs`` has the first 8 bytes of the hashes of needed blobs, sorted; ``snapshots`` the needed
    rows; ``puts`` the first 8 bytes of the hashes of the keys of rows that may be removed.
    """

    blobs: array[int]
    snapshots: frozenset[int]
    puts: frozenset[int]

    def may_go(self, claimed: Forget) -> Forget:
        """Reduce the rows that a client wants to remove to those that may be removed."""
        return Forget(
            blobs=[blob for blob in claimed.blobs if not _has_word(self.blobs, word(blob))],
            snapshots=[
                snapshot for snapshot in claimed.snapshots if snapshot not in self.snapshots
            ],
            puts=[put for put in claimed.puts if word(content_hash(put)) in self.puts],
        )


def word(hash: bytes) -> int:
    """The first 8 bytes of a hash, as a number."""
    return int.from_bytes(hash[:WORD_BYTES], "big")


def _has_word(words: array[int], word: int) -> bool:
    at = bisect_left(words, word)
    return at < len(words) and words[at] == word
