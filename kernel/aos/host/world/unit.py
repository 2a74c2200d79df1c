"""Types that the core's thread hands to the committer's thread, which publishes them (H-21).

    InputBatch ─▶ Engine (core's thread) ─▶ Unit ─▶ Pipeline (committer's thread) ─▶ Published

The order against the disk, for each unit: first its frame and blobs become durable, in one
transaction with those of the whole group; then the overlay lets go of its blobs; then ``figures``,
``opened_intents``, ``ended``, ``dropped`` and ``faults`` are published; last, the futures of its
batches resolve. A crash before the commit loses the whole unit, and no one has learned of it.

Until then, the overlay reads the blobs of these frames, and then those of the store (H-14).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from aos.core.decide.answers import Answer
from aos.core.journal.inputs import Input
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId
from aos.core.pending import Sealed
from aos.core.state.cell import OpenIntent
from aos.core.state.proposals import OpenProposal
from aos.core.state.state import Mark
from aos.manifest.effective import Effective
from aos.store.store import erased_error
from aos.values.digests import Hash

LENT: Final = 2**63
"""The record of a blob that is lent and in no frame: later than every record."""


@dataclass(slots=True, eq=False)
class InputBatch:
    """Inputs that were submitted together and are answered together (H-12).

    ``blobs`` become durable with the first input that is admitted. ``size`` is how many bytes the
    batch counts for in the inbox. ``answers`` grows on the core's thread, in the order of
    ``inputs``, as they are admitted; a batch may take several frames. ``future`` gets the answers
    once the frame of the last input, and so every earlier frame, is durable.
    """

    inputs: Sequence[Input]
    blobs: dict[Hash, bytes]
    size: int
    future: Future[list[Answer]] = field(default_factory=Future)
    answers: list[Answer] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The world in numbers at the end of one frame.

    ``seq`` is the last record, ``serial`` the number of manifest records, ``controls`` the number
    of control records, ``proposed`` that of proposals, of which ``proposals`` are open;
    ``snapshot`` is the newest snapshot. ``events``, ``receipts``, ``steps`` and
    ``faults`` count since this process started.
    """

    seq: int
    clock_ns: int
    serial: int
    controls: int
    manifest: Effective | None
    cells: int
    ready_cells: int
    open_intents: int
    open_timers: int = 0
    snapshot: Mark | None = None
    proposed: int = 0
    proposals: tuple[OpenProposal, ...] = ()
    events: int = 0
    receipts: int = 0
    steps: int = 0
    faults: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultNote:
    """A step that failed its instance. ``engine_text`` is WebAssembly's own message: no record
    holds it, so the store keeps it as a note in the transaction of the frame."""

    seq: int
    cell: CellId
    kind: str
    message: str
    engine_text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One frame and everything that must wait until the frame is durable.

    - ``sealed``: the frame, its blobs, and the intents it opened and ended. The committer appends
      it to the journal. None if every input since the last unit was refused or a duplicate: such
      answers wait too, because they may depend on frames that are not durable yet (H-21).
    - ``batches``: batches whose last input was admitted or refused in this frame. They are answered
      last, after ``figures`` and ``opened_intents`` are published.
    - ``figures``: the state at the end of the frame. They become the status once it is durable.
    - ``faults``: reported once durable; their texts are written with the frame.
    - ``size``: bytes of records and blobs, which count for how much may wait (H-22).
    """

    sealed: Sealed | None
    batches: tuple[InputBatch, ...]
    figures: Figures
    faults: tuple[FaultNote, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Everything that one commit made durable: all units of one group together.

    Everything here is durable already, so the receiver may act on it at once.

    - ``figures``: of the group's last frame.
    - ``opened_intents``: intents that executors may run now. An intent that was opened and ended
      within the group is left out.
    - ``ended``: intents that take no receipt any more, because they are settled or abandoned.
    - ``dropped``: those of ``ended`` that an executor may still be running, because the instance
      abandoned them or the core canceled them. The executor should stop.
    - ``faults``: instances that failed, for the operator.
    """

    figures: Figures
    opened_intents: tuple[OpenIntent, ...]
    ended: tuple[Hash, ...]
    dropped: tuple[Hash, ...]
    faults: tuple[FaultNote, ...]


class Overlay:
    """Blobs that are on their way to the disk, on top of ``below``, the store's reader.

    The core's thread adds blobs and the committer's thread drops them, possibly at the same time. A
    blob is dropped only once ``below`` has it. An erased blob is gone at once, although ``below``
    has it until the erasing record is durable.
    """

    def __init__(self, below: BlobReader) -> None:
        self._below = below
        self._lock = threading.Lock()
        self._blobs: dict[Hash, tuple[int, bytes]] = {}
        self._erased: dict[Hash, int] = {}

    def __len__(self) -> int:
        return len(self._blobs)

    def has(self, hash: Hash) -> bool:
        """Whether a blob is on its way to the disk."""
        return hash in self._blobs

    def is_erased(self, hash: Hash) -> bool:
        """Whether a blob was erased by a record that may not be durable yet."""
        return hash in self._erased

    def hold(self, blobs: Mapping[Hash, bytes], *, until: int) -> None:
        """Keep ``blobs`` until the frame that ends with record ``until`` is durable."""
        with self._lock:
            for hash_, data in blobs.items():
                self._blobs[hash_] = (until, data)
                self._erased.pop(hash_, None)

    def lend(self, blobs: Mapping[Hash, bytes]) -> tuple[Hash, ...]:
        """Hold blobs until ``take_back``, except those held already; return the new hashes."""
        with self._lock:
            lent = {hash_: data for hash_, data in blobs.items() if hash_ not in self._blobs}
            self._blobs.update((hash_, (LENT, data)) for hash_, data in lent.items())
        return tuple(lent)

    def take_back(self, hashes: Iterable[Hash]) -> None:
        """Forget lent blobs, unless a frame holds them now."""
        with self._lock:
            for hash_ in hashes:
                if self._blobs.get(hash_, (0, b""))[0] == LENT:
                    del self._blobs[hash_]

    def erase(self, hash: Hash, *, by: int) -> None:
        """Hide a blob, also in ``below``, until record ``by``, which erased it, is durable."""
        with self._lock:
            self._blobs.pop(hash, None)
            self._erased[hash] = by

    def drop(self, hashes: Iterable[Hash], *, durable: int) -> None:
        """Forget blobs, except those that a frame after record ``durable`` holds again."""
        with self._lock:
            for hash_ in hashes:
                entry = self._blobs.get(hash_)
                if entry is not None and entry[0] <= durable:
                    del self._blobs[hash_]
            for hash_, by in tuple(self._erased.items()):
                if by <= durable:
                    del self._erased[hash_]

    def read(self, hash: Hash, /) -> bytes:
        """Return a blob. Raises as ``below``, and Erased for a blob that was erased."""
        entry = self._blobs.get(hash)
        if entry is not None:
            return entry[1]
        by = self._erased.get(hash)
        if by is not None:
            raise erased_error(hash, by)
        return self._below(hash)
