"""Types that the core's thread hands to the committer's thread, which publishes them (H-21).

    InputBatch ─▶ Engine (core's thread) ─▶ Unit ─▶ Pipeline (committer's thread) ─▶ Published

The order against the disk, for each unit: first its frame and blobs become durable, in one
transaction with those of the whole group; then the overlay lets go of its blobs; then ``figures``,
``opened_intents``, ``ended``, ``dropped`` and ``faults`` are published; last, the futures of its
batches resolve. A crash before the commit loses the whole unit, and no one has learned of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from aos.core.decide.answers import Answer
from aos.core.journal.inputs import Input
from aos.core.journal.records import CellId
from aos.core.pending import Sealed
from aos.core.state.cell import OpenIntent
from aos.core.state.proposals import OpenProposal
from aos.core.state.state import Mark
from aos.manifest.effective import Effective
from aos.values.digests import Hash


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
