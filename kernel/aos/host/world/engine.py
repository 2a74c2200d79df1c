"""Inputs -> frames -> durable -> published: one world at work (spec/host.md, H-10 to H-31).

Two threads: the core's, which alone touches the kernel, and the committer's (``pipeline``). While
one group of frames is made durable the core computes the next. Nothing leaves here before it is
durable: no answer, no opened effect, no figure.

A frame is one drain of the inbox and the steps until the next drain. It ends when the ring is
empty, or at a bound: so many steps or bytes, or so much time while the committer has nothing to do.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.journal.inputs import (
    ERASE,
    MIGRATE,
    ControlInput,
    EventInput,
    Input,
    ManifestInput,
    ReceiptInput,
    SnapshotInput,
    StartInput,
    StreamInput,
)
from aos.core.journal.ports import Runner
from aos.core.journal.records import Emitted, Faulted, Intent, KernelReceipt, Ref, Slot, Step
from aos.core.kernel import Kernel
from aos.core.pending import receipt_digest
from aos.core.snapshot.take import Taken, rebase
from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.errors import AosError, Damage
from aos.host.errors import Busy, Stopping, WorldStopped
from aos.host.stamps import Sources
from aos.host.world.collecting import Arrivals, Begun, parts
from aos.host.world.erasing import unerasable
from aos.host.world.overlay import Overlay
from aos.host.world.pipeline import KIB, MIB, FaultNote, Figures, InputBatch, Pipeline, Unit
from aos.host.world.signatures import Signatures
from aos.manifest.effective import Effective
from aos.sandbox.stack import big_stacks
from aos.store.errors import NoRoom
from aos.store.forget import Forget
from aos.store.store import Store
from aos.values.digests import Hash, hash_text

T = TypeVar("T")

FRAME_BYTES: Final = 256 * KIB
FRAME_BLOB_BYTES: Final = 4 * MIB
FRAME_STEPS: Final = 256
FRAME_S: Final = 0.010
"""How long a frame may take while the committer has nothing to do: what its senders wait for."""

INPUTS_PER_FRAME: Final = 256
EVENTS_BEHIND_WORK: Final = 16
"""Events that enter a frame while cells are still ready from the frame before. A frame has many
more steps than that, so mailboxes shrink under a flood and the inbox fills up instead."""

INPUT_BYTES: Final = 256
"""What an input counts for beside its payload."""

SWITCH_S: Final = 0.0001
"""The interpreter's switch interval. Beside a busy core the committer waits so long for each call
of the store: 100 rows took 12 ms with the default of 5 ms, and 0.7 ms with a small one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What may wait in the inbox. Receipts and manifests have a lane of their own, as large."""

    inputs: int = 16_384
    bytes: int = 64 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What became durable at once. Tasks of ``opened`` may be executed now; nobody waits for
    ``ended`` any more: settled ones and those that were abandoned. ``dropped`` are those of them
    that executors may still run: abandoned, or canceled by the core."""

    figures: Figures
    opened: tuple[OpenIntent, ...]
    ended: tuple[Hash, ...]
    dropped: tuple[Hash, ...]
    faults: tuple[FaultNote, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """``figures`` are durable facts; the rest is how busy this process is now."""

    figures: Figures
    queued: int
    queued_bytes: int
    frames: int
    no_room: str | None


@dataclass(slots=True)
class _Lane:
    """One queue of the inbox. A batch counts whole until its last input is taken."""

    batches: deque[InputBatch] = field(default_factory=deque)
    count: int = 0
    bytes: int = 0

    def has_room(self, batch: InputBatch, bounds: Bounds) -> bool:
        return not self.count or (
            self.count + len(batch.inputs) <= bounds.inputs
            and self.bytes + batch.size <= bounds.bytes
        )


@dataclass(slots=True, kw_only=True)
class _Counts:
    events: int = 0
    receipts: int = 0
    steps: int = 0
    faults: int = 0


class Engine:
    """Runs one world. ``state`` is what all durable frames fold to; it belongs to the engine now.

    With a ``runner`` the ring is run, and the first record says what runs it (``host``). Without
    one, inputs are admitted and wait in their mailboxes; a ``migrator`` then runs what a manifest
    migrates by. ``blobs`` is given when one of them reads its modules from it.

    ``on_published`` (committer's thread), ``on_quiet`` (either thread: nothing is queued, ready or
    on its way to the disk) and ``on_stopped`` (the world cannot go on; called once) must return
    soon and not raise.
    """

    def __init__(
        self,
        *,
        state: State,
        store: Store,
        key: SigningKey,
        blobs: Overlay | None = None,
        runner: Runner | None = None,
        migrator: Runner | None = None,
        host: Mapping[str, str] | None = None,
        sources: Sources | None = None,
        bounds: Bounds | None = None,
        on_published: Callable[[Published], None] | None = None,
        on_quiet: Callable[[], None] | None = None,
        on_stopped: Callable[[AosError], None] | None = None,
    ) -> None:
        self._store = store
        self._sources = sources or Sources()
        self._bounds = bounds or Bounds()
        self._host = host or {}
        self._runs = runner is not None
        self._on_published = on_published
        self._on_quiet = on_quiet
        self._on_stopped = on_stopped
        self._overlay = Overlay(store.blob) if blobs is None else blobs
        self.signatures = Signatures()
        self._kernel = Kernel(
            state,
            runner=runner,
            read=self._overlay.read,
            verify=self.signatures,
            migrator=migrator,
            keep=self._keep_now,
        )
        state.cells.spills = True
        self._base: Taken | None = None
        self._erased_by = 0
        self._counts = _Counts()
        self._figures = self._figures_now()
        self._settling: dict[Hash, tuple[int, Hash]] = {}
        self._arrivals = Arrivals(state.cells.pins)
        self._pipeline = Pipeline(
            store, key, follows=state.tip.frame,
            durable=self._durable, released=self._tell_if_quiet, failed=self._lose,
            noted=self._arrivals.note,
        )  # fmt: skip

        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._quiet = threading.Condition(self._lock)
        self._urgent = _Lane()
        self._events = _Lane()
        self._core_waits = False
        self._is_stopping = False
        self._problem: AosError | None = None
        self._has_started = False
        self._thread = threading.Thread(target=self._run, name="aos-core", daemon=True)

        # Of the frame in the making.
        self._taken: list[InputBatch] = []
        self._blobs: dict[Hash, bytes] = {}
        self._blob_bytes = 0
        self._notes: list[FaultNote] = []

        self._markings: list[Future[Begun]] = []

    # Any thread

    def start(self) -> None:
        """Start both threads. The interpreter's switch interval is shortened until ``stop``."""
        self._has_started = True
        _switching.shorten()
        self._pipeline.start()
        with big_stacks():
            self._thread.start()

    def submit(
        self, inputs: Sequence[Input], *, blobs: Mapping[Hash, bytes] | None = None
    ) -> Future[list[Answer]]:
        """Queue inputs that are answered together, once all of them are durable or refused.

        Inputs of one call keep their order; events keep it across calls. ``blobs`` become durable
        with the first of ``inputs`` that is admitted. The future raises Stopping or WorldStopped
        when that happens first; which inputs were admitted then, a submission id tells.

        Raises:
            Busy: The inbox is full, or there is no room on the disk. Nothing was queued.
            Stopping: The world stops. Nothing was queued.
            WorldStopped: It stopped for a reason that it tells. Nothing was queued.
        """
        batch = InputBatch(inputs, dict(blobs or {}), _size(inputs, blobs or {}))
        # So that a caller that gives up waiting cannot take the future away from the committer.
        batch.future.set_running_or_notify_cancel()
        if not inputs:
            batch.future.set_result([])
            return batch.future
        lane = self._events if isinstance(inputs[0], EventInput) else self._urgent
        with self._lock:
            self._refuse_if_closed()
            if not lane.has_room(batch, self._bounds):
                raise Busy(
                    f"the world is busy: {lane.count} inputs of {lane.bytes} bytes are queued "
                    "already (try again in a moment)"
                )
            lane.batches.append(batch)
            lane.count += len(inputs)
            lane.bytes += batch.size
            self._wake.notify()
        return batch.future

    def keep(self, blobs: Mapping[Hash, bytes]) -> Future[int]:
        """Make blobs durable beside the journal. See ``Pipeline.keep``."""
        return self._pipeline.keep(blobs)

    @property
    def commit_ns(self) -> int:
        """How long a group of frames takes to become durable, of late."""
        return self._pipeline.commit_ns

    def begin_marking(self) -> Future[Begun]:
        """Remember from now on what is put: see ``Arrivals``. Begins at the end of a frame, so that
        what a record in the making has put already is durable with it."""
        begun: Future[Begun] = Future()
        begun.set_running_or_notify_cancel()
        with self._lock:
            self._refuse_if_closed()
            self._markings.append(begun)
            self._wake.notify()
        return begun

    def _begin_markings(self) -> None:
        """On the core's thread, between two frames."""
        with self._lock:
            asked, self._markings = self._markings, []
        base = self._kernel.state.cells.at
        for begun in asked:
            done = self._pipeline.between(lambda: Begun(token=self._arrivals.begin(), base=base))
            done.add_done_callback(partial(_pass_on, begun))

    def forget(self, token: int, what: Forget) -> Future[int]:
        """Take away what a marking found that nobody needs, but for what came meanwhile; return how
        many blobs went. Groups of frames go before each part."""

        def act(part: Forget) -> int:
            with self._arrivals.taking(token, part.blobs) as blobs:
                self._store.forget(replace(part, blobs=blobs))
                return len(blobs)

        gone: Future[int] = Future()
        gone.set_running_or_notify_cancel()
        # At least one, so that a world that stops says so.
        each_part = list(parts(what)) or [Forget()]
        taken = [self._pipeline.between(partial(act, part)) for part in each_part]

        def finish(_: Future[int]) -> None:
            try:
                gone.set_result(sum(each.result() for each in taken))
            except BaseException as problem:  # noqa: BLE001  # whoever waits hears of it
                gone.set_exception(problem)

        # They are done in their order, so that the last one is done last.
        taken[-1].add_done_callback(finish)
        return gone

    def still_marking(self, token: int) -> None:
        """Raises: Unavailable: The marking was given up."""
        self._arrivals.heard(token)

    def end_marking(self, token: int) -> None:
        self._arrivals.end(token)

    def read(self, hash: Hash) -> bytes:
        """Return a blob that is durable or on its way. Raises as ``Store.blob``."""
        return self._overlay.read(hash)

    def rebase(self, taken: Taken) -> None:
        """Go on from a snapshot that is durable, with its record, before the next frame: what did
        not change since need not stay in memory."""
        with self._lock:
            self._base = taken
            self._wake.notify()

    def _refuse_if_closed(self) -> None:
        if self._problem is not None:
            raise self._problem
        if self._is_stopping:
            raise Stopping("the world is stopping")
        if self._pipeline.no_room is not None:
            raise Busy(
                f"nothing is admitted until there is room on the disk: {self._pipeline.no_room}"
            )

    def stats(self) -> EngineStats:
        return EngineStats(
            figures=self._figures,
            queued=self._urgent.count + self._events.count,
            queued_bytes=self._urgent.bytes + self._events.bytes,
            frames=self._pipeline.frames,
            no_room=self._pipeline.no_room,
        )

    @property
    def is_quiet(self) -> bool:
        """Nothing is queued, ready or on its way to the disk."""
        with self._lock:
            return self._is_quiet()

    def wait_quiet(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is left to do. False when time is up or the world stopped."""
        with self._lock:
            return (
                self._quiet.wait_for(lambda: self._is_quiet() or self._is_stopping, timeout_s)
                and self._problem is None
            )

    def stop(self) -> None:
        """Finish the step and the batch in hand, make everything durable, end both threads.

        What was queued and not begun is answered with Stopping.

        Raises:
            AosError: What the world stopped for before, or could not be made durable.
        """
        with self._lock:
            self._is_stopping = True
            self._wake.notify_all()
            self._quiet.notify_all()
        if self._has_started:
            self._pipeline.hurry()
            self._thread.join()
            self._pipeline.close()
            _switching.restore()
            self._has_started = False
        self._refuse_queued(Stopping("the world is stopping"))
        if self._problem is not None:
            raise self._problem

    def _is_quiet(self) -> bool:
        is_empty = not self._urgent.count and not self._events.count
        return self._core_waits and is_empty and self._pipeline.is_idle

    def _tell_if_quiet(self) -> None:
        with self._lock:
            if not self._is_quiet():
                return
            self._quiet.notify_all()
        if self._on_quiet is not None:
            self._on_quiet()

    # The core's thread

    def _run(self) -> None:
        try:
            if self._runs:
                self._admit(StartInput(host=tuple(sorted(self._host.items()))), {})
            while self._wait_for_work():
                self._make_frame(time.monotonic())
            self._finish_begun()
        except BaseException as problem:  # noqa: BLE001  # the last stop of this thread: passed on whole
            self._stop_for(problem)

    def _wait_for_work(self) -> bool:
        kernel = self._kernel
        with self._lock:
            if self._is_stopping:
                return False
            if self._has_inputs() or kernel.pending_records or kernel.has_work:
                return True
            self._core_waits = True
        self._tell_if_quiet()
        with self._lock:
            self._wake.wait_for(
                lambda: (
                    self._is_stopping
                    or self._has_inputs()
                    or self._base is not None
                    or bool(self._markings)
                )
            )
            self._core_waits = False
            return not self._is_stopping

    def _has_inputs(self) -> bool:
        return bool(self._urgent.batches or self._events.batches)

    def _take_base(self) -> None:
        with self._lock:
            taken, self._base = self._base, None
        if taken is not None:
            rebase(self._kernel.state, taken)

    def _make_frame(self, began_s: float) -> None:
        if self._base is not None:
            self._take_base()
        if self._markings:
            self._begin_markings()
        is_behind = self._runs and bool(self._kernel.state.ring)
        self._drain(self._urgent, INPUTS_PER_FRAME)
        self._drain(self._events, EVENTS_BEHIND_WORK if is_behind else INPUTS_PER_FRAME)
        self._run_ring(began_s)
        self._hand_over()

    def _drain(self, lane: _Lane, most: int) -> None:
        """Admit up to ``most`` inputs of a lane, as far as the frame has room."""
        while most > 0 and lane.batches and self._frame_has_room():
            batch = lane.batches[0]
            begun = len(batch.answers)
            for given in batch.inputs[begun : begun + most]:
                batch.answers.append(self._admit(given, batch.blobs))
                if not self._frame_has_room():
                    break
            most -= len(batch.answers) - begun
            if len(batch.answers) == len(batch.inputs):
                self._taken.append(batch)
                with self._lock:
                    lane.batches.popleft()
                    lane.count -= len(batch.inputs)
                    lane.bytes -= batch.size

    def _frame_has_room(self) -> bool:
        return self._kernel.pending_bytes < FRAME_BYTES and self._blob_bytes < FRAME_BLOB_BYTES

    def _run_ring(self, began_s: float) -> None:
        kernel = self._kernel
        for count in range(FRAME_STEPS):
            if self._is_stopping or not self._frame_has_room():
                return
            if self._pipeline.is_idle and count and time.monotonic() - began_s > FRAME_S:
                return
            record = kernel.step() if kernel.has_work else None
            if record is None:
                return
            if isinstance(record, KernelReceipt):
                self._settling[record.intent] = (record.seq, receipt_digest(record))
                self._blob_bytes += _slot_bytes(record.payload)
                continue
            self._counts.steps += 1
            if isinstance(record, Faulted):
                self._note(record)
            else:
                self._blob_bytes += _blob_bytes(record)

    def _note(self, record: Faulted) -> None:
        self._counts.faults += 1
        self._notes.append(
            FaultNote(
                seq=record.seq,
                cell=record.cell,
                kind=record.fault.kind.value,
                message=record.fault.message,
                engine_text=self._kernel.last_engine_text,
            )
        )

    def _finish_begun(self) -> None:
        """The batch whose first inputs are durable already is admitted whole before the end."""
        for lane in (self._urgent, self._events):
            while lane.batches and (begun := len(lane.batches[0].answers)):
                self._drain(lane, len(lane.batches[0].inputs) - begun)
                self._hand_over()

    def _hand_over(self) -> None:
        kernel = self._kernel
        sealed = kernel.seal(self._sources.salt()) if kernel.pending_records else None
        if sealed is not None:
            if self._blobs:
                sealed = replace(sealed, blobs={**sealed.blobs, **self._blobs})
            self._overlay.hold(sealed.blobs, until=sealed.tip.seq)
        elif not self._taken:
            return
        unit = Unit(
            sealed=sealed,
            batches=tuple(self._taken),
            figures=self._figures_now(),
            faults=tuple(self._notes),
            size=0
            if sealed is None
            else sum(map(len, (*sealed.frame.records, *sealed.blobs.values()))),
        )
        self._taken = []
        self._blobs = {}
        self._blob_bytes = 0
        self._notes = []
        if not self._pipeline.put(unit):
            self._answer(unit.batches, self._problem or Stopping("the world is stopping"))

    def _figures_now(self) -> Figures:
        state, counts = self._kernel.state, self._counts
        return Figures(
            seq=state.tip.seq,
            clock_ns=state.clock_ns,
            serial=state.serial,
            controls=state.controls,
            manifest=state.manifest,
            cells=len(state.cells),
            ready_cells=len(state.ring),
            open_intents=len(state.intents),
            snapshot=state.snapshot,
            events=counts.events,
            receipts=counts.receipts,
            steps=counts.steps,
            faults=counts.faults,
        )

    def _admit(self, given: Input, blobs: Mapping[Hash, bytes]) -> Answer:
        refused: Answer | None = None
        if isinstance(given, ReceiptInput):
            refused = self._settled_already(given)
        elif isinstance(given, ManifestInput):
            refused = self._lacks_module(given, blobs)
        elif isinstance(given, ControlInput):
            refused = self._unerasable(given)
        elif isinstance(given, SnapshotInput):
            refused = self._lacks_part(given)
        answer = refused or self._decided(given, blobs)
        if not isinstance(answer, Admitted):
            return answer
        if blobs:
            self._blobs.update(blobs)
            self._overlay.hold(blobs, until=answer.seq)
        if isinstance(given, ReceiptInput):
            self._counts.receipts += 1
            self._settling[given.intent] = (answer.seq, receipt_digest(given))
            self._blob_bytes += len(given.payload)
        elif isinstance(given, EventInput):
            self._counts.events += 1
            self._blob_bytes += len(given.value)
        elif isinstance(given, StreamInput):
            self._blob_bytes += len(given.payload)
        elif isinstance(given, ControlInput) and given.action == ERASE and given.value is not None:
            # Also what came with an input of this very frame; what comes after it stays.
            self._erased_by = answer.seq
            self._blobs.pop(given.value, None)
            self._overlay.erase(given.value, by=answer.seq)
        return answer

    def _decided(self, given: Input, blobs: Mapping[Hash, bytes]) -> Answer:
        if not (isinstance(given, ManifestInput) and given.mode == MIGRATE):
            return self._kernel.admit(given, self._sources.stamp())
        # The new modules run before anything of the manifest is on its way to the disk.
        lent = self._overlay.lend(blobs)
        try:
            return self._kernel.admit(given, self._sources.stamp())
        except (NoRoom, Stopping) as problem:
            return Refusal(
                rule=Rule.WORLD_IS_BUSY, message=f"the migration was given up: {problem}"
            )
        finally:
            self._overlay.take_back(lent)

    def _keep_now(self, blobs: Mapping[Hash, bytes]) -> None:
        """Make blobs of a migration durable; the core waits for it."""
        self._pipeline.keep(blobs).result()

    def _settled_already(self, given: ReceiptInput) -> Duplicate | Refusal | None:
        """What an earlier receipt for the same intent, durable or not, makes of this one."""
        state = self._kernel.state
        if given.intent in state.intents or given.intent in state.abandoned:
            return None
        seq, digest = self._settling.get(given.intent, (None, None))
        if seq is None:
            row = self._store.intent(given.intent)
            if row is None or row.settled_seq is None:
                return None
            seq, digest = row.settled_seq, row.receipt_digest
        if digest == receipt_digest(given):
            return Duplicate(seq=seq)
        message = f"intent {hash_text(given.intent)}: record {seq} settled it with another receipt"
        return Refusal(rule=Rule.RECEIPT_INTENT_IS_SETTLED, message=message)

    def _lacks_module(self, given: ManifestInput, blobs: Mapping[Hash, bytes]) -> Refusal | None:
        """A step whose module cannot be read would stop the world: no such manifest comes in."""
        try:
            modules = Effective.from_document(given.document).modules.values()
        except Damage:
            return None  # the kernel says what is wrong with it
        for module in modules:
            if module.hash not in blobs and not self._arrivals.is_needed(module.hash, self._has):
                return Refusal(
                    rule=Rule.MANIFEST_IS_INVALID,
                    message=f"module {module.name}: its bytes ({hash_text(module.hash)}) were not "
                    "given and the world does not hold them",
                )
        return None

    def _has(self, value: Hash) -> bool:
        """Whether the core can read a value, durable or not."""
        if self._overlay.has(value):
            return True
        return not self._overlay.is_erased(value) and self._store.has_blob(value)

    def _lacks_part(self, given: SnapshotInput) -> Refusal | None:
        """A value that was erased while a snapshot was made may be a part of it by now."""
        if given.at >= self._erased_by:
            return None
        return Refusal(
            rule=Rule.SNAPSHOT_IS_OLD,
            message=f"the snapshot after record {given.at} may lack what record {self._erased_by} "
            "erased meanwhile (make it again)",
        )

    def _unerasable(self, given: ControlInput) -> Refusal | None:
        value = given.value
        if value is None:
            return None
        return unerasable(self._store, value, is_there=self._has(value))

    # The committer's thread

    def _durable(self, group: Sequence[Unit]) -> None:
        opened: dict[Hash, OpenIntent] = {}
        ended: list[Hash] = []
        dropped: list[Hash] = []
        for unit in group:
            if unit.sealed is None:
                continue
            self._overlay.drop(unit.sealed.blobs, durable=unit.sealed.tip.seq)
            for settled in unit.sealed.settled:
                self._settling.pop(settled.intent, None)
                ended.append(settled.intent)
            opened.update((each.intent, each) for each in unit.sealed.to_publish)
            ended.extend(unit.sealed.abandoned)
            over = (*unit.sealed.abandoned, *unit.sealed.canceled)
            dropped.extend(over)
            for intent in over:
                opened.pop(intent, None)
        self._figures = group[-1].figures
        if self._on_published is not None:
            self._on_published(
                Published(
                    figures=self._figures,
                    opened=tuple(opened.values()),
                    ended=tuple(ended),
                    dropped=tuple(dropped),
                    faults=tuple(note for unit in group for note in unit.faults),
                )
            )
        for unit in group:
            for batch in unit.batches:
                batch.future.set_result(batch.answers)

    # The end of a world that cannot go on

    def _lose(self, problem: BaseException, lost: Sequence[Unit]) -> None:
        self._stop_for(problem)
        for unit in lost:
            self._answer(unit.batches, self._problem or Stopping("the world is stopping"))

    def _stop_for(self, problem: BaseException) -> None:
        """Take the first problem as the reason of the end; nothing that is not durable counts."""
        with self._lock:
            is_first = self._problem is None
            if is_first:
                self._problem = _reason(problem)
            reason = self._problem
            self._is_stopping = True
            self._wake.notify_all()
            self._quiet.notify_all()
        assert reason is not None
        if threading.current_thread() is self._thread:
            self._answer(self._taken, reason)
            self._taken = []
        self._refuse_queued(reason)
        if is_first and self._on_stopped is not None:
            self._on_stopped(reason)

    def _refuse_queued(self, reason: AosError) -> None:
        with self._lock:
            queued = [*self._urgent.batches, *self._events.batches]
            markings, self._markings = self._markings, []
            self._urgent, self._events = _Lane(), _Lane()
        self._answer(queued, reason)
        for begun in markings:
            begun.set_exception(reason)

    def _answer(self, batches: Sequence[InputBatch], reason: AosError) -> None:
        for batch in batches:
            # Both threads may meet a batch when the world ends; the first word stands.
            with contextlib.suppress(InvalidStateError):
                batch.future.set_exception(reason)


def _pass_on(to: Future[T], done: Future[T]) -> None:
    problem = done.exception()
    if problem is None:
        to.set_result(done.result())
    else:
        to.set_exception(problem)


class _Switching:
    """The interpreter's one switch interval: short while any engine of this process runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines = 0
        self._before_s = 0.0

    def shorten(self) -> None:
        with self._lock:
            if not self._engines:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before_s, SWITCH_S))
            self._engines += 1

    def restore(self) -> None:
        with self._lock:
            self._engines -= 1
            if not self._engines:
                sys.setswitchinterval(self._before_s)


_switching = _Switching()


def _reason(problem: BaseException) -> AosError:
    if isinstance(problem, Damage | Stopping):
        return problem
    stopped = WorldStopped(
        f"the world stopped: {type(problem).__name__}: {problem} "
        "(everything acknowledged is durable; start it again to continue from there)"
    )
    stopped.__cause__ = problem
    return stopped


def _size(inputs: Sequence[Input], blobs: Mapping[Hash, bytes]) -> int:
    size = sum(map(len, blobs.values()))
    for given in inputs:
        size += INPUT_BYTES
        if isinstance(given, EventInput):
            size += len(given.value)
        elif isinstance(given, ReceiptInput | StreamInput):
            size += len(given.payload)
        elif isinstance(given, ManifestInput):
            size += len(given.document)
    return size


def _blob_bytes(record: Step) -> int:
    """Bytes of a step's values that lie outside its record."""
    size = _slot_bytes(record.state) + _slot_bytes(record.ann)
    each: Emitted | Intent
    for each in record.events:
        size += _slot_bytes(each.value)
    for each in record.intents:
        size += _slot_bytes(each.params)
    return size


def _slot_bytes(slot: Slot | None) -> int:
    return slot.size if isinstance(slot, Ref) else 0
